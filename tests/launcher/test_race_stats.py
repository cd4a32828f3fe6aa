"""From speeds to words: known quantiles, known answers, and what holds for any speeds."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.race_stats import FLOOR, is_sure, spread, student, word

# Two-sided quantiles as printed in every table of Student's distribution.
TABLE = {
    (0.95, 1): 12.706,
    (0.95, 2): 4.303,
    (0.95, 3): 3.182,
    (0.95, 4): 2.776,
    (0.95, 5): 2.571,
    (0.95, 10): 2.228,
    (0.95, 30): 2.042,
    (0.90, 1): 6.314,
    (0.90, 5): 2.015,
    (0.99, 4): 4.604,
    (0.99, 7): 3.499,
}


@pytest.mark.parametrize(("given_", "expected"), TABLE.items())
def test_students_quantiles(given_: tuple[float, int], expected: float) -> None:
    assert student(*given_) == pytest.approx(expected, abs=0.0006)


@pytest.mark.parametrize(
    ("ratios", "expected", "sure"),
    [
        ([1.5, 1.5], "faster", True),
        ([0.6, 0.61], "slower", True),
        ([1.0, 1.0], "no difference", False),  # two rounds that agree may do so by chance
        ([1.0, 1.0, 1.001, 0.999], "no difference", True),
        ([1.3, 0.8, 1.2, 0.9], "no difference", False),
        ([1.03, 1.031, 1.03, 1.029], "faster", True),
        ([1.01, 1.01, 1.01, 1.01], "no difference", True),
        ([2.3 / 13.4, 2.3 / 13.4], "slower", True),
        ([1.5], "faster", False),
        ([1.05], "no difference", False),
        ([1.5, 1.5, 1.5], "faster", False),  # in the middle of A B B A
    ],
)
def test_words(ratios: list[float], expected: str, sure: bool) -> None:
    interval = spread(ratios)
    assert word(interval) == expected
    assert is_sure(interval, len(ratios)) == sure


def test_a_disturbed_round_widens_the_spread_and_leaves_the_figure() -> None:
    calm, disturbed = [1.5, 1.51, 1.49, 1.5, 1.5, 1.5], [1.5, 1.51, 1.49, 1.5, 1.5, 0.5]
    assert statistics.median(disturbed) == pytest.approx(1.5)
    assert spread(disturbed)[0] < spread(calm)[0]


def test_the_formula_of_four_rounds() -> None:
    ratios = [1.1, 1.2, 1.3, 1.4]
    logs = [math.log(ratio) for ratio in ratios]
    width = 3.18245 * math.sqrt(math.pi / 2) * statistics.stdev(logs) / 2
    middle = (logs[1] + logs[2]) / 2
    assert spread(ratios) == pytest.approx((math.exp(middle - width), math.exp(middle + width)), rel=1e-5)


speeds = st.lists(st.floats(0.05, 20), min_size=1, max_size=8)


@given(speeds)
def test_the_spread_holds_the_median_and_is_never_a_point(ratios: list[float]) -> None:
    low, high = spread(ratios)
    middle = math.exp(statistics.median(math.log(ratio) for ratio in ratios))
    assert 0 < low < middle < high < math.inf
    assert high / low > 1 + FLOOR


@given(speeds)
def test_exchanging_the_sides_turns_the_answer_around(ratios: list[float]) -> None:
    low, high = spread(ratios)
    other_low, other_high = spread([1 / ratio for ratio in ratios])
    assert (1 / other_high, 1 / other_low) == pytest.approx((low, high))


@given(speeds, st.floats(0.1, 10))
def test_only_ratios_matter(ratios: list[float], factor: float) -> None:
    low, high = spread(ratios)
    assert spread([ratio * factor for ratio in ratios]) == pytest.approx((low * factor, high * factor))


@given(speeds)
def test_more_confidence_needs_more_room(ratios: list[float]) -> None:
    assert spread(ratios, 0.99)[1] > spread(ratios, 0.95)[1] > spread(ratios, 0.8)[1]


@given(speeds)
def test_the_word_says_whether_the_spread_covers_1(ratios: list[float]) -> None:
    low, high = spread(ratios)
    assert (word((low, high)) == "no difference") == (low <= 1 <= high)
