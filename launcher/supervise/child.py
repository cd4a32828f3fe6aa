"""A started process and what it started, watched from the first moment on by a thread that alone reaps it."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from typing import Protocol

LOOK_S = 0.02
KILL_S = 30.0  # after SIGKILL: only a process stuck in the kernel takes longer
LEFT_S = 2.0  # for a group whose killed members nobody reaps


class Process(Protocol):
    """What a system's own file provides; see ``_posix.Process`` for what the methods do."""

    pid: int
    unguarded: str

    def ask(self) -> bool: ...
    def force(self) -> None: ...
    def wait(self) -> None: ...
    def reap(self) -> int: ...
    def remains(self) -> bool: ...
    def release(self) -> None: ...


class Child:
    """Any thread may ask and end it. Its number is signalled only while it cannot be another's.

    ``on_end`` is called once, on the watching thread, when nothing of the process is left; after that ``ended``
    is set. ``returncode`` is known a little earlier: when the process itself has ended.
    """

    def __init__(self, process: Process, on_end: Callable[[], None]) -> None:
        self.pid = process.pid
        self.unguarded = process.unguarded
        self.returncode: int | None = None
        self.ended = threading.Event()
        self._process = process
        self._on_end = on_end
        self._lock = threading.RLock()
        self._gone = False
        self._force_at: float | None = None  # monotonic; None: nobody has asked it to end
        _LIVE.add(self)
        threading.Thread(target=self._watch, name=f"child-{self.pid}", daemon=True).start()

    @property
    def alive(self) -> bool:
        return self.returncode is None

    def stop(self, grace_s: float) -> bool:
        """Ask it to end, force it after ``grace_s`` seconds; returns when all of it is gone (True), or when not
        even SIGKILL ends it. Without any grace it is not asked: what it wrote to that would look like a cause."""
        with self._lock:
            if not self._gone:
                self._force_at = time.monotonic() + grace_s
                if grace_s <= 0 or not self._process.ask():
                    self.kill()
        if not self.ended.wait(grace_s):
            self.kill()
        return self.ended.wait(KILL_S)

    def kill(self) -> None:
        """End all of it at once; returns without waiting."""
        with self._lock:
            self._force_at = time.monotonic()
            if not self._gone:
                self._process.force()

    def _watch(self) -> None:
        self._process.wait()
        with self._lock:
            if self._force_at is None:
                # It ended by itself; what it started has nothing to live for.
                self._process.force()
                self._force_at = time.monotonic()
            self.returncode = self._process.reap()
        while not self._all_gone():
            time.sleep(LOOK_S)
        try:
            self._on_end()
        finally:
            _LIVE.discard(self)
            self.ended.set()

    def _all_gone(self) -> bool:
        with self._lock:
            late = time.monotonic() - (self._force_at or 0.0)
            if self._process.remains() and late < LEFT_S:
                if late >= 0:
                    self._process.force()
                return False
            self._gone = True
            self._process.release()
            return True


_LIVE: set[Child] = set()


def kill_all(timeout_s: float = 2.0) -> None:
    """End every child at once and wait so long at most until they are gone. Fit for a signal handler."""
    children = list(_LIVE)
    for child in children:
        child.kill()
    end = time.monotonic() + timeout_s
    while any(child in _LIVE for child in children) and time.monotonic() < end:
        time.sleep(LOOK_S)


atexit.register(kill_all)
