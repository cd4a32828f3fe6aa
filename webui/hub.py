"""News for open tabs: the engine's status and changed conversations, pushed, never polled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from launcher.lifecycle import Lifecycle, Status

_MOST_WAITING = 200  # news that a stuck tab may leave unread before the oldest are dropped


class Hub:
    """Belongs to one event loop; ``attach`` ties it to the lifecycle, whose callbacks come from another thread."""

    def __init__(self, view: Callable[[Status], dict[str, Any]]) -> None:
        self._view = view
        self._listeners: set[asyncio.Queue[dict[str, Any] | None]] = set()
        self._detach: Callable[[], None] = lambda: None

    def attach(self, lifecycle: Lifecycle) -> None:
        """Pass on every change of status from now on."""
        loop = asyncio.get_running_loop()
        told: Status | None = None

        def changed(status: Status) -> None:
            nonlocal told
            if status != told and not loop.is_closed():  # a start says many times a second that it goes on
                told = status
                loop.call_soon_threadsafe(self.tell, {"status": self._view(status)})

        self._detach = lifecycle.on_change(changed)

    def tell(self, news: dict[str, Any]) -> None:
        """Give ``news`` to every open tab."""
        for queue in self._listeners:
            if queue.qsize() >= _MOST_WAITING:
                queue.get_nowait()
            queue.put_nowait(news)

    async def listen(self, first: Callable[[], dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        """What ``first`` says, then news as they come, until ``close``. It is asked when nothing can be missed
        any more: a change between the two would never be seen."""
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._listeners.add(queue)
        try:
            yield first()
            while (news := await queue.get()) is not None:
                yield news
        finally:
            self._listeners.discard(queue)

    def close(self) -> None:
        """End every ``listen`` and let go of the lifecycle."""
        self._detach()
        self._detach = lambda: None
        for queue in self._listeners:
            queue.put_nowait(None)
