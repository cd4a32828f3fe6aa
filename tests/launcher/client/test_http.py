"""The client against a server that streams as llama-server does, and against ones that misbehave."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from itertools import pairwise

import pytest

from launcher.client.events import (
    Block,
    ChatRequest,
    Event,
    Failed,
    Finished,
    Message,
    Progress,
    Sampling,
    Text,
    Thinking,
    Timings,
)
from launcher.client.http import EngineClient, chat_body
from launcher.errors import AnswerProblem, BadInput, ContextFull, EngineUnreachable, ServerRefused
from tests.conftest import wait_until
from tests.fakes import paced_text
from tests.fakes.paced_server import PacedConfig, PacedServer
from tests.fakes.raw_server import RawServer
from tests.launcher.client.asking import HELLO, QUICK, ask, text_of


@pytest.mark.parametrize("cut", [0, 3])
def test_an_answer_comes_whole(cut: int) -> None:
    config = PacedConfig(rate=QUICK, tokens=300, thinking_tokens=20, prompt_s=0.05, cut_bytes=cut)
    with PacedServer(config) as server:
        events = ask(server.url)
    assert text_of(events) == "".join(paced_text.markdown(300))
    assert text_of(events, Thinking) == "".join(paced_text.thoughts(20))
    steps = [event.processed for event in events if isinstance(event, Progress)]
    assert len(steps) == 11
    assert steps == sorted(steps)
    end = events[-1]
    assert isinstance(end, Finished)
    assert end.reason == "stop"
    assert end.timings.predicted_tokens == 320
    assert end.timings.draft_n is None
    assert end.timings.time_to_first_token_s is not None
    assert end.timings.total_s is not None
    assert 0.05 <= end.timings.time_to_first_token_s <= end.timings.total_s


def test_blocks_and_origins() -> None:
    config = PacedConfig(rate=QUICK, tokens=13, blocks=((4, 4), (4, 1), (4, 0)))
    with PacedServer(config) as server:
        events = ask(server.url)
    assert [event for event in events if isinstance(event, Block)][:3] == [
        Block(4, 4),
        Block(4, 1),
        Block(4, 0),
    ]
    origins = "".join({True: "d", False: "t", None: "?"}[e.drafted] for e in events if isinstance(e, Text))
    assert origins == "?" + "ddddt" + "dt" + "t" + "dddd"
    end = events[-1]
    assert isinstance(end, Finished)
    assert (end.timings.draft_n, end.timings.draft_n_accepted) == (16, 9)


def test_the_request_says_what_the_person_wants_and_no_more() -> None:
    request = ChatRequest(
        (Message("system", "Be brief."), *HELLO, Message("assistant", "hi"), Message("user", "\ud83c bye")),
        max_tokens=77,
        sampling=Sampling(temperature=0.0, top_p=0.5, top_k=3, min_p=0.1, seed=42),
        thinking_budget=100,
        cache_prompt=False,
    )
    assert chat_body(request) == {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hello there"},
            {"role": "assistant", "content": "hi"},
            {"role": "user", "content": "\ufffd bye"},
        ],
        "max_tokens": 77,
        "temperature": 0.0,
        "top_p": 0.5,
        "top_k": 3,
        "min_p": 0.1,
        "seed": 42,
        "cache_prompt": False,
        "stream": True,
        "timings_per_token": True,
        "return_progress": True,
        "thinking_budget_tokens": 100,
    }
    quiet = chat_body(ChatRequest(HELLO, 5, thinking=False, thinking_budget=100))
    assert quiet["chat_template_kwargs"] == {"enable_thinking": False}
    assert {"seed", "thinking_budget_tokens"}.isdisjoint(quiet)


def test_a_sampling_value_that_is_no_number() -> None:
    with pytest.raises(BadInput, match="temperature"):
        chat_body(ChatRequest(HELLO, 5, Sampling(temperature=float("nan"))))


def test_thinking_off_and_the_limit_reach_the_server() -> None:
    with PacedServer(PacedConfig(rate=QUICK, tokens=50, thinking_tokens=5)) as server:

        async def collect() -> list[Event]:
            client = EngineClient(server.url)
            return [event async for event in client.chat(ChatRequest(HELLO, 8, thinking=False))]

        events = asyncio.run(collect())
        assert text_of(events, Thinking) == ""
        end = events[-1]
        assert isinstance(end, Finished)
        assert (end.reason, end.timings.predicted_tokens) == ("length", 8)
        assert server.chats[0].body["max_tokens"] == 8
        assert server.requests[0].headers["connection"] == "close"


@pytest.mark.case("E-09")
def test_all_tokens_spent_on_thinking() -> None:
    with PacedServer(PacedConfig(rate=QUICK, thinking_tokens=100)) as server:
        events = ask(server.url, max_tokens=40)
    end = events[-1]
    assert isinstance(end, Finished)
    assert end.reason == "length"
    assert text_of(events) == ""
    assert sum(event.tokens for event in events if isinstance(event, Thinking)) == 40


@pytest.mark.case("G-01")
@pytest.mark.parametrize("where", ["finish", "usage", "none"])
def test_speed_is_known_wherever_the_server_puts_it(where: str) -> None:
    with PacedServer(PacedConfig(rate=400, tokens=120, timings=where)) as server:
        end = ask(server.url)[-1]
    assert isinstance(end, Finished)
    assert end.timings.measured_by == ("client" if where == "none" else "server")
    assert end.timings.predicted_tokens == 120
    assert end.timings.tokens_per_second == pytest.approx(400, rel=0.25)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (PacedConfig(rate=QUICK, die_after=20), "broke off"),
        (PacedConfig(rate=QUICK, cut_after=20), "broke off"),
        (PacedConfig(rate=QUICK, error_after=20), "Compute error"),
    ],
)
def test_an_answer_that_breaks_off_keeps_what_came(config: PacedConfig, says: str) -> None:
    with PacedServer(config) as server:
        events = ask(server.url)
    end = events[-1]
    assert isinstance(end, Failed)
    assert end.remedy
    # A reset may throw away what the reader had not taken from the kernel yet.
    assert "".join(paced_text.markdown(20)).startswith(text_of(events))
    if config.die_after is None:
        assert text_of(events) == "".join(paced_text.markdown(20))
    assert says in end.what


def test_a_silent_engine_before_and_after_the_beginning() -> None:
    with RawServer(None) as server, pytest.raises(EngineUnreachable, match="silent"):
        ask(server.url, silence_s=0.1)
    begun = (
        b'HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\ndata: {"choices":[{"delta":{"content":"hi"}}]}\n\n'
    )
    with PacedServer(PacedConfig(prompt_s=60)) as server:
        (*_, end) = ask(server.url, silence_s=0.1)
        assert isinstance(end, Failed)
        assert "silent" in end.what
    with RawServer(begun) as raw:
        (text, end) = ask(raw.url)
        assert text == Text("hi")
        assert isinstance(end, Failed)


@pytest.mark.parametrize(
    ("config", "error", "says"),
    [
        (PacedConfig(refuse=500), ServerRefused, "The paced server refuses"),
        (PacedConfig(refuse=400), ServerRefused, "HTTP 400"),
        (PacedConfig(api_key="secret"), ServerRefused, "API key"),
        (PacedConfig(loading_s=60), ServerRefused, "not ready: Loading model"),
        (PacedConfig(context=5), ContextFull, "needs 6 tokens, but the context holds 5"),
    ],
)
def test_refusals(config: PacedConfig, error: type[Exception], says: str) -> None:
    with PacedServer(config) as server, pytest.raises(error, match=says):
        ask(server.url)


def test_a_refusal_that_breaks_off() -> None:
    cut = b"HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\nshort"
    with RawServer(cut) as server, pytest.raises(EngineUnreachable, match="was cut"):
        ask(server.url)


def test_the_key_is_sent_and_never_shown() -> None:
    with PacedServer(PacedConfig(rate=QUICK, tokens=3, api_key="sesame-123")) as server:
        assert isinstance(ask(server.url, api_key="sesame-123")[-1], Finished)
        with pytest.raises(ServerRefused) as caught:
            ask(server.url, api_key="other-456")
        assert "456" not in str(caught.value)
        assert "456" not in repr(EngineClient(server.url, api_key="other-456"))


def test_nobody_there() -> None:
    with PacedServer() as server:
        url = server.url
    with pytest.raises(EngineUnreachable, match="No engine answers"):
        ask(url)


def test_something_else_answers() -> None:
    with (
        RawServer(b"SSH-2.0-OpenSSH_9.2\r\n\r\n") as server,
        pytest.raises(ServerRefused, match="llama-server"),
    ):
        ask(server.url)
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>"
    with RawServer(page) as server:
        assert isinstance(ask(server.url)[-1], Failed)
        with pytest.raises(ServerRefused, match="/props is not JSON"):
            asyncio.run(EngineClient(server.url).props())
    for nonsense in ("http://127.0.0.1:99999", "http://127.0.0.1:x", "127.0.0.1:8080", "http://" + "a" * 70):
        with pytest.raises(AnswerProblem):
            ask(nonsense)


def test_one_chunk_that_is_no_json_does_not_end_an_answer() -> None:
    deep = b"[" * 100_000
    stream = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: {oops\n\ndata: ' + deep + b"\n\n"
    stream += b'data: {"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    with RawServer(b"HTTP/1.1 200 OK\r\n\r\n" + stream) as server:
        events = ask(server.url)
    assert text_of(events) == "ab"
    assert isinstance(events[-1], Finished)


@pytest.mark.case("D-03")
def test_a_proxy_is_never_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer(b"HTTP/1.1 503 Proxy\r\n\r\n") as proxy, PacedServer(PacedConfig(tokens=2)) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert isinstance(ask(server.url)[-1], Finished)
        assert asyncio.run(EngineClient(server.url).health()) == "ok"
        assert proxy.requests == []


@pytest.mark.case("E-02")
def test_leaving_in_the_middle_closes_the_connection_and_the_next_question_works() -> None:
    with PacedServer(PacedConfig(rate=200, tokens=2000)) as server:

        async def leave() -> None:
            client = EngineClient(server.url)
            async with aclosing(client.chat(ChatRequest(HELLO, 2000))) as events:
                async for event in events:
                    if isinstance(event, Text):
                        assert await client.is_idle() is False
                        break
            left = time.monotonic()
            while not await client.is_idle():
                assert time.monotonic() - left < 2
            assert [event async for event in client.chat(ChatRequest(HELLO, 3))]

        asyncio.run(leave())
        assert len(server.closed_at) == 1
        assert server.chats[0].sent < 100


@pytest.mark.case("E-02")
@pytest.mark.parametrize("config", [PacedConfig(silence_s=60), PacedConfig(prompt_s=60)])
def test_cancelling_before_the_first_token(config: PacedConfig) -> None:
    with PacedServer(config) as server:

        async def leave() -> float:
            async def consume() -> None:
                async for _ in EngineClient(server.url).chat(ChatRequest(HELLO, 9)):
                    pass

            task = asyncio.create_task(consume())
            while not server.working:
                await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return time.monotonic()

        left = asyncio.run(leave())
        wait_until(lambda: server.closed_at, 10, "the server to see it")
        assert server.closed_at[0] - left < 1
        assert not server.working


def test_tokens_are_shown_as_they_come() -> None:
    with PacedServer(PacedConfig(rate=100, tokens=60)) as server:

        async def arrivals() -> list[float]:
            client = EngineClient(server.url)
            return [
                time.monotonic() async for e in client.chat(ChatRequest(HELLO, 60)) if isinstance(e, Text)
            ]

        seen = asyncio.run(arrivals())
    gaps = [later - sooner for sooner, later in pairwise(seen)]
    assert sum(gaps) > 0.5
    assert max(gaps) < 0.3
    # Sent 10 ms apart, they are read in small lots: that is what keeps the processor free.
    assert sum(gap < 0.003 for gap in gaps) > len(gaps) * 0.4


def test_running_figures_come_between() -> None:
    with PacedServer(PacedConfig(rate=200, tokens=100)) as server:
        running = [event for event in ask(server.url) if isinstance(event, Timings)]
    assert len(running) >= 3
    assert [timings.predicted_tokens for timings in running] == sorted(t.predicted_tokens for t in running)
