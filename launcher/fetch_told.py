"""How a fetch stands: changed by whoever works at it, on any thread, and told to whoever listens."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from launcher.fetch_types import FetchState
from launcher.wants import total

PUBLISH_S = 0.1  # between two reports of mere progress


class Told:
    """The state of one fetch. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._telling = threading.RLock()
        self._state = FetchState("idle", (), None, 0)
        self._callbacks: list[Callable[[FetchState], None]] = []
        self._broken: list[Callable[[FetchState], None]] = []  # those that raised something
        self._published = 0.0
        self._sticky: dict[str, str] = {}  # notes that stay, by part

    def state(self) -> FetchState:
        """How far it is."""
        with self._lock:
            return self._state

    def on_change(self, callback: Callable[[FetchState], None]) -> Callable[[], None]:
        """``callback`` hears of every change, the newest last, on the thread that made it: it must not wait for
        anything. One that raises is complained of once. The returned function ends that."""
        with self._lock:
            self._callbacks.append(callback)

        def off() -> None:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

        return off

    def _stop(self, failed: str = "waiting") -> None:
        """Nothing is under way any more: what was becomes ``failed``."""
        with self._lock:
            items = tuple(
                item
                if item.state in ("done", "waiting", "found")
                else replace(item, state=failed, rate=None, left_s=None, note=self._sticky.get(item.part, ""))
                for item in self._state.items
            )
            self._state = replace(self._state, items=items)

    def _change(self, part: str, *, quiet: bool = False, **changes: object) -> None:
        """Change one item; ``quiet``: mere progress, which is told ten times a second at most."""
        with self._lock:
            items = tuple(
                replace(item, **changes) if item.part == part else item  # type: ignore[arg-type]
                for item in self._state.items
            )
            moving = "checking" if self._state.phase == "checking" else "running"
            rate = next((item.rate for item in items if item.state == moving), None)
            size, have = total([item.total for item in items]), sum(item.have for item in items)
            left = (size - have) / rate if rate and size is not None else None
            self._state = replace(self._state, items=items, total=size, have=have, rate=rate, left_s=left)
            now = time.monotonic()
            if quiet and now - self._published < PUBLISH_S:
                return
            self._published = now
        self._tell()

    def _tell(self, only_from: tuple[str, ...] = (), **changes: object) -> None:
        """Change the state and tell it; ``only_from``: nothing when its phase is none of these."""
        with self._telling:  # so that nobody hears an older state after a newer one
            with self._lock:
                if only_from and self._state.phase not in only_from:
                    return
                self._state = replace(self._state, **changes)  # type: ignore[arg-type]
                state, callbacks = self._state, list(self._callbacks)
            for callback in callbacks:
                try:
                    callback(state)
                except Exception as error:  # a listener that broke down must not take the fetch with it
                    self._complain(callback, error)

    def _complain(self, callback: Callable[[FetchState], None], error: Exception) -> None:
        """On stderr, once: it hears of every change."""
        if callback not in self._broken:
            self._broken.append(callback)
            with suppress(Exception):  # it may be stderr itself that cannot be written
                traceback.print_exception(error)
