"""The advisor on real child processes at exact paces."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.advise import Advice, Trial
from launcher.advise_run import AdviseSpec, run_advisor
from launcher.errors import LauncherError
from launcher.lifecycle import Lifecycle
from launcher.measure import Stop
from launcher.methods import PLAIN, Method
from launcher.plan import LaunchPlan, make_plan
from launcher.race_prompts import lab_prompt
from launcher.settings import resolve
from launcher.supervise.server import Server
from tests.fakes import paced_engine
from tests.plans import ENGINE, MACHINE, resolved

D4 = Method("draft-dspark", 4)
TEXT = " ".join(f"word{number}" for number in range(400))


def advice_of(
    folder: Path,
    drafting: dict[str, Any],
    methods: Sequence[Method] = (PLAIN, D4),
    on_trial: Callable[[Trial], None] = lambda _: None,
    stop: Stop | None = None,
    broken: Method | None = None,
) -> Advice:
    """Run it on a fake engine; that of ``broken`` cannot start."""
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
    spec = AdviseSpec(launches, lab_prompt("code"))

    def serve(plan: LaunchPlan) -> Server:
        return Server(plan, folder / "logs", folder / "run", dict(os.environ))

    owner = Lifecycle(lambda *_: launches[PLAIN], serve, lambda *_: True)

    async def scene() -> Advice:
        async with owner.workshop("advisor") as workshop:
            return await run_advisor(workshop, spec, on_trial, stop)

    try:
        return asyncio.run(scene())
    finally:
        owner.close()


def test_a_faster_method_is_advised_with_its_ratio(tmp_path: Path) -> None:
    trials: list[Trial] = []
    advice = advice_of(tmp_path, {"rate": 1200}, on_trial=trials.append)
    assert advice.method == D4
    assert advice.expected_ratio == pytest.approx(3, rel=0.3)
    assert trials[0].method == PLAIN
    assert sum(one.answers for one in advice.tried) == len(trials)
    assert (
        advice.engine_seconds > sum(one.answers * 128 / one.tokens_per_second for one in advice.tried) * 0.9
    )


def test_plain_is_advised_where_drafting_is_slower(tmp_path: Path) -> None:
    advice = advice_of(tmp_path, {"rate": 200})
    assert advice.method == PLAIN
    assert "dspark 4, ran at 0." in advice.text


def test_a_method_whose_engine_does_not_start_is_left_out(tmp_path: Path) -> None:
    other = Method("draft-dspark", 2)
    advice = advice_of(tmp_path, {"rate": 1200}, (PLAIN, other, D4), broken=other)
    assert advice.method == D4
    assert other not in [one.method for one in advice.tried]


def test_without_plain_decoding_it_fails_with_what_the_engine_said(tmp_path: Path) -> None:
    with pytest.raises(LauncherError):
        advice_of(tmp_path, {"rate": 1200}, broken=PLAIN)


def test_a_stop_ends_with_the_advice_so_far(tmp_path: Path) -> None:
    stop, trials = Stop(), list[Trial]()

    def on_trial(trial: Trial) -> None:
        trials.append(trial)
        if len(trials) == 2:
            stop.after_round()

    advice = advice_of(tmp_path, {"rate": 1200}, on_trial=on_trial, stop=stop)
    assert [trial.method for trial in trials] == [PLAIN, D4]
    assert sum(one.answers for one in advice.tried) == 2
