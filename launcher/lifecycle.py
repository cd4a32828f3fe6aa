"""The one owner of what is running: starts, lends and stops the engine, and publishes its Status."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import traceback
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


class Workshop:
    """All engines for one borrower, who measures: any plan can be asked for until the lease ends."""

    def __init__(self, owner: Lifecycle) -> None:
        self._owner = owner

    async def engine(self, plan: LaunchPlan) -> Lease:
        """The running server of ``plan``, started when it is not; others stay loaded if memory allows it.
        Raises LauncherError when it cannot start."""
        return await self._owner._work(lambda: self._owner._ensure(plan))

    def loaded(self) -> int:
        """How many engines are loaded now."""
        return len(self._owner._servers)


@dataclass
class _Request:
    """Somebody in line. ``all_engines``: for a workshop, which needs no ready engine to begin with."""

    who: str
    all_engines: bool = False
    future: Future[Lease | Workshop] = field(default_factory=Future)


@dataclass
class _Job:
    """Work for the owner's thread, asked for by a workshop."""

    run: Callable[[], Lease]
    future: Future[Lease] = field(default_factory=Future)


class Lifecycle:
    """Thread-safe. All starting and stopping happens on one thread of its own, which lives as long as
    the engine may: on Linux a child dies with the thread that started it.

    ``prepare`` makes the plan (True or False: with or without the drafter; None: as the settings say);
    ``serve`` makes the server for a plan. Both run on the owner's thread and may raise LauncherError.
    ``may_keep(loaded, wanted)`` says whether a loaded server may stay while a measurement starts another.
    """

    def __init__(
        self,
        prepare: Callable[[bool | None], LaunchPlan],
        serve: Callable[[LaunchPlan], Server],
        may_keep: Callable[[LaunchPlan, LaunchPlan], bool] = lambda loaded, wanted: False,  # noqa: ARG005
    ) -> None:
        self._prepare = prepare
        self._serve = serve
        self._may_keep = may_keep
        self._changed = threading.Condition()
        self._status = Status("stopped", "The engine is not running.")
        self._callbacks: list[Callable[[Status], None]] = []
        self._speculative: bool | None = None
        self._wanted = False
        self._closing = threading.Event()
        self._server: Server | None = None  # the chat's
        self._latest: Server | None = None  # the last that was started, for its log
        self._servers: dict[LaunchPlan, Server] = {}  # all that were started and not stopped
        self._jobs: deque[_Job] = deque()
        self._holder = ""
        self._holds_all = False
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
        async with self._in_line(_Request(who)) as lease:
            assert isinstance(lease, Lease)  # noqa: S101 -- what _lend gives to such a request
            yield lease

    @asynccontextmanager
    async def workshop(self, who: str) -> AsyncIterator[Workshop]:
        """Wait until the engine is free, then lend all engines for measuring; chats wait until it ends,
        when the chat's own engine is brought back."""
        async with self._in_line(_Request(who, all_engines=True)) as workshop:
            assert isinstance(workshop, Workshop)  # noqa: S101 -- what _lend gives to such a request
            yield workshop

    @asynccontextmanager
    async def _in_line(self, request: _Request) -> AsyncIterator[Lease | Workshop]:
        with self._changed:
            self._line.append(request)
            if self._status.phase in ("failed", "stopped") and not self._holder and not request.all_engines:
                self._wanted = True
            self._lend()
            self._changed.notify_all()
        try:
            lent = await asyncio.wrap_future(request.future)
        except asyncio.CancelledError:
            with self._changed:
                if request.future.done() and not request.future.cancelled():
                    self._release()
                elif request in self._line:
                    self._line.remove(request)
                    self._publish()
            raise
        try:
            yield lent
        finally:
            with self._changed:
                self._release()

    def log_tail(self, lines: int = 200) -> str:
        """The engine log's last lines, empty when no engine was started."""
        server = self._latest
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
        while self._line and not self._holder and self._may_lend(self._line[0]):
            request = self._line.popleft()
            if request.future.set_running_or_notify_cancel():
                self._holder, self._holds_all = request.who, request.all_engines
                server = self._server
                lent = Workshop(self) if request.all_engines or server is None else _lease(server)
                request.future.set_result(lent)
        self._publish()

    def _may_lend(self, request: _Request) -> bool:
        if request.all_engines:
            return self._status.phase in ("ready", "failed", "stopped")
        return self._status.phase == "ready" and not self._wanted and self._server is not None

    def _release(self) -> None:
        if self._holds_all:
            self._wanted = True  # the chat's engine may have been stopped for the measurement
            for job in self._jobs:
                job.future.cancel()
            self._jobs.clear()
        self._holder, self._holds_all = "", False
        self._lend()
        self._changed.notify_all()

    async def _work(self, run: Callable[[], Lease]) -> Lease:
        """Have the owner's thread do ``run``; giving up drops what it would have returned."""
        job = _Job(run)
        with self._changed:
            self._jobs.append(job)
            self._changed.notify_all()
        return await asyncio.wrap_future(job.future)

    def _own(self) -> None:
        """The owner's thread."""
        while not self._closing.is_set():
            with self._changed:
                self._changed.wait_for(
                    lambda: self._closing.is_set() or self._jobs or (self._wanted and not self._holder),
                    WATCH_S,
                )
                begin = self._wanted and not self._holder and not self._closing.is_set()
                job = self._jobs.popleft() if self._jobs else None
            if job:
                self._do(job)
            elif begin:
                self._bring_up()
            elif (
                self._server
                and self._status.phase == "ready"
                and not self._server.alive
                and not self._holds_all
            ):
                self._fail(self._server.death())
        self._stop_all()
        with self._changed:
            self._publish(phase="stopped", message="The engine was stopped.", pid=None)
            for request in self._line:
                request.future.cancel()

    def _do(self, job: _Job) -> None:
        """On the owner's thread."""
        if job.future.set_running_or_notify_cancel():
            try:
                job.future.set_result(job.run())
            except Exception as error:  # the borrower's business; this thread must go on
                job.future.set_exception(_for_people(error))

    def _ensure(self, plan: LaunchPlan) -> Lease:
        """On the owner's thread: the server of ``plan`` for a workshop."""
        server = self._servers.get(plan)
        if server is None or not server.alive:
            self._stop_all(but=lambda loaded: self._may_keep(loaded, plan))
            server = self._start(plan, lambda message: self._tell(message=f"{self._holder}: {message}"))
            self._tell(message=f"The {self._holder} has the engines; the chat waits.")
        return _lease(server)

    def _start(self, plan: LaunchPlan, progress: Callable[[str], None]) -> Server:
        """On the owner's thread."""
        self._latest = self._servers[plan] = server = self._serve(plan)
        self._tell(log_path=str(server.log_path))
        try:
            server.start(self._closing, progress)
        except LauncherError:
            self._servers.pop(plan, None)
            raise
        return server

    def _stop_all(self, but: Callable[[LaunchPlan], bool] = lambda plan: False) -> None:  # noqa: ARG005
        """On the owner's thread: returns when they are gone, so that their memory is free."""
        for plan, server in list(self._servers.items()):
            if not (server.alive and but(plan)):
                server.stop()
                del self._servers[plan]

    def _bring_up(self) -> None:
        """On the owner's thread: plan the chat's engine, stop what else runs, start."""
        with self._changed:
            self._wanted = False
            speculative = self._speculative
            # Even a plan that will be refused was asked for: the page's switch can then take it back.
            asked = {} if speculative is None else {"speculative": speculative}
            looking = "Looking for engine and model …"
            self._publish(phase="preparing", message=looking, error="", remedy="", **asked)
        try:
            plan = self._prepare(speculative)
            if self._servers and plan not in self._servers:
                self._tell(phase="stopping", message="Stopping the engine …", pid=None)
            self._stop_all(but=lambda loaded: loaded == plan)
            if plan in self._servers:
                self._server = self._servers[plan]
                self._server.plan = plan  # equal, but its reasons may be those of a measurement
            else:
                self._tell(
                    phase="starting",
                    message="Starting the engine …",
                    plan=plan,
                    speculative=plan.speculation_requested,
                )
                self._server = self._start(plan, lambda message: self._tell(message=message))
        except Exception as error:  # without this thread nothing would ever start again
            self._fail(_for_people(error))
        else:
            if not self._closing.is_set():
                self._ready(self._server)

    def _tell(self, **changes: object) -> None:
        with self._changed:
            self._publish(**changes)

    def _ready(self, server: Server) -> None:
        with self._changed:
            self._publish(
                phase="ready",
                message="Ready.",
                pid=server.pid,
                plan=server.plan,
                speculative=server.plan.speculation_requested,
                log_path=str(server.log_path),
            )
            self._lend()

    def _fail(self, error: LauncherError) -> None:
        with self._changed:
            self._publish(phase="failed", message=error.what, error=error.what, remedy=error.remedy, pid=None)
            while self._line:
                request = self._line.popleft()
                if request.future.set_running_or_notify_cancel():
                    request.future.set_exception(error)
            self._publish()


def _for_people(error: Exception) -> LauncherError:
    """``error`` itself if it is meant for people, else a sentence about a fault of ours, which goes to stderr."""
    if isinstance(error, LauncherError):
        return error
    traceback.print_exception(error)
    what = f"Bonsai itself failed: {type(error).__name__}: {error}"
    return LauncherError(what, "Try again; if it stays so, report it with what the terminal shows.")


def _lease(server: Server) -> Lease:
    return Lease(EngineClient(server.base_url, api_key=server.api_key), server.plan)
