"""The one thread that starts engines, and never ends: on Linux a child dies with the thread that started it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
_Work = tuple[Callable[[], Any], Future[Any]]


class Spawner:
    """Does work one after the other on a thread that lives as long as this process."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._begin = threading.Lock()
        self._thread: threading.Thread | None = None

    def do(self, work: Callable[[], T]) -> T:
        """``work()``, done on that thread; what it raises is raised here."""
        with self._begin:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="spawner", daemon=True)
                self._thread.start()
        done: Future[T] = Future()
        self._work.put((work, done))
        return done.result()

    def _run(self) -> None:
        while True:
            work, done = self._work.get()
            try:
                done.set_result(work())
            except BaseException as error:  # the asker's business; this thread must go on
                done.set_exception(error)
            del work, done


spawn = Spawner().do
