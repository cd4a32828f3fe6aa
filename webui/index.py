"""The page's HTML: Gradio's, with our head in it from the first byte.

Gradio itself adds a ``head`` by script once it has started, which is too late for a cover over its loading, and it
describes every page as a Gradio demo with a picture from elsewhere.
"""

from __future__ import annotations

import re

from webui.guard import App, Message, Receive, Scope, Send

_FOREIGN = re.compile(rb"[ \t]*<meta\s+(?:property|name)=\"(?:og|twitter):[^>]*>\s*")


class Index:
    """Wraps ``app`` and puts ``head`` first into the head of the page at ``/``."""

    def __init__(self, app: App, head: str) -> None:
        self._app = app
        self._head = head.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        start: Message = {}
        body = b""

        async def collect(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                start = message
                return
            body += message.get("body", b"")
            if message.get("more_body"):
                return
            page = self.dressed(body)
            headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
            headers.append((b"content-length", str(len(page)).encode()))
            await send({**start, "headers": headers})
            await send({"type": "http.response.body", "body": page})

        await self._app(scope, receive, collect)

    def dressed(self, page: bytes) -> bytes:
        """``page`` with our head right behind its character set, and without what speaks of somebody else."""
        mark = b'<meta charset="utf-8" />'
        before, found, after = page.partition(mark)
        if not found:
            before, found, after = page.partition(b"<head>")
        return before + found + self._head + _FOREIGN.sub(b"", after)
