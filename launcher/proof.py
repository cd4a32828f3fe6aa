"""A short question before "ready": does the engine answer with text, and does it speculate as was asked?"""

from __future__ import annotations

import asyncio
import re
import time
import unicodedata
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from launcher.amounts import span
from launcher.client.events import ChatRequest, Failed, Message, Sampling, Text, Thinking, Timings
from launcher.client.http import EngineClient
from launcher.errors import EngineUnreachable
from launcher.ladder import layers_on_gpu
from launcher.plan import LaunchPlan
from launcher.supervise.diagnose import suspicions
from launcher.supervise.server import Server

QUESTION = "Count from one to ten."
PRACTICE_QUESTION = "Implement quicksort in Python."  # one that its tables know
TOKENS = 24
PATIENCE_S = 60.0  # by then it is not known, and the engine goes on
ENOUGH_S = 10.0  # a slow engine need not say all of it ...
ENOUGH_TOKENS = 12  # ... when so much has come
POLL_S = 0.1
LOG_LINES = 2000  # what it said about its drafter stands near the beginning
JUDGED_DRAFTS = 8  # drafted tokens; acceptance of fewer says nothing
LOW_ACCEPTANCE = 0.2  # a drafter trained for other weights is far below, the worst fitting one far above


@dataclass(frozen=True)
class Proof:
    """What the engine said to the question. ``drafted`` and ``accepted`` in tokens, None when nothing was drafted;
    ``problems`` are sentences for people; ``idle``: its drafter did nothing."""

    text: str = ""
    drafted: int | None = None
    accepted: int | None = None
    seconds: float = 0.0
    problems: tuple[str, ...] = ()
    idle: bool = False


def prove_server(server: Server, give_up: Callable[[], bool]) -> Proof:
    """``prove`` for a server that is ready."""
    client = EngineClient(server.base_url, api_key=server.api_key)
    return prove(client, server.plan, log=lambda: server.log_tail(LOG_LINES), give_up=give_up)


@dataclass
class _Heard:
    """What has come of the answer so far."""

    pieces: list[str] = field(default_factory=list)
    tokens: int = 0
    timings: Timings = field(default_factory=Timings)
    failure: Failed | None = None

    @property
    def text(self) -> str:
        """The answer so far, thoughts included."""
        return "".join(self.pieces)


def prove(
    client: EngineClient,
    plan: LaunchPlan,
    *,
    log: Callable[[], str] = lambda: "",
    give_up: Callable[[], bool] = lambda: False,
    patience_s: float = PATIENCE_S,
) -> Proof:
    """Ask, and judge the answer. ``log``: the engine's log so far. ``give_up`` ends it early, with nothing judged.

    Raises AnswerProblem when there is no answer: the engine may have died of the question.
    """
    started = time.monotonic()
    heard, whole = asyncio.run(_ask(client, plan, give_up, patience_s))
    seconds = time.monotonic() - started
    if heard.failure is not None:
        raise EngineUnreachable(heard.failure.what, heard.failure.remedy)
    drafted, accepted = heard.timings.draft_n, heard.timings.draft_n_accepted
    problems: tuple[str, ...] = ()
    if whole:
        problems = judge(heard.text, drafted, accepted or 0, plan, log)
    elif not give_up():
        problems = (
            f"The engine is slow: its answer to a test question was not there after {span(seconds)}, so nobody "
            "knows yet whether it answers well.",
        )
    idle = whole and plan.spec_type.startswith("draft-") and not drafted
    return Proof(heard.text, drafted, accepted, seconds, problems, idle)


