"""What all our routes share: reading requests, telling errors, naming downloads."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from launcher.amounts import size
from launcher.errors import BadInput, LauncherError

LARGEST_BODY = 64 * 1024 * 1024  # bytes; an import of a long conversation is a few MB

Handler = Callable[[Request], Awaitable[Response]]


def told(handler: Handler) -> Handler:
    """Errors for people become JSON that the scripts show; anything else stays a fault of ours."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except BadInput as problem:
            status, found = 400, problem
        except LauncherError as problem:
            status, found = 409, problem  # type: ignore[assignment]
        return JSONResponse({"error": found.what, "remedy": found.remedy}, status_code=status)

    return answer


def attachment(title: str, ending: str, otherwise: str) -> str:
    """A header that names a file after ``title``, plainly and with its own letters (RFC 6266); a title that
    has no letters gives ``otherwise``."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", title)[:60].strip("-") or otherwise
    own = " ".join(re.sub(r"[^\w\- ]+", " ", title).split())[:60] or otherwise
    return f"attachment; filename=\"{plain}.{ending}\"; filename*=UTF-8''{quote(f'{own}.{ending}')}"


async def read_body(request: Request) -> bytes:
    """The whole body. BadInput when it is larger than any that the page sends."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST_BODY:
            raise BadInput(f"This is larger than {size(LARGEST_BODY)}.", "Send something smaller.")
    return body


async def read_json(request: Request) -> dict[str, Any]:
    """The body, a JSON object. BadInput for anything else."""
    try:
        value = json.loads(await read_body(request))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise BadInput("The request is no JSON object.", "Reload the page.")
    return value


def needed_text(body: dict[str, Any], name: str, label: str) -> str:
    """The text ``name`` of ``body``. BadInput, which speaks of it as ``label``, when there is none."""
    value = body.get(name)
    if not isinstance(value, str) or not value.strip():
        raise BadInput(f"{label} needs some text.")
    return value
