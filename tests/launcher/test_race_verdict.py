"""The verdict of given runs, and each of its warnings with the case that must not raise it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.methods import Method
from launcher.race_types import Step, acceptance_by_position, tokens_per_step
from launcher.race_verdict import difference_at, judge
from tests.launcher.race_samples import SIDES, rounds, run, side


def test_medians_not_means_and_pairs_not_pools() -> None:
    verdict = judge(rounds((100, 150), (200, 300), (50, 75), (100, 120)), SIDES, 0.0)
    assert verdict.ratio == pytest.approx(1.5)
    assert verdict.rounds == 4


@pytest.mark.case("A-06")
def test_017x_is_slower() -> None:
    verdict = judge(rounds((13.4, 2.3), (13.4, 2.3)), SIDES, 0.0)
    assert (verdict.word, verdict.sure) == ("slower", True)
    assert verdict.ratio == pytest.approx(0.1716, abs=0.001)
    assert verdict.time_saved_s is not None
    assert verdict.time_saved_s == pytest.approx(100 / 13.4 - 100 / 2.3)


def test_runs_that_were_cut_do_not_count() -> None:
    runs = [*rounds((100, 150)), run(0, 2, 100), run(1, 2, 10, ended="failed")]
    verdict = judge(runs, SIDES, 0.0)
    assert (verdict.rounds, verdict.ratio) == (1, 1.5)
    assert any("One round only" in warning for warning in verdict.warnings)


def test_nothing_measured_is_no_ratio() -> None:
    verdict = judge([run(0, 1, 100)], SIDES, 0.0)
    assert (verdict.ratio, verdict.spread, verdict.word, verdict.identical) == (None, None, "", None)


@pytest.mark.case("G-04")
def test_identical_texts() -> None:
    verdict = judge(rounds((100, 150), (100, 150)), SIDES, 0.0)
    assert (verdict.identical, verdict.first_difference) == (True, None)


def test_above_temperature_0_identity_is_no_question() -> None:
    runs = [run(0, 1, 100, text="one"), run(1, 1, 100, text="two")]
    verdict = judge(runs, SIDES, 0.7)
    assert (verdict.identical, verdict.first_difference) == (None, None)


@pytest.mark.case("G-04")
def test_the_first_difference_is_shown_in_both() -> None:
    long = "word " * 20
    runs = [run(0, 1, 100, text=long + "left side"), run(1, 1, 100, text=long + "right side", tokens=90)]
    verdict = judge(runs, SIDES, 0.0)
    assert verdict.identical is False
    difference = verdict.first_difference
    assert difference is not None
    assert (difference.char, difference.token) == (100, 20)
    assert difference.a.endswith("word left side")
    assert difference.b.endswith("word right side")
    assert "Neither is wrong" in difference.why
    assert any("differ in length" in warning for warning in verdict.warnings)


def test_a_difference_in_the_thoughts_counts() -> None:
    runs = [run(0, 1, 100, thinking="hm yes"), run(1, 1, 100, thinking="hm no")]
    difference = judge(runs, SIDES, 0.0).first_difference
    assert difference is not None
    assert (difference.char, difference.token) == (3, 0)
    behind = judge(
        [run(0, 1, 9, thinking="hm", text="a b"), run(1, 1, 9, thinking="hm", text="a c")], SIDES, 0.0
    )
    assert behind.first_difference is not None
    assert (behind.first_difference.char, behind.first_difference.token) == (6, 2)


@pytest.mark.parametrize(
    ("a", "b", "at"), [("", "", None), ("ab", "ab", None), ("ab", "abc", 2), ("ax", "bx", 0)]
)
def test_where_texts_part(a: str, b: str, at: int | None) -> None:
    assert difference_at(a, b) == at


@given(st.text(), st.text(), st.text())
def test_what_precedes_the_difference_is_equal(head: str, a: str, b: str) -> None:
    at = difference_at(head + a, head + b)
    if at is None:
        assert a == b
    else:
        assert at >= len(head)
        assert (head + a)[:at] == (head + b)[:at]
        assert (head + a)[at : at + 1] != (head + b)[at : at + 1]


@pytest.mark.case("G-04")
def test_time_saved_goes_by_rate_where_lengths_differ() -> None:
    runs = [run(0, 1, 100, tokens=200), run(1, 1, 200, tokens=50)]
    assert judge(runs, SIDES, 0.0).time_saved_s == pytest.approx(2.0 - 1.0)


def warned(words: str, *given_: object, sides: object = SIDES) -> bool:
    verdict = judge(list(given_), sides, 0.0)  # type: ignore[arg-type]
    return any(words in warning for warning in verdict.warnings)


def drafting(*blocks: tuple[int, int], method: Method = SIDES[1].method) -> bool:
    return warned("hardly fits", run(0, 1, 9), run(1, 1, 9, blocks=blocks), sides=(SIDES[0], side(method)))


def test_a_drafter_that_hardly_fits() -> None:
    assert drafting(*[(4, 0)] * 9, (4, 2))
    assert not drafting(*[(4, 0)] * 9), "too few blocks to judge"
    assert not drafting(*[(4, 0)] * 30, *[(4, 1)] * 10), "a quarter is the limit"
    assert not drafting(*[(4, 0)] * 20, method=Method("ngram-mod")), "a phrase table is no drafter"


@pytest.mark.case("G-02")
def test_requested_but_not_engaged() -> None:
    assert warned("requested, but is not active", run(0, 1, 9), run(1, 1, 9))
    assert not warned("requested", run(0, 1, 9), run(1, 1, 9, blocks=[(4, 2)]))
    tables = (SIDES[0], side(Method("ngram-mod")))
    assert warned("found nothing", run(0, 1, 9), run(1, 1, 9), sides=tables)


@pytest.mark.case("G-03")
def test_a_warm_prompt_cache_is_told() -> None:
    assert warned("cache", run(0, 1, 9), run(1, 1, 9, cached=900))
    assert not warned("cache", run(0, 1, 9), run(1, 1, 9))


def test_drift_between_first_and_last_round() -> None:
    assert warned("18% slower in the last round", *rounds((100, 150), (95, 150), (90, 150), (82, 150)))
    assert warned("10% faster", *rounds((100, 150), (100, 165)))
    assert not warned("last round", *rounds((100, 150), (93, 140)))


def test_rounds_that_hide_the_answer_are_no_proof_of_equality() -> None:
    assert warned("differ too much", *rounds((100, 150), (100, 95), (100, 130), (100, 90)))
    assert not warned("differ too much", *rounds((100, 100), (100, 101), (101, 100), (100, 100)))
    assert not warned("differ too much", *rounds((100, 150), (100, 150)))


@pytest.mark.case("G-01")
def test_a_speed_measured_from_outside_is_told() -> None:
    assert warned("measured from outside", run(0, 1, 9, measured_by="client"), run(1, 1, 9))


def test_a_side_that_changes_its_text() -> None:
    runs = [run(0, 1, 9), run(1, 1, 9), run(1, 2, 9), run(0, 2, 9, text="other")]
    assert warned("plain did not write the same text", *runs)


def test_acceptance_by_position_counts_those_that_reached_it() -> None:
    steps = [Step(0, 4, 4), Step(0, 4, 1), Step(0, 4, 0), Step(0, 1, 1), Step(0, 0, 0)]
    assert acceptance_by_position(steps) == (3 / 4, 1 / 3, 1 / 3, 1 / 3)
    assert tokens_per_step(steps) == 1 + 6 / 4
    assert acceptance_by_position([]) is None
    assert tokens_per_step([Step(0, 0, 0)]) is None


def test_blocks_told_together_say_nothing_about_places() -> None:
    steps = [Step(0, 4, 4), Step(0, 8, 5)]
    assert acceptance_by_position(steps, 4) == (1.0, 1.0, 1.0, 1.0)


@given(st.lists(st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1))
def test_positions_add_up_to_the_acceptance(blocks: list[tuple[int, int]]) -> None:
    steps = [Step(0.0, *block) for block in blocks]
    shares = acceptance_by_position(steps)
    assert shares is not None
    reached = [sum(drafted > place for drafted, _ in blocks) for place in range(len(shares))]
    total = sum(share * count for share, count in zip(shares, reached, strict=True))
    assert total == pytest.approx(sum(accepted for _, accepted in blocks))
    alike = [step._replace(drafted=6) for step in steps]
    equal = acceptance_by_position(alike)
    assert equal is not None
    assert list(equal) == sorted(equal, reverse=True), (
        "of equal drafts a later token is never kept more often"
    )
