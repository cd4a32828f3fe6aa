"""A lifecycle without a process: lends the engine at an address, one at a time, and does as it is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from launcher.client.http import EngineClient
from launcher.errors import LauncherError
from launcher.lifecycle import Lease, Lifecycle, Status, Workshop
from launcher.plan import LaunchPlan, make_plan
from launcher.resolved import Resolved
from launcher.settings import resolve
from tests import plans


def a_plan(*, speculative: bool = True, practice: bool = True, drafter: bool = True) -> LaunchPlan:
    parts: Resolved = plans.resolved(drafter=plans.DRAFTER if drafter else None)
    parts = replace(parts, practice=practice)
    return make_plan(resolve({}, {"BONSAI_SPECULATIVE": "1" if speculative else "0"}), plans.MACHINE, parts)


class FakeWorkshop(Workshop):
    """All engines are loaded: the one at ``url``, and for plans that draft the one at ``drafting``."""

    def __init__(self, url: str, drafting: str) -> None:
        self._urls = url, drafting

    async def engine(self, plan: LaunchPlan, *, fresh: bool = False) -> Lease:  # noqa: ARG002
        return Lease(EngineClient(self._urls[plan.spec_type != "none"]), plan)

    def loaded(self) -> int:
        return 2


class FakeLifecycle(Lifecycle):
    """Ready from the start, unless ``phase`` says otherwise. ``started`` keeps what ``start`` was asked for.
    ``drafting`` is the address of the engine that races use for speculation."""

    drafting = ""

    def __init__(self, url: str, plan: LaunchPlan | None = None, phase: str = "ready") -> None:
        self.url = url
        self.plan = plan or a_plan()
        self.started: list[bool | None] = []
        self.error: LauncherError | None = None
        self._lock = asyncio.Lock()
        self._listeners: list[Callable[[Status], None]] = []
        self._state = Status(
            phase, "Ready.", self.plan, self.plan.speculation_requested, log_path="engine.log"
        )

    def status(self) -> Status:
        return self._state

    def on_change(self, callback: Callable[[Status], None]) -> Callable[[], None]:
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback)

    def become(self, **changes: Any) -> None:
        """Change the status and tell it from another thread, as the real owner does."""
        self._state = replace(self._state, **changes)
        thread = threading.Thread(target=lambda: [tell(self._state) for tell in list(self._listeners)])
        thread.start()
        thread.join()

    def start(self, speculative: bool | None = None) -> None:
        self.started.append(speculative)
        if speculative is not None:
            self.plan = a_plan(speculative=speculative)
        self.become(phase="ready", message="Ready.", error="", remedy="", plan=self.plan)

    @asynccontextmanager
    async def lease(self, who: str) -> AsyncIterator[Lease]:
        if self.error is not None:
            raise self.error
        async with self._lock:
            self.become(busy_with=who)
            try:
                yield Lease(EngineClient(self.url), self.plan)
            finally:
                self.become(busy_with="")

    @asynccontextmanager
    async def workshop(self, who: str) -> AsyncIterator[Workshop]:
        async with self.lease(who):
            yield FakeWorkshop(self.url, self.drafting or self.url)

    def log_tail(self, lines: int = 200) -> str:
        return "\n".join(["main: server is listening", "srv  log: <b>one line</b>"][-lines:])

    def close(self) -> None:
        self._listeners.clear()
