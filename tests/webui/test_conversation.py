"""What sending, editing and deleting do to a conversation, and what the engine is told of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.errors import StoreError
from launcher.store import Conversation, Turn, title_for
from webui.conversation import (
    messages_for,
    with_answer,
    with_edited_prompt,
    with_prompt,
    with_text,
    without,
    without_oldest,
)


def turn(turn_id: str, content: str = "", **more: object) -> Turn:
    role = "user" if turn_id.startswith("u") else "assistant"
    return Turn(turn_id, role, content or f"text of {turn_id}", 0.0, **more)  # type: ignore[arg-type]


def talk(*ids: str) -> Conversation:
    return Conversation("c", "", 0.0, 0.0, tuple(map(turn, ids)))


def ids(conversation: Conversation) -> list[str]:
    return [it.id for it in conversation.turns]


def test_the_first_prompt_gives_the_title_and_later_ones_do_not() -> None:
    made = with_prompt(talk(), turn("u1", "  \n How are you?\nmore"))
    assert made.title == "How are you?"
    assert with_prompt(made, turn("u2", "Other")).title == "How are you?"


def test_a_title_follows_its_prompt_even_with_odd_spaces() -> None:
    start = with_prompt(talk(), turn("u1", "Two  spaces\there"))
    assert start.title == "Two spaces here", "as the store keeps it"
    assert with_edited_prompt(start, "u1", turn("u9", "New")).title == "New"


def test_a_long_title_is_cut_at_a_word() -> None:
    title = title_for("word " * 40)
    assert len(title) <= 61
    assert title.endswith("word…")
    assert title_for(" \n ") == ""


def test_an_answer_stands_behind_its_prompt_even_when_others_came_meanwhile() -> None:
    assert ids(with_answer(talk("u1", "a1", "u2", "u3"), "u2", turn("a2"))) == ["u1", "a1", "u2", "a2", "u3"]


def test_another_answer_takes_the_place_of_the_first() -> None:
    assert ids(with_answer(talk("u1", "a1", "u2", "a2"), "u1", turn("b1"))) == ["u1", "b1", "u2", "a2"]


@pytest.mark.parametrize("ended", ["failed", "stopped"])
def test_an_answer_that_brought_nothing_does_not_push_out_one_with_text(ended: str) -> None:
    empty = replace(turn("b1"), content="", ended=ended)
    assert ids(with_answer(talk("u1", "a1"), "u1", empty)) == ["u1", "a1"]
    assert ids(with_answer(talk("u1"), "u1", empty)) == ["u1", "b1"]


def test_an_edited_prompt_drops_what_follows() -> None:
    start = with_prompt(talk(), turn("u1", "Old"))
    start = replace(start, turns=(*start.turns, turn("a1"), turn("u2"), turn("a2")))
    made = with_edited_prompt(start, "u1", turn("u9", "New"))
    assert (ids(made), made.title) == (["u9"], "New")
    assert with_edited_prompt(replace(start, title="Mine"), "u1", turn("u9", "New")).title == "Mine"


def test_an_answer_cannot_be_sent_again_as_a_prompt() -> None:
    with pytest.raises(StoreError):
        with_edited_prompt(talk("u1", "a1"), "a1", turn("u9"))


def test_text_changed_by_hand_is_not_tinted() -> None:
    start = Conversation("c", "", 0, 0, (turn("u1"), turn("a1", runs=((10, "draft"),))))
    changed = with_text(start, "a1", "other").turns[1]
    assert (changed.content, changed.runs) == ("other", ())


def test_deleting() -> None:
    assert ids(without(talk("u1", "a1", "u2", "a2"), "u1")) == ["u2", "a2"]
    assert ids(without(talk("u1", "a1", "u2", "a2"), "a1")) == ["u1", "u2", "a2"]
    assert ids(without(talk("u1", "u2", "a2"), "u1")) == ["u2", "a2"]
    with pytest.raises(StoreError, match="no longer"):
        without(talk("u1"), "u7")


@pytest.mark.case("E-05")
def test_the_engine_is_told_text_alone() -> None:
    turns = (
        turn("u1", "One"),
        turn("a1", "Uno", thinking="secret thoughts", note="a note"),
        turn("u2", "Two"),
        turn("a2", " "),  # ended while thinking: no answer
        turn("u3", "Three"),
    )
    messages = messages_for(turns, "  Be brief. ")
    assert [(it.role, it.content) for it in messages] == [
        ("system", "Be brief."),
        ("user", "One"),
        ("assistant", "Uno"),
        ("user", "Two\n\nThree"),
    ]


def test_no_system_prompt_is_no_message() -> None:
    assert messages_for((turn("u1", "One"),), " ")[0].role == "user"


def test_the_oldest_exchange_goes_first_and_the_last_prompt_stays() -> None:
    turns = talk("u1", "a1", "u2", "a2", "u3").turns
    shorter = without_oldest(turns)
    assert [it.id for it in shorter] == ["u2", "a2", "u3"]
    assert [it.id for it in without_oldest(shorter)] == ["u3"]
    assert without_oldest(talk("u3").turns) == ()
