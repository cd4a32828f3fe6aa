"""One fault: where it happens, by which dice, what was looked at afterwards and how it went."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

POLL_S = 0.01
# What is looked at, by the words of the table.
NO_ORPHAN = "no process left within 5 s"
IN_TIME = "in time"
KEPT = "conversations whole, the answer so far kept and marked"
NAMED = "the right cause named"
WORKS = "the next message works"


@dataclass(frozen=True)
class Kind:
    """One kind of fault. ``what``: for the table. ``bound_s``: from the fault until the next message is answered or,
    where only the person can help, until the page says what is wrong. ``ways``: one is taken after the other;
    ``run(trial, way)`` makes the fault and looks."""

    name: str
    what: str
    bound_s: float
    share: int
    ways: tuple[Any, ...]
    run: Callable[[Trial, Any], None]
    checked: tuple[str, ...] = (NO_ORPHAN, IN_TIME, KEPT, NAMED, WORKS)


class Broken(Exception):
    """What had to come did not come; the trial ends here."""


@dataclass
class Trial:
    """``problems``: sentences on what was wrong. ``looked``: how often each of the things above was looked at.
    ``built``: the llama-server built from source. ``practice``: a folder with the practice pair."""

    kind: Kind
    seed: int
    number: int
    folder: Path
    built: Path
    practice: Path
    problems: list[str] = field(default_factory=list)
    looked: dict[str, int] = field(default_factory=dict)
    strangers: list[int] = field(default_factory=list)
    recovery_s: float | None = None
    stack: ExitStack = field(default_factory=ExitStack)
    _fault_at: float | None = None

    @property
    def way(self) -> Any:
        return self.kind.ways[self.number % len(self.kind.ways)]

    @property
    def label(self) -> str:
        return f"{self.kind.name}:{self.number}"

    @property
    def dice(self) -> random.Random:
        """The same for the same kind, number and seed; each call begins anew."""
        return random.Random(f"{self.seed} {self.label}")

    def fault(self) -> None:
        """It happens now."""
        self._fault_at = time.monotonic()

    def recovered(self) -> None:
        """All is well again, or the page has said why it is not. Only the first time counts."""
        if self.recovery_s is None:
            assert self._fault_at is not None, "no fault has happened"
            self.recovery_s = time.monotonic() - self._fault_at
            bound = self.kind.bound_s
            self.check(
                IN_TIME, self.recovery_s <= bound, f"{self.recovery_s:.1f} s, the bound is {bound:g} s"
            )

    def check(self, name: str, right: object, detail: str) -> None:
        """Note that it was looked at; ``detail`` is told when it is not ``right``."""
        self.looked[name] = self.looked.get(name, 0) + 1
        if not right:
            self.problems.append(f"{name}: {detail}")

    def named(self, said: str, words: Iterable[str]) -> None:
        """What people were told has all these words."""
        missing = [word for word in words if word not in said]
        self.check(NAMED, not missing, f"{missing} is not in: {said!r}")

    @staticmethod
    def pause(seconds: float) -> None:
        """What the dice said: the moment of a fault, not a wait for anything."""
        time.sleep(seconds)

    def wait(self, condition: Callable[[], object], seconds: float, what: str) -> None:
        """Until it holds. Raises Broken after ``seconds``."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise Broken(f"waited {seconds:g} s in vain for {what}")
            time.sleep(POLL_S)
