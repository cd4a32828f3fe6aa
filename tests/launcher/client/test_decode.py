"""From parsed chunks to events: origins of tokens, verify blocks, figures, endings."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.client.decode import ChunkDecoder
from launcher.client.events import Block, Event, Failed, Finished, Progress, Text, Thinking, Timings
from launcher.errors import ContextFull


def chunk(
    content: str = "", *, thought: str = "", reason: str | None = None, **timings: Any
) -> dict[str, Any]:
    delta = {"content": content} if content else {}
    if thought:
        delta["reasoning_content"] = thought
    out: dict[str, Any] = {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
    if timings:
        out["timings"] = {"prompt_n": 5, "cache_n": 2, "predicted_ms": 100.0, **timings}
    return out


def counted(content: str, predicted: int, drafted: int | None = None, accepted: int = 0) -> dict[str, Any]:
    """A chunk with llama-server's counters; ``drafted`` None: nothing was drafted so far."""
    drafts: dict[str, Any] = {} if drafted is None else {"draft_n": drafted, "draft_n_accepted": accepted}
    return chunk(content, predicted_n=predicted, **drafts)


def feed(*chunks: object, step: float = 0.01) -> list[Event]:
    decoder = ChunkDecoder()
    events: list[Event] = []
    for number, item in enumerate(chunks, 1):
        events += decoder.feed(item, number * step)
    return events


def shown(events: list[Event]) -> list[tuple[str, bool | None, int]]:
    return [(e.text, e.drafted, e.tokens) for e in events if isinstance(e, Text | Thinking)]


def ended(decoder: ChunkDecoder, now: float = 1.0, **how: Any) -> Event:
    return decoder.finish(now, **how)[-1]


def test_tokens_of_a_block_are_told_by_the_counters() -> None:
    events = feed(
        counted("first", 1),
        counted("a", 2, 4, 2),
        counted("b", 3, 4, 2),
        counted("own", 4, 4, 2),
        counted("miss", 5, 8, 2),
        counted("c", 6, 12, 6),
        counted("d", 7, 12, 6),
    )
    assert shown(events) == [
        ("first", None, 1),
        ("a", True, 1),
        ("b", True, 1),
        ("own", False, 1),
        ("miss", False, 1),
        ("c", True, 1),
        ("d", True, 1),
    ]
    assert [e for e in events if isinstance(e, Block)] == [Block(4, 2), Block(4, 0), Block(4, 4)]
    block_then_text = [type(e) for e in events if isinstance(e, Block | Text)]
    assert block_then_text[:3] == [Text, Block, Text]


def test_without_speculation_nobody_knows_and_there_are_no_blocks() -> None:
    events = feed(counted("a", 1), counted("b", 2))
    assert shown(events) == [("a", None, 1), ("b", None, 1)]
    assert not [e for e in events if isinstance(e, Block)]


def test_tokens_between_blocks_that_nobody_drafted_are_the_targets_own() -> None:
    events = feed(counted("a", 1), counted("b", 2, 2, 1), counted("c", 3, 2, 1), counted("d", 4, 2, 1))
    assert shown(events)[1:] == [("b", True, 1), ("c", False, 1), ("d", False, 1)]


def test_a_delta_of_several_tokens_carries_their_number_and_no_origin_when_mixed() -> None:
    events = feed(counted("x", 1), counted("ab", 3, 4, 3), counted("🌱", 5, 4, 3), counted("z", 6, 8, 4))
    assert shown(events) == [("x", None, 1), ("ab", True, 2), ("🌱", None, 2), ("z", True, 1)]


def test_text_held_back_over_a_block_edge_does_not_shift_the_next_block() -> None:
    # The last token of the first block (the target's own) is sent with the first of the second.
    events = feed(counted("x", 1), counted("a", 2, 2, 1), counted("bc", 4, 4, 3), counted("d", 5, 4, 3))
    assert shown(events)[1:] == [("a", True, 1), ("bc", None, 2), ("d", True, 1)]


def test_a_final_move_of_the_counters_is_told_though_no_text_follows() -> None:
    decoder = ChunkDecoder()
    decoder.feed(counted("a", 1), 0.1)
    last = chunk(reason="stop", predicted_n=2, draft_n=4, draft_n_accepted=1)
    assert decoder.feed(last, 0.15) == [Block(4, 1)]
    end = ended(decoder)
    assert isinstance(end, Finished)
    assert (end.timings.draft_n, end.timings.draft_n_accepted, end.timings.acceptance) == (4, 1, 0.25)


def test_two_deltas_of_one_token_count_once() -> None:
    events = feed(counted("a", 1), chunk(thought="end"), counted("hi", 2, 4, 1))
    assert [(text, tokens) for text, _, tokens in shown(events)] == [("a", 1), ("end", 0), ("hi", 1)]


