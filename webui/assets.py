"""Our scripts and styles, read once from the package and served with a version in their address."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.resources import files

from starlette.responses import PlainTextResponse, Response

_KINDS = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}


@lru_cache(maxsize=1)
def _all() -> dict[str, bytes]:
    return {it.name: it.read_bytes() for it in (files("webui") / "static").iterdir() if it.is_file()}


@lru_cache(maxsize=1)
def version() -> str:
    """Changes whenever a script or style does, so that browsers may keep the rest for ever."""
    digest = hashlib.sha256()
    for name, content in sorted(_all().items()):
        digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()[:12]


def scripts() -> list[str]:
    """The modules of the page."""
    return sorted(name for name in _all() if name.endswith(".js") and name != "early.js")


def text(name: str) -> str:
    """A piece of markup."""
    return _all()[name].decode()


def address(name: str) -> str:
    """Where the page finds a script or style."""
    return f"/bonsai/static/{version()}/{name}"


def asset(name: str) -> Response:
    """One script or style."""
    kind = next((kind for ending, kind in _KINDS.items() if name.endswith(ending)), None)
    content = _all().get(name)
    if kind is None or content is None:
        return PlainTextResponse("Not found", status_code=404)
    return Response(
        content, headers={"Content-Type": kind, "Cache-Control": "public, max-age=31536000, immutable"}
    )
