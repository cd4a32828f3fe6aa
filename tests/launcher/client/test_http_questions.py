"""The client's small questions, its seam to httpx, and the budget of an answer."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from launcher.client import http
from launcher.client.http import EngineClient, budget
from launcher.errors import AnswerProblem, BadInput, ContextFull
from tests.conftest import wait_until
from tests.fakes.paced_server import PacedConfig, PacedServer
from tests.fakes.raw_server import RawServer
from tests.launcher.client.asking import HELLO


def test_questions() -> None:
    async def all_of(client: EngineClient) -> list[object]:
        return [
            await client.health(),
            await client.alias(),
            await client.context_size(),
            await client.is_idle(),
            await client.count_tokens(HELLO),
            await client.count_tokens(HELLO, thinking=False),
            (await client.props())["total_slots"],
        ]

    with PacedServer(PacedConfig(context=4096, alias="bonsai-x")) as server:
        assert asyncio.run(all_of(EngineClient(server.url))) == ["ok", "bonsai-x", 4096, True, 6, 6, 1]
        bodies = [json.loads(request.body) for request in server.requests if request.method == "POST"]
        assert bodies[1]["chat_template_kwargs"] == {"enable_thinking": False}


def test_an_engine_that_cannot_tell() -> None:
    async def all_of(client: EngineClient) -> list[object]:
        return [
            await client.alias(),
            await client.context_size(),
            await client.is_idle(),
            await client.count_tokens(HELLO),
            await client.props(),
        ]

    missing = b'HTTP/1.1 404 Not Found\r\n\r\n{"error":{"message":"File Not Found","type":"not_found_error"}}'
    with RawServer(missing) as server:
        assert asyncio.run(all_of(EngineClient(server.url))) == [None, None, None, None, {}]
    odd = b'HTTP/1.1 200 OK\r\n\r\n"what?"'
    with RawServer(odd) as server:
        assert asyncio.run(all_of(EngineClient(server.url))) == [None, None, None, None, {}]


def test_health() -> None:
    with PacedServer(PacedConfig(loading_s=0.3)) as server:
        client = EngineClient(server.url)
        assert asyncio.run(client.health()) == "loading"
        wait_until(lambda: asyncio.run(client.health()) == "ok", 10, "the model to be loaded")
    assert asyncio.run(client.health()) == "down"
    with RawServer(b"220 mail.example ESMTP\r\n\r\n") as other:
        assert asyncio.run(EngineClient(other.url).health()) == "down"


def test_every_exception_of_httpx_becomes_one_of_ours() -> None:
    def tree(kind: type[BaseException]) -> list[type[BaseException]]:
        return [kind, *(below for child in kind.__subclasses__() for below in tree(child))]

    exported = {
        item for item in vars(httpx).values() if isinstance(item, type) and issubclass(item, Exception)
    }
    roots = {item for item in exported if not any(base in exported for base in item.__mro__[1:])}
    kinds = {kind for root in roots for kind in tree(root) if kind.__module__.startswith("httpx")}
    assert len(kinds) > 20
    for kind in kinds:
        error = kind.__new__(kind)  # their constructors differ; what counts is the class
        with pytest.raises(AnswerProblem) as caught, http._translate("http://127.0.0.1:1"):
            raise error
        assert caught.value.remedy, kind
        assert caught.value.__cause__ is error


def test_other_exceptions_pass_the_seam() -> None:
    with pytest.raises(KeyError), http._translate("http://127.0.0.1:1"):
        raise KeyError


@pytest.mark.parametrize(
    ("prompt", "context", "asked", "expected"),
    [
        (100, 16384, None, 8192),
        (10_000, 16384, None, 6384),
        (16_383, 16384, None, 1),
        (None, 4096, None, 4096),
        (None, 262_144, None, 8192),
        (100, 16384, 300, 300),
        (100, 262_144, 20_000, 20_000),
        (16_000, 16384, 20_000, 384),
    ],
)
def test_budget(prompt: int | None, context: int, asked: int | None, expected: int) -> None:
    assert budget(prompt, context, asked) == expected


def test_budget_of_nothing() -> None:
    with pytest.raises(ContextFull) as caught:
        budget(16_384, 16_384, 10)
    assert (caught.value.needed, caught.value.context) == (16_385, 16_384)
    with pytest.raises(BadInput):
        budget(1, 100, 0)
