"""The lab: every cell of a matrix measured alike, block by block, until it is known well enough. No page in it.

A block measures each cell that is still open once, plain decoding always among them: a ratio compares answers of one
block, so that a machine that warms up or slows down does not pass for a method. In each block every engine is started
at most once and serves all its cells; engines, and cells on an engine, are in random order (plain first in the first
block, so that a lab that ends early has what to compare with). Each finished answer is kept at once.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from launcher.errors import LauncherError
from launcher.lab_stats import figures, places_of, wanted
from launcher.lab_types import (
    BlockStarted,
    Cell,
    CellDone,
    CellRun,
    CellStarted,
    EnginePreparing,
    Lab,
    LabEnded,
    LabEvent,
    LabNote,
    LabSpec,
    LabStarted,
    Refused,
)
from launcher.measure import Bench, Engines, Stop, StoppedError, measured_request, side_of
from launcher.methods import PLAIN, Method
from launcher.race_record import Recorder

__all__ = ["Stop", "new_lab", "next_block", "run_lab"]

OnEvent = Callable[[LabEvent], None]
Save = Callable[[Lab], None]


def new_lab(spec: LabSpec) -> Lab:
    """A lab that has measured nothing yet, under a fresh random id."""
    return Lab(
        id=secrets.token_hex(8),
        created=time.time(),
        subject=spec.subject,
        plan=spec.plan,
        refused=spec.refused,
        sides=tuple(side_of(launch) for launch in spec.launches.values()),
    )


async def run_lab(
    engines: Engines,
    spec: LabSpec,
    on_event: OnEvent = lambda _: None,
    stop: Stop | None = None,
    *,
    save: Save = lambda _: None,
    lab: Lab | None = None,
) -> Lab:
    """Measure, and tell everything to ``on_event``, which must be quick.

    ``lab``: one to go on with, of the same plan; what it has is not measured again. ``save`` gets the lab after every
    answer; a LauncherError of it is told, and the lab goes on. A method whose engine fails is left out and named in
    ``failures``; where plain decoding fails, the lab ends as "failed".
    """
    return await _Runner(engines, spec, on_event, stop or Stop(), save, lab or new_lab(spec)).run()


def next_block(lab: Lab) -> tuple[int, tuple[Cell, ...]]:
    """The number of the block that is under way or comes next, and its cells that have no run yet, in order; none when
    all is known."""
    last = max((run.block for run in lab.runs), default=0)
    if last:
        done = {run.cell for run in lab.runs if run.block == last}
        before = replace(lab, runs=tuple(run for run in lab.runs if run.block != last))
        left = [cell for cell in wanted(before) if cell not in done]
        if left:
            return last, in_order(left, lab.plan.seed, last)
    return last + 1, in_order(wanted(lab), lab.plan.seed, last + 1)


def in_order(cells: Sequence[Cell], seed: int, block: int) -> tuple[Cell, ...]:
    """``cells`` by method, methods and cells shuffled; the same for the same cells, seed and block."""
    chance = random.Random(f"{seed}/{block}")  # noqa: S311 -- an order, no secret
    methods = sorted({cell.method for cell in cells}, key=lambda method: method.name)
    chance.shuffle(methods)
    if block == 1:
        methods.sort(key=lambda method: method != PLAIN)
    ordered: list[Cell] = []
    for method in methods:
        own = [cell for cell in cells if cell.method == method]
        chance.shuffle(own)
        ordered += own
    return tuple(ordered)


class _OverError(Exception):
    """The lab ends before all is known; the text is Lab.ended."""


class _Runner:
    """One part of a lab, from a start to an end."""

    def __init__(
        self, engines: Engines, spec: LabSpec, on_event: OnEvent, stop: Stop, save: Save, lab: Lab
    ) -> None:
        self._spec, self._tell, self._stop, self._save = spec, on_event, stop, save
        self._bench = Bench(engines, stop)
        # What failed in an earlier part is tried again.
        self._lab = replace(lab, ended="", problem="", remedy="", failures=())
        self._began = time.monotonic() - lab.spent_s
        self._kept = True

    async def run(self) -> Lab:
        """Measure until it ends, however that is; the lab as it was told last."""
        left = sum(1 for cell in self._lab.plan.cells if not self._lab.of(cell))
        self._tell(LabStarted(self._lab, left))
        ended, problem = "", LauncherError("")
        try:
            ended = await self._blocks()
        except _OverError as over:
            ended = str(over)
        except StoppedError:
            ended = "stopped"
        except LauncherError as error:
            ended, problem = "failed", error
        self._keep(ended=ended, problem=problem.what, remedy=problem.remedy)
        self._tell(LabEnded(self._lab))
        return self._lab

    async def _blocks(self) -> str:
        """Measure block after block; returns why it ended."""
        while True:
            number, cells = next_block(self._lab)
            if not cells:
                break
            self._tell(BlockStarted(number, len(cells)))
            for at, cell in enumerate(cells, start=1):
                await self._cell(cell, number, at, len(cells))
        others = [cell for cell in self._lab.plan.cells if cell.method != PLAIN]
        narrow = all(figures(self._lab, cell).narrow for cell in others or self._lab.plan.cells)
        return "sure" if narrow and not self._lab.failures else "runs"

    async def _cell(self, cell: Cell, block: int, at: int, of: int) -> None:
        if any(failure.method == cell.method for failure in self._lab.failures):
            return
        budget = self._lab.plan.budget_s
        if budget is not None and time.monotonic() - self._began >= budget:
            raise _OverError("budget")
        if self._stop.between_rounds:
            raise _OverError("stopped")
        try:
            run = await self._measure(cell, block, at, of)
        except LauncherError as error:
            if cell.method == PLAIN:
                raise LauncherError(f"{_named(cell)}: {error.what}", error.remedy) from error
            self._leave_out(cell.method, error)
            return
        self._keep(runs=(*self._lab.runs, run))
        self._tell(CellDone(run, figures(self._lab, cell)))

    async def _measure(self, cell: Cell, block: int, at: int, of: int) -> CellRun:
        plan = self._spec.plan
        prompt = plan.prompt(cell.kind)
        request = measured_request(
            prompt.text,
            max_tokens=plan.max_tokens,
            temperature=cell.temperature,
            seed=plan.seed,
            thinking=prompt.kind == "thinking" if plan.thinking is None else plan.thinking,
        )
        lease, _ = await self._bench.ready(
            self._spec.launches[cell.method],
            request,
            cell.method.name,
            lambda message: self._tell(EnginePreparing(cell.method, message)),
        )
        self._tell(CellStarted(cell, block, at, of))
        recorder = Recorder(0, block, time.time())
        await self._bench.answer(lease, request, recorder)
        run = recorder.run()
        if not run.counts:
            raise LauncherError("The answer was too short to have a speed.", "Ask for something longer.")
        return CellRun(
            cell=cell,
            block=block,
            timings=run.timings,
            text=run.whole,
            places=places_of(run.steps, cell.method),
            ended=run.ended,
            started=run.started,
        )

    def _leave_out(self, method: Method, error: LauncherError) -> None:
        self._keep(failures=(*self._lab.failures, Refused(method, error.what)))
        self._tell(LabNote(f"{method.name} is left out: {error.what} {error.remedy}".strip()))

    def _keep(self, **changes: object) -> None:
        spent = time.monotonic() - self._began
        self._lab = replace(self._lab, spent_s=round(spent, 3), **changes)  # type: ignore[arg-type]
        try:
            self._save(self._lab)
        except LauncherError as error:
            if self._kept:
                self._tell(LabNote(f"This lab is not kept. {error}"))
            self._kept = False


def _named(cell: Cell) -> str:
    return f"{cell.method.name}, {cell.kind}, temperature {cell.temperature:g}"
