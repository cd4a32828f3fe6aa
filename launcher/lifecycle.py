"""The one owner of what is running: starts, lends and stops the engine, and publishes its Status."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from launcher.climb import NO_REMARKS, Climb, Climber, Prove, Setbacks
from launcher.errors import EngineDied, LauncherError
from launcher.fleet import Fleet
from launcher.health import HealthWatch, Patience, still_there
from launcher.ladder import Rescue
from launcher.lifecycle_types import (
    Jobs,
    Lease,
    Prepare,
    Status,
    Workshop,
    for_people,
    lease_of,
    stood_still,
)
from launcher.line import Line, Request
from launcher.plan import LaunchPlan
from launcher.supervise.server import Server

__all__ = ["Lease", "Lifecycle", "Status", "Workshop"]

WATCH_S = 0.5  # how soon the death of an idle engine is noticed
BUSY_PHASES = ("preparing", "stopping", "starting")


class Lifecycle:
    """Thread-safe. All starting and stopping happens on one thread of its own.

    ``prepare`` makes the plan, ``serve`` the server for a plan; both run on the owner's thread and may raise
    LauncherError. ``may_keep(loaded, wanted)`` says whether a loaded server may stay while a measurement starts another.
    ``rescue`` knows what to try when an engine fails, ``prove`` asks it a question before it is called ready (None: no
    question), ``patience`` says when a silent one counts as hung, ``settle(plan, sleep)`` waits for an ended one's memory.
    """

    def __init__(
        self,
        prepare: Prepare,
        serve: Callable[[LaunchPlan], Server],
        may_keep: Callable[[LaunchPlan, LaunchPlan], bool] = lambda loaded, wanted: False,  # noqa: ARG005
        *,
        rescue: Rescue = Rescue(),  # noqa: B008 -- a frozen value
        prove: Prove | None = None,
        patience: Patience = Patience(),  # noqa: B008
        settle: Callable[[LaunchPlan, Callable[[float], object]], object] = lambda plan, sleep: None,  # noqa: ARG005
    ) -> None:
        self._serve = serve
        self._may_keep = may_keep
        self._settle = settle
        self._changed = threading.Condition()
        self._status = Status("stopped", "The engine is not running.")
        self._callbacks: list[Callable[[Status], None]] = []
        self._speculative: bool | None = None
        self._wish = ""  # "new": somebody asked for a start; "resume": bring back what was; else empty
        self._closing = threading.Event()
        self._break_off = threading.Event()  # ends a start that is under way
        self._server: Server | None = None  # the chat's
        self._latest: Server | None = None  # the last that was started, for its log
        self._fleet = Fleet()
        self._hung: set[Server] = set()
        self._jobs = Jobs()
        self._at_work = False  # on a job
        self._line: Line[Lease | Workshop] = Line()
        self._climb = Climb()
        self._setbacks = Setbacks()
        self._climber = Climber(
            prepare,
            self._start_for_chat,
            lambda: self._latest,
            lambda server: server in self._hung,
            self._tell,
            rescue,
            prove,
        )
        self._thread = threading.Thread(target=self._own, name="engine-owner", daemon=True)
        self._thread.start()
        self._watch = HealthWatch(lambda: self._fleet.answering, self._is_hung, patience)

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
        """Ask for a running engine, with or without the drafter (None: as it was). Returns at once; an answer that is
        running is waited for, a start that is under way for the other choice is broken off."""
        with self._changed:
            if speculative is not None:
                if speculative != self._speculative and self._status.phase in BUSY_PHASES:
                    self._break_off.set()
                self._speculative = speculative
            self._wish = "new"
            if self._line.holder:
                self._publish(message="The engine restarts when the running answer has ended or is stopped.")
            self._changed.notify_all()

    @asynccontextmanager
    async def lease(self, who: str) -> AsyncIterator[Lease]:
        """Wait until the engine is ready and free, then lend it: one at a time, first come, first served.

        An engine that failed is started again. Raises LauncherError when it cannot start.
        """
        for again in (False, True):
            async with self._in_line(Request(who, again=again)) as lease:
                assert isinstance(lease, Lease)  # noqa: S101 -- what _lend gives to such a request
                if again or self._closing.is_set() or await still_there(lease.server, lease.client):
                    yield lease
                    return

    @asynccontextmanager
    async def workshop(self, who: str) -> AsyncIterator[Workshop]:
        """Wait until the engine is free, then lend all engines for measuring; chats wait until it ends,
        when the chat's own engine is brought back."""
        async with self._in_line(Request(who, all_engines=True)) as workshop:
            assert isinstance(workshop, Workshop)  # noqa: S101 -- what _lend gives to such a request
            yield workshop

    @asynccontextmanager
    async def _in_line(self, request: Request[Lease | Workshop]) -> AsyncIterator[Lease | Workshop]:
        with self._changed:
            self._refuse_after_the_end()
            self._line.join(request)
            idle = self._status.phase in ("failed", "stopped") and not self._line.holder
            if idle and not request.all_engines:
                self._wish = "new"
            self._lend()
            self._changed.notify_all()
        try:
            lent = await asyncio.wrap_future(request.future)
        except asyncio.CancelledError:
            with self._changed:
                if self._line.leave(request):
                    self._release()
                else:
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
        self._break_off.set()
        with self._changed:
            self._changed.notify_all()
        self._watch.close()
        self._thread.join()

    # What follows runs with the lock held, or on the owner's thread alone where it says so.

    def _publish(self, **changes: object) -> None:
        changes = {"busy_with": self._line.holder, "waiting": len(self._line), **changes}
        self._status = replace(self._status, **changes)  # type: ignore[arg-type]
        for callback in list(self._callbacks):
            try:
                callback(self._status)
            except Exception as error:  # a listener that broke down must not take the owner with it
                for_people(error)

    def _lend(self) -> None:
        self._line.lend(self._may_lend, self._lent)
        self._publish()

    def _may_lend(self, request: Request[Lease | Workshop]) -> bool:
        if request.all_engines:
            return self._status.phase in ("ready", "failed", "stopped")
        alive = self._server is not None and self._server.alive  # a death may not have been noticed yet
        return alive and self._status.phase == "ready" and not self._wish

    def _lent(self, request: Request[Lease | Workshop]) -> Lease | Workshop:
        if request.all_engines or self._server is None:
            return Workshop(self._borrow, lambda: len(self._fleet))
        return lease_of(self._server)

    def _release(self) -> None:
        if self._line.holds_all:
            if self._status.phase != "stopped" or len(self._line):  # else nobody asked for a chat
                self._wish = self._wish or "resume"
            self._jobs.drop()
            if self._at_work:
                self._break_off.set()  # nobody waits for the engine that is being loaded
            self._climb.tried = self._climb.in_force()
        else:
            self._setbacks.served(time.monotonic())
        self._line.release()
        self._lend()
        self._changed.notify_all()

    async def _borrow(self, plan: LaunchPlan, fresh: bool) -> Lease:
        """Have the owner's thread ensure it; giving up drops what it would have returned."""
        with self._changed:
            self._refuse_after_the_end()
            future = self._jobs.add(lambda: self._ensure(plan, fresh))
            self._changed.notify_all()
        return await asyncio.wrap_future(future)

    def _refuse_after_the_end(self) -> None:
        if self._closing.is_set():
            raise LauncherError("Bonsai is ending.", "Start it again.")

    def _is_hung(self, server: Server) -> None:
        """On the watch's thread."""
        with self._changed:
            self._hung.add(server)
            self._changed.notify_all()

    def _own(self) -> None:
        """The owner's thread."""
        while not self._closing.is_set():
            with self._changed:
                self._changed.wait_for(self._has_work, WATCH_S)
                job = self._jobs.take()
                self._at_work = job is not None
                if job and not self._closing.is_set():
                    self._break_off.clear()
            try:
                self._bury()
            except Exception as error:  # without this thread nothing would ever start again
                self._fail(for_people(error))
            if job:
                job.do()
                self._at_work = False
            elif self._wish and not self._line.holder and not self._closing.is_set():
                self._bring_up()
        self._fleet.stop_all()
        with self._changed:
            self._publish(phase="stopped", message="The engine was stopped.", pid=None)
            self._line.cancel_all()
            self._jobs.drop()

    def _has_work(self) -> bool:
        return bool(
            self._closing.is_set()
            or self._jobs
            or self._hung
            or (self._wish and not self._line.holder)
            or not all(server.alive for server in self._fleet.answering)
        )

    def _bury(self) -> None:
        """On the owner's thread: end engines that hang, and see to those that are gone."""
        with self._changed:
            # One that has ended meanwhile did not hang: its exit status tells more.
            hung, self._hung = {it for it in self._hung & set(self._fleet.answering) if it.alive}, set()
        for server in hung:
            server.stop(at_once=True)
        # One that not even SIGKILL ends is stuck in the kernel: it is given up all the same.
        for server in [it for it in self._fleet.answering if not it.alive or it in hung]:
            self._fleet.stop(server)
            if server is self._server and not self._line.holds_all:
                self._lost(server, stood_still(server) if server in hung else server.death())

    def _lost(self, server: Server, error: EngineDied) -> None:
        """On the owner's thread: the chat's engine, which was ready, is gone."""
        self._server = None
        try:
            self._climber.died(self._climb, self._setbacks.died(time.monotonic()), error, server)
        except Exception as failure:  # without this thread nothing would ever start again
            self._fail(for_people(failure))
        else:
            with self._changed:
                self._wish = self._wish or "resume"

    def _ensure(self, plan: LaunchPlan, fresh: bool) -> Lease:
        """On the owner's thread: the server of ``plan`` for a workshop; ``fresh``: in any case a new one."""
        server = self._fleet.of(plan)
        if fresh and server is not None:
            self._fleet.stop(server)
        if server is None or not server.alive:
            self._fleet.stop_all(but=lambda loaded: self._may_keep(loaded, plan))
            self._await_memory(plan)
            try:
                server = self._start(plan, lambda text: self._tell(message=f"{self._line.holder}: {text}"))
            except EngineDied as error:
                raise self._climber.explained(error, plan) from error
            self._tell(message=f"The {self._line.holder} has the engines; the chat waits.")
        return lease_of(server)

    def _start(self, plan: LaunchPlan, progress: Callable[[str], None]) -> Server:
        """On the owner's thread."""
        self._latest = server = self._serve(plan)
        self._fleet.add(plan, server)
        self._tell(log_path=str(server.log_path))
        try:
            server.start(self._break_off, progress)
        except LauncherError:
            self._fleet.stop(server)
            raise
        self._fleet.is_ready(server)  # also when it has ended since: then its death is seen to
        return server

    def _start_for_chat(self, plan: LaunchPlan) -> Server:
        """On the owner's thread: the one server of ``plan``; all others are stopped."""
        if len(self._fleet) and self._fleet.of(plan) is None:
            self._tell(phase="stopping", message="Stopping the engine …", pid=None)
        self._fleet.stop_all(but=lambda loaded: loaded == plan)
        there = self._fleet.of(plan)
        if there is not None:
            return there
        self._await_memory(plan)
        asked = plan.speculation_requested
        self._tell(phase="starting", message="Starting the engine …", plan=plan, speculative=asked)
        return self._start(plan, lambda message: self._tell(message=message))

    def _await_memory(self, plan: LaunchPlan) -> None:
        """On the owner's thread: ``plan`` is about to be started; what an ended engine had may not be free yet."""
        if self._latest is not None:
            self._settle(plan, self._break_off.wait)

    def _bring_up(self) -> None:
        """On the owner's thread: plan the chat's engine, stop what else runs, start."""
        with self._changed:
            if self._line.holder:  # lent for measuring since somebody looked; the wish stays
                return
            if self._wish == "new":
                self._climb, self._setbacks = Climb(self._speculative), Setbacks()
            self._wish = ""
            self._break_off.clear()
            if self._closing.is_set():
                self._break_off.set()
            speculative = self._climb.speculative
            # Even a plan that will be refused was asked for: the page's switch can then take it back.
            asked = {} if speculative is None else {"speculative": speculative}
            clean = {"error": "", "remedy": "", "cause": "", "steps": self._climb.steps, **NO_REMARKS}
            self._publish(phase="preparing", message="Looking for engine and model …", **clean, **asked)
        try:
            server = self._climber.run(self._climb, self._break_off.is_set)
        except Exception as error:  # without this thread nothing would ever start again
            with self._changed:  # where it was broken off, another start is wished for
                if not self._break_off.is_set():
                    self._fail(for_people(error))
        else:
            with self._changed:
                if not self._break_off.is_set():
                    self._ready(server)

    def _tell(self, **changes: object) -> None:
        with self._changed:
            self._publish(**changes)

    def _ready(self, server: Server) -> None:
        """With the lock held."""
        self._server = server
        self._setbacks.ready(time.monotonic())
        self._publish(
            phase="ready",
            message="Ready.",
            pid=server.pid,
            plan=server.plan,
            speculative=server.plan.speculation_requested,
            log_path=str(server.log_path),
            steps=self._climb.steps,
            **self._climber.remarks(self._climb, server),
        )
        self._lend()

    def _fail(self, error: LauncherError) -> None:
        with self._changed:
            self._publish(
                phase="failed",
                message=error.what,
                error=error.what,
                remedy=error.remedy,
                cause=self._climb.cause,
                steps=self._climb.steps,
                pid=None,
            )
            self._line.refuse_all(error)
            self._publish()
