"""What a lab and a search for advice are on the page: a turn on the engines that every tab may watch.

It outlives a reload: it belongs to the page, not to a tab. When no tab has looked for a while, it ends after the running
answer.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Any

from launcher.lifecycle import Lifecycle
from launcher.plan import LaunchPlan
from webui.stream import Frame, Outbox
from webui.turn import Turn

PATIENCE_S = 60.0  # without a tab that looks


class Watched(Turn):
    """Any number of tabs may ``watch`` it. Frames besides: how it stands as a whole, for a tab that begins to look, and
    ``note``."""

    user = "lab"
    source = ""  # for the time ledger: "a lab", "the advisor"

    def __init__(self, id_: str, lifecycle: Lifecycle, patience_s: float) -> None:
        super().__init__(lifecycle)
        self.id = id_
        self._patience_s = patience_s
        self._now: dict[str, Any] = {"phase": "", "notes": []}
        self._tabs: set[Outbox] = set()
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

    async def run(self) -> None:
        self._count_tabs()
        await super().run()

    @abstractmethod
    def plain_speed(self) -> tuple[LaunchPlan, float] | None:
        """The plan of plain decoding, and its speed over all that was measured, tokens a second; None without any."""

    @abstractmethod
    def _standing(self) -> Frame:
        """How it stands as a whole."""

    def _waits(self, text: str) -> None:
        self._now["phase"] = text
        super()._waits(text)

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

    async def _close(self) -> None:
        if self._lonely is not None:
            self._lonely.cancel()
        for outbox in list(self._tabs):
            outbox.close()
