"""What a lab and a search for advice are on the page: waiting for the engines, telling every tab that looks, and ending.

It outlives a reload: it belongs to the page, not to a tab. When no tab has looked for a while, it ends after the running
answer.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any

from launcher.errors import LauncherError
from launcher.lab import Stop
from launcher.lifecycle import Lifecycle, Workshop
from launcher.plan import LaunchPlan
from webui.race_run import WAIT_SHOWN_AFTER_S, waiting_for
from webui.stream import Frame, Outbox

PATIENCE_S = 60.0  # without a tab that looks


class Watched(ABC):
    """``run`` it once; everything else may be called at any time, from the same event loop.

    Frames: how it stands as a whole (for a tab that begins to look), then what changes: ``wait`` (a sentence), ``note``
    and what the kind of measurement tells; at the end its result or ``broken``.
    """

    name = ""  # for people: "lab", "search"
    source = ""  # for the time ledger: "a lab", "the advisor"

    def __init__(self, id_: str, lifecycle: Lifecycle, patience_s: float) -> None:
        self.id = id_
        self._lifecycle, self._patience_s = lifecycle, patience_s
        self._stop = Stop()
        self._now: dict[str, Any] = {"phase": "", "notes": []}
        self._inside = False
        self._tabs: set[Outbox] = set()
        self._line: asyncio.Task[None] | None = None
        self._lonely: asyncio.TimerHandle | None = None

    def watch(self) -> Outbox:
        """A new outbox that is told everything from now on, how it stands first. ``leave`` it in the end."""
        outbox = Outbox()
        outbox.put(self._standing())
        self._tabs.add(outbox)
        self._count_tabs()
        return outbox

    def leave(self, outbox: Outbox) -> None:
        """Nobody looks at ``outbox`` any more."""
        self._tabs.discard(outbox)
        self._count_tabs()

    def stop(self, *, now: bool) -> None:
        """End after the running answer, or at once; what was measured counts."""
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
            self._tell({"broken": {"error": f"Stopped before the {self.name} began.", "remedy": ""}})
        except LauncherError as problem:
            self._tell({"broken": {"error": problem.what, "remedy": problem.remedy}})
        finally:
            if self._lonely is not None:
                self._lonely.cancel()
            for outbox in list(self._tabs):
                outbox.close()

    @abstractmethod
    def plain_speed(self) -> tuple[LaunchPlan, float] | None:
        """The plan of plain decoding, and its speed over all that was measured, tokens a second; None without any."""

    @abstractmethod
    def _standing(self) -> Frame:
        """How it stands as a whole."""

    @abstractmethod
    async def _measure(self, workshop: Workshop) -> None:
        """Everything that needs the engines."""

    @abstractmethod
    def _result(self) -> Frame:
        """What is told last."""

    async def _work(self) -> None:
        reporter = asyncio.ensure_future(self._report_waiting())
        try:
            async with self._lifecycle.workshop("lab") as workshop:
                self._inside = True
                reporter.cancel()
                await self._measure(workshop)
        finally:
            reporter.cancel()
        self._tell(self._result())

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

    def _note(self, text: str) -> None:
        self._now["notes"].append(text)
        self._tell({"note": text})

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
