"""Waits for something that cannot be interrupted, without becoming uninterruptible."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

TICK_S = 0.1

T = TypeVar("T")


class _Call(Generic[T]):
    """Something that blocks, on a thread of its own."""

    def __init__(self, call: Callable[[], T], discard: Callable[[T], None]) -> None:
        self._call, self._discard = call, discard
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._left_alone = False
        self._result: list[T] = []
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="fetch-open", daemon=True).start()

    def _run(self) -> None:
        try:
            self._result.append(self._call())
        except BaseException as error:
            self._error = error
        with self._lock:
            self._done.set()
            left_alone = self._left_alone
        if left_alone:
            self._throw_away()

    def _throw_away(self) -> None:
        for result in self._result:
            self._discard(result)

    def wait(self, watch: Callable[[], None]) -> T:
        """Its result, or what it raised. When ``watch`` raises, a result is thrown away, also one that comes later."""
        try:
            while not self._done.wait(TICK_S):
                watch()
        except BaseException:
            with self._lock:
                self._left_alone = True
                late = self._done.is_set()
            if late:
                self._throw_away()
            raise
        if self._error is not None:
            raise self._error
        return self._result[0]


def patiently(call: Callable[[], T], watch: Callable[[], None], discard: Callable[[T], None]) -> T:
    """``call()``, with ``watch()`` every now and then while it takes; when that raises, a result that comes later
    goes to ``discard``."""
    return _Call(call, discard).wait(watch)
