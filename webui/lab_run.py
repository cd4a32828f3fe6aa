"""Runs a lab for the page: keeps each answer at once, and shows every tab that looks how it goes. One that ends early can be
gone on with."""

from __future__ import annotations

import asyncio
import statistics
from typing import Any

from launcher.errors import StoreError
from launcher.lab import run_lab
from launcher.lab_store import LabStore
from launcher.lab_types import (
    BlockStarted,
    CellDone,
    CellStarted,
    EnginePreparing,
    Lab,
    LabEnded,
    LabEvent,
    LabNote,
    LabSpec,
)
from launcher.lifecycle import Lifecycle, Workshop
from launcher.methods import PLAIN
from launcher.plan import LaunchPlan
from webui.lab_views import result_view, row_view, rows_view
from webui.lab_watch import PATIENCE_S, Watched
from webui.stream import Frame


class RunningLab(Watched):
    """Frames: ``lab`` is how it stands as a whole, then come ``prepare`` (sentences), ``block``, ``cell`` (a measured
    answer begins), ``done`` (a row of the table), and ``over`` with the result at the end."""

    name = "lab"
    source = "a lab"

    def __init__(
        self,
        spec: LabSpec,
        lab: Lab,
        lifecycle: Lifecycle,
        store: LabStore,
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        super().__init__(lab.id, lifecycle, patience_s)
        self._spec, self._lab = spec, lab
        self._places = {cell: at for at, cell in enumerate(lab.plan.cells)}
        self._now |= {"block": 1, "at": 0, "of": 0, "key": None}
        self._keeper = _Keeper(store)
        self._kept = True

    def plain_speed(self) -> tuple[LaunchPlan, float] | None:
        rates = [run.rate for run in self._lab.runs if run.cell.method == PLAIN]
        return (self._spec.launches[PLAIN], statistics.median(rates)) if rates else None

    async def _measure(self, workshop: Workshop) -> None:
        try:
            await run_lab(workshop, self._spec, self._take, self._stop, save=self._keep, lab=self._lab)
        finally:
            problem = await self._keeper.close()
            self._kept = problem is None
            if problem is not None:
                self._note(problem)

    async def _result(self) -> Frame:
        return {"over": result_view(self._lab), "kept": self._kept}

    def _keep(self, lab: Lab) -> None:
        self._lab = lab
        self._keeper.keep(lab)

    def _take(self, event: LabEvent) -> None:
        now = self._now
        match event:
            case BlockStarted(number, cells):
                now |= {"block": number, "at": 0, "of": cells}
                self._tell({"block": {"number": number, "cells": cells}})
            case EnginePreparing(_, message):
                now |= {"phase": message, "key": None}
                self._tell({"prepare": message})
            case CellStarted(cell, block, at, of):
                now |= {"block": block, "at": at, "of": of, "key": self._places[cell], "phase": ""}
                self._tell({"cell": {"key": now["key"], "block": block, "at": at, "of": of}})
            case CellDone(run, figures):
                now["key"] = None
                row = {**row_view(figures), "key": self._places[run.cell], "failed": False}
                self._tell({"done": {"row": row, **self._progress()}})
            case LabNote(text):
                self._note(text)
            case LabEnded():
                pass
            case _:
                self._tell(self._standing())

    def _standing(self) -> Frame:
        plan = self._lab.plan
        whole = {
            "id": self.id,
            "quick": plan.quick,
            "practice": self._lab.subject.practice,
            "rows": rows_view(self._lab),
            **self._now,
            "notes": list(self._now["notes"]),
            "least": plan.least,
            "most": plan.most,
            "precision": plan.precision,
            "confidence": plan.confidence,
            **self._progress(),
            "inside": self._inside,
        }
        return {"lab": whole}

    def _progress(self) -> dict[str, Any]:
        """How far it is. ``share``: of the time, where there is a budget, or of the least number of answers, whichever
        is more: what ends it first."""
        lab, plan = self._lab, self._lab.plan
        counts = [len(lab.of(cell)) for cell in plan.cells]
        answers = sum(min(count, plan.least) for count in counts) / (plan.least * max(len(counts), 1))
        timed = lab.spent_s / plan.budget_s if plan.budget_s else 0.0
        return {
            "measured": sum(1 for count in counts if count),
            "cells": len(counts),
            "answers": sum(counts),
            "share": min(max(answers, timed), 1.0),
            "spent_s": lab.spent_s,
            "budget_s": plan.budget_s,
        }


class _Keeper:
    """Writes the newest state of a lab, off the event loop and one after the other; older ones that still wait are left
    out."""

    def __init__(self, store: LabStore) -> None:
        self._store = store
        self._newest: Lab | None = None
        self._task: asyncio.Task[None] | None = None
        self._problem: str | None = None

    def keep(self, lab: Lab) -> None:
        """Write ``lab`` soon."""
        self._newest = lab
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._write())

    async def close(self) -> str | None:
        """Wait until all is written; a sentence when the last state could not be."""
        if self._task is not None:
            await asyncio.shield(self._task)
        return self._problem

    async def _write(self) -> None:
        while (lab := self._newest) is not None:
            self._newest = None
            try:
                await asyncio.to_thread(self._store.save, lab)
                self._problem = None
            except StoreError as problem:
                self._problem = f"This lab is not kept. {problem.what} {problem.remedy}".strip()