@pytest.mark.case("E-11")
def test_progress() -> None:
    told = {"prompt_progress": {"total": 900, "cache": 300, "processed": 512, "time_ms": 4}}
    assert feed({**chunk(predicted_n=0), **told}) == [Progress(512, 900, 300)]


@pytest.mark.case("E-06")
def test_reasoning_content_is_thinking_and_then_tags_in_the_answer_are_text() -> None:
    events = feed(chunk(thought="hm"), chunk("<think>"), chunk("hi"))
    assert events == [Thinking("hm"), Text("<think>"), Text("hi")]


def test_inline_tags_count_their_tokens_with_the_piece_they_belong_to() -> None:
    events = feed(*(counted(text, n) for n, text in enumerate(["<", "think>", "plan", "</think>", "hi"], 1)))
    assert events == [Thinking("plan", None, 3), Text("hi", None, 2)]


@pytest.mark.case("E-06")
def test_an_unclosed_tag_does_not_hide_the_answer() -> None:
    decoder = ChunkDecoder()
    assert decoder.feed(chunk("<think>It is four."), 0.1) == [Thinking("It is four.")]
    decoder.feed(chunk(reason="stop"), 0.2)
    assert decoder.finish(0.3)[:-1] == [Text("It is four.", None, 0)]


@pytest.mark.case("E-09")
def test_thoughts_cut_by_length_are_not_shown_as_the_answer() -> None:
    decoder = ChunkDecoder()
    decoder.feed(chunk("<think>It may be"), 0.1)
    decoder.feed(chunk(reason="length"), 0.2)
    (end,) = decoder.finish(0.3)
    assert isinstance(end, Finished)
    assert end.reason == "length"


def test_what_was_held_back_is_given_at_the_end() -> None:
    decoder = ChunkDecoder()
    assert decoder.feed(chunk("<thi"), 0.1) == []
    assert decoder.finish(0.2)[0] == Text("<thi")


@pytest.mark.case("G-01")
@pytest.mark.parametrize("where", ["finish", "usage", "cut"])
def test_the_last_timings_of_any_chunk_are_kept(where: str) -> None:
    figures: dict[str, Any] = {
        "predicted_n": 9,
        "predicted_per_second": 31.5,
        "prompt_n": 5,
        "prompt_per_second": 70.0,
    }
    decoder = ChunkDecoder()
    decoder.feed(chunk("a", predicted_n=1) if where == "cut" else chunk("a"), 0.1)
    decoder.feed(chunk("b", **figures) if where == "cut" else chunk("b"), 0.2)
    if where == "finish":
        decoder.feed(chunk(reason="stop", **figures), 0.3)
    elif where == "usage":
        decoder.feed(chunk(reason="stop"), 0.3)
        decoder.feed({"choices": [], "usage": {"completion_tokens": 9}, "timings": figures}, 0.3)
    end = ended(decoder)
    assert isinstance(end, Failed if where == "cut" else Finished)
    assert end.timings.measured_by == "server"
    assert end.timings.predicted_tokens == 9
    assert end.timings.tokens_per_second == 31.5
    assert end.timings.prompt_tokens_per_second == 70.0
    assert end.timings.draft_n is None
    assert end.timings.acceptance is None
    assert end.timings.time_to_first_token_s == pytest.approx(0.1)
    assert end.timings.total_s == 1.0


def test_the_whole_prompt_is_counted_cached_part_included() -> None:
    decoder = ChunkDecoder()
    decoder.feed(chunk("a", predicted_n=1, prompt_n=1, cache_n=900), 0.1)
    timings = decoder.timings(0.2)
    assert (timings.prompt_tokens, timings.cached_tokens) == (901, 900)


@pytest.mark.case("G-01")
def test_missing_timings_are_measured_from_the_first_to_the_last_token() -> None:
    decoder = ChunkDecoder(started=10.0)
    for at in (15.0, 15.5, 16.0, 16.5, 17.0):
        decoder.feed(chunk("a"), at)
    decoder.feed(chunk(reason="stop"), 18.0)
    end = ended(decoder, 18.0)
    assert isinstance(end, Finished)
    assert end.timings == Timings(
        predicted_tokens=5,
        tokens_per_second=2.0,
        time_to_first_token_s=5.0,
        total_s=8.0,
        measured_by="client",
    )


def test_usage_serves_where_there_are_no_timings() -> None:
    decoder = ChunkDecoder()
    decoder.feed(chunk("ab"), 1.0)
    decoder.feed(chunk("cd"), 2.0)
    details = {"cached_tokens": 6}
    usage = {"completion_tokens": 11, "prompt_tokens": 7, "prompt_tokens_details": details}
    decoder.feed({"choices": [], "usage": usage}, 2.0)
    timings = decoder.timings(3.0)
    assert (timings.prompt_tokens, timings.cached_tokens, timings.predicted_tokens) == (7, 6, 11)
    assert timings.tokens_per_second == 10.0


