"""The line under an answer, as a table of cases."""

from __future__ import annotations

import pytest

from launcher.client.events import Timings
from launcher.store import Turn
from tests.webui.fake_lifecycle import a_plan
from webui.figures import engine_label, figures, speculation_asked, speed

SPECULATIVE = engine_label(a_plan(speculative=True))
PLAIN = engine_label(a_plan(speculative=False))


def shown(
    timings: Timings | None, engine: str = PLAIN, used: int | None = None, size: int | None = None
) -> str:
    turn = Turn(
        "a", "assistant", "text", 0.0, timings=timings, engine=engine, context_used=used, context_size=size
    )
    return " · ".join(figure.text for figure in figures(turn))


def test_the_whole_line() -> None:
    timings = Timings(
        prompt_tokens=792,
        predicted_tokens=412,
        tokens_per_second=61.28,
        time_to_first_token_s=0.213,
        draft_n=232,
        draft_n_accepted=196,
    )
    assert shown(timings, SPECULATIVE, 1204, 16384) == (
        "412 tokens · 61.3 tok/s · first token 0.21 s · drafter 196/232 accepted (84 %) · context 1,204 / 16,384"
    )


@pytest.mark.case("G-01")
@pytest.mark.parametrize(
    ("timings", "engine", "line"),
    [
        (None, PLAIN, ""),
        (Timings(predicted_tokens=1), PLAIN, "1 token"),
        (Timings(predicted_tokens=0), SPECULATIVE, "0 tokens"),
        # Nothing drafted is no acceptance, and never one of zero.
        (Timings(predicted_tokens=9), PLAIN, "9 tokens"),
        (Timings(predicted_tokens=9), SPECULATIVE, "9 tokens · speculation requested but not active"),
        (
            Timings(predicted_tokens=9, draft_n=0, draft_n_accepted=0),
            SPECULATIVE,
            "9 tokens · speculation requested but not active",
        ),
        # Drafted in vain is a true zero.
        (
            Timings(predicted_tokens=9, draft_n=8, draft_n_accepted=0),
            SPECULATIVE,
            "9 tokens · drafter 0/8 accepted (0 %)",
        ),
        (
            Timings(predicted_tokens=9, tokens_per_second=20.04, measured_by="client"),
            PLAIN,
            "9 tokens · 20.0 tok/s ≈ client",
        ),
        (Timings(predicted_tokens=9, tokens_per_second=0.0), PLAIN, "9 tokens"),
        (Timings(predicted_tokens=12345, tokens_per_second=518.7), PLAIN, "12,345 tokens · 519 tok/s"),
    ],
)
def test_what_is_unknown_is_not_a_number(timings: Timings | None, engine: str, line: str) -> None:
    assert shown(timings, engine) == line


def test_every_figure_is_explained() -> None:
    timings = Timings(
        prompt_tokens=100,
        cached_tokens=60,
        predicted_tokens=9,
        tokens_per_second=2.0,
        time_to_first_token_s=1.0,
    )
    turn = Turn("a", "assistant", "", 0.0, timings=timings, engine=SPECULATIVE, context_used=109)
    assert all(figure.title.endswith(".") for figure in figures(turn))
    first = next(figure for figure in figures(turn) if figure.kind == "first")
    assert "100 tokens, 60 of them still known" in first.title


def test_context_without_a_known_size() -> None:
    assert shown(Timings(predicted_tokens=2), used=77) == "2 tokens · context 77"


@pytest.mark.parametrize(
    ("value", "text"), [(7.418, "7.42 tok/s"), (61.28, "61.3 tok/s"), (518.4, "518 tok/s")]
)
def test_speed_has_three_digits(value: float, text: str) -> None:
    assert speed(value) == text


@pytest.mark.case("G-02")
def test_the_label_says_whether_speculation_was_asked_for() -> None:
    assert SPECULATIVE == "own b1 · target · speculation dspark 4"
    assert PLAIN == "own b1 · target · plain"
    without = engine_label(a_plan(speculative=True, drafter=False))
    assert [speculation_asked(label) for label in (SPECULATIVE, PLAIN, without, "")] == [
        True,
        False,
        True,
        False,
    ]
