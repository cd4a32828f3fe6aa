"""From what a client receives, in lots, to a time line: nothing lost, nothing out of order, steps whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.client import events
from launcher.client.events import Failed, Finished, Progress, Text, Thinking, Timings
from launcher.race_record import LOT_S, Recorder
from launcher.race_types import Block, Live, Piece, Reading, Run

DONE = Finished("length", Timings(predicted_tokens=9, tokens_per_second=100.0))


def recorded(*received: tuple[float, events.Event]) -> Run:
    recorder = Recorder(1, 2, 1.7e9)
    for now, event in received:
        recorder.take(event, now)
    return recorder.run()


def times(run: Run) -> list[float]:
    return [mark.at_s for mark in run.marks]


def test_tokens_that_came_apart_keep_their_times() -> None:
    run = recorded((5.0, Text("a")), (5.1, Text("b")), (5.25, Text("c")), (5.25, DONE))
    assert times(run) == pytest.approx([0, 0.1, 0.25])
    assert (run.text, run.ended, run.side, run.round) == ("abc", "length", 1, 2)
    assert run.timings == DONE.timings


def test_tokens_of_one_lot_are_spread_over_the_time_since_the_last() -> None:
    run = recorded((5.0, Text("a")), *((5.03, Text(char)) for char in "bcd"), (5.06, Text("e")))
    assert times(run) == pytest.approx([0, 0.01, 0.02, 0.03, 0.06])


def test_the_tokens_of_a_step_stay_together() -> None:
    run = recorded(
        (5.0, Text("a", False)),
        (5.03, events.Block(4, 2)),
        (5.03, Text("b", True)),
        (5.03, Text("c", True)),
        (5.03, Text("d", False)),
        (5.03, events.Block(4, 0)),
        (5.03, Text("e", False)),
    )
    assert times(run) == pytest.approx([0, 0.015, 0.015, 0.015, 0.03])
    assert [(step.at_s, step.drafted, step.accepted) for step in run.steps] == [(0.015, 4, 2), (0.03, 4, 0)]
    assert [mark.origin for mark in run.marks] == ["target", "draft", "draft", "target", "target"]


def test_a_step_that_is_cut_by_two_lots_stays_whole() -> None:
    run = recorded(
        (5.0, Text("a", False)),
        (5.03, events.Block(4, 1)),
        (5.03, Text("b", True)),
        (5.06, Text("c", False)),
        (5.06, Text("d", False)),
    )
    assert times(run) == pytest.approx([0, 0.03, 0.03, 0.06])


def test_thoughts_are_kept_apart() -> None:
    run = recorded((5.0, Thinking("hm")), (5.1, Text("so")))
    assert (run.thinking, run.text, run.whole) == ("hm", "so", "hm\n\nso")
    assert [mark.thinking for mark in run.marks] == [True, False]


def test_how_it_ended() -> None:
    assert recorded((5.0, Text("a"))).ended == "stopped"
    recorder = Recorder(0, 1, 0)
    recorder.take(Failed("It broke.", "Again.", Timings(predicted_tokens=3)), 1.0)
    assert recorder.run().ended == "failed"
    assert recorder.run().timings.predicted_tokens == 3
    assert recorder.failure is not None
    assert not recorder.run().counts
    assert Recorder(0, 1, 0).run(failed=True).ended == "failed"


def test_what_is_told_live() -> None:
    recorder = Recorder(1, 1, 0)
    assert recorder.take(Progress(5, 10, 0), 1.0) == Reading(1, 5, 10)
    assert recorder.take(events.Block(4, 3), 2.0) == Block(1, 4, 3, 0.0)
    assert recorder.take(Text("a", True, 2), 2.5) == Piece(1, "a", False, "draft", 2, 0.5)
    assert recorder.take(Timings(), 2.5) == Live(1, Timings())
    assert recorder.take(DONE, 3.0) is None


answers = st.lists(
    st.tuples(
        st.floats(0, 0.2),
        st.one_of(
            st.builds(
                Text, st.text(min_size=1, max_size=5), st.sampled_from([True, False, None]), st.integers(0, 4)
            ),
            st.builds(Thinking, st.text(min_size=1, max_size=5), st.none(), st.integers(0, 4)),
            st.builds(events.Block, st.integers(1, 8), st.integers(0, 8)),
        ),
    ),
    max_size=40,
)


@given(answers)
def test_nothing_is_lost_and_time_never_runs_back(answer: list[tuple[float, events.Event]]) -> None:
    now, received = 3.0, []
    for wait, event in answer:
        now += wait
        received.append((now, event))
    run = recorded(*received)
    texts = [event.text for _, event in received if isinstance(event, Text)]
    thoughts = [event.text for _, event in received if isinstance(event, Thinking)]
    assert (run.text, run.thinking) == ("".join(texts), "".join(thoughts))
    assert sum(mark.chars for mark in run.marks if mark.thinking) == len(run.thinking)
    assert [mark.chars for mark in run.marks if not mark.thinking] == [len(text) for text in texts]
    assert [(step.drafted, step.accepted) for step in run.steps] == [
        (event.drafted, event.accepted) for _, event in received if isinstance(event, events.Block)
    ]
    assert times(run) == sorted(times(run))
    assert all(0 <= at <= now - 3.0 + LOT_S for at in times(run))
