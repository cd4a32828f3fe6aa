"""Ctrl+C while something is measured: the first asks for an early end, the second breaks off."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

from launcher import console
from launcher.measure import Stop


@contextlib.contextmanager
def interrupts(stop: Stop, what: str) -> Iterator[None]:
    """``what`` is finished on the first Ctrl+C ("this round"); the second one ends it now."""

    def interrupted(*_: object) -> None:
        if stop.between_rounds:
            stop.now()
        else:
            stop.after_round()
            console.say(f"Finishing {what} … Ctrl+C again breaks it off.")

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
