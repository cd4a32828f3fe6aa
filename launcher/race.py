"""The race: one prompt, two ways to run the target, taken in turn and measured alike. No page in it.

Fair by construction: both sides get the same request with the prompt cache off, from the same client; only one
engine works at a time; each engine gives a warm-up answer that is thrown away, again after every start; the order
is A B B A; speeds are the server's own. The engines stay loaded where the workshop lets them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from launcher.client.events import ChatRequest
from launcher.errors import LauncherError
from launcher.lifecycle import Lease
from launcher.measure import Bench, Engines, Stop, StoppedError, measured_request, remembers, side_of
from launcher.plan import LaunchPlan
from launcher.race_record import Recorder
from launcher.race_types import (
    Ended,
    Note,
    Preparing,
    Race,
    RaceEvent,
    RaceSpec,
    RaceStarted,
    RoundDone,
    Run,
    RunDone,
    RunStarted,
    Side,
    Verdict,
)
from launcher.race_verdict import judge

__all__ = ["Engines", "Stop", "request_of", "run_race", "run_set", "sides_of"]

OnEvent = Callable[[RaceEvent], None]


async def run_race(
    engines: Engines, spec: RaceSpec, on_event: OnEvent = lambda _: None, stop: Stop | None = None
) -> Race:
    """Run it and tell everything to ``on_event``, which must be quick. What goes wrong with an engine does not
    raise: the race then ends as "failed" with what was measured before."""
    return await _Runner(engines, spec, on_event, stop or Stop()).race(1, 1)


async def run_set(
    engines: Engines,
    specs: Sequence[RaceSpec],
    on_event: OnEvent = lambda _: None,
    stop: Stop | None = None,
) -> tuple[Race, ...]:
    """Several races on the same engines, one after another; ends early when stopped or when an engine fails."""
    races: list[Race] = []
    stop = stop or Stop()
    for number, spec in enumerate(specs, start=1):
        races.append(await _Runner(engines, spec, on_event, stop).race(number, len(specs)))
        if races[-1].ended in ("stopped", "failed") or stop.between_rounds:
            break
    return tuple(races)


def sides_of(spec: RaceSpec) -> tuple[Side, Side]:
    """The contestants by name; two of the same method are told apart by a letter."""
    a, b = (side_of(plan) for plan in spec.plans)
    if a.name == b.name:
        return replace(a, name=f"{a.name} (A)"), replace(b, name=f"{b.name} (B)")
    return a, b


def request_of(spec: RaceSpec) -> ChatRequest:
    """The request that both sides get, to the letter."""
    return measured_request(
        spec.prompt.text,
        max_tokens=spec.max_tokens,
        temperature=spec.temperature,
        seed=spec.seed,
        thinking=spec.thinks,
    )


class _Runner:
    """One race."""

    def __init__(self, engines: Engines, spec: RaceSpec, on_event: OnEvent, stop: Stop) -> None:
        self._engines, self._spec, self._tell, self._stop = engines, spec, on_event, stop
        self._bench = Bench(engines, stop)
        self._sides = sides_of(spec)
        self._request = request_of(spec)
        self._runs: list[Run] = []
        self._asked: set[LaunchPlan] = set()
        self._swapped = False

    async def race(self, number: int, total: int) -> Race:
        """Race number ``number`` of ``total``, to its end, however that is; the race as it was told."""
        spec, created = self._spec, time.time()
        self._tell(RaceStarted(number, total, spec.prompt, self._sides, spec.rounds))
        ended, problem = "rounds", LauncherError("")
        try:
            ended = await self._rounds()
        except StoppedError:
            ended = "stopped"
        except LauncherError as error:
            ended, problem = "failed", error
        race = Race(
            id=secrets.token_hex(8),
            created=created,
            prompt=spec.prompt,
            sides=self._sides,
            runs=tuple(self._runs),
            verdict=self._verdict(),
            ended=ended,
            problem=problem.what,
            remedy=problem.remedy,
            swapped=self._swapped,
            max_tokens=spec.max_tokens,
            temperature=spec.temperature,
            seed=spec.seed,
            thinking=spec.thinks,
            rounds_asked=spec.rounds,
            machine=tuple(spec.machine.rows()) if spec.machine else (),
        )
        self._tell(Ended(race))
        return race

    async def _rounds(self) -> str:
        """Run rounds until there is a reason to end, which is returned."""
        for number in range(1, self._spec.rounds + 1):
            for side in (0, 1) if number % 2 else (1, 0):
                await self._measure(side, number)
            verdict = self._verdict()
            self._tell(RoundDone(number, verdict))
            if self._spec.adaptive and verdict.sure:
                return "sure"
            if self._stop.between_rounds and number < self._spec.rounds:
                return "stopped"
        return "rounds"

    def _verdict(self) -> Verdict:
        return judge(self._runs, self._sides, self._spec.temperature, self._spec.confidence)

    async def _measure(self, side: int, number: int) -> None:
        recorder = Recorder(side, number, time.time())
        try:
            lease = await self._ready(side)
            self._tell(RunStarted(side, number))
            recorder = Recorder(side, number, time.time())
            await self._bench.answer(lease, self._request, recorder, self._tell)
        except StoppedError:
            self._keep_broken(recorder.run())
            raise
        except LauncherError as error:
            self._keep_broken(recorder.run(failed=True))
            where = f"{self._sides[side].name}, round {number}"
            raise LauncherError(f"{where}: {error.what}", error.remedy) from error
        run = recorder.run()
        self._runs.append(run)
        self._tell(RunDone(run))

    def _keep_broken(self, run: Run) -> None:
        if run.marks:
            self._runs.append(run)

    async def _ready(self, side: int) -> Lease:
        """The engine of ``side``, loaded and warm."""
        plan, name = self._spec.plans[side], self._sides[side].name
        lease, started = await self._bench.ready(
            plan, self._request, name, lambda message: self._tell(Preparing(side, message))
        )
        if started and not remembers(plan):
            self._note_swap(plan)
        self._asked.add(plan)
        return lease

    def _note_swap(self, started: LaunchPlan) -> None:
        """Say once how the two engines share the memory, as soon as it shows."""
        if started in self._asked and not self._swapped:
            self._swapped = True
            self._tell(
                Note(
                    "The engines take turns in memory: both together might not fit. Each is started anew for its "
                    "turn, when the other's memory is free again, and warmed up anew; that takes time, the "
                    "measurement stays fair."
                )
            )
        elif self._asked and started not in self._asked and self._engines.loaded() > 1:
            self._tell(Note("Both engines stay loaded; only one works at a time."))
