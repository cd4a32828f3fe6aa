"""What the engine's owner publishes and lends, as values."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from launcher.client.http import EngineClient
from launcher.errors import EngineDied, LauncherError
from launcher.ladder import Rung
from launcher.plan import LaunchPlan
from launcher.supervise.server import Server


@dataclass(frozen=True)
class Status:
    """What the page shows. ``phase``: preparing, starting, ready, stopping, stopped or failed.

    ``message`` is a sentence for people; ``error`` and ``remedy`` are set when phase is failed, with ``cause``, a
    diagnosis' name. ``steps``: what was tried since the last start that somebody asked for, in order, as sentences;
    ``warnings``: what that changed, and what is wrong with the running engine all the same; ``inactive``: speculation
    was asked for and it does not speculate. ``busy_with`` names who holds the engine ("chat", "race", ...), or is
    empty; ``waiting`` counts those in line behind. ``pid`` is the engine's process.
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
    steps: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    inactive: bool = False
    cause: str = ""


@dataclass(frozen=True)
class Lease:
    """The right to use the running engine until the ``async with`` block ends. ``server``: the process behind it, where
    there is one of ours."""

    client: EngineClient
    plan: LaunchPlan
    server: Server | None = field(default=None, repr=False, compare=False)


def lease_of(server: Server) -> Lease:
    """The right to use ``server``, which is ready."""
    return Lease(EngineClient(server.base_url, api_key=server.api_key), server.plan, server)


class Workshop:
    """All engines for one borrower, who measures: any plan can be asked for until the lease ends."""

    def __init__(
        self, ensure: Callable[[LaunchPlan, bool], Awaitable[Lease]], loaded: Callable[[], int]
    ) -> None:
        self._ensure, self._loaded = ensure, loaded

    async def engine(self, plan: LaunchPlan, *, fresh: bool = False) -> Lease:
        """The running server of ``plan``, started when it is not; others stay loaded if memory allows it. ``fresh``:
        one that is running is ended first. Raises LauncherError when it cannot start."""
        return await self._ensure(plan, fresh)

    def loaded(self) -> int:
        """How many engines are loaded now."""
        return self._loaded()


@dataclass
class Job:
    """Work for the owner's thread, asked for by a workshop."""

    run: Callable[[], Lease]
    future: Future[Lease] = field(default_factory=Future)

    def do(self) -> None:
        """On the owner's thread."""
        if self.future.set_running_or_notify_cancel():
            try:
                self.future.set_result(self.run())
            except Exception as error:  # the borrower's business; the owner's thread must go on
                self.future.set_exception(for_people(error))


class Jobs:
    """Not thread-safe: the lock of its owner guards it."""

    def __init__(self) -> None:
        self._waiting: deque[Job] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, run: Callable[[], Lease]) -> Future[Lease]:
        """``run`` stands behind all others; its outcome."""
        job = Job(run)
        self._waiting.append(job)
        return job.future

    def take(self) -> Job | None:
        """The first, if any."""
        return self._waiting.popleft() if self._waiting else None

    def drop(self) -> None:
        """Nobody waits for them any more."""
        while self._waiting:
            self._waiting.popleft().future.cancel()


class Prepare(Protocol):
    """Makes the plan: ``speculative`` True or False: with or without the drafter; None: as the settings say.
    ``rungs``: what an earlier attempt has taught, to be applied. May raise LauncherError."""

    def __call__(self, speculative: bool | None, rungs: tuple[Rung, ...], /) -> LaunchPlan: ...


def for_people(error: Exception) -> LauncherError:
    """``error`` itself if it is meant for people, else a sentence about a fault of ours, which goes to stderr."""
    if isinstance(error, LauncherError):
        return error
    traceback.print_exception(error)
    what = f"Bonsai itself failed: {type(error).__name__}: {error}"
    return LauncherError(what, "Try again; if it stays so, report it with what the terminal shows.")


def stood_still(server: Server) -> EngineDied:
    """The end of an engine that lived on without answering."""
    return EngineDied(
        "The engine stopped answering and was ended.",
        f"The whole log is in {server.log_path}.",
        log_tail=server.log_tail(30),
    )
