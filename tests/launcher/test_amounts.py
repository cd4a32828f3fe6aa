"""Sizes and times in words."""

from __future__ import annotations

import pytest

from launcher.amounts import gib, rate, seconds, size, so_far, span, waiting


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (7_165_121_600, "7.2 GB"),
        (212_400_000_000, "212 GB"),
        (1e17, "100,000,000 GB"),
        (84_300_000, "84 MB"),
        (4_140_000, "4.1 MB"),
        (12_300, "12 kB"),
        (999, "999 bytes"),
        (0, "0 bytes"),
    ],
)
def test_sizes(count: float, text: str) -> None:
    assert size(count) == text
    assert rate(count) == f"{text}/s"


def test_sizes_that_are_nearly_the_same_can_be_told_apart() -> None:
    assert (size(7_165_121_600, fine=True), size(7_150_000_000, fine=True)) == ("7.17 GB", "7.15 GB")
    assert size(212_400_000_000, fine=True) == "212.40 GB"
    assert size(84_300_000, fine=True) == "84 MB"


@pytest.mark.parametrize(
    ("have", "total", "text"),
    [
        (1_240_000_000, 7_165_121_600, "1.24 of 7.17 GB"),
        (0, 7_165_121_600, "0.00 of 7.17 GB"),
        (300_000, 4_100_000, "0.3 of 4.1 MB"),
        (900_000_000, None, "900 MB"),
    ],
)
def test_how_far_a_file_is(have: int, total: int | None, text: str) -> None:
    assert so_far(have, total) == text


def test_memory_is_counted_in_powers_of_two() -> None:
    assert gib(24 * 2**30 - 700 * 2**20) == "23.3 GiB"


@pytest.mark.parametrize(("value", "text"), [(0.213, "0.21 s"), (3.21, "3.2 s"), (75.4, "75 s")])
def test_the_times_of_an_answer(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4.21, "4.2 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (130, "2 min 10 s"),
        (3599.7, "1 h"),
        (11_100, "3 h 05 min"),
    ],
)
def test_the_time_that_work_took(value: float, text: str) -> None:
    assert span(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.2, "1 second"),
        (12.4, "12 seconds"),
        (89.4, "89 seconds"),
        (90, "2 minutes"),
        (840, "14 minutes"),
        (5400, "2 hours"),
        (7200, "2 hours"),
    ],
)
def test_the_time_that_one_has_to_wait(value: float, text: str) -> None:
    assert waiting(value) == text
