"""Whole values of a lab for tests that need no engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from launcher.client.events import Timings
from launcher.lab_types import Cell, CellRun, Costs, Lab, LabPlan, Place, Refused, Subject
from launcher.methods import PLAIN, Method
from launcher.race_prompts import lab_prompt
from launcher.race_types import Side
from tests.launcher.race_samples import side

DSPARK = Method("draft-dspark", 4)
SUBJECT = Subject(
    practice=False,
    facts=(("Model", "a target"), ("Target", "target.gguf"), ("Engine", "own b1")),
    marks=(("target", "t"), ("drafter", "d"), ("engine", "e"), ("machine", "m"), ("setting", "s")),
)


def run(
    cell: Cell,
    block: int,
    rate: float,
    *,
    tokens: int = 100,
    drafted: int = 0,
    accepted: int = 0,
    text: str = "one two",
    places: Sequence[tuple[int, int]] = (),
) -> CellRun:
    """An answer of ``tokens`` at ``rate``."""
    return CellRun(
        cell,
        block,
        Timings(
            predicted_tokens=tokens,
            tokens_per_second=rate,
            draft_n=drafted or None,
            draft_n_accepted=accepted if drafted else None,
        ),
        text,
        tuple(Place(*place) for place in places),
        started=1.7e9 + block,
    )


def costly(cell: Cell, block: int, costs: Costs, *, accept: int, steps: int = 40) -> CellRun:
    """An answer whose every step drafts its whole length and keeps ``accept`` of it."""
    length = cell.method.draft_max or 0
    tokens = 1 + steps * (1 + accept)
    step_s = costs.step_s(length) if length else costs.plain_s
    return run(
        cell,
        block,
        tokens / (steps * step_s),
        tokens=tokens,
        drafted=length * steps,
        accepted=accept * steps,
        places=[(steps, steps if at < accept else 0) for at in range(length)],
    )


def lab(
    cells: Sequence[Cell], runs: Sequence[CellRun] = (), *, sides: Sequence[Side] = (), **plan: object
) -> Lab:
    """A lab of ``cells``; ``plan`` are fields of LabPlan."""
    kinds = dict.fromkeys(cell.kind for cell in cells)
    made = LabPlan(tuple(cells), tuple(lab_prompt(kind) for kind in kinds))
    return Lab(
        id="0123456789abcdef",
        created=1.7e9,
        subject=SUBJECT,
        plan=replace(made, **plan),  # type: ignore[arg-type]
        runs=tuple(runs),
        sides=tuple(sides) or (side(), side(DSPARK)),
        refused=(Refused(Method("draft-mtp"), "It has no heads."),),
        ended="runs",
        spent_s=12.5,
    )


def measured(
    rates: Mapping[tuple[str, Method, float], Sequence[float]], *, drafted: int = 80, accepted: int = 60
) -> Lab:
    """A lab of the given speeds, block after block, by (kind, method, temperature)."""
    cells = [Cell(*key) for key in rates]
    runs = []
    for key, speeds in rates.items():
        counts = (0, 0) if key[1] == PLAIN else (drafted, accepted)
        for block, rate in enumerate(speeds, start=1):
            runs.append(run(Cell(*key), block, rate, drafted=counts[0], accepted=counts[1]))
    return lab(cells, runs)
