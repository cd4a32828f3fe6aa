"""From a person's choice to a plan and its duration; and a lab of the page without a page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.lab import new_lab
from launcher.lab_store import LabStore
from launcher.lab_types import Lab
from launcher.methods import PLAIN
from tests.fakes.paced_server import PacedConfig, PacedServer
from tests.launcher import lab_samples as samples
from tests.webui.fake_lifecycle import FakeLifecycle
from tests.webui.lab_pages import ASKED, DSPARK, Planner
from webui.lab_form import plan_for
from webui.lab_pace import pace as pace_of
from webui.lab_run import RunningLab


def test_a_choice_becomes_a_plan(tmp_path: Path) -> None:
    planner = Planner(tmp_path)
    planner.engine = replace(planner.engine, flags=planner.engine.flags | {"--spec-draft-p-min"})
    here = planner.here()
    drafts = [DSPARK, DSPARK | {"p_min": 0.25}]
    plan = plan_for(here, ASKED | {"methods": drafts, "temperatures": [0, 1], "runs": None, "minutes": None})
    assert [cell.method.name for cell in plan.cells] == ["plain", "dspark 4", "dspark 4, p-min 0.25"] * 2
    assert (plan.least, plan.most, plan.budget_s, plan.quick) == (
        here.quick.least,
        here.quick.most,
        None,
        False,
    )
    assert planner.spec(plan).launches[plan.cells[2].method].argv.count("0.25") == 1
    quick = {
        "preset": "quick",
        "kinds": ["code", "prose"],
        "methods": [
            {"type": cell.method.spec_type, "length": cell.method.draft_max, "p_min": None, "draft_on": None}
            for cell in here.quick.cells
        ],
        "temperatures": [0, 1],
        "tokens": here.quick.max_tokens,
        "minutes": 3,
    }
    assert plan_for(here, quick) == here.quick


def test_how_long_it_takes_follows_from_what_was_measured_here(tmp_path: Path) -> None:
    labs, planner = LabStore(tmp_path), Planner(tmp_path)
    subject = planner.here().subject
    other = samples.measured({("code", PLAIN, 0.0): [100.0] * 5})
    labs.save(replace(other, spent_s=10.0))
    assert pace_of(labs, None, subject) is None
    labs.save(replace(other, id="f" * 16, subject=subject, spent_s=10.0))
    found = pace_of(labs, None, subject)
    assert found is not None
    assert found["token_s"] == pytest.approx([0.01, 0.01])
    assert found["extra_s"] == pytest.approx(
        [1.0, 1.0]
    )  # five answers of 100 tokens at 100 a second, and five seconds


def test_a_lab_that_nobody_watches_ends_after_its_answer(tmp_path: Path) -> None:
    async def scene(lonely: Callable[[RunningLab], None]) -> Lab:
        planner = Planner(tmp_path)
        spec = planner.spec(plan_for(planner.here(), ASKED | {"runs": 5}))
        with PacedServer(PacedConfig(rate=100, text="one two three four")) as server:
            lab = RunningLab(spec, new_lab(spec), FakeLifecycle(server.url), planner.store, patience_s=0.1)
            lonely(lab)
            await lab.run()
        return planner.store.load(lab.id)

    def comes_and_goes(lab: RunningLab) -> None:
        lab.leave(lab.watch())

    def comes_back(lab: RunningLab) -> None:
        comes_and_goes(lab)
        lab.watch()

    left = asyncio.run(scene(comes_and_goes))
    assert left.ended == "stopped"
    assert 0 < len(left.runs) < 5 * 3
    watched = asyncio.run(scene(comes_back))
    assert watched.ended in ("sure", "runs")
