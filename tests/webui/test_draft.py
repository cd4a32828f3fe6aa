"""Events of an answer become the turn that is kept, with a sentence on how it ended."""

from __future__ import annotations

import pytest

from launcher.client.events import Block, Event, Failed, Finished, Text, Thinking, Timings
from webui.draft import AnswerDraft


def drafted(*events: Event, **fields: object) -> AnswerDraft:
    draft = AnswerDraft("a1", 1000.0)
    for name, value in fields.items():
        setattr(draft, name, value)
    draft.begin(10.0)
    for step, event in enumerate(events):
        draft.take(event, 11.0 + step)
    return draft


def test_text_runs_and_blocks() -> None:
    draft = drafted(
        Block(4, 2),
        Text("ab", True),
        Text("c", True),
        Text("d", False),
        Text("é", None),
        Finished("stop", Timings()),
    )
    turn = draft.turn(99.0)
    assert (turn.role, turn.content, turn.ended, turn.note) == ("assistant", "abcdé", "stop", "")
    assert turn.runs == ((3, "draft"), (1, "target"), (1, ""))
    assert turn.blocks == ((4, 2),)


def test_runs_that_tell_nothing_are_left_out() -> None:
    assert drafted(Text("ab"), Finished("stop", Timings())).turn(99.0).runs == ()


def test_thoughts_are_apart_and_timed() -> None:
    draft = drafted(Thinking("hm"), Thinking(" so"), Text("Yes"), Finished("stop", Timings()))
    turn = draft.turn(99.0)
    assert (turn.thinking, turn.content, turn.thinking_s) == ("hm so", "Yes", 2.0)


@pytest.mark.parametrize(
    ("events", "fields", "ended", "note"),
    [
        ([Text("a"), Finished("stop", Timings(predicted_tokens=1))], {}, "stop", ""),
        ([Finished("stop", Timings())], {}, "stop", "The model gave an empty answer"),
        (
            [Thinking("hm"), Finished("stop", Timings())],
            {},
            "stop",
            "ended after its thoughts, without an answer",
        ),
        (
            [Thinking("hm"), Finished("length", Timings(predicted_tokens=512))],
            {"limit": 512},
            "length",
            "Ran out of tokens while thinking (512)",
        ),
        (
            [Text("a"), Finished("length", Timings(predicted_tokens=1500))],
            {"limit": 1500, "context": 16384},
            "length",
            "Cut at the limit of 1,500 tokens",
        ),
        (
            [Text("a"), Finished("length", Timings(prompt_tokens=2000, predicted_tokens=2096))],
            {"limit": 2096, "context": 4096},
            "full",
            "the context of 4,096 tokens is full",
        ),
        ([Text("a")], {}, "stopped", "Stopped."),
        ([], {}, "stopped", "Stopped before the first token."),
        ([Text("a"), Failed("It broke.", "Try again.", Timings())], {}, "failed", "It broke. Try again."),
        (
            [Thinking("hm", tokens=64), Text("a"), Finished("stop", Timings())],
            {"thinking_budget": 64},
            "stop",
            "Thinking was cut at its budget of 64 tokens",
        ),
        (
            [Text("a"), Finished("stop", Timings())],
            {"left_out": 1},
            "stop",
            "The oldest message was left out",
        ),
        (
            [Text("a"), Finished("stop", Timings())],
            {"left_out": 4},
            "stop",
            "The 4 oldest messages were left out",
        ),
    ],
)
def test_how_it_ended(events: list[Event], fields: dict[str, object], ended: str, note: str) -> None:
    turn = drafted(*events, **fields).turn(99.0)
    assert turn.ended == ended
    assert note in turn.note
    assert bool(note) == bool(turn.note)


def test_context_used_is_prompt_and_answer() -> None:
    turn = drafted(
        Text("a"), Finished("stop", Timings(prompt_tokens=90, predicted_tokens=10)), context=4096
    ).turn(0.0)
    assert (turn.context_used, turn.context_size) == (100, 4096)


def test_context_used_from_our_own_count() -> None:
    draft = drafted(Text("a"), Finished("stop", Timings(predicted_tokens=10)), prompt_tokens=90)
    assert draft.turn(0.0).context_used == 100


def test_a_stopped_answer_has_the_engines_last_figures() -> None:
    draft = drafted(
        Text("a"),
        Timings(predicted_tokens=1, tokens_per_second=50.0, time_to_first_token_s=1.0),
        Text("b"),
        Text("c"),
    )
    timings = draft.turn(99.0).timings
    assert timings is not None
    assert (timings.predicted_tokens, timings.tokens_per_second, timings.measured_by) == (3, 50.0, "server")


@pytest.mark.case("G-01")
def test_without_any_figures_it_is_measured_here() -> None:
    timings = drafted(Text("a"), Text("b"), Text("c")).turn(99.0).timings
    assert timings is not None
    # Three tokens a second apart; the first came one second after the question.
    assert (timings.measured_by, timings.tokens_per_second, timings.time_to_first_token_s) == (
        "client",
        1.0,
        1.0,
    )


@pytest.mark.case("G-01")
def test_nothing_came_and_nothing_is_claimed() -> None:
    turn = drafted().turn(99.0)
    assert (turn.timings, turn.context_used, turn.thinking_s) == (None, None, None)
