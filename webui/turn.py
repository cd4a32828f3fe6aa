"""A measurement's turn on the engines: waits for it and says why, measures, and can be stopped at any time."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

from launcher.errors import LauncherError
from launcher.lifecycle import Lifecycle, Status, Workshop
from launcher.race import Stop
from webui.stream import Frame

WAIT_SHOWN_AFTER_S = 0.2


class Turn(ABC):
    """``run`` it once; ``stop`` may be called at any time, from the same event loop.

    Frames: ``wait`` (a sentence), what the kind of measurement tells, and at the end its result or ``broken``.
    """

    name = ""  # for people: "race", "lab", "search"
    user = ""  # who has the engines meanwhile, as Status.busy_with calls it

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._stop = Stop()
        self._line: asyncio.Task[None] | None = None
        self._inside = False

    def stop(self, *, now: bool) -> None:
        """End after the running answer or round, or at once: the engine's connection then closes. What was measured
        counts."""
        if now:
            self._stop.now()
        else:
            self._stop.after_round()
        if not self._inside and self._line is not None:
            self._line.cancel()

    async def run(self) -> None:
        """Measure until it is over; what is told is closed then."""
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
            await self._close()

    @abstractmethod
    async def _measure(self, workshop: Workshop) -> None:
        """Everything that needs the engines."""

    @abstractmethod
    async def _result(self) -> Frame:
        """What is told last; the engines are free again."""

    @abstractmethod
    def _tell(self, frame: Frame) -> None:
        """Pass ``frame`` on to who looks."""

    @abstractmethod
    async def _close(self) -> None:
        """It is over, however it ended."""

    async def _work(self) -> None:
        reporter = asyncio.ensure_future(say_why(lambda: waiting_for(self._lifecycle.status()), self._waits))
        try:
            async with self._lifecycle.workshop(self.user) as workshop:
                self._inside = True
                reporter.cancel()
                await self._measure(workshop)
        finally:
            reporter.cancel()
        self._tell(await self._result())

    def _waits(self, text: str) -> None:
        self._tell({"wait": text})


async def say_why(why: Callable[[], str], tell: Callable[[str], None]) -> None:
    """Tell why nothing comes yet, after a moment and whenever the sentence changes; until it is cancelled."""
    said = ""
    await asyncio.sleep(WAIT_SHOWN_AFTER_S)
    while True:
        text = why()
        if text != said:
            said = text
            tell(text)
        await asyncio.sleep(WAIT_SHOWN_AFTER_S)


def waiting_for(status: Status) -> str:
    """A sentence for somebody whose turn has not come."""
    who = {"chat": "answer", "race": "race", "lab": "lab"}.get(status.busy_with, status.busy_with)
    if who:
        return f"Waits for the running {who}."
    return "The engine is free in a moment." if status.phase == "ready" else status.message
