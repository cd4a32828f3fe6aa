"""Who holds the engine and who waits for it: one at a time, first come, first served."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(eq=False)
class Request(Generic[T]):
    """Somebody in line. ``all_engines``: for one who measures, and needs no ready engine to begin with. ``again``: they
    had their turn, with an engine that was gone."""

    who: str
    all_engines: bool = False
    again: bool = False
    future: Future[T] = field(default_factory=Future)


class Line(Generic[T]):
    """Not thread-safe: the lock of its owner guards it. ``holder`` is empty when the engine is free."""

    def __init__(self) -> None:
        self.holder = ""
        self.holds_all = False
        self._waiting: deque[Request[T]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, request: Request[T]) -> None:
        """Stand behind all others, but for one whose turn was none."""
        if request.again:
            self._waiting.appendleft(request)
        else:
            self._waiting.append(request)

    def leave(self, request: Request[T]) -> bool:
        """Give up; whether it was lent something already, which must then be released."""
        if request in self._waiting:
            self._waiting.remove(request)
        return request.future.done() and not request.future.cancelled() and request.future.exception() is None

    def lend(self, may_have: Callable[[Request[T]], bool], lent: Callable[[Request[T]], T]) -> None:
        """When it is free, give ``lent`` to the first in line, if that one ``may_have`` it now."""
        while self._waiting and not self.holder and may_have(self._waiting[0]):
            request = self._waiting.popleft()
            if request.future.set_running_or_notify_cancel():
                self.holder, self.holds_all = request.who, request.all_engines
                request.future.set_result(lent(request))

    def release(self) -> None:
        """The holder is done."""
        self.holder, self.holds_all = "", False

    def refuse_all(self, error: Exception) -> None:
        """Nobody gets it: ``error`` for all who wait."""
        while self._waiting:
            request = self._waiting.popleft()
            if request.future.set_running_or_notify_cancel():
                request.future.set_exception(error)

    def cancel_all(self) -> None:
        """Send all who wait away."""
        while self._waiting:
            self._waiting.popleft().future.cancel()
