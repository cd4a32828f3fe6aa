"""Runs a lab for the page: waits for the engines, keeps each answer at once, and shows every tab that looks how it goes.

A lab outlives a reload: it belongs to the page, not to a tab. When no tab has looked for a while, it ends after the
running answer, and can be gone on with.
"""

from __future__ import annotations

import asyncio
import statistics
from typing import Any

from launcher.errors import LauncherError, StoreError
from launcher.lab import Stop, run_lab
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
from launcher.lifecycle import Lifecycle
from launcher.methods import PLAIN
from launcher.plan import LaunchPlan
from webui.lab_views import result_view, row_view, rows_view
from webui.race_run import WAIT_SHOWN_AFTER_S, waiting_for
from webui.stream import Frame, Outbox

PATIENCE_S = 60.0  # without a tab that looks


class RunningLab:
    """``run`` it once; everything else may be called at any time, from the same event loop.

    Frames: ``lab`` is how it stands as a whole (for a tab that begins to look), then what changes: ``wait`` and
    ``prepare`` (sentences), ``block``, ``cell`` (a measured answer begins), ``done`` (a row of the table), ``note``,
    and at the end ``over`` with the result or ``broken``.
    """

    def __init__(
        self,
        spec: LabSpec,
        lab: Lab,
        lifecycle: Lifecycle,
        store: LabStore,
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.id = lab.id
        self._spec, self._lab = spec, lab
        self._lifecycle, self._store = lifecycle, store
        self._patience_s = patience_s
        self._stop = Stop()
        self._places = {cell: at for at, cell in enumerate(lab.plan.cells)}
        self._tabs: set[Outbox] = set()
        self._now: dict[str, Any] = {"block": 1, "at": 0, "of": 0, "key": None, "phase": "", "notes": []}
        self._line: asyncio.Task[None] | None = None
        self._inside = False
        self._lonely: asyncio.TimerHandle | None = None
        self._keeper = _Keeper(store)

    def watch(self) -> Outbox:
        """A new outbox that is told everything from now on, how it stands first. ``leave`` it in the end."""
        outbox = Outbox()
        outbox.put({"lab": self._standing()})
        self._tabs.add(outbox)
        self._count_tabs()
        return outbox

    def plain_speed(self) -> tuple[LaunchPlan, float] | None:
        """The plan of plain decoding, and its speed over all that was measured, tokens a second; None without any."""
        rates = [run.rate for run in self._lab.runs if run.cell.method == PLAIN]
        return (self._spec.launches[PLAIN], statistics.median(rates)) if rates else None

    def leave(self, outbox: Outbox) -> None:
        """Nobody looks at ``outbox`` any more."""
        self._tabs.discard(outbox)
        self._count_tabs()

    def stop(self, *, now: bool) -> None:
        """End after the running answer, or at once; what was measured is kept."""
        if now:
            self._stop.now()
        else:
            self._stop.after_round()
        if not self._inside and self._line is not None:
            self._line.cancel()

    async def run(self) -> None:
        """Measure until it is over; every outbox is closed then."""
        self._count_tabs()
        self._line = asyncio.ensure_future(self._work())
        try:
            if self._stop.between_rounds:
                self._line.cancel()
            await self._line
        except asyncio.CancelledError:
            self._line.cancel()
            self._tell({"broken": {"error": "Stopped before the lab began.", "remedy": ""}})
        except LauncherError as problem:
            self._tell({"broken": {"error": problem.what, "remedy": problem.remedy}})
        finally:
            if self._lonely is not None:
                self._lonely.cancel()
            for outbox in list(self._tabs):
                outbox.close()

    async def _work(self) -> None:
        reporter = asyncio.ensure_future(self._report_waiting())
        try:
            async with self._lifecycle.workshop("lab") as workshop:
                self._inside = True
                reporter.cancel()
                lab = await run_lab(
                    workshop, self._spec, self._take, self._stop, save=self._keep, lab=self._lab
                )
        finally:
            reporter.cancel()
            problem = await self._keeper.close()
        if problem is not None:
            self._note(problem)
        self._tell({"over": result_view(lab), "kept": problem is None})

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
                self._tell({"lab": self._standing()})

    def _note(self, text: str) -> None:
        self._now["notes"].append(text)
        self._tell({"note": text})

    def _standing(self) -> dict[str, Any]:
        """How it stands as a whole."""
        plan = self._lab.plan
        return {
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

    async def _report_waiting(self) -> None:
        """Say why nothing happens yet."""
        said = ""
        await asyncio.sleep(WAIT_SHOWN_AFTER_S)
        while True:
            text = waiting_for(self._lifecycle.status())
            if text != said:
                said = self._now["phase"] = text
                self._tell({"wait": text})
            await asyncio.sleep(WAIT_SHOWN_AFTER_S)

    def _tell(self, frame: Frame) -> None:
        for outbox in self._tabs:
            outbox.put(frame)

    def _count_tabs(self) -> None:
        if self._lonely is not None:
            self._lonely.cancel()
            self._lonely = None
        if not self._tabs:
            loop = asyncio.get_running_loop()
            self._lonely = loop.call_later(self._patience_s, lambda: self.stop(now=False))


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
