"""How much of a conversation a prompt cache would have kept: what speculation is charged for reading again."""

from __future__ import annotations

import pytest

from launcher.client.events import Timings
from launcher.store import Turn
from webui.counting import before_tokens

ASKED = Turn("q", "user", "And now?", 0.0)
KNOWN = Timings(prompt_tokens=100, predicted_tokens=40)


def answer(timings: Timings | None = KNOWN, thinking: str = "") -> Turn:
    return Turn("a", "assistant", "So.", 0.0, thinking=thinking, timings=timings)


@pytest.mark.parametrize(
    ("turns", "tokens"),
    [
        ((ASKED,), 0),
        ((ASKED, answer(), ASKED), 140),
        ((ASKED, answer(), ASKED, answer(Timings(predicted_tokens=7)), ASKED), 7),
        ((ASKED, answer(), ASKED, answer(None), ASKED), 140),
        ((ASKED, answer(None), ASKED), 0),
        ((ASKED, answer(thinking="Hm."), ASKED), 100),
        ((answer(), ASKED), 140),
    ],
    ids=["first", "second", "prompt not known", "last broke off", "not known", "thoughts", "imported"],
)
def test_what_a_cache_would_have_kept(turns: tuple[Turn, ...], tokens: int) -> None:
    assert before_tokens(turns) == tokens
