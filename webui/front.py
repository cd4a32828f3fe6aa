"""Answers at once with a small page of its own, while the real one is being built in a thread."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from webui.guard import App, Receive, Scope, Send


class Front:
    """``build`` makes the real application; it runs in a thread, once, from the moment the server starts.
    ``prove`` answers a second start of the launcher that asks whether this is the page it has heard of."""

    def __init__(self, build: Callable[[], App], prove: Callable[[str], str] | None = None) -> None:
        self._build = build
        self._prove = prove
        self._app: App | None = None
        self._problem = ""
        self._inner: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._splash = (files("webui") / "static" / "splash.html").read_bytes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http" and scope["path"] == "/bonsai/ready":
            state = {"ready": self._app is not None, "problem": self._problem}
            await _answer(send, 200, b"application/json", json.dumps(state).encode())
        elif self._prove is not None and scope["type"] == "http" and scope["path"] == "/bonsai/instance":
            challenge = scope["query_string"].decode("latin-1")
            await _answer(send, 200, b"text/plain", self._prove(challenge).encode())
        elif self._app is not None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http" and scope["path"] == "/":
            await _answer(send, 200, b"text/html; charset=utf-8", self._splash)
        elif scope["type"] == "http":
            await _answer(send, 503, b"text/plain; charset=utf-8", b"The page is being built.")
        else:
            await send({"type": "websocket.close", "code": 1013})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()  # lifespan.startup
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._prepare, args=(loop,), name="page", daemon=True).start()
        await send({"type": "lifespan.startup.complete"})
        await receive()  # lifespan.shutdown
        self._ending.set()
        if self._inner is not None:
            await asyncio.wait({self._inner}, timeout=2)
        await send({"type": "lifespan.shutdown.complete"})

    def _prepare(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            app = self._build()
        except Exception as problem:  # whatever it is, the person must see it instead of waiting for ever
            self._problem = f"{type(problem).__name__}: {problem}"
            return
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._open, app)

    def _open(self, app: App) -> None:
        self._inner = asyncio.ensure_future(self._live(app))

    async def _live(self, app: App) -> None:
        """Play the server's part of the lifespan protocol for an application that came late."""
        events = iter([{"type": "lifespan.startup"}])

        async def receive() -> dict[str, Any]:
            for event in events:
                return event
            await self._ending.wait()
            return {"type": "lifespan.shutdown"}

        async def send(message: Any) -> None:
            if message["type"] == "lifespan.startup.complete":
                self._app = app
            elif message["type"] == "lifespan.startup.failed":
                self._problem = str(message.get("message", "")) or "The page could not be started."

        await app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)


async def _answer(send: Send, status: int, kind: bytes, body: bytes) -> None:
    headers = [(b"content-type", kind), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
