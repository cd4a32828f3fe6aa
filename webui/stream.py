"""Server-sent events of our own routes: small frames, joined over a few hundredths of a second."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from webui.blocks import Blocks, utf16

JOIN_S = 0.07  # pieces that come within this time travel and are drawn together

Frame = dict[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


def encode(frame: Frame) -> bytes:
    """One frame as an event. JSON has no raw line breaks, so one ``data:`` line is enough."""
    return b"data: " + json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


class Outbox:
    """Frames on their way to one tab. ``text`` and ``thinking`` join what comes between two sendings.

    A text frame is ``{"t": text, "r": [[characters, origin], …]}`` with origin 1 for the drafter's tokens,
    0 for the target's own, -1 for unknown; ``r`` is left out where nothing is known. With ``blocks`` it also has
    ``"o"``: how the text looks, see there. A frame of thoughts is ``{"h": text}``.
    """

    def __init__(self, blocks: Blocks | None = None) -> None:
        self.blocks = blocks
        self.filled = asyncio.Event()
        self.closed = asyncio.Event()
        self._frames: list[Frame] = []

    def put(self, frame: Frame) -> None:
        """Add a frame as it is."""
        self._frames.append(frame)
        self.filled.set()

    def text(self, piece: str, drafted: bool | None) -> None:
        """Add a piece of the answer."""
        last = self._frames[-1] if self._frames and "t" in self._frames[-1] else None
        if last is None:
            last = {"t": "", "r": []}
            self._frames.append(last)
        last["t"] += piece
        if self.blocks is not None:
            self.blocks.feed(piece)
        origin = -1 if drafted is None else int(drafted)
        runs = last["r"]
        length = utf16(piece)
        if runs and runs[-1][1] == origin:
            runs[-1][0] += length
        else:
            runs.append([length, origin])
        self.filled.set()

    def thinking(self, piece: str) -> None:
        """Add a piece of the model's thoughts."""
        if self._frames and "h" in self._frames[-1]:
            self._frames[-1]["h"] += piece
        else:
            self._frames.append({"h": piece})
        self.filled.set()

    def close(self) -> None:
        """Nothing more comes; what is there still goes out."""
        self.closed.set()
        self.filled.set()

    def take(self) -> bytes:
        """Everything that is waiting, encoded, and the outbox empty again."""
        frames, self._frames = self._frames, []
        self.filled.clear()
        latest = next((frame for frame in reversed(frames) if "t" in frame), None)
        if self.blocks is not None and latest is not None:
            latest["o"] = self.blocks.ops(time.monotonic())
        for frame in frames:
            runs = frame.get("r")
            if runs is not None and all(origin == -1 for _, origin in runs):
                del frame["r"]
        return b"".join(map(encode, frames))


async def send_outbox(outbox: Outbox, receive: Receive, send: Send, left: Callable[[], None]) -> None:
    """Answer a request with an outbox until it is closed; call ``left`` as soon as the tab goes away.

    The first frame goes out at once, later ones at most every ``JOIN_S`` seconds, the last without delay.
    """
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    watcher = asyncio.ensure_future(_watch(receive, left))
    try:
        while True:
            await outbox.filled.wait()
            over = outbox.closed.is_set()
            body = outbox.take()
            await send({"type": "http.response.body", "body": body, "more_body": not over})
            if over:
                return
            await _pause(outbox.closed)
    finally:
        watcher.cancel()


async def _pause(unless: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(JOIN_S):
            await unless.wait()
    except TimeoutError:
        return


async def _watch(receive: Receive, left: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    left()
