"""The advisor on real child processes at exact paces."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from launcher.advise import Advice, Trial
from launcher.advise_run import (
    AdviseEvent,
    AdviseSpec,
    Answering,
    Began,
    Ended,
    Findings,
    Known,
    LeftOut,
    Search,
    find,
    run_advisor,
)
from launcher.errors import BadInput, LauncherError
from launcher.lifecycle import Lifecycle
from launcher.measure import Engines, Stop
from launcher.methods import PLAIN, Method
from launcher.plan import LaunchPlan, make_plan
from launcher.race_prompts import lab_prompt
from launcher.settings import resolve
from launcher.supervise.server import Server
from tests.fakes import paced_engine
from tests.launcher.lab_samples import SUBJECT
from tests.plans import ENGINE, MACHINE, resolved

T = TypeVar("T")

D4 = Method("draft-dspark", 4)
TEXT = " ".join(f"word{number}" for number in range(400))


def specs(
    folder: Path, drafting: dict[str, Any], methods: Sequence[Method], broken: Method | None = None
) -> AdviseSpec:
    """For a fake engine; that of ``broken`` cannot start."""
    program = paced_engine.install(
        folder / "bin", drafting=drafting, rate=400, text=TEXT, blocks=((4, 3), (4, 1))
    )
    parts = resolved(engine=replace(ENGINE, program=(str(program),)))
    launches: dict[Method, LaunchPlan] = {
        method: make_plan(resolve({}, {}), MACHINE, parts, method) for method in methods
    }
    if broken is not None:
        launches[broken] = replace(
            launches[broken], argv=(str(folder / "nothing"), *launches[broken].argv[1:])
        )
    return AdviseSpec(launches, lab_prompt("code"))


def run(folder: Path, spec: AdviseSpec, work: Callable[[Engines], Coroutine[Any, Any, T]]) -> T:
    """``work`` on real engines."""

    def serve(plan: LaunchPlan) -> Server:
        return Server(plan, folder / "logs", folder / "run", dict(os.environ))

    owner = Lifecycle(lambda *_: spec.launches[PLAIN], serve, lambda *_: True)

    async def scene() -> T:
        async with owner.workshop("advisor") as workshop:
            return await work(workshop)

    try:
        return asyncio.run(scene())
    finally:
        owner.close()


def advice_of(
    folder: Path,
    drafting: dict[str, Any],
    methods: Sequence[Method] = (PLAIN, D4),
    on_event: Callable[[AdviseEvent], None] = lambda _: None,
    stop: Stop | None = None,
    broken: Method | None = None,
) -> Advice:
    spec = specs(folder, drafting, methods, broken)
    return run(folder, spec, lambda engines: run_advisor(engines, spec, on_event, stop))


def both(
    folder: Path,
    drafting: dict[str, Any],
    on_event: Callable[[AdviseEvent], None],
    stop: Stop | None = None,
    methods: Sequence[Method] = (PLAIN, D4),
    chat: Method | None = None,
) -> Findings:
    """A search for both purposes; for chat the engine of ``chat`` cannot start."""
    spec = specs(folder, drafting, methods)
    other = specs(folder, drafting, methods, chat)
    search = Search(
        SUBJECT, {"coding": spec, "chat": replace(other, prompt=lab_prompt("chat"), temperature=1.0)}
    )
    return run(folder, spec, lambda engines: find(engines, search, on_event, stop))


def test_a_faster_method_is_advised_with_its_ratio(tmp_path: Path) -> None:
    told: list[AdviseEvent] = []
    advice = advice_of(tmp_path, {"rate": 1200}, on_event=told.append)
    trials = [event for event in told if isinstance(event, Trial)]
    assert advice.method == D4
    assert advice.expected_ratio == pytest.approx(3, rel=0.3)
    assert trials[0].method == PLAIN
    assert sum(one.answers for one in advice.tried) == len(trials)
    assert (
        advice.engine_seconds > sum(one.answers * 128 / one.tokens_per_second for one in advice.tried) * 0.9
    )
    assert [event.trial for event in told if isinstance(event, Answering)] == trials
    known = [event for event in told if isinstance(event, Known)]
    assert [sum(one.answers for one in event.advice.tried) for event in known] == list(
        range(1, len(trials) + 1)
    )
    assert known[0].advice.sure == "low"  # nothing but plain decoding was measured
    assert known[-1].advice == advice
    assert all(event.limit_s is not None for event in known)


def test_plain_is_advised_where_drafting_is_slower(tmp_path: Path) -> None:
    advice = advice_of(tmp_path, {"rate": 200})
    assert advice.method == PLAIN
    assert "dspark 4, ran at 0." in advice.text


def test_a_method_whose_engine_does_not_start_is_left_out(tmp_path: Path) -> None:
    other, told = Method("draft-dspark", 2), list[AdviseEvent]()
    advice = advice_of(tmp_path, {"rate": 1200}, (PLAIN, other, D4), told.append, broken=other)
    assert advice.method == D4
    assert other not in [one.method for one in advice.tried]
    [left] = [event for event in told if isinstance(event, LeftOut)]
    assert left.method == other
    assert left.why


def test_without_plain_decoding_it_fails_with_what_the_engine_said(tmp_path: Path) -> None:
    with pytest.raises(LauncherError):
        advice_of(tmp_path, {"rate": 1200}, broken=PLAIN)


def test_a_stop_ends_with_the_advice_so_far(tmp_path: Path) -> None:
    stop, trials = Stop(), list[Trial]()

    def on_event(event: AdviseEvent) -> None:
        if isinstance(event, Trial):
            trials.append(event)
            if len(trials) == 2:
                stop.after_round()

    advice = advice_of(tmp_path, {"rate": 1200}, on_event=on_event, stop=stop)
    assert [trial.method for trial in trials] == [PLAIN, D4]
    assert sum(one.answers for one in advice.tried) == 2


# -- for both purposes -----------------------------------------------------------------------------------------


def test_each_purpose_has_its_advice_and_plain_decoding_its_speed(tmp_path: Path) -> None:
    told: list[AdviseEvent] = []
    findings = both(tmp_path, {"rate": 1200}, told.append)
    assert [(one.purpose, one.kind, one.temperature, one.advice.method) for one in findings.found] == [
        ("coding", "code", 0.0, D4),
        ("chat", "chat", 1.0, D4),
    ]
    assert [event.purpose for event in told if isinstance(event, Began)] == ["coding", "chat"]
    assert [event.found for event in told if isinstance(event, Ended)] == list(findings.found)
    assert findings.plain_speed == pytest.approx(400, rel=0.3)
    assert findings.of("chat").text.startswith("For a general chat: Use dspark 4")
    assert (findings.missing, findings.stopped, findings.problem) == ((), False, None)


@pytest.mark.parametrize("at", [1, 2])
def test_stopped_at_once_only_what_was_known_is_found(tmp_path: Path, at: int) -> None:
    stop, count = Stop(), 0

    def on_event(event: AdviseEvent) -> None:
        nonlocal count
        count += isinstance(event, Trial)
        if count == at:
            stop.now()

    findings = both(tmp_path, {"rate": 1200}, on_event, stop)
    assert findings.stopped
    if at == 1:
        assert (findings.found, findings.missing) == ((), ("coding", "chat"))
        assert findings.plain_speed is None
        with pytest.raises(BadInput, match="Nothing is known for coding"):
            findings.of("coding")
        return
    [found] = findings.found
    assert (found.advice.method, found.advice.sure, findings.missing) == (PLAIN, "low", ("chat",))
    assert "1 method was not measured, so a better one may be missing. Measured with 1 answer." in found.text


def test_what_was_found_before_plain_decoding_failed_is_kept(tmp_path: Path) -> None:
    findings = both(tmp_path, {"rate": 1200}, lambda _: None, chat=PLAIN)
    assert [one.purpose for one in findings.found] == ["coding"]
    assert findings.missing == ("chat",)
    assert findings.problem is not None
    assert not findings.stopped
