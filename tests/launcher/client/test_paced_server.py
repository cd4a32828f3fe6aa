"""The stand-in keeps its promises: what is measured against it depends on them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from launcher.client.events import Block, ChatRequest, Event, Finished, Message, Text, Thinking
from launcher.client.http import EngineClient
from tests.fakes import paced_text
from tests.fakes.paced_server import PacedConfig, PacedServer

ROOT = Path(__file__).resolve().parents[3]
REQUEST = ChatRequest((Message("user", "go"),), 10_000)


async def events_of(url: str) -> list[Event]:
    return [event async for event in EngineClient(url).chat(REQUEST)]


@pytest.mark.parametrize("blocks", [(), ((4, 4), (4, 1), (4, 0))])
def test_the_rate_is_exact_in_the_long_run(blocks: tuple[tuple[int, int], ...]) -> None:
    with PacedServer(PacedConfig(rate=800, tokens=1200, blocks=blocks)) as server:
        end = asyncio.run(events_of(server.url))[-1]
        (chat,) = server.chats
    assert isinstance(end, Finished)
    assert end.timings.total_s == pytest.approx(1.5, rel=0.15)
    assert chat.sent == 1200
    assert chat.closed_at is None
    assert chat.finished_at is not None
    assert chat.finished_at - chat.started == pytest.approx(1.5, rel=0.15)


def test_two_streams_at_once_where_there_are_two_slots_and_one_after_the_other_where_not() -> None:
    async def both(url: str) -> None:
        await asyncio.gather(events_of(url), events_of(url))

    spans = {}
    for slots in (1, 2):
        with PacedServer(PacedConfig(rate=500, tokens=150, slots=slots)) as server:
            asyncio.run(both(server.url))
            first, second = server.chats
            assert first.finished_at is not None
            assert second.finished_at is not None
            spans[slots] = max(first.finished_at, second.finished_at) - first.started
    assert spans[1] >= 0.59
    assert spans[2] < spans[1]


def test_as_a_program() -> None:
    command = [sys.executable, "-m", "tests.fakes.paced_server", "--port", "0", "--rate", "5000"]
    command += ["--tokens", "20", "--blocks", "4/4,4/0", "--thinking-tokens", "3", "--no-can-count"]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        url = f"http://127.0.0.1:{int(child.stdout.readline())}"
        events = asyncio.run(events_of(url))
        assert sum(event.tokens for event in events if isinstance(event, Text)) == 20
        assert sum(event.tokens for event in events if isinstance(event, Thinking)) == 3
        assert next(event for event in events if isinstance(event, Block)) == Block(4, 4)
        assert asyncio.run(EngineClient(url).count_tokens(REQUEST.messages)) is None
        with urllib.request.urlopen(f"{url}/paced") as answer:
            told = json.load(answer)
        assert told["chats"][0]["sent"] == 23
        assert told["requests"][0] == "/v1/chat/completions"
    finally:
        child.terminate()
        child.wait(10)
        child.stdout.close()  # type: ignore[union-attr]


def test_the_text_is_markdown_of_any_length() -> None:
    pieces = paced_text.markdown(8000)
    assert len(pieces) == 8000
    text = "".join(pieces)
    assert paced_text.markdown(100) == pieces[:100]
    for mark in ("## ", "```python", "| step |", "$W", "\n1. ", "**"):
        assert mark in text
    assert 3 < len(text) / len(pieces) < 6
