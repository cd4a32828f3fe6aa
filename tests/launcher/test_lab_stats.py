"""Figures of cells, what is still open, costs, break-even points and sweeps, on answers with known figures."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from launcher.lab_setup import with_budget
from launcher.lab_stats import (
    all_figures,
    costs,
    figures,
    is_narrow,
    places_of,
    sweeps,
    temperature_effect,
    wanted,
)
from launcher.lab_types import Cell, Costs, Lab, Refused
from launcher.methods import PLAIN, Method
from launcher.race_prompts import KINDS
from launcher.race_stats import spread
from launcher.race_types import Step
from tests.launcher.lab_samples import costly, lab, measured, run

DSPARK, TABLE = Method("draft-dspark", 4), Method("ngram-simple")
CODE, CODE_4 = Cell("code", PLAIN, 0.0), Cell("code", DSPARK, 0.0)


def both(plain: list[float], drafting: list[float]) -> Lab:
    return measured({("code", PLAIN, 0.0): plain, ("code", DSPARK, 0.0): drafting})


def test_a_ratio_compares_answers_of_one_block() -> None:
    made = both([100, 50, 200], [150, 75, 300])  # the machine halved, then doubled
    found = figures(made, CODE_4)
    assert found.ratio == pytest.approx(1.5)
    assert found.spread == pytest.approx(spread([1.5, 1.5, 1.5]))
    assert (found.tokens_per_second, found.runs, found.word) == (150, 3, "faster")
    assert found.acceptance == pytest.approx(60 / 80)
    plain = figures(made, CODE)
    assert (plain.ratio, plain.spread, plain.acceptance) == (1.0, (1.0, 1.0), None)
    assert plain.speed_spread == pytest.approx(spread([100, 50, 200]))


def test_without_a_baseline_in_its_block_there_is_no_ratio() -> None:
    made = lab([CODE, CODE_4], [run(CODE, 1, 100), run(CODE_4, 2, 150)])
    found = figures(made, CODE_4)
    assert (found.ratio, found.spread, found.identical, found.word) == (None, None, None, "")
    assert figures(made, Cell("prose", PLAIN, 0.0)).runs == 0


@pytest.mark.parametrize(
    ("temperature", "text", "expected"), [(0.0, "one two", True), (0.0, "one too", False), (1.0, "x", None)]
)
def test_texts_are_compared_at_temperature_0(temperature: float, text: str, expected: bool | None) -> None:
    plain = Cell("code", PLAIN, temperature)
    cell = replace(plain, method=DSPARK)
    made = lab([plain, cell], [run(plain, 1, 100), run(cell, 1, 90, text=text)])
    assert figures(made, cell).identical is expected


@pytest.mark.parametrize(
    ("interval", "narrow"),
    [((0.96, 1.05), True), ((0.95, 1.05), False), ((1.0, 1.0), True), ((2.0, 2.2), True), (None, False)],
)
def test_narrow(interval: tuple[float, float] | None, narrow: bool) -> None:
    assert is_narrow(interval, 0.05) is narrow


def test_steps_and_their_time() -> None:
    one = run(CODE_4, 1, 50, tokens=101, drafted=160, accepted=60)
    assert one.steps == 40
    assert one.step_s == pytest.approx(101 / 50 / 40)
    assert one.draft_length == 4
    assert run(CODE, 1, 100, tokens=101).step_s == pytest.approx(1.01 / 100)
    assert run(CODE, 1, 100, tokens=1).step_s is None


def test_places() -> None:
    steps = [Step(0.1, 4, 3), Step(0.2, 4, 0), Step(0.3, 8, 8), Step(0.4, 2, 2), Step(0.5, 0, 0)]
    assert places_of(steps, DSPARK) == ((3, 2), (3, 2), (2, 1), (2, 0))
    assert places_of(steps, TABLE) == ()
    assert places_of(steps, Method("ngram-mod,draft-dspark", 4)) == ()


# --- what is open ---------------------------------------------------------------------------------------


def test_open_until_least_then_until_narrow_then_until_most() -> None:
    cells = [CODE, CODE_4]
    assert wanted(lab(cells)) == (CODE, CODE_4)
    steady, shaky = both([100, 101], [150, 151]), both([100, 150], [150, 100])
    assert wanted(replace(steady, plan=replace(steady.plan, least=3, most=6))) == (CODE, CODE_4)
    assert wanted(replace(steady, plan=replace(steady.plan, least=2, most=6, precision=0.2))) == ()
    assert wanted(replace(shaky, plan=replace(shaky.plan, least=2, most=6, precision=0.2))) == (CODE, CODE_4)
    assert wanted(replace(shaky, plan=replace(shaky.plan, least=2, most=2, precision=0.2))) == ()


def test_only_the_baselines_that_are_needed_are_measured_again() -> None:
    keys = {
        ("code", PLAIN, 0.0): [100.0] * 3,
        ("code", DSPARK, 0.0): [150.0] * 3,
        ("prose", PLAIN, 0.0): [100.0] * 3,
        ("prose", DSPARK, 0.0): [80.0, 90.0, 60.0],
    }
    made = measured(keys)
    assert {cell.kind for cell in wanted(made)} == {"prose"}
    assert len(wanted(made)) == 2


def test_a_run_that_lost_its_baseline_does_not_count_as_measured() -> None:
    made = lab([CODE, CODE_4], [run(CODE, 1, 100), run(CODE_4, 2, 150)], least=1, most=1)
    assert wanted(made) == ()  # as many as allowed
    made = replace(made, plan=replace(made.plan, most=3))
    assert wanted(made) == (CODE, CODE_4)


def test_what_failed_is_left_out_and_plain_alone_is_judged_by_its_speed() -> None:
    made = replace(lab([CODE, CODE_4]), failures=(Refused(DSPARK, "It died."),))
    assert wanted(made) == (CODE,)
    alone = replace(made, runs=tuple(run(CODE, block, 100) for block in (1, 2, 3)))
    assert wanted(alone) == ()


# --- costs and sweeps -----------------------------------------------------------------------------------

COSTS = Costs(plain_s=0.010, fixed_s=0.012, each_s=0.002)


def sweep_lab(kept: dict[int, int], kind: str = "code") -> Lab:
    """Lengths -> tokens kept a step, at COSTS."""
    cells = [Cell(kind, PLAIN, 0.0)]
    cells += [Cell(kind, Method("draft-dspark", length), 0.0) for length in kept]
    runs = [
        costly(cell, block, COSTS, accept=kept.get(cell.method.draft_max or 0, 0))
        for cell in cells
        for block in (1, 2, 3)
    ]
    return lab(cells, runs)


def test_costs_are_found_from_several_lengths() -> None:
    found = costs(sweep_lab({1: 1, 2: 2, 4: 2}), "code", 0.0, "draft-dspark")
    assert found is not None
    assert found.plain_s == pytest.approx(0.010)
    assert found.fixed_s == pytest.approx(0.012)
    assert found.each_s == pytest.approx(0.002)
    assert found.break_even(4) == pytest.approx((0.020 / 0.010 - 1) / 4)
    assert found.break_even(0) is None


def test_at_the_break_even_acceptance_the_speed_is_that_of_plain_decoding() -> None:
    for length in (1, 2, 4, 8):
        share = COSTS.break_even(length)
        assert share is not None
        assert (1 + share * length) / COSTS.step_s(length) == pytest.approx(1 / COSTS.plain_s)


def test_one_length_is_charged_by_the_token() -> None:
    found = costs(sweep_lab({4: 2}), "code", 0.0, "draft-dspark")
    assert found is not None
    assert found.fixed_s == pytest.approx(found.plain_s)
    assert found.step_s(4) == pytest.approx(0.020)


def test_no_costs_without_answers() -> None:
    assert costs(lab([CODE, CODE_4]), "code", 0.0, "draft-dspark") is None
    assert sweeps(lab([CODE, CODE_4])) == ()


def test_a_sweep_names_the_best_length_and_its_ties() -> None:
    # tokens a step over its time: 2/14 ms, 3/16, 4/18 and 4/20 ms
    (found,) = sweeps(sweep_lab({4: 3, 3: 3, 2: 2, 1: 1}))
    assert [point.n_max for point in found.points] == [1, 2, 3, 4]
    assert (found.best, found.ties) == (3, ())
    assert found.points[2].ratio == pytest.approx(4 / 0.018 * 0.010, rel=0.03)
    assert found.points[3].acceptance == pytest.approx(0.75)
    assert found.break_even == pytest.approx((0.018 / 0.010 - 1) / 3)
    for point in found.points:
        assert point.acceptance is not None
        assert point.break_even is not None
        assert (point.acceptance > point.break_even) is (point.ratio > 1)


def test_lengths_that_are_not_told_apart_are_ties() -> None:
    made = measured(
        {
            ("code", PLAIN, 0.0): [100.0, 100.0, 100.0],
            ("code", Method("draft-dspark", 2), 0.0): [150.0, 149.0, 151.0],
            ("code", Method("draft-dspark", 3), 0.0): [151.0, 150.0, 152.0],
            ("code", Method("draft-dspark", 4), 0.0): [110.0, 111.0, 110.0],
            ("code", Method("draft-dspark", 4, 0.5), 0.0): [190.0, 190.0, 190.0],
        }
    )
    (found,) = sweeps(made)
    assert (found.best, found.ties) == (3, (2,)), "variants are no lengths"


def test_the_effect_of_temperature() -> None:
    made = measured(
        {
            ("code", PLAIN, 0.0): [100.0],
            ("code", PLAIN, 1.0): [100.0],
            ("code", DSPARK, 0.0): [150.0],
            ("code", DSPARK, 1.0): [120.0],
            ("code", TABLE, 0.0): [100.0],
        }
    )
    effect = {method.name: [one.ratio for one in known] for _, method, known in temperature_effect(made)}
    assert effect == {"plain": [1.0, 1.0], "dspark 4": [1.5, 1.2]}
    assert len(all_figures(made)) == 5


def test_each_going_on_adds_the_same_time() -> None:
    plan = replace(lab([CODE]).plan, budget_s=60.0)
    second = with_budget(plan, None, 61.0)
    third = with_budget(second, None, 122.0)
    assert (second.budget_s, third.budget_s) == (121.0, 182.0)
    assert with_budget(third, 0.5, 200.0).budget_s == 230.0
    assert with_budget(replace(plan, budget_s=None), None, 10.0).budget_s is None


def test_what_comes_next_in_a_large_lab_is_known_at_once() -> None:
    methods = [PLAIN, *(Method("draft-dspark", length) for length in range(1, 13))]
    cells = [Cell(kind, method, at) for kind in KINDS for method in methods for at in (0.0, 1.0)]
    runs = [run(cell, block, 100.0 + block) for block in range(1, 12) for cell in cells]
    large = lab(cells, runs, least=3, most=12)
    begun = time.perf_counter()
    assert len(wanted(large)) == 0  # every interval is narrow
    assert time.perf_counter() - begun < 1.5  # it holds up the page
