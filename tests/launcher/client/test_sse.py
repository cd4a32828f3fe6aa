"""The decoder of Server-Sent Events gives the same events however the bytes are cut."""

from __future__ import annotations

import json
from collections import deque
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.client.sse import SseDecoder
from launcher.errors import ServerRefused

STREAM = (
    b": ping\n\n"
    b'data: {"a":"\xe2\x82\xac \xf0\x9f\x8c\xb1"}\r\n\r\n'
    b"event: note\nid: 7\ndata: one\ndata:two\ndata\n\n"
    b"\n\n"
    b'data: {"b":"x\xe2\x80\xa8y\xc2\x85z\x0b\x0c"}\n\n'
    b"data: [DONE]\n\n"
)
EVENTS = ['{"a":"€ 🌱"}', "one\ntwo\n", '{"b":"x\u2028y\u0085z\x0b\x0c"}', "[DONE]"]


def decode(*chunks: bytes) -> list[str]:
    decoder = SseDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.flush()


def test_two_pieces_cut_at_every_byte() -> None:
    for at in range(len(STREAM) + 1):
        assert decode(STREAM[:at], STREAM[at:]) == EVENTS, at


def test_one_byte_at_a_time() -> None:
    assert decode(*(bytes([byte]) for byte in STREAM)) == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_cuts(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    assert decode(*(STREAM[a:b] for a, b in pairwise(edges))) == EVENTS


@given(st.lists(st.text(min_size=1)), st.integers(1, 7), st.sampled_from([b"\n", b"\r\n"]))
def test_any_text_comes_out_as_it_went_in(texts: list[str], size: int, end: bytes) -> None:
    payloads = [json.dumps(text, ensure_ascii=False) for text in texts]
    stream = b"".join(b"data: " + payload.encode() + end * 2 for payload in payloads)
    assert decode(*(stream[at : at + size] for at in range(0, len(stream), size))) == payloads


def test_an_event_is_given_as_soon_as_its_blank_line_is_there() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: 1\n\ndata: 2\n") == ["1"]
    assert decoder.feed(b"\n") == ["2"]
    assert decoder.flush() == []


def test_a_lone_carriage_return_is_part_of_the_text() -> None:
    assert decode(b"data: a\rb\n\n") == ["a\rb"]


def test_a_byte_order_mark_at_the_start_is_dropped() -> None:
    assert decode(b"\xef\xbb\xbfdata: a\n\n") == ["a"]
    assert decode(b"\xef", b"\xbb\xbfdata: a\n\n") == ["a"]


def test_bytes_that_are_no_utf8_become_the_replacement_character() -> None:
    assert decode(b"data: a\xff\xe2\x82b\n\n") == ["a\ufffd\ufffdb"]


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_flush_gives_an_event_whose_end_was_forgotten(ending: bytes) -> None:
    assert decode(b"data: last" + ending) == ["last"]


@pytest.mark.parametrize("piece", [b"data: 0123456789", b"data: 0123456789\n", b": comment"])
def test_an_event_without_end_does_not_fill_the_memory(piece: bytes) -> None:
    decoder = SseDecoder(limit=1000)
    with pytest.raises(ServerRefused, match="1000 bytes"):
        deque(map(decoder.feed, [piece] * 200), maxlen=0)


def test_the_limit_is_for_one_event_not_for_the_stream() -> None:
    decoder = SseDecoder(limit=100)
    for _ in range(50):
        assert decoder.feed(b"data: " + b"x" * 40) == []
        assert decoder.feed(b"\n\n") == ["x" * 40]
