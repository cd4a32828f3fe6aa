"""What a lab advises, and how sure it is, on figures with a known answer."""

from __future__ import annotations

import pytest

from launcher.lab_advice import advise, between
from launcher.lab_types import Advice, Lab
from launcher.methods import PLAIN, Method
from tests.launcher.lab_samples import measured

D2, D4, TABLE = Method("draft-dspark", 2), Method("draft-dspark", 4), Method("ngram-mod")
PLAIN_RATES = [100.0, 101.0, 100.0]


def advice(coding: dict[Method, list[float]], chat: dict[Method, list[float]] | None = None) -> Lab:
    rates = {("code", PLAIN, 0.0): PLAIN_RATES}
    rates |= {("code", method, 0.0): speeds for method, speeds in coding.items()}
    for kind in ("prose", "chat") if chat is not None else ():
        rates[kind, PLAIN, 1.0] = PLAIN_RATES
        rates |= {(kind, method, 1.0): speeds for method, speeds in (chat or {}).items()}
    return measured(rates)


def coding(methods: dict[Method, list[float]]) -> Advice:
    return advise(advice(methods))[0]


def test_the_fastest_is_advised_with_its_figures() -> None:
    found = coding({D2: [130.0, 131.0, 130.0], D4: [180.0, 182.0, 181.0], TABLE: [100.0, 100.0, 101.0]})
    assert (found.method, found.sure) == (D4, True)
    assert found.ratio == pytest.approx(1.8, rel=0.02)
    assert "use dspark 4" in found.text
    assert "1.80 times" in found.text
    assert "75% of what it drafts" in found.text
    assert found.text.endswith("That is sure.")


def test_a_rival_as_fast_is_named_and_does_not_matter() -> None:
    found = coding({D2: [180.0, 181.0, 180.0], D4: [181.0, 182.0, 181.0]})
    assert (found.method, found.sure) == (D4, True)
    assert "dspark 2 may be as fast" in found.text


def test_a_rival_that_may_be_far_faster_leaves_the_choice_open() -> None:
    found = coding({D2: [120.0, 180.0, 240.0], D4: [190.0, 191.0, 190.0]})
    assert (found.method, found.sure) == (D4, False)
    assert "which of them is fastest is not" in found.text


def test_a_loss_is_said_as_plainly() -> None:
    found = coding({D2: [60.0, 61.0, 60.0], D4: [50.0, 51.0, 50.0]})
    assert (found.method, found.sure, found.ratio) == (PLAIN, True, 1.0)
    assert "Everything that was tried is slower; dspark 2 comes nearest, at 0.60 times" in found.text


def test_no_difference_beyond_doubt_is_plain_and_not_sure() -> None:
    found = coding({D4: [90.0, 130.0, 110.0]})
    assert (found.method, found.sure) == (PLAIN, False)
    assert "Nothing that was tried is faster beyond doubt" in found.text
    assert "dspark 4 could be" in found.text


def test_one_answer_each_is_a_first_look() -> None:
    made = measured({("code", PLAIN, 0.0): [100.0], ("code", D4, 0.0): [180.0]})
    found = advise(made)[0]
    assert (found.method, found.sure) == (D4, False)
    assert "first look" in found.text


def test_who_comes_out_ahead_of_many_by_little_may_do_so_by_chance() -> None:
    little = [105.0, 106.5, 103.5]
    alone = coding({D4: little})
    assert (alone.method, alone.sure) == (D4, True)
    of_many = coding(
        {Method("draft-dspark", length): [100.0, 101.0, 99.0] for length in range(5, 15)} | {D4: little}
    )
    assert (of_many.method, of_many.sure) == (D4, False)
    assert "Of 11 that were compared, one may come out ahead by chance" in of_many.text


def test_chat_goes_by_its_own_texts_at_the_high_temperature() -> None:
    made = advice({D4: [180.0, 181.0, 180.0]}, {D4: [70.0, 71.0, 70.0], TABLE: [99.0, 100.0, 99.0]})
    code, chat = advise(made)
    assert (code.method, chat.method) == (D4, PLAIN)
    assert chat.text.startswith("For a general chat use plain decoding")


def test_nothing_measured_is_said() -> None:
    code, chat = advise(measured({("prose", PLAIN, 0.0): [100.0]}))
    assert (code.method, code.sure, code.ratio) == (PLAIN, False, None)
    assert "nothing was measured" in code.text
    assert chat.purpose == "chat"


@pytest.mark.parametrize(
    ("spread", "shown"),
    [((1.549, 1.701), "1.55 to 1.70"), ((0.5, 3.0), "0.50 to 3.00"), ((0.01, 9), "not known")],
)
def test_an_interval_for_people(spread: tuple[float, float], shown: str) -> None:
    assert between(spread) == shown
