"""Pure: from the rounds of a race to its verdict.

The statistic is the decode speed of side 1 over that of side 0, round by round: both answers of a round are
neighbours in time, and A B B A turns a steady drift into opposite errors of neighbouring rounds. Ratios are
compared as logarithms, so that 2x and 0.5x are equally far from 1.

Spread at confidence c over n rounds: exp(m ± t * e), where m is the median of the log-ratios, t Student's
quantile for n-1 degrees of freedom (two-sided, c), and e = k * s / sqrt(n) the median's standard error: s is the
sample's standard deviation, but at least 1 % (FLOOR), since a handful of rounds may agree by chance; k is 1 for
two rounds, where median and mean are the same, and sqrt(pi/2) = 1.2533 beyond, its value for large normal
samples, which no smaller one exceeds. One round has no deviation of its own: 5 % (SINGLE) is assumed, with the
normal quantile. The median keeps one disturbed round from moving the figure, while s widens the spread for it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import lru_cache

from launcher.race_types import CONFIDENCE

FLOOR = 0.01
SINGLE = 0.05
TIGHT = 0.05  # "no difference" is sure when the spread lies within 1/1.05 and 1.05
_MEDIAN_ERROR = math.sqrt(math.pi / 2)


def spread(ratios: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The interval of the median of ``ratios`` (one or more, positive), by the formula above."""
    logs = [math.log(ratio) for ratio in ratios]
    count = len(logs)
    if count == 1:
        width = statistics.NormalDist().inv_cdf((1 + confidence) / 2) * SINGLE
    else:
        deviation = max(statistics.stdev(logs), FLOOR)
        factor = 1.0 if count == 2 else _MEDIAN_ERROR
        width = student(confidence, count - 1) * factor * deviation / math.sqrt(count)
    middle = statistics.median(logs)
    return math.exp(middle - width), math.exp(middle + width)


def word(interval: tuple[float, float]) -> str:
    """ "no difference" when the spread covers 1, else "faster" or "slower"."""
    low, high = interval
    if low > 1:
        return "faster"
    return "slower" if high < 1 else "no difference"


def is_tight(interval: tuple[float, float]) -> bool:
    """Whether the spread leaves no room for a difference worth naming (5 %)."""
    low, high = interval
    return low > 1 / (1 + TIGHT) and high < 1 + TIGHT


def is_sure(interval: tuple[float, float], rounds: int) -> bool:
    """Whether the answer stands: after whole A B B A, the spread leaves 1 out, or covers it tightly.

    It is looked at two, four and six rounds, so the chance that it stands by luck is somewhat above that of
    one look; the spread says how far the figure can be trusted.
    """
    if rounds < 2 or rounds % 2:
        return False
    return word(interval) != "no difference" or is_tight(interval)


@lru_cache(maxsize=64)
def student(confidence: float, freedom: int) -> float:
    """The t with P(\N{MINUS SIGN}t < T < t) = ``confidence`` for Student's distribution with ``freedom`` degrees."""
    low, high = 0.0, 1.0
    while _student_within(high, freedom) < confidence:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        if _student_within(middle, freedom) < confidence:
            low = middle
        else:
            high = middle
    return high


def _student_within(t: float, freedom: int) -> float:
    """P(|T| < t), the finite series of Abramowitz and Stegun 26.7.3 (odd) and 26.7.4 (even)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    power, term = odd, cosine if odd else 1.0
    total = 0.0 if freedom == 1 else term
    while power < freedom - 2:
        term *= (power + 1) / (power + 2) * cosine**2
        power += 2
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
