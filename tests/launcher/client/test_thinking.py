"""Inline think tags: cut anywhere, left open, talked about, and never in the way of the answer."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.client.thinking import ThinkSplitter


def split(*pieces: str) -> tuple[str, str]:
    """Thoughts and answer of a content stream cut into ``pieces``."""
    splitter = ThinkSplitter()
    out = [part for piece in pieces for part in splitter.feed(piece)] + splitter.flush()
    assert all(text for _, text in out)
    return "".join(text for is_thought, text in out if is_thought), "".join(
        text for is_thought, text in out if not is_thought
    )


CASES = [
    ("<think>plan</think>hi", "plan", "hi"),
    ("\n <think>\nplan\n</think>\n\nhi", "plan\n", "hi"),
    ("<think></think>hi", "", "hi"),
    ("<think>a</think>\n<think>b</think>c", "ab", "c"),
    ("<think>1 < 2 </thin </thinker></think>x", "1 < 2 </thin </thinker>", "x"),
    ("<think>never closed", "never closed", ""),
    ("<think>cut in the tag</thi", "cut in the tag</thi", ""),
    ("hi <think>no tag here</think>", "", "hi <think>no tag here</think>"),
    ("<thinker>hi", "", "<thinker>hi"),
    ("<thi", "", "<thi"),
    ("  indented\n", "", "  indented\n"),
    ("", "", ""),
    ("<think>plan</think> \n", "plan", ""),
]


@pytest.mark.case("E-06")
@pytest.mark.parametrize(("content", "thoughts", "answer"), CASES)
def test_cut_at_every_place(content: str, thoughts: str, answer: str) -> None:
    assert split(content) == (thoughts, answer)
    assert split(*content) == (thoughts, answer)
    for at in range(len(content) + 1):
        assert split(content[:at], content[at:]) == (thoughts, answer), at


@given(
    st.sampled_from([content for content, _, _ in CASES]),
    st.lists(st.integers(0, 40), max_size=6),
)
def test_any_cuts(content: str, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(content)) for cut in cuts), len(content)]
    pieces = [content[a:b] for a, b in pairwise(edges)]
    assert split(*pieces) == split(content)


@given(st.lists(st.text(alphabet="<>/think ab\n", max_size=8)))
def test_whatever_comes_is_whole_and_the_same_in_any_cut(pieces: list[str]) -> None:
    content = "".join(pieces)
    thoughts, answer = split(*pieces)
    assert (thoughts, answer) == split(content)
    if not content.lstrip().startswith("<think>"):
        assert (thoughts, answer) == ("", content)


untagged = st.text().filter(lambda text: "think>" not in text)


@pytest.mark.case("E-06")
@given(untagged, untagged, st.integers(1, 5))
def test_thoughts_and_answer_come_apart_as_they_were(thoughts: str, answer: str, size: int) -> None:
    thoughts, answer = thoughts.strip(), answer.lstrip()
    content = f"<think>{thoughts}</think>{answer}"
    assert split(*(content[at : at + size] for at in range(0, len(content), size))) == (thoughts, answer)


def test_the_answer_comes_as_soon_as_it_cannot_be_a_tag() -> None:
    splitter = ThinkSplitter()
    assert splitter.feed("<") == []
    assert splitter.feed("b") == [(False, "<b")]
    assert splitter.feed("<think>") == [(False, "<think>")]


def test_thoughts_come_at_once_too() -> None:
    splitter = ThinkSplitter()
    assert splitter.feed("<think>\nso") == [(True, "so")]
    assert splitter.feed(" then <") == [(True, " then ")]
    assert splitter.feed("/b>") == [(True, "</b>")]
    assert splitter.unclosed == "so then </b>"
