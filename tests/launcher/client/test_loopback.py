"""The lean transport against servers that answer in every way HTTP/1.1 allows, and in some that it does not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from itertools import pairwise

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.client.loopback import Chunked, LoopbackTransport
from tests.fakes.paced_server import PacedConfig, PacedServer
from tests.fakes.raw_server import RawServer

OK = b"HTTP/1.1 200 OK\r\n"
BODY = b"data: one\n\ndata: \xe2\x82\xac\n\n"


def get(url: str, **timeouts: float) -> httpx.Response:
    async def ask() -> httpx.Response:
        timeout = httpx.Timeout(5.0, **timeouts)
        async with httpx.AsyncClient(transport=LoopbackTransport(), timeout=timeout) as client:
            return await client.post(url, content=b"ask")

    return asyncio.run(ask())


@pytest.mark.parametrize("size", [1, 1 << 16])
@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY,
        OK + b"content-length: %d\r\n\r\n" % len(BODY) + BODY + b"more than was announced",
        OK + b"\r\n" + BODY,
        b"HTTP/1.0 200\r\nContent-Type: text/plain\r\n\r\n" + BODY,
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"\r\n" + BODY,
        OK + b"Transfer-Encoding: Chunked\r\n\r\n5\r\n" + BODY[:5] + b"\r\n%X;x=y\r\n" % len(BODY[5:])
        + BODY[5:] + b"\r\n0\r\nTrailer: 1\r\n\r\n",
    ],
)  # fmt: skip
def test_every_framing(answer: bytes, size: int) -> None:
    with RawServer(answer, size=size) as server:
        response = get(server.url)
        assert (response.status_code, response.content) == (200, BODY)
        assert server.requests[0].startswith(b"POST / HTTP/1.1\r\n")
        assert server.requests[0].endswith(b"\r\n\r\nask")


def test_no_body() -> None:
    with RawServer(b"HTTP/1.1 204 No Content\r\n\r\n", hold=True) as server:
        assert get(server.url).status_code == 204


def test_the_end_of_an_answer_is_not_the_end_of_the_connection() -> None:
    with RawServer(OK + b"Content-Length: 2\r\n\r\nab", hold=True) as server:
        assert get(server.url).content == b"ab"
    with RawServer(OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", hold=True) as server:
        assert get(server.url).content == b"a"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", httpx.ReadError),
        (b"HTTP/1.1 200 OK\r\nContent-", httpx.ReadError),
        (OK + b"Content-Length: 100\r\n\r\nshort", httpx.ReadError),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n10\r\nshort", httpx.ReadError),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", httpx.RemoteProtocolError),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n", httpx.RemoteProtocolError),
        (OK + b"Content-Length: many\r\n\r\n", httpx.RemoteProtocolError),
        (OK + b"no colon here\r\n\r\n", httpx.RemoteProtocolError),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", httpx.RemoteProtocolError),
        (b"HTTP/1.1 twohundred OK\r\n\r\n", httpx.RemoteProtocolError),
        (b"X" * 100_000, httpx.RemoteProtocolError),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 100_000, httpx.RemoteProtocolError),
    ],
)
def test_broken_answers(answer: bytes, error: type[Exception]) -> None:
    with RawServer(answer) as server, pytest.raises(error):
        get(server.url)


def test_a_reset_connection() -> None:
    with RawServer(OK + b"Content-Length: 9\r\n\r\nab", reset=True) as server, pytest.raises(httpx.ReadError):
        get(server.url)


def test_a_silent_server() -> None:
    with RawServer(None) as server, pytest.raises(httpx.ReadTimeout):
        get(server.url, read=0.1)


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        with pytest.raises(httpx.ConnectError):
            get(f"http://127.0.0.1:{taken.getsockname()[1]}")


def test_a_name_with_several_addresses() -> None:
    with RawServer(OK + b"\r\n" + BODY) as server:
        assert get(server.url.replace("127.0.0.1", "localhost")).content == BODY


def test_only_plain_http() -> None:
    with pytest.raises(httpx.UnsupportedProtocol):
        get("https://127.0.0.1:1")


def test_a_large_request_arrives_whole() -> None:
    text = "x" * 3_000_000
    body = {"messages": [{"role": "user", "content": text}]}

    async def ask(url: str) -> int:
        async with httpx.AsyncClient(transport=LoopbackTransport(), timeout=10) as client:
            answer = await client.post(f"{url}/v1/chat/completions/input_tokens", json=body)
            return int(answer.json()["input_tokens"])

    with PacedServer(PacedConfig()) as server:
        assert asyncio.run(ask(server.url)) > 400_000


CODED = b"4;a=b\r\nWiki\r\n6\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nExpires: never\r\n\r\n"
PLAIN = b"Wikipedia in \r\n\r\nchunks."


def pieces(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    for start, end in pairwise([0, *sorted(cuts), len(data)]):
        yield data[start:end]


@given(st.lists(st.integers(0, len(CODED)), max_size=10))
def test_chunked_coding_in_any_cut(cuts: list[int]) -> None:
    coding = Chunked()
    assert b"".join(map(coding.feed, pieces(CODED, cuts))) == PLAIN
    assert coding.done


def test_chunked_coding_cut_at_every_byte() -> None:
    for at in range(len(CODED) + 1):
        coding = Chunked()
        assert coding.feed(CODED[:at]) + coding.feed(CODED[at:]) == PLAIN
        assert coding.done
    coding = Chunked()
    assert b"".join(coding.feed(bytes([byte])) for byte in CODED) == PLAIN


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=8), st.integers(1, 50))
def test_chunked_coding_of_any_content(chunks: list[bytes], size: int) -> None:
    coded = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    coding = Chunked()
    assert b"".join(coding.feed(coded[at : at + size]) for at in range(0, len(coded), size)) == b"".join(
        chunks
    )
    assert coding.done
