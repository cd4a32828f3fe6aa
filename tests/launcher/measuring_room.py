"""What the tests of races and labs share: a fake engine that is measured, and what was told meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from launcher.plan import LaunchPlan
from launcher.supervise.server import Server
from tests.fakes import paced_engine

TEXT = " ".join(f"word{number}" for number in range(200))

E = TypeVar("E")


class MeasuringRoom(Generic[E]):
    """``events``: all that was told so far; ``hook`` is called with each as it comes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[E] = []
        self.hook: Callable[[E], None] = lambda _: None

    def engine(self, drafting: dict[str, Any], **config: Any) -> None:
        """Install the fake; fields of its configuration, ``drafting`` for a start with a drafter."""
        base: dict[str, Any] = {"rate": 800, "text": TEXT, "blocks": ((4, 3), (4, 1))}
        self.program = paced_engine.install(self.folder / "bin", drafting=drafting, **(base | config))

    def serve(self, plan: LaunchPlan) -> Server:
        """What a Lifecycle starts."""
        return Server(plan, self.folder / "logs", self.folder / "run", dict(os.environ))

    def take(self, event: E) -> None:
        """For whoever measures to tell it to."""
        self.events.append(event)
        self.hook(event)

    def kinds(self, *of: type) -> list[Any]:
        """The events of these classes."""
        return [event for event in self.events if isinstance(event, of)]

    def check_clean(self) -> None:
        """No key is left behind."""
        assert not list((self.folder / "run").glob("*"))
