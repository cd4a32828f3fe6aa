"""The client against a real engine: the embedded one with the practice pair."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import aclosing
from pathlib import Path

import pytest

from launcher import embedded
from launcher.client.events import (
    Block,
    ChatRequest,
    Event,
    Finished,
    Message,
    Progress,
    Sampling,
    Text,
    Thinking,
)
from launcher.client.http import EngineClient
from launcher.practice import ensure_pair, known_text, known_thinking
from tests.conftest import free_port

ROOT = Path(__file__).resolve().parents[3]
CONTEXT = 8192
GREEDY = Sampling(temperature=0.0, seed=1)

pytestmark = pytest.mark.skipif(
    embedded.available() is not None, reason="no embedded engine on this platform"
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Generator[EngineClient]:
    folder = tmp_path_factory.mktemp("engine")
    pair = ensure_pair(folder)
    port = free_port()
    argv = [
        *(sys.executable, "-m", "launcher.embedded", "-m", str(pair.target), "-md", str(pair.drafter)),
        *("--spec-type", "draft-dspark", "--spec-draft-n-max", "4", "-c", str(CONTEXT), "-np", "1"),
        # One thread: two that wait for each other crawl on a busy machine. Small batches: an engine looks up
        # from a prompt only between them.
        *("-t", "1", "-b", "64", "--alias", "practice", "--host", "127.0.0.1", "--port", str(port)),
    ]
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen(argv, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        client = EngineClient(f"http://127.0.0.1:{port}")
        asyncio.run(until(client.health, "ok", 60))
        yield client
    finally:
        child.kill()
        child.wait()


async def until(ask: Callable[[], Awaitable[object]], wanted: object, seconds: float) -> float:
    """Ask until the answer is the wanted one; returns how long that took (s)."""
    began = time.monotonic()
    while await ask() != wanted:
        assert time.monotonic() - began < seconds, f"not {wanted!r} within {seconds} s"
        await asyncio.sleep(0.01)
    return time.monotonic() - began


def ask(client: EngineClient, prompt: str, max_tokens: int = 4000, **how: bool) -> list[Event]:
    async def collect() -> list[Event]:
        request = ChatRequest((Message("user", prompt),), max_tokens, GREEDY, **how)
        return [event async for event in client.chat(request)]

    return asyncio.run(collect())


def text_of(events: list[Event], kind: type[Text | Thinking] = Text) -> str:
    return "".join(event.text for event in events if isinstance(event, kind)).strip()


def test_the_known_text_with_its_blocks(client: EngineClient) -> None:
    events = ask(client, "Implement quicksort in Python.")
    assert text_of(events) == known_text("code")
    end = events[-1]
    assert isinstance(end, Finished)
    assert end.reason == "stop"
    blocks = [event for event in events if isinstance(event, Block)]
    assert sum(block.drafted for block in blocks) == end.timings.draft_n
    assert sum(block.accepted for block in blocks) == end.timings.draft_n_accepted
    assert end.timings.acceptance is not None
    assert end.timings.acceptance > 0.5
    assert any(isinstance(event, Progress) for event in events)
    shown = [event for event in events if isinstance(event, Text)]
    assert sum(text.tokens for text in shown) == end.timings.predicted_tokens - 1  # the last has no text
    drafted = sum(text.tokens for text in shown if text.drafted)
    # What the last block accepted beyond the end of the answer is not shown.
    assert 0 <= (end.timings.draft_n_accepted or 0) - drafted <= blocks[-1].accepted


def test_thoughts_come_apart_and_can_be_switched_off(client: EngineClient) -> None:
    events = ask(client, "Solve this riddle.")
    assert text_of(events, Thinking) == known_thinking("thinking").strip()
    assert text_of(events) == known_text("thinking")
    quiet = ask(client, "Solve this riddle.", thinking=False)
    assert text_of(quiet, Thinking) == ""
    assert text_of(quiet) == known_text("thinking")


def test_questions(client: EngineClient) -> None:
    async def all_of() -> list[object]:
        prompt = (Message("user", "Implement quicksort in Python."),)
        return [await client.alias(), await client.context_size(), await client.count_tokens(prompt)]

    alias, context, tokens = asyncio.run(all_of())
    end = ask(client, "Implement quicksort in Python.", 2)[-1]
    assert isinstance(end, Finished)
    assert end.reason == "length"
    assert (alias, context, tokens) == ("practice", CONTEXT, end.timings.prompt_tokens)


@pytest.mark.case("E-02")
def test_stop_in_the_middle_of_an_answer(client: EngineClient) -> None:
    async def leave() -> float:
        request = ChatRequest((Message("user", "Write a long essay."),), 4000, GREEDY)
        async with aclosing(client.chat(request)) as events:
            async for event in events:
                if isinstance(event, Text):
                    assert await client.is_idle() is False
                    break
        return await until(client.is_idle, True, 10)

    assert asyncio.run(leave()) < 2
    assert text_of(ask(client, "Implement quicksort in Python.")) == known_text("code")


@pytest.mark.case("E-02")
def test_stop_before_the_first_token(client: EngineClient) -> None:
    async def leave() -> float:
        prompt = "word " * (CONTEXT - 500)
        request = ChatRequest((Message("user", prompt),), 100, GREEDY, cache_prompt=False)
        seen: list[Event] = []

        async def consume() -> None:
            async for event in client.chat(request):
                seen.append(event)

        task = asyncio.create_task(consume())
        while not seen:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert {type(event) for event in seen} == {Progress}
        return await until(client.is_idle, True, 20)

    assert asyncio.run(leave()) < 2
    assert text_of(ask(client, "Implement quicksort in Python.")) == known_text("code")
