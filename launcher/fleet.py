"""The engines that were started and not stopped."""

from __future__ import annotations

from collections.abc import Callable

from launcher.plan import LaunchPlan
from launcher.supervise.server import Server


class Fleet:
    """Changed on the owner's thread alone; what is read elsewhere is whole at any moment. ``answering``: those that have
    been ready."""

    def __init__(self) -> None:
        self._all: dict[LaunchPlan, Server] = {}
        self.answering: tuple[Server, ...] = ()

    def __len__(self) -> int:
        return len(self._all)

    def of(self, plan: LaunchPlan) -> Server | None:
        """The server of ``plan``, which may have ended."""
        return self._all.get(plan)

    def add(self, plan: LaunchPlan, server: Server) -> None:
        """It is about to be started."""
        self._all = {**self._all, plan: server}

    def is_ready(self, server: Server) -> None:
        """It has answered."""
        self.answering = (*self.answering, server)

    def stop(self, server: Server) -> None:
        """Reap it and take it off all lists; returns when it is gone, so that its memory is free."""
        try:
            server.stop()
        finally:
            self._all = {plan: it for plan, it in self._all.items() if it is not server}
            self.answering = tuple(it for it in self.answering if it is not server)

    def stop_all(self, but: Callable[[LaunchPlan], bool] = lambda plan: False) -> None:  # noqa: ARG005
        """As ``stop``, all of them; those that live stay where ``but`` says so."""
        for plan, server in list(self._all.items()):
            if not (server.alive and but(plan)):
                self.stop(server)