@pytest.mark.case("G-01")
@pytest.mark.parametrize(
    ("figures", "speed"),
    [
        ({"predicted_n": 1, "predicted_ms": 0}, None),
        ({"predicted_n": 1, "predicted_ms": 0.001, "predicted_per_second": 1000000.0}, None),
        ({"predicted_n": 0, "predicted_ms": 0.0, "predicted_per_second": None}, None),
        ({"predicted_n": 11, "predicted_ms": 2000.0, "predicted_per_second": float("inf")}, 5.0),
        ({"predicted_n": 11, "predicted_ms": 0, "predicted_per_second": float("nan")}, None),
        ({"predicted_n": 11, "predicted_ms": 2000.0}, 5.0),
        ({"predicted_n": "11", "predicted_ms": [], "predicted_per_second": {}}, None),
        ({"predicted_n": 11, "predicted_ms": 10**400, "predicted_per_second": True}, None),
    ],
)
def test_no_figure_is_divided_by_nothing(figures: dict[str, Any], speed: float | None) -> None:
    decoder = ChunkDecoder()
    decoder.feed({"choices": [], "timings": figures}, 0.1)
    assert decoder.timings(0.2).tokens_per_second == speed


def test_one_token_measured_by_the_client_has_no_speed() -> None:
    decoder = ChunkDecoder()
    decoder.feed(chunk("a"), 0.1)
    assert decoder.timings(0.1).tokens_per_second is None


def test_running_figures_ten_times_a_second() -> None:
    events = feed(*(counted("a", n, 2, 1) for n in range(1, 201)), step=0.005)
    running = [e for e in events if isinstance(e, Timings)]
    assert 9 <= len(running) <= 10
    assert running[-1].predicted_tokens > 180


def test_an_error_in_the_stream_fails_with_the_servers_message() -> None:
    decoder = ChunkDecoder()
    decoder.feed(counted("a", 1), 0.1)
    error = {"error": {"code": 500, "message": "Compute error.", "type": "server_error"}}
    (end,) = decoder.feed(error, 0.2)
    assert isinstance(end, Failed)
    assert "Compute error." in end.what
    assert end.remedy
    assert end.timings.predicted_tokens == 1
    assert decoder.over
    assert decoder.feed(counted("b", 2), 0.3) == []
    assert decoder.finish(0.4) == []


@pytest.mark.parametrize("error", ["out of memory", {"message": None}, [1], {"message": "x" * 9999}])
def test_an_error_of_any_form_is_one_sentence(error: object) -> None:
    (end,) = ChunkDecoder().feed({"error": error}, 0.1)
    assert isinstance(end, Failed)
    assert len(end.what) < 600
    assert end.what.endswith((".", "…"))


@pytest.mark.case("E-11")
def test_a_prompt_that_is_too_long() -> None:
    error = {"type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 4096, "message": "m"}
    with pytest.raises(ContextFull) as caught:
        ChunkDecoder().feed({"error": error}, 0.1)
    assert (caught.value.needed, caught.value.context) == (9000, 4096)


def test_a_stream_that_ends_without_a_finish_broke_off() -> None:
    decoder = ChunkDecoder()
    decoder.feed(counted("a", 1), 0.1)
    end = ended(decoder)
    assert isinstance(end, Failed)
    assert "broke off" in end.what
    assert end.timings.predicted_tokens == 1


def test_the_streams_own_end_mark_is_a_finish_where_no_reason_was_given() -> None:
    decoder = ChunkDecoder()
    decoder.feed(chunk("a"), 0.1)
    end = ended(decoder, done=True)
    assert isinstance(end, Finished)
    assert end.reason == "stop"


@pytest.mark.parametrize(
    "odd",
    [
        None,
        [],
        "text",
        7,
        {},
        {"error": None},
        {"choices": None},
        {"choices": [None]},
        {"choices": [{}]},
        {"choices": [{"delta": {"content": 5, "reasoning_content": []}, "finish_reason": 3}]},
        {"choices": [], "timings": [], "usage": 3, "prompt_progress": "half"},
        {"timings": {"predicted_n": -5, "draft_n": "x", "draft_n_accepted": 9}},
        {"timings": {"draft_n": 0, "draft_n_accepted": 2, "predicted_n": 0}},
    ],
)
def test_chunks_that_make_no_sense_do_not_end_an_answer(odd: object) -> None:
    events = feed(odd, chunk("hi"), odd, chunk(" there"), odd)
    assert "".join(text for text, _, _ in shown(events)) == "hi there"
