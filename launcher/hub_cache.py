"""The hub client's own folders: its shared cache and its saved token. Read only; no network, no client.

The layout is documented and is what ``huggingface_hub`` itself relies on: ``models--<owner>--<name>`` holds ``refs``
(a branch's commit), ``snapshots/<commit>/<file>`` and ``blobs``; a snapshot's file is a link to a blob that is named by its
sha256 (or, for small files, its git hash), or a copy where links cannot be made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from launcher.catalog import HubFile

_SHA256 = re.compile(r"[0-9a-f]{64}")
_VARIABLE = re.compile(r"\$(\w+)|\$\{([^}]*)\}")


def home(env: Mapping[str, str]) -> Path:
    """HF_HOME, or where it is by default."""
    if given := env.get("HF_HOME"):
        return _path(given, env)
    base = env.get("XDG_CACHE_HOME") or str(Path("~", ".cache"))
    return _path(base, env) / "huggingface"


def folder(env: Mapping[str, str]) -> Path:
    """The shared cache: HF_HUB_CACHE, or ``hub`` in the home."""
    given = env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE")
    return _path(given, env) if given else home(env) / "hub"


def token_file(env: Mapping[str, str]) -> Path:
    """Where a login leaves its token."""
    given = env.get("HF_TOKEN_PATH")
    return _path(given, env) if given else home(env) / "token"


def cached(file: HubFile, cache: Path) -> Path | None:
    """The whole ``file`` in ``cache``: of its revision (the newest known one where none is pinned), or of any
    revision where the blob's name is the pinned sha256. A file of another size than the pin is none."""
    repo = cache / f"models--{file.repo.replace('/', '--')}"
    with suppress(OSError):
        for path in _candidates(repo, file):
            digest = digest_of(path)
            if file.sha256 and digest not in (file.sha256, None):
                continue
            if path.is_file() and file.bytes in (None, path.stat().st_size):
                return path
    return None


def digest_of(path: Path) -> str | None:
    """The sha256 by which the cache calls the blob behind ``path``; None where it does not tell."""
    name = path.resolve().name
    return name if _SHA256.fullmatch(name) and path.resolve().parent.name == "blobs" else None


def _candidates(repo: Path, file: HubFile) -> Iterator[Path]:
    revision = file.revision or "main"
    with suppress(OSError, UnicodeDecodeError):
        revision = (repo / "refs" / revision).read_text(encoding="utf-8").strip() or revision
    yield repo / "snapshots" / revision / file.name
    if file.sha256:
        for snapshot in sorted((repo / "snapshots").iterdir()):
            if digest_of(snapshot / file.name) == file.sha256:
                yield snapshot / file.name


def _path(text: str, env: Mapping[str, str]) -> Path:
    """With ``~`` and variables filled in, as the client does it."""
    filled = _VARIABLE.sub(lambda found: env.get(found[1] or found[2] or "", found[0]), text)
    with suppress(RuntimeError):  # no home folder is known
        return Path(filled).expanduser()
    return Path(filled)
