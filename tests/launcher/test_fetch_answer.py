"""What the head of an answer means: tables."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.errors import DigestMismatch, FetchProblem
from launcher.fetch_answer import (
    Again,
    Body,
    StartOver,
    Wanted,
    Wrong,
    is_page,
    judge,
    retry_after,
    strong,
)

FRESH = Wanted("the file", "host", have=0, total=100, pinned=True, digest=True, etag="", ranged=False)
RESUMED = replace(FRESH, have=40, ranged=True, etag='"a"')
GUESSED = replace(RESUMED, pinned=False, digest=False)  # the size is from an earlier answer


@pytest.mark.parametrize(("status", "headers", "wanted", "body"), [
    (200, {"content-length": "100", "etag": '"a"'}, FRESH, Body(0, 100, '"a"')),
    (200, {}, FRESH, Body(0, 100, "")),
    (200, {"content-length": "100"}, replace(FRESH, total=None, pinned=False), Body(0, 100, "")),
    (200, {"content-length": "1e2"}, replace(FRESH, total=None, pinned=False), Body(0, None, "")),
    (200, {"content-length": "5", "transfer-encoding": "chunked"}, FRESH, Body(0, 100, "")),
    (200, {"content-length": "100", "etag": '"a"'}, RESUMED, Body(0, 100, '"a"')),
    (200, {"content-length": "100", "etag": 'W/"b"'}, RESUMED, Body(0, 100, "")),
    (200, {"content-length": "100", "etag": '"b"'}, RESUMED, Body(0, 100, '"b"', fresh=True)),
    (200, {"content-length": "100", "etag": '"a"'}, GUESSED, Body(0, 100, '"a"')),
    (200, {"content-length": "100"}, GUESSED, Body(0, 100, "", fresh=True)),
    (200, {"content-length": "90", "etag": '"b"'}, GUESSED, Body(0, 90, '"b"', fresh=True)),
    (206, {"content-range": "bytes 40-99/100"}, RESUMED, Body(40, 100, '"a"')),
    (206, {"content-range": "bytes 40-99/*"}, RESUMED, Body(40, 100, '"a"')),
    (206, {"content-range": "bytes 10-99/100"}, RESUMED, Body(10, 100, '"a"')),
    (416, {"content-range": "bytes */40"}, replace(GUESSED, total=None), Body(40, 40, '"a"', nothing_left=True)),
])  # fmt: skip
def test_answers_that_are_gone_on_with(
    status: int, headers: dict[str, str], wanted: Wanted, body: Body
) -> None:
    assert judge(status, headers, wanted, 0) == body


@pytest.mark.parametrize(("status", "headers", "wanted", "error"), [
    (200, {"content-length": "90"}, FRESH, Wrong),
    (200, {"content-length": "100", "content-encoding": "gzip"}, FRESH, Wrong),
    (206, {"content-range": "bytes 0-99/100"}, FRESH, Again),  # nobody asked for a piece
    (206, {"content-range": "bytes 50-99/100"}, RESUMED, Again),
    (206, {"content-range": "40-99/100"}, RESUMED, Again),
    (206, {"content-type": "multipart/byteranges"}, RESUMED, Again),
    (206, {"content-range": "bytes 40-89/90"}, RESUMED, Wrong),
    (206, {"content-range": "bytes 40-89/90"}, GUESSED, StartOver),
    (206, {"content-range": "bytes 40-99/100", "etag": '"b"'}, RESUMED, StartOver),
    (416, {}, RESUMED, Again),
    (416, {"content-range": "bytes */100"}, RESUMED, Again),
    (416, {"content-range": "bytes */30"}, RESUMED, StartOver),
    (416, {"content-range": "bytes */90"}, GUESSED, StartOver),
    (403, {}, replace(FRESH, hops=1), Wrong),
    (403, {}, FRESH, FetchProblem),
    (416, {}, FRESH, FetchProblem),
    (204, {}, FRESH, FetchProblem),
    (300, {}, FRESH, FetchProblem),
    (407, {}, FRESH, FetchProblem),
    (408, {}, FRESH, Again),
    (599, {}, FRESH, Again),
    (503, {"retry-after": "301"}, FRESH, FetchProblem),
    (503, {"retry-after": "300"}, FRESH, Again),
])  # fmt: skip
def test_answers_that_are_not(
    status: int, headers: dict[str, str], wanted: Wanted, error: type[Exception]
) -> None:
    with pytest.raises(error) as raised:
        judge(status, headers, wanted, 0)
    assert raised.type is error or error is FetchProblem


def test_another_size_than_published_is_a_mismatch_that_names_both() -> None:
    with pytest.raises(Wrong) as raised:
        judge(206, {"content-range": "bytes 40-89/90"}, RESUMED, 0)
    assert isinstance(raised.value.problem, DigestMismatch)
    assert "90 bytes, but it must have 100" in raised.value.problem.what


@pytest.mark.parametrize(("headers", "seconds"), [
    ({}, None),
    ({"retry-after": "17"}, 17.0),
    ({"retry-after": "-1"}, None),
    ({"retry-after": "soon"}, None),
    ({"retry-after": "9" * 40}, 999_999_999.0),
    # this machine's clock says 1970: the answer's own date counts
    ({"retry-after": "Sun, 06 Nov 1994 08:50:37 GMT", "date": "Sun, 06 Nov 1994 08:49:37 GMT"}, 60.0),
    ({"retry-after": "Sun, 06 Nov 1994 08:40:37 GMT", "date": "Sun, 06 Nov 1994 08:49:37 GMT"}, 0.0),
    ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 100.0),
])  # fmt: skip
def test_how_long_a_server_wants_to_be_left_alone(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, 0.0) == seconds


@pytest.mark.parametrize(("start", "says_so", "page"), [
    (b"GGUF\x03\0\0\0", False, False),
    (b"GGUF\x03\0\0\0", True, False),  # some servers call everything text/html
    (b"\x1f\x8b\x08", True, False),
    (b"PK\x03\x04", True, False),
    (b"<!DOCTYPE html>", False, True),
    (b"\xef\xbb\xbf\r\n <HtMl lang=it>", False, True),
    (b"<?xml version='1.0'?>", False, False),
    (b"<?xml version='1.0'?>", True, True),
    (b"", True, False),
])  # fmt: skip
def test_web_pages_are_known_by_their_start(start: bytes, says_so: bool, page: bool) -> None:
    assert is_page(start, says_so=says_so) is page


def test_only_strong_tags_promise_the_same_bytes() -> None:
    tags = ['"a"', 'W/"a"', "a", '""', '"', "", '"é"']
    assert [strong(tag) for tag in tags] == ['"a"', "", "", "", "", "", ""]


HEADERS = st.dictionaries(
    st.sampled_from(["content-length", "content-range", "etag", "content-type", "content-encoding",
                     "retry-after", "date", "transfer-encoding"]),
    st.one_of(st.text(max_size=40), st.sampled_from([
        "100", "40", "bytes 40-99/100", "bytes */100", "bytes */*", '"a"', "gzip", "chunked", "text/html"])),
)  # fmt: skip


@given(
    st.integers(200, 600), HEADERS, st.sampled_from([FRESH, RESUMED, GUESSED, replace(GUESSED, total=None)])
)
def test_any_head_has_one_of_the_known_outcomes(status: int, headers: dict[str, str], wanted: Wanted) -> None:
    try:
        body = judge(status, headers, wanted, 0.0)
    except (Again, StartOver, FetchProblem):
        return
    assert 0 <= body.start <= wanted.have
    if wanted.pinned:
        assert body.total == wanted.total
