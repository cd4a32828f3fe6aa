"""The practice pair on the real engines: text, thoughts and drafter counts are the computed ones."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.client.events import Block, ChatRequest, Finished, Message, Sampling, Text, Thinking
from launcher.client.http import EngineClient
from launcher.hardware.detect import detect
from launcher.paths import locate
from launcher.plan import make_plan
from launcher.practice import KINDS, expected_acceptance, known_text, known_thinking
from launcher.practice_texts import REWRITE_INPUT
from launcher.provision import resolve_all
from launcher.settings import resolve
from launcher.supervise.server import Server

PROMPTS = {
    "code": "Implement quicksort in Python.",
    "prose": "Tell me a story about a lighthouse.",
    "thinking": "Think: how long does one box of matches last?",
    "long": "Give me a long answer.",
    "maths": "Show a table and a formula.",
    "chat": "Hello, who are you?",
    "rewrite": f"Rewrite this with type hints:\n\n{REWRITE_INPUT}",
}


def start(env: dict[str, str], home: Path) -> Server:
    paths = locate(str(home))
    settings, machine = resolve({}, env | {"BONSAI_MODEL": "practice"}), detect()
    plan = make_plan(settings, machine, resolve_all(settings, paths, {}, machine))
    server = Server(plan, paths.logs, paths.run, dict(os.environ))
    server.start(threading.Event(), lambda _: None)
    return server


@pytest.fixture(scope="module", params=["embedded", "built"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The pair on each engine, with the drafter."""
    env = {"BONSAI_SPECULATIVE": "1", "BONSAI_ENGINE": "embedded"}
    if request.param == "built":
        env = {"BONSAI_SPECULATIVE": "1", "BONSAI_LLAMA_SERVER": str(request.getfixturevalue("built_engine"))}
    running = start(env, tmp_path_factory.mktemp("home"))
    yield running
    running.stop()


async def ask(server: Server, prompt: str, max_tokens: int = 4000, *, thinking: bool = True) -> list[object]:
    client = EngineClient(server.base_url, api_key=server.api_key)
    request = ChatRequest(
        (Message("user", prompt),), max_tokens, Sampling(temperature=0), thinking=thinking, cache_prompt=False
    )
    return [event async for event in client.chat(request)]


def text_of(events: list[object], kind: type[Text] | type[Thinking]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_text_and_counts_are_those_computed(server: Server, kind: str) -> None:
    # The long text is read to its end on one engine alone: it takes half a minute.
    cut = kind == "long" and server.plan.resolved.engine.kind != "embedded"
    most = 400 if cut else 4000
    events = asyncio.run(ask(server, PROMPTS[kind], most))
    last, expected = events[-1], expected_acceptance(kind, max_tokens=most)
    assert isinstance(last, Finished)
    assert last.reason == ("length" if cut else "stop")
    text = text_of(events, Text).strip()
    assert known_text(kind).startswith(text) if cut else text == known_text(kind).strip()
    assert text_of(events, Thinking).strip() == known_thinking(kind).strip()
    counts = (last.timings.draft_n, last.timings.draft_n_accepted, last.timings.predicted_tokens)
    assert counts == (expected.draft_n, expected.draft_n_accepted, expected.predicted_n)


def test_tokens_of_the_drafter_are_told_apart(server: Server) -> None:
    events = asyncio.run(ask(server, PROMPTS["code"]))
    blocks = [event for event in events if isinstance(event, Block)]
    drafted = sum(event.tokens for event in events if isinstance(event, Text) and event.drafted)
    expected = expected_acceptance("code")
    assert sum(block.accepted for block in blocks) == expected.draft_n_accepted
    assert sum(block.drafted for block in blocks) == expected.draft_n
    assert drafted >= 0.9 * expected.draft_n_accepted


@pytest.mark.parametrize("most", [1, 2, 50])
def test_a_cut_answer_counts_exactly(server: Server, most: int) -> None:
    last, expected = (
        asyncio.run(ask(server, PROMPTS["code"], most))[-1],
        expected_acceptance("code", max_tokens=most),
    )
    assert isinstance(last, Finished)
    assert last.reason == "length"
    assert last.timings.predicted_tokens == most
    assert (last.timings.draft_n or 0) == expected.draft_n


def test_thinking_can_be_switched_off(server: Server) -> None:
    events = asyncio.run(ask(server, PROMPTS["thinking"], thinking=False))
    assert text_of(events, Thinking) == ""
    assert text_of(events, Text).strip() == known_text("thinking").strip()
