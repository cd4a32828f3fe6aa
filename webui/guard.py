"""Who may talk to the page: this machine's browser, from this page, in this run. Pure ASGI, in front of everything."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

USER = "bonsai"
HEADER = b"x-bonsai-token"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_ANY = ("0.0.0.0", "::", "")  # noqa: S104 - recognised, not bound
# The frame of the page holds no secrets; it is what hands out the token.
_OPEN = frozenset(
    {"/", "/bonsai/ready", "/bonsai/instance", "/favicon.ico", "/manifest.json", "/robots.txt", "/theme.css"}
)
_OPEN_BELOW = ("/assets/", "/static/", "/svelte/", "/bonsai/static/")

_SECURITY = (
    (
        b"content-security-policy",
        b"default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; connect-src 'self'; object-src 'none'; "
        b"base-uri 'self'; form-action 'self'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Guard:
    """Wraps ``app``. ``host`` and ``port`` are what the page is bound to; ``token`` is this run's secret.

    With a ``password`` every request needs HTTP Basic with the user ``bonsai``; that is for pages which other
    machines may open, whose names are not known beforehand.
    """

    def __init__(self, app: App, *, host: str, port: int, token: str, password: str | None = None) -> None:
        self._app = app
        self._port = port
        self._token = token.encode()
        self._cookie = f"bonsai-token-{port}"
        self._password = password
        bare = host.strip("[]")
        names = set(_LOOPBACK)
        if bare not in _ANY:
            names.add(f"[{bare}]" if ":" in bare else bare.lower())
        self._hosts = None if bare in _ANY and password else frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = _headers(scope)
        refusal = self._refusal(scope, headers)
        if scope["type"] != "http":
            if refusal is None:
                await self._app(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})
            return
        outgoing = self._secured(send, hand_out=scope["path"] == "/" and refusal is None)
        if refusal is None:
            await self._app(scope, receive, outgoing)
        else:
            await _refuse(outgoing, *refusal)

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if not self._own_host(host):
            return 403, "This page answers to its own address only."
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower() != f"http://{host}":
            return 403, "Requests from other web pages are refused."
        if self._password is not None and not _proves_us(scope) and not self._knows_password(headers):
            return 401, "This page needs the password that was printed when it was started."
        if _needs_token(scope) and not self._has_token(headers):
            return 403, "This request does not come from the page of this run. Reload the page."
        return None

    def _own_host(self, host: str) -> bool:
        name, colon, port = host.rpartition(":")
        if not colon or (host.startswith("[") and host.endswith("]")):
            name, port = host, "80"
        if port != str(self._port):
            return False
        return bool(name) if self._hosts is None else name in self._hosts

    def _has_token(self, headers: dict[bytes, bytes]) -> bool:
        given = headers.get(HEADER)
        if given is not None:
            return hmac.compare_digest(given, self._token)
        try:
            cookies = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
        except CookieError:
            return False
        found = cookies.get(self._cookie)
        return found is not None and hmac.compare_digest(
            found.value.encode("latin-1", "replace"), self._token
        )

    def _knows_password(self, headers: dict[bytes, bytes]) -> bool:
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() != b"basic":
            return False
        try:
            said = base64.b64decode(given, validate=True)
        except ValueError:
            return False
        return hmac.compare_digest(said, f"{USER}:{self._password}".encode())

    def _secured(self, send: Send, *, hand_out: bool) -> Send:
        async def outgoing(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = list(_SECURITY)
                if hand_out:
                    cookie = f"{self._cookie}={self._token.decode()}; Path=/; HttpOnly; SameSite=Strict"
                    extra += [(b"set-cookie", cookie.encode()), (b"cache-control", b"no-store")]
                ours = {name for name, _ in extra} - {b"set-cookie"}
                kept = [
                    (name, value) for name, value in message.get("headers", ()) if name.lower() not in ours
                ]
                message = {**message, "headers": [*kept, *extra]}
            await send(message)

        return outgoing


def _proves_us(scope: Scope) -> bool:
    """A second start of ours has no password; what it asks for tells it nothing that it does not know."""
    return bool(scope["type"] == "http" and scope["path"] == "/bonsai/instance")


def _needs_token(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] not in {"GET", "HEAD"}:
        return True
    path: str = scope["path"]
    return path not in _OPEN and not path.startswith(_OPEN_BELOW)


def _headers(scope: Scope) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        lowered = name.lower()
        # Cookies may come in several headers; of anything else a second one is a trick, and joining shows it.
        separator = b"; " if lowered == b"cookie" else b", "
        found[lowered] = found[lowered] + separator + value if lowered in found else value
    return found


async def _refuse(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
    if status == 401:
        headers.append((b"www-authenticate", b'Basic realm="Bonsai", charset="UTF-8"'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
