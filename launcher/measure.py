"""What every measurement shares: engines taken in turn, warmed up, asked one thing at a time, and left when told to.

Fair by construction: only one engine works at a time; each gives an answer that is thrown away first, again after
every start; requests have the prompt cache off; speeds are the server's own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from launcher.client.events import ChatRequest, Message, Sampling
from launcher.errors import LauncherError
from launcher.lifecycle_types import Lease
from launcher.plan import LaunchPlan
from launcher.race_record import Recorder
from launcher.race_types import RaceEvent, Side

# These keep what they saw from one request to the next (b11434, common/speculative.cpp: their tables are not cleared
# when an answer begins). Asked the same again they would draft their own last answer, as no other method can.
REMEMBERING = frozenset({"ngram-mod", "ngram-cache"})
OTHER_TEXT = "Show a table of the first three squares."  # warms up what must not have seen the real one
OTHER_TOKENS = 16  # less than the 24 in a row that ngram-mod looks for
WARM_UP_TOKENS = 32  # enough for the prompt, the first verify blocks and whatever is built on first use
POLL_S = 0.1  # how soon a stop is noticed

T = TypeVar("T")


class Engines(Protocol):
    """What a measurement needs of lifecycle.Workshop."""

    async def engine(self, plan: LaunchPlan, *, fresh: bool = False) -> Lease:
        """Lend the engine of ``plan``, loaded; ``fresh``: one that has answered nothing yet. Raises LauncherError."""
        ...

    def loaded(self) -> int:
        """How many engines are in memory now."""
        ...


class Stop:
    """A wish to end early, made by the page or Ctrl+C from any thread."""

    def __init__(self) -> None:
        self.between_rounds = False
        self.at_once = False

    def after_round(self) -> None:
        """Finish what is running (a race its round, a lab its answer), then end with what there is."""
        self.between_rounds = True

    def now(self) -> None:
        """Break off; what was whole is kept."""
        self.between_rounds = self.at_once = True


class StoppedError(Exception):
    """Stop.now was asked for."""


class Bench:
    """Asks engines for answers; knows which of them are warm."""

    def __init__(self, engines: Engines, stop: Stop) -> None:
        self._engines, self._stop = engines, stop
        self._warm: set[str | None] = set()  # random names of engines that gave their warm-up answer

    async def ready(
        self, plan: LaunchPlan, request: ChatRequest, name: str, tell: Callable[[str], None]
    ) -> tuple[Lease, bool]:
        """The engine of ``plan``, loaded and warmed up by the beginning of ``request``, and whether it was started
        anew: always, with another text, where it would remember. ``tell`` gets sentences with ``name`` in them.
        Raises LauncherError, and StoppedError when told to stop."""
        tell(f"Getting {name} ready …")
        fresh = remembers(plan)
        asked = self._engines.engine(plan, fresh=True) if fresh else self._engines.engine(plan)
        lease = await self.interruptible(asked)
        alias = await lease.client.alias()  # a random name, given at each start
        if alias in self._warm:
            return lease, False
        tell(f"Warming {name} up (does not count) …")
        await self.answer(lease, _warm_up(request, other=fresh), Recorder(0, 0, 0.0))
        self._warm.add(alias)
        return lease, True

    async def answer(
        self,
        lease: Lease,
        request: ChatRequest,
        recorder: Recorder,
        tell: Callable[[RaceEvent], None] = lambda _: None,
    ) -> None:
        """One answer into ``recorder``, told as it comes. Raises LauncherError when it breaks off, StoppedError when
        told to stop; what came before is in the recorder."""
        await self.interruptible(self._answer(lease, request, recorder, tell))

    async def _answer(
        self, lease: Lease, request: ChatRequest, recorder: Recorder, tell: Callable[[RaceEvent], None]
    ) -> None:
        async with aclosing(lease.client.chat(request)) as events:
            async for event in events:
                told = recorder.take(event, time.perf_counter())
                if told is not None:
                    tell(told)
        if recorder.failure is not None:
            raise LauncherError(recorder.failure.what, recorder.failure.remedy)

    async def interruptible(self, work: Coroutine[Any, Any, T]) -> T:
        """Await ``work``; Stop.now ends it, and what it held is closed before this returns."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                if self._stop.at_once:
                    raise StoppedError
                await asyncio.wait({task}, timeout=POLL_S)
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def remembers(plan: LaunchPlan) -> bool:
    """Whether an engine of ``plan`` answers the second time with what it knows from the first."""
    return not REMEMBERING.isdisjoint(plan.spec_type.split(","))


def _warm_up(request: ChatRequest, *, other: bool) -> ChatRequest:
    if not other:
        return replace(request, max_tokens=min(WARM_UP_TOKENS, request.max_tokens))
    return replace(
        request, messages=(Message("user", OTHER_TEXT),), max_tokens=min(OTHER_TOKENS, request.max_tokens)
    )


def measured_request(
    text: str, *, max_tokens: int, temperature: float, seed: int, thinking: bool
) -> ChatRequest:
    """The request of every measurement: one user message, the prompt cache off."""
    return ChatRequest(
        messages=(Message("user", text),),
        max_tokens=max_tokens,
        sampling=replace(Sampling(), temperature=temperature, seed=seed),
        thinking=thinking,
        cache_prompt=False,
    )


def side_of(plan: LaunchPlan) -> Side:
    """``plan`` as it stands in records."""
    resolved = plan.resolved
    return Side(
        name=plan.method.name,
        method=plan.method,
        argv=plan.argv,
        engine=f"{resolved.engine.kind} {resolved.engine.version}",
        model=resolved.target.label,
        model_path=resolved.target.path,
        drafter_path=resolved.drafter.path if resolved.drafter and "-md" in plan.argv else None,
        practice=resolved.practice,
        context=plan.context,
    )
