"""Pure: from a lab's answers to the figures of its cells, to costs, break-even points and sweeps.

A cell's ratio is its speed over that of plain decoding in the same block, the median over the blocks, with the
interval of race_stats. Costs: an answer of P tokens of which A were drafted and accepted took P - 1 - A steps (each
adds one token of the target's own, and the first token comes with the prompt), so its decoding time over its steps is
the time of one step, drafting and verifying together. Over several draft lengths that time is fitted by a line,
fixed + each * k, k being the tokens that a step drafted on average, by least squares on the relative error. A step
that drafts k tokens and has the share a of them accepted yields 1 + a k tokens, so it is as fast as plain decoding,
which takes ``plain`` a token, where 1 + a k = (fixed + each k) / plain: that a is the break-even acceptance.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from launcher.lab_types import Cell, CellFigures, CellRun, Costs, Lab, LabPlan, Place, Sweep, SweepPoint
from launcher.methods import PLAIN, Method
from launcher.race_stats import spread
from launcher.race_types import Step


def all_figures(lab: Lab) -> tuple[CellFigures, ...]:
    """The figures of every cell that has a run, in the order of the plan."""
    found = (figures(lab, cell) for cell in lab.plan.cells)
    return tuple(one for one in found if one.runs)


def figures(lab: Lab, cell: Cell) -> CellFigures:
    """What is known of ``cell``."""
    runs = lab.of(cell)
    if not runs:
        return CellFigures(cell, 0)
    confidence = lab.plan.confidence
    baseline = {run.block: run for run in lab.of(cell.baseline)}
    pairs = [(run, baseline[run.block]) for run in runs if run.block in baseline]
    ratio, interval = None, None
    speeds = [run.rate for run in runs]
    speed_spread = spread(speeds, confidence)
    if cell.method == PLAIN:
        ratio, interval = 1.0, (1.0, 1.0)
    elif pairs:
        ratios = [run.rate / plain.rate for run, plain in pairs]
        ratio, interval = statistics.median(ratios), spread(ratios, confidence)
    return CellFigures(
        cell=cell,
        runs=len(runs),
        tokens_per_second=statistics.median(speeds),
        speed_spread=speed_spread,
        ratio=ratio,
        spread=interval,
        acceptance=acceptance(runs),
        acceptance_by_place=by_place(runs),
        tokens_per_step=_tokens_per_step(runs),
        step_s=statistics.median([run.step_s for run in runs if run.step_s is not None] or [0.0]) or None,
        identical=_identical(pairs, cell),
        narrow=is_narrow(speed_spread if cell.method == PLAIN else interval, lab.plan.precision),
    )


def is_narrow(interval: tuple[float, float] | None, precision: float) -> bool:
    """Whether ``interval`` reaches no further than ``precision`` (0.05: 5 %) from its middle, up or down."""
    if interval is None:
        return False
    low, high = interval
    return math.sqrt(high / low) <= 1 + precision


def acceptance(runs: Iterable[CellRun]) -> float | None:
    """Accepted over drafted tokens of all runs together; None when nothing was drafted."""
    drafted = accepted = 0
    for run in runs:
        drafted, accepted = drafted + run.drafted, accepted + run.accepted
    return accepted / drafted if drafted else None


def by_place(runs: Iterable[CellRun]) -> tuple[float, ...] | None:
    """For each place in the draft the share of steps that kept it, among those whose draft reached it."""
    totals: list[list[int]] = []
    for run in runs:
        for at, place in enumerate(run.places):
            if at == len(totals):
                totals.append([0, 0])
            totals[at][0] += place.reached
            totals[at][1] += place.kept
    return tuple(kept / reached for reached, kept in totals if reached) or None


def places_of(steps: Sequence[Step], method: Method) -> tuple[Place, ...]:
    """The places of one answer. Steps that are longer than the method drafts are several that were told as one; where
    there is no draft length (phrase tables, mixes), places tell nothing."""
    if method.draft_max is None or len(method.types) > 1:
        return ()
    told = [step for step in steps if 0 < step.drafted <= method.draft_max]
    return tuple(
        Place(sum(step.drafted > at for step in told), sum(step.accepted > at for step in told))
        for at in range(max((step.drafted for step in told), default=0))
    )


def _tokens_per_step(runs: Sequence[CellRun]) -> float | None:
    steps = sum(run.steps for run in runs)
    return sum(run.timings.predicted_tokens - 1 for run in runs) / steps if steps else None


def _identical(pairs: Sequence[tuple[CellRun, CellRun]], cell: Cell) -> bool | None:
    if cell.temperature > 0 or not pairs:
        return None
    return all(run.text == plain.text for run, plain in pairs)


# --- what is still to be measured -----------------------------------------------------------------------


def wanted(lab: Lab) -> tuple[Cell, ...]:
    """The cells that need one more run, their baselines among them; empty when all is known.

    A cell needs ``least`` runs, and more until its interval is narrow or it has ``most``.
    """
    plan = lab.plan
    failed = {failure.method for failure in lab.failures}
    cells = [cell for cell in plan.cells if cell.method not in failed]
    others = [cell for cell in cells if cell.method != PLAIN]
    open_ = {cell for cell in others if _open(lab, cell)}
    alone = {cell.baseline for cell in cells} - {cell.baseline for cell in others}
    open_ |= {cell for cell in alone if _open(lab, cell)}
    open_ |= {cell.baseline for cell in open_}
    return tuple(cell for cell in cells if cell in open_)


def _open(lab: Lab, cell: Cell) -> bool:
    plan, found = lab.plan, figures(lab, cell)
    counted = sum(1 for run in lab.of(cell) if _has_baseline(lab, run))
    if counted < plan.least:
        return found.runs < plan.most
    return counted < plan.most and not found.narrow


def _has_baseline(lab: Lab, run: CellRun) -> bool:
    if run.cell.method == PLAIN:
        return True
    return any(plain.block == run.block for plain in lab.of(run.cell.baseline))


# --- draft lengths --------------------------------------------------------------------------------------


def costs(lab: Lab, kind: str, temperature: float, spec_type: str) -> Costs | None:
    """The costs of ``spec_type`` on one kind of text, from every length measured; None when no step was timed.

    With one length only, the line goes through a plain step for no draft: drafting is then charged by the token.
    """
    plain = [run.step_s for run in lab.of(Cell(kind, PLAIN, temperature)) if run.step_s]
    points = []
    for cell in _lengths(lab.plan, kind, temperature, spec_type):
        timed = [(run.draft_length, run.step_s) for run in lab.of(cell) if run.drafted and run.step_s]
        if timed:
            points.append((statistics.median(x for x, _ in timed), statistics.median(y for _, y in timed)))
    if not plain or not points:
        return None
    plain_s = statistics.median(plain)
    if len({round(x, 3) for x, _ in points}) < 2:
        drafted, step_s = points[0]
        return Costs(plain_s, plain_s, (step_s - plain_s) / drafted)
    return Costs(plain_s, *_line(points))


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """(fixed, each) of least squares on the relative error: weights 1/y^2."""
    weights = [1 / y**2 for _, y in points]
    total = sum(weights)
    x_mean = sum(w * x for w, (x, _) in zip(weights, points, strict=True)) / total
    y_mean = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / total
    over = sum(w * (x - x_mean) * (y - y_mean) for w, (x, y) in zip(weights, points, strict=True))
    under = sum(w * (x - x_mean) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    each = over / under
    return y_mean - each * x_mean, each


def _lengths(plan: LabPlan, kind: str, temperature: float, spec_type: str) -> list[Cell]:
    return [
        cell
        for cell in plan.cells
        if cell.kind == kind
        and cell.temperature == temperature
        and cell.method.draft_max is not None
        and cell.method == Method(spec_type, cell.method.draft_max)
    ]


def sweeps(lab: Lab) -> tuple[Sweep, ...]:
    """One for each kind of text, temperature and type of drafter that was measured, shortest draft first."""
    found = []
    keys = dict.fromkeys(
        (cell.kind, cell.temperature, cell.method.spec_type)
        for cell in lab.plan.cells
        if cell.method.draft_max is not None
    )
    for kind, temperature, spec_type in keys:
        cost = costs(lab, kind, temperature, spec_type)
        points = []
        for cell in _lengths(lab.plan, kind, temperature, spec_type):
            known, length = figures(lab, cell), cell.method.draft_max
            if known.ratio is None or known.spread is None or known.tokens_per_second is None or not length:
                continue
            even = cost.break_even(length) if cost else None
            points.append(
                SweepPoint(length, known.tokens_per_second, known.ratio, known.spread, known.acceptance, even)
            )
        if points:
            points.sort(key=lambda point: point.n_max)
            found.append(_sweep(kind, spec_type, temperature, points, cost))
    return tuple(found)


def _sweep(
    kind: str, spec_type: str, temperature: float, points: Sequence[SweepPoint], cost: Costs | None
) -> Sweep:
    best = max(points, key=lambda point: point.ratio)
    ties = [point.n_max for point in points if point is not best and point.spread[1] >= best.spread[0]]
    return Sweep(kind, spec_type, temperature, tuple(points), best.n_max, tuple(ties), best.break_even, cost)


def temperature_effect(lab: Lab) -> tuple[tuple[str, Method, tuple[CellFigures, ...]], ...]:
    """(kind, method, figures at each temperature) of what was measured at more than one."""
    found = []
    for kind, method in dict.fromkeys((cell.kind, cell.method) for cell in lab.plan.cells):
        known = tuple(one for one in all_figures(lab) if one.cell.kind == kind and one.cell.method == method)
        if len(known) > 1:
            found.append((kind, method, tuple(sorted(known, key=lambda one: one.cell.temperature))))
    return tuple(found)
