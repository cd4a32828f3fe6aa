"""How far a fetch is and how fast it goes, told often enough and not more."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from launcher.fetch_values import Progress

WINDOW_S = 5.0
TELL_S = 0.1


class Meter:
    """Calls ``callback`` at most every TELL_S seconds, and at once when phase or note change."""

    def __init__(self, callback: Callable[[Progress], None]) -> None:
        self._callback = callback
        self._samples: deque[tuple[float, int]] = deque()
        self._told = -TELL_S
        self._last: tuple[str, str] = ("", "")

    def tell(self, have: int, total: int | None, phase: str, note: str = "", *, now: bool = False) -> None:
        """``have`` of ``total`` bytes in that phase; ``now``: whatever was told before."""
        clock = time.monotonic()
        changed = (phase, note) != self._last
        if not (changed or now) and clock - self._told < TELL_S:
            return
        if changed:
            self._samples.clear()
        self._last, self._told = (phase, note), clock
        rate = None if phase == "waiting" else self._rate(clock, have)
        self._callback(Progress(have, total, phase, rate, note))

    def _rate(self, clock: float, have: int) -> float | None:
        """Bytes a second over the last WINDOW_S seconds, by a clock that nobody sets."""
        samples = self._samples
        if samples and have < samples[-1][1]:
            samples.clear()
        samples.append((clock, have))
        while len(samples) > 2 and clock - samples[1][0] >= WINDOW_S:
            samples.popleft()
        seconds = clock - samples[0][0]
        return (have - samples[0][1]) / seconds if seconds > 0 else None