async def _ask(
    client: EngineClient, plan: LaunchPlan, give_up: Callable[[], bool], patience_s: float
) -> tuple[_Heard, bool]:
    """What was heard, and whether it is enough to judge."""
    heard = _Heard()
    task = asyncio.ensure_future(_listen(client, plan, heard))
    started = time.monotonic()
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=POLL_S)
            waited = time.monotonic() - started
            if waited > ENOUGH_S and heard.tokens >= ENOUGH_TOKENS:
                return heard, True
            if not task.done() and (waited > patience_s or give_up()):
                return heard, False
        task.result()
        return heard, True
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _listen(client: EngineClient, plan: LaunchPlan, heard: _Heard) -> None:
    question = PRACTICE_QUESTION if plan.resolved.practice else QUESTION
    request = ChatRequest(
        messages=(Message("user", question),),
        max_tokens=TOKENS,
        sampling=replace(Sampling(), temperature=0.0, seed=1),
        thinking=False,
        cache_prompt=False,
    )
    async with aclosing(client.chat(request)) as events:
        async for event in events:
            match event:
                case Text(text, _, tokens) | Thinking(text, _, tokens):
                    heard.pieces.append(text)
                    heard.tokens += tokens
                case Timings():
                    heard.timings = event
                case Failed():
                    heard.failure = event
            if isinstance(found := getattr(event, "timings", None), Timings):
                heard.timings = found


def judge(
    text: str, drafted: int | None, accepted: int, plan: LaunchPlan, log: Callable[[], str] = lambda: ""
) -> tuple[str, ...]:
    """What is wrong with an answer, and what the log hints at, as sentences. ``drafted`` and ``accepted`` in tokens.

    Ways to speculate that look drafts up in the text so far draft nothing on so short an answer: no fault of theirs.
    """
    problems = []
    if not text.strip():
        problems.append("The engine's answer to a test question is empty.")
    elif not looks_like_text(text):
        problems.append(
            "The engine's answer to a test question looks like gibberish: wrong weights format for this engine?"
        )
    hints = suspicions(log())
    if plan.spec_type.startswith("draft-"):
        if not drafted:
            why = next((f" {hint.sentence} {hint.remedy}" for hint in hints if hint.drafter), "")
            problems.append(f"Speculation was requested but the engine drafted nothing.{why}")
        elif drafted >= JUDGED_DRAFTS and accepted < LOW_ACCEPTANCE * drafted:
            problems.append(
                f"Only {accepted} of {drafted} drafted tokens were accepted: this drafter hardly fits these weights "
                "or this text."
            )
    on_gpu = plan.resolved.engine.backend not in (None, "cpu") and layers_on_gpu(plan) > 0
    for hint in hints:
        # A build without a GPU says so each time, and is meant to have none.
        if not hint.drafter and (on_gpu or hint.cause != "cpu-fallback"):
            problems.append(f"{hint.sentence} {hint.remedy}")
    return tuple(problems)


def looks_like_text(text: str) -> bool:
    """Whether ``text`` may be an answer in some language: printable, not one thing over and over, not a mixture of
    many scripts (what weights read in a wrong format give)."""
    body = text.strip()
    if not body or "\ufffd" in body:
        return False
    odd = sum(unicodedata.category(letter) in ("Cc", "Co", "Cn", "Cs") for letter in _without_breaks(body))
    if odd > 0.02 * len(body) or not any(letter.isalnum() for letter in body):
        return False
    return not _repeats(body) and len(_scripts(body)) < 3 and not re.search(r"[A-Za-z]{45}", body)


def _without_breaks(text: str) -> str:
    return re.sub(r"[\n\r\t]", "", text)


def _repeats(body: str) -> bool:
    """One short piece from beginning to end."""
    if len(body) < 12:
        return False
    words = body.split()
    if len(words) >= 6 and len(set(words)) == 1:
        return True
    return any(body == (body[:size] * len(body))[: len(body)] for size in range(1, len(body) // 4 + 1))


def _scripts(body: str) -> set[str]:
    """The scripts of the letters, the three of Japanese and Chinese as one; single letters are symbols."""
    counts: dict[str, int] = {}
    for letter in body:
        if letter.isalpha():
            name = unicodedata.name(letter, "?").split()[0]
            name = "CJK" if name in ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "FULLWIDTH") else name
            counts[name] = counts.get(name, 0) + 1
    return {name for name, count in counts.items() if count > 1}
