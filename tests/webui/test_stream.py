"""Pieces that come close together travel together; the first and the last never wait."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import MutableMapping
from typing import Any

import pytest

from webui.blocks import Blocks
from webui.stream import JOIN_S, Outbox, encode, send_outbox


def frames(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(part.removeprefix("data: ")) for part in body.decode().split("\n\n") if part]


def test_text_is_joined_with_its_origins() -> None:
    outbox = Outbox()
    outbox.text("ab", True)
    outbox.text("c", True)
    outbox.text("😀", False)
    outbox.put({"live": 1})
    outbox.text("d", None)
    outbox.thinking("x")
    outbox.thinking("y")
    assert frames(outbox.take()) == [
        {"t": "abc😀", "r": [[3, 1], [2, 0]]},
        {"live": 1},
        {"t": "d"},
        {"h": "xy"},
    ]
    assert outbox.take() == b""


def test_line_breaks_of_all_kinds_stay_inside_one_event() -> None:
    text = "a\nb\r\nc\u2028d\u0085e\n\nf"
    assert frames(encode({"t": text})) == [{"t": text}]


def test_blocks_come_with_the_last_text() -> None:
    outbox = Outbox(Blocks())
    outbox.text("one ", None)
    outbox.put({"live": 1})
    outbox.text("*two*", None)
    first, _, last = frames(outbox.take())
    assert "o" not in first
    assert last["o"] == [["p", 9, "<p>one <em>two</em></p>\n"]]


class Wire:
    """What a server hands an application: a person who may leave, and what was sent with its time."""

    def __init__(self) -> None:
        self.sent: list[tuple[float, bytes]] = []
        self.leave = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.leave.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            self.sent.append((time.perf_counter(), message["body"]))


@pytest.mark.case("E-01")
def test_first_at_once_then_joined_then_the_last_at_once() -> None:
    async def scene() -> tuple[float, float, Wire]:
        outbox, wire = Outbox(), Wire()
        sending = asyncio.ensure_future(send_outbox(outbox, wire.receive, wire.send, lambda: None))
        begun = time.perf_counter()
        for _ in range(40):
            outbox.text("x", None)
            await asyncio.sleep(0.005)
        outbox.close()
        ended = time.perf_counter()
        await sending
        return begun, ended, wire

    begun, ended, wire = asyncio.run(scene())
    assert wire.sent[0][0] - begun < JOIN_S / 2
    assert wire.sent[-1][0] - ended < JOIN_S / 2
    assert 2 < len(wire.sent) <= (ended - begun) / JOIN_S + 2
    assert sum(len(frame["t"]) for _, body in wire.sent for frame in frames(body)) == 40


def test_leaving_is_noticed_while_nothing_is_sent() -> None:
    async def scene() -> bool:
        outbox, wire = Outbox(), Wire()
        left = asyncio.Event()

        def leave() -> None:
            left.set()
            outbox.close()

        sending = asyncio.ensure_future(send_outbox(outbox, wire.receive, wire.send, leave))
        wire.leave.set()
        await asyncio.wait_for(sending, 2)
        return left.is_set()

    assert asyncio.run(scene())
