"""Streams recorded from a real llama-server (b11434, practice pair), cut in several ways."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from launcher.client.decode import ChunkDecoder
from launcher.client.events import Block, Event, Finished, Progress, Text, Thinking
from launcher.client.sse import SseDecoder

CAPTURED = Path(__file__).parents[2] / "captured"


def stream_of(name: str) -> bytes:
    return (CAPTURED / f"llama_server_b11434_chat_{name}.sse").read_bytes()


def sent(name: str, field: str) -> str:
    """All that the server sent in one field of its deltas, taken from the stream without our decoders."""
    lines = stream_of(name).decode().split("\n")
    chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    return "".join(delta.get(field) or "" for delta in deltas)


def events_of(name: str, size: int) -> list[Event]:
    stream = stream_of(name)
    sse, answer = SseDecoder(), ChunkDecoder()
    events: list[Event] = []
    for at in range(0, len(stream), size):
        for payload in sse.feed(stream[at : at + size]):
            if payload != "[DONE]":
                events += answer.feed(json.loads(payload), 0.0)
    assert sse.flush() == []
    return events + answer.finish(0.0)


def text_of(events: list[Event], kind: type[Text | Thinking] = Text) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


def end_of(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


@pytest.mark.parametrize("name", ["plain", "speculative", "thinking", "thinking_inline"])
def test_the_cut_does_not_matter(name: str) -> None:
    whole = events_of(name, 1 << 20)
    for size in (1, 3, 1000):
        assert events_of(name, size) == whole


def test_plain() -> None:
    events = events_of("plain", 4096)
    assert [event for event in events if isinstance(event, Progress)] == [
        Progress(0, 15, 0),
        Progress(15, 15, 0),
    ]
    assert text_of(events) == sent("plain", "content") != ""
    assert {event.drafted for event in events if isinstance(event, Text)} == {None}
    assert not [event for event in events if isinstance(event, Block)]
    end = end_of(events)
    assert end.reason == "length"
    assert end.timings.draft_n is None
    assert end.timings.predicted_tokens == 60
    assert end.timings.measured_by == "server"
    assert end.timings.tokens_per_second


def test_speculative_blocks_add_up() -> None:
    events = events_of("speculative", 4096)
    assert text_of(events) == sent("speculative", "content")
    blocks = [event for event in events if isinstance(event, Block)]
    end = end_of(events)
    assert sum(block.drafted for block in blocks) == end.timings.draft_n
    assert sum(block.accepted for block in blocks) == end.timings.draft_n_accepted
    assert {block.drafted for block in blocks} == {4}
    texts = [event for event in events if isinstance(event, Text)]
    assert sum(text.tokens for text in texts) == end.timings.predicted_tokens
    # One token of the target's own ends each block. The very first token belongs to none, and for the very
    # last nothing was drafted: the limit left no room.
    drafted = [text.drafted for text in texts for _ in range(text.tokens)]
    assert drafted[0] is None
    assert drafted.count(True) + drafted.count(False) == len(drafted) - 1
    pattern = [origin for block in blocks for origin in [True] * block.accepted + [False]]
    assert drafted[1:] == [*pattern, False]


def test_thinking_apart_from_the_answer() -> None:
    events = events_of("thinking", 4096)
    assert text_of(events, Thinking) == sent("thinking", "reasoning_content") != ""
    assert text_of(events) == sent("thinking", "content") != ""
    end = end_of(events)
    assert end.reason == "stop"
    pieces = [event for event in events if isinstance(event, Text | Thinking)]
    # The token that ends the answer has no text.
    assert sum(piece.tokens for piece in pieces) == end.timings.predicted_tokens - 1


def test_a_server_that_leaves_the_tags_in_and_counts_only_at_the_end() -> None:
    events = events_of("thinking_inline", 4096)
    thoughts, _, answer = sent("thinking_inline", "content").removeprefix("<think>").partition("</think>")
    assert text_of(events, Thinking).strip() == thoughts.strip() != ""
    assert text_of(events) == answer.strip() != ""
    end = end_of(events)
    assert (end.reason, end.timings.predicted_tokens, end.timings.prompt_tokens) == ("length", 230, 16)
    assert end.timings.measured_by == "server"
