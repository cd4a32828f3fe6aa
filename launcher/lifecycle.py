"""The one owner of what is running: starts, lends and stops the engine, and publishes its Status."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from launcher.client.http import EngineClient
from launcher.plan import LaunchPlan


@dataclass(frozen=True)
class Status:
    """What the page shows. ``phase``: preparing, starting, ready, stopping, stopped or failed.

    ``message`` is a sentence for people; ``error`` and ``remedy`` are set when phase is failed.
    ``busy_with`` names who holds the engine ("chat", "race", ...), or is empty.
    """

    phase: str
    message: str
    plan: LaunchPlan | None = None
    speculative: bool = False
    error: str = ""
    remedy: str = ""
    log_path: str = ""
    busy_with: str = ""


@dataclass(frozen=True)
class Lease:
    """The right to use the running engine until the ``async with`` block ends."""

    client: EngineClient
    plan: LaunchPlan


class Lifecycle:
    """Thread-safe. All starting and stopping happens on one thread of its own."""

    def status(self) -> Status:
        raise NotImplementedError

    def on_change(self, callback: Callable[[Status], None]) -> Callable[[], None]:
        """Call ``callback`` (from the owner's thread) on every change; returns the way to stop that."""
        raise NotImplementedError

    def start(self, speculative: bool | None = None) -> None:
        """Ask for a running engine, with or without the drafter (None: as the settings say). Returns at once."""
        raise NotImplementedError

    @asynccontextmanager
    async def lease(self, who: str) -> AsyncIterator[Lease]:
        """Wait until the engine is ready and free, then lend it. Raises LauncherError when it cannot start."""
        raise NotImplementedError
        yield

    def close(self) -> None:
        """Stop the engine and the owner's thread; returns when the engine's process is gone."""
        raise NotImplementedError
