"""The output of llama-speculative-simple, as it was captured, in pieces of every size, and broken."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.oneshot_parse import Answer, counted

CAPTURED = Path(__file__).parents[1] / "captured"
OUT = (CAPTURED / "speculative_simple_b11434.out").read_bytes()
LOG = (CAPTURED / "speculative_simple_b11434.err").read_text()
PROMPT = "<|user|>hello<|turn_end|><|assistant|><|code|>"


def fed(pieces: list[bytes], prompt: str = PROMPT) -> str:
    answer = Answer(prompt)
    given_out = "".join([*map(answer.feed, pieces), answer.feed(b"", final=True)])
    assert answer.text == given_out
    return given_out


def test_the_figures() -> None:
    found = counted(LOG)
    assert found is not None
    assert (found.n_draft, found.predicted, found.n_drafted, found.n_accept) == (4, 64, 60, 49)
    timings = found.timings
    assert timings.acceptance == pytest.approx(0.81667, abs=1e-5)  # as it says itself
    assert timings.tokens_per_second == pytest.approx(24.071, rel=1e-3)
    assert timings.prompt_tokens_per_second == pytest.approx(35.060, rel=1e-2)
    assert timings.total_s == pytest.approx(0.171 + 2.659)


def test_without_drafts_there_is_no_acceptance() -> None:
    silent = LOG.replace("n_drafted = 60", "n_drafted = 0").replace("n_accept  = 49", "n_accept  = 0")
    silent = silent.replace("81.667%", "-nan%")
    found = counted(silent)
    assert found is not None
    assert (found.timings.draft_n, found.timings.acceptance) == (None, None)


@pytest.mark.parametrize("cut", [0, 200, LOG.index("decoded"), LOG.index("n_accept")])
def test_a_log_that_breaks_off_has_no_figures(cut: int) -> None:
    assert counted(LOG[:cut]) is None


def test_the_text_is_what_follows_the_prompt() -> None:
    text = fed([OUT])
    assert text.startswith("Here is quicksort in Python")
    assert text.endswith("pivot = it")


@given(st.lists(st.integers(0, len(OUT)), max_size=12))
def test_any_cut_gives_the_same_text(cuts: list[int]) -> None:
    at = [0, *sorted(cuts), len(OUT)]
    assert fed([OUT[a:b] for a, b in itertools.pairwise(at)]) == fed([OUT])


def test_characters_cut_in_two_and_windows_line_ends() -> None:
    out = "\n\nask: grüße\nanswer: 🌊 ja\nund nein\n\n\n\n".encode()
    assert fed([bytes([byte]) for byte in out], "ask: grüße\nanswer: ") == "🌊 ja\nund nein"
    assert fed([out.replace(b"\n", b"\r\n")], "ask: grüße\nanswer: ") == "🌊 ja\nund nein"


def test_a_line_feed_waits_until_it_is_inside_the_text() -> None:
    answer = Answer("p")
    assert answer.feed(b"\n\npone\n") == "one"
    assert answer.feed(b"\ntwo") == "\n\ntwo"
    assert answer.feed(b"\n\n\n\n", final=True) == ""


@pytest.mark.parametrize(
    ("out", "prompt", "expected"),
    [
        (b"\n\n<bos>ask\nnow: yes\n\n\n\n", "ask\nnow:", " yes"),  # a token in front
        (b"\n\n a s k\nnow: yes\n\n\n\n", "ask\nnow:", " yes"),  # read back otherwise
        (b"\n\nquite another\n\n\n\n", "ask", "quite another"),
        (b"", "ask", ""),
    ],
)
def test_a_prompt_that_is_read_back_otherwise(out: bytes, prompt: str, expected: str) -> None:
    assert fed([out], prompt) == expected
