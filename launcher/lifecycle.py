"""The one owner of what is running: starts, lends and stops the engine, and publishes its Status."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from launcher.client.http import EngineClient
from launcher.errors import LauncherError
from launcher.plan import LaunchPlan
from launcher.supervise.server import Server

WATCH_S = 0.5  # how soon the death of an idle engine is noticed


@dataclass(frozen=True)
class Status:
    """What the page shows. ``phase``: preparing, starting, ready, stopping, stopped or failed.

    ``message`` is a sentence for people; ``error`` and ``remedy`` are set when phase is failed.
    ``busy_with`` names who holds the engine ("chat", "race", ...), or is empty; ``waiting`` counts
    those in line behind. ``pid`` is the engine's process.
    """

    phase: str
    message: str
    plan: LaunchPlan | None = None
    speculative: bool = False
    error: str = ""
    remedy: str = ""
    log_path: str = ""
    busy_with: str = ""
    waiting: int = 0
    pid: int | None = None


@dataclass(frozen=True)
class Lease:
    """The right to use the running engine until the ``async with`` block ends."""

    client: EngineClient
    plan: LaunchPlan


@dataclass
class _Request:
    who: str
    future: Future[Lease] = field(default_factory=Future)


class Lifecycle:
    """Thread-safe. All starting and stopping happens on one thread of its own, which lives as long as
    the engine may: on Linux a child dies with the thread that started it.

    ``prepare`` makes the plan (True or False: with or without the drafter; None: as the settings say);
    ``serve`` makes the server for a plan. Both run on the owner's thread and may raise LauncherError.
    """

    def __init__(
        self, prepare: Callable[[bool | None], LaunchPlan], serve: Callable[[LaunchPlan], Server]
    ) -> None:
        self._prepare = prepare
        self._serve = serve
        self._changed = threading.Condition()
        self._status = Status("stopped", "The engine is not running.")
        self._callbacks: list[Callable[[Status], None]] = []
        self._speculative: bool | None = None
        self._wanted = False
        self._closing = threading.Event()
        self._server: Server | None = None
        self._holder = ""
        self._line: deque[_Request] = deque()
        self._thread = threading.Thread(target=self._own, name="engine-owner", daemon=True)
        self._thread.start()

    def status(self) -> Status:
        """What is running now."""
        with self._changed:
            return self._status

    def on_change(self, callback: Callable[[Status], None]) -> Callable[[], None]:
        """Call ``callback`` (from any thread; it must be quick) on every change; returns the way to stop that."""
        with self._changed:
            self._callbacks.append(callback)

        def stop() -> None:
            with self._changed, contextlib.suppress(ValueError):
                self._callbacks.remove(callback)

        return stop

    def start(self, speculative: bool | None = None) -> None:
        """Ask for a running engine, with or without the drafter (None: as it was). Returns at once;
        an answer that is running is waited for."""
        with self._changed:
            if speculative is not None:
                self._speculative = speculative
            self._wanted = True
            if self._holder:
                self._publish(message="The engine restarts when the running answer has ended or is stopped.")
            self._changed.notify_all()

    @asynccontextmanager
    async def lease(self, who: str) -> AsyncIterator[Lease]:
        """Wait until the engine is ready and free, then lend it: one at a time, first come, first served.

        An engine that died or failed is started again once. Raises LauncherError when it cannot start.
        """
        request = _Request(who)
        with self._changed:
            self._line.append(request)
            if self._status.phase in ("failed", "stopped"):
                self._wanted = True
            self._lend()
            self._changed.notify_all()
        try:
            lease = await asyncio.wrap_future(request.future)
        except asyncio.CancelledError:
            with self._changed:
                if request.future.done() and not request.future.cancelled():
                    self._release()
                elif request in self._line:
                    self._line.remove(request)
                    self._publish()
            raise
        try:
            yield lease
        finally:
            with self._changed:
                self._release()

    def log_tail(self, lines: int = 200) -> str:
        """The engine log's last lines, empty when no engine was started."""
        server = self._server
        return server.log_tail(lines) if server else ""

    def close(self) -> None:
        """Stop the engine and the owner's thread; returns when the engine's process is gone."""
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join()

    # What follows runs with the lock held, or on the owner's thread alone where it says so.

    def _publish(self, **changes: object) -> None:
        changes = {"busy_with": self._holder, "waiting": len(self._line), **changes}
        self._status = replace(self._status, **changes)  # type: ignore[arg-type]
        for callback in list(self._callbacks):
            callback(self._status)

    def _lend(self) -> None:
        server = self._server
        while (
            self._line and not self._holder and not self._wanted and self._status.phase == "ready" and server
        ):
            request = self._line.popleft()
            if request.future.set_running_or_notify_cancel():
                self._holder = request.who
                client = EngineClient(server.base_url, api_key=server.api_key)
                request.future.set_result(Lease(client, server.plan))
        self._publish()

    def _release(self) -> None:
        self._holder = ""
        self._lend()
        self._changed.notify_all()

    def _own(self) -> None:
        """The owner's thread."""
        while not self._closing.is_set():
            with self._changed:
                self._changed.wait_for(
                    lambda: self._closing.is_set() or (self._wanted and not self._holder), WATCH_S
                )
                begin = self._wanted and not self._holder and not self._closing.is_set()
            if begin:
                self._bring_up()
            elif self._server and self._status.phase == "ready" and not self._server.alive:
                self._fail(self._server.death())
        if self._server:
            self._server.stop()
        with self._changed:
            self._publish(phase="stopped", message="The engine was stopped.", pid=None)
            for request in self._line:
                request.future.cancel()

    def _bring_up(self) -> None:
        """On the owner's thread: plan, stop what runs when it is another plan, start."""
        with self._changed:
            self._wanted = False
            speculative = self._speculative
            self._publish(phase="preparing", message="Looking for engine and model …", error="", remedy="")
        try:
            plan = self._prepare(speculative)
            if self._server and self._server.alive and self._server.plan == plan:
                self._ready(self._server)
                return
            if self._server:
                self._tell(phase="stopping", message="Stopping the engine …", pid=None)
                self._server.stop()
            self._server = server = self._serve(plan)
            self._tell(
                phase="starting",
                message="Starting the engine …",
                plan=plan,
                speculative=plan.speculation_requested,
                log_path=str(server.log_path),
            )
            server.start(self._closing, lambda message: self._tell(message=message))
        except LauncherError as error:
            self._fail(error)
        else:
            if not self._closing.is_set():
                self._ready(server)

    def _tell(self, **changes: object) -> None:
        with self._changed:
            self._publish(**changes)

    def _ready(self, server: Server) -> None:
        with self._changed:
            self._publish(phase="ready", message="Ready.", pid=server.pid, plan=server.plan)
            self._lend()

    def _fail(self, error: LauncherError) -> None:
        with self._changed:
            self._publish(phase="failed", message=error.what, error=error.what, remedy=error.remedy, pid=None)
            while self._line:
                request = self._line.popleft()
                if request.future.set_running_or_notify_cancel():
                    request.future.set_exception(error)
            self._publish()
