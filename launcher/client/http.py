"""Talks to a llama-server: base URL in, events out.

Every chat has a connection of its own that is closed with it, so that the engine sees at once when nobody
listens any more: a connection kept alive in a pool hides that, and the engine computes on. Proxy variables
are not looked at: the engine is on this machine.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import httpx

from launcher.client.decode import ChunkDecoder
from launcher.client.events import ChatRequest, Event, Message
from launcher.client.figures import count
from launcher.client.loopback import LoopbackTransport
from launcher.client.refusal import refusal_from_bytes
from launcher.client.sse import SseDecoder
from launcher.errors import AnswerProblem, BadInput, ContextFull, EngineUnreachable, ServerRefused

LONGEST_ANSWER = 8192  # tokens, where nobody asked for another limit
SILENCE_S = 900.0  # reading a long prompt on a slow machine takes minutes without a byte
CONNECT_S = 5.0
QUESTION_S = 15.0  # small questions wait while the engine computes a batch
GATHER_S = 0.03  # once an answer runs, tokens are read in lots: nobody sees the wait, the processor does
LARGEST_REFUSAL = 64 * 1024  # bytes of an error's body that are read


class EngineClient:
    """One engine. Cheap to make, holds nothing open between calls, usable from any event loop.

    ``base_url`` is scheme, host and port (``http://127.0.0.1:8080``). ``api_key`` goes out as a bearer token
    and appears in no message. Times are in seconds. All methods raise subclasses of AnswerProblem.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        connect_s: float = CONNECT_S,
        silence_s: float = SILENCE_S,
        question_s: float = QUESTION_S,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.headers = {"Connection": "close", "Accept-Encoding": "identity"}
        if api_key:
            self.headers["Authorization"] = f"Bearer {api_key}"
        self._stream_timeout = httpx.Timeout(silence_s, connect=connect_s)
        self._question_timeout = httpx.Timeout(question_s, connect=connect_s)

    async def chat(self, request: ChatRequest) -> AsyncGenerator[Event]:
        """Ask, and yield the answer as it comes; the last event is Finished or Failed.

        Raises ServerRefused, ContextFull or EngineUnreachable when there is no answer at all; once the engine
        began to answer, a break is told as Failed, after what had come. Leaving early (``aclose``,
        cancellation) closes the connection, which ends the engine's work: wrap it in ``contextlib.aclosing``.
        """
        started = time.perf_counter()
        with _translate(self.base_url):
            client = self._client(self._stream_timeout)
        try:
            with _translate(self.base_url):
                sent = client.build_request("POST", "/v1/chat/completions", json=chat_body(request))
                response = await client.send(sent, stream=True)
            try:
                if response.status_code != 200:
                    with _translate(self.base_url):
                        said = await _read_some(response)
                    raise refusal_from_bytes(said, response.status_code)
                async with aclosing(self._events(response, started)) as events:
                    async for event in events:
                        yield event
            finally:
                await response.aclose()
        finally:
            await client.aclose()

    async def _events(self, response: httpx.Response, started: float) -> AsyncGenerator[Event]:
        events, answer = SseDecoder(), ChunkDecoder(started)
        done, what, remedy = False, "", ""
        try:
            with _translate(self.base_url):
                async for received in response.aiter_raw():
                    now = time.perf_counter()
                    for payload in events.feed(received):
                        if payload == "[DONE]":
                            done = True
                            break
                        for event in answer.feed(_parsed(payload), now):
                            yield event
                    if done or answer.over:
                        break
                    if answer.begun:
                        await asyncio.sleep(GATHER_S)
        except (EngineUnreachable, ServerRefused) as problem:
            what, remedy = f"The answer broke off. {problem.what}", problem.remedy
        now = time.perf_counter()
        if not done:
            for payload in events.flush():
                for event in answer.feed(_parsed(payload), now):
                    yield event
        for event in answer.finish(now, done=done, what=what, remedy=remedy):
            yield event

    async def count_tokens(self, messages: tuple[Message, ...], *, thinking: bool = True) -> int | None:
        """Tokens of the prompt that the template makes of these messages; None: the engine cannot tell."""
        body = {"messages": _messages(messages), **_template_arguments(thinking)}
        answer = await self._ask("POST", "/v1/chat/completions/input_tokens", body)
        return count(answer.get("input_tokens")) if isinstance(answer, dict) else None

    async def apply_template(self, messages: tuple[Message, ...], *, thinking: bool = True) -> str | None:
        """The prompt that the template makes of these messages, as text; None: the engine does not tell."""
        body = {"messages": _messages(messages), **_template_arguments(thinking)}
        answer = await self._ask("POST", "/apply-template", body)
        text = answer.get("prompt") if isinstance(answer, dict) else None
        return text if isinstance(text, str) else None

    async def context_size(self) -> int | None:
        """Tokens that one conversation may hold (the context of one slot); None: the engine does not tell."""
        settings = (await self.props()).get("default_generation_settings")
        if isinstance(settings, dict) and (size := count(settings.get("n_ctx"))):
            return size
        slots = await self._slots()
        return count(slots[0].get("n_ctx")) or None if slots else None

    async def health(self) -> str:
        """``ok``, ``loading`` or ``down``; never raises. Says nothing about whether chat works."""
        try:
            status, _ = await self._request("GET", "/health", None)
        except AnswerProblem:
            return "down"
        return {200: "ok", 503: "loading"}.get(status, "down")

    async def alias(self) -> str | None:
        """The name of the model that the engine serves."""
        answer = await self._ask("GET", "/v1/models")
        models = answer.get("data") if isinstance(answer, dict) else None
        if isinstance(models, list) and models and isinstance(models[0], dict):
            name = models[0].get("id")
            return name if isinstance(name, str) else None
        return None

    async def is_idle(self) -> bool | None:
        """Whether no slot is at work; None: the engine does not tell."""
        slots = await self._slots()
        if slots is None:
            return None
        return not any(slot.get("is_processing") for slot in slots)

    async def props(self) -> dict[str, Any]:
        """The engine's ``/props``, empty where it has none."""
        answer = await self._ask("GET", "/props")
        return answer if isinstance(answer, dict) else {}

    async def _slots(self) -> list[dict[str, Any]] | None:
        answer = await self._ask("GET", "/slots")
        if not isinstance(answer, list):
            return None
        return [slot for slot in answer if isinstance(slot, dict)]

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """A JSON answer, or None where the engine has no such route."""
        status, content = await self._request(method, path, body)
        if status in {404, 405, 501}:
            return None
        if status != 200:
            raise refusal_from_bytes(content, status)
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise ServerRefused(
                f"What answers at {self.base_url} is no llama-server: its {path} is not JSON.",
                "Check the address and the port.",
                status=status,
            ) from None

    async def _request(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, bytes]:
        with _translate(self.base_url):
            async with self._client(self._question_timeout) as client:
                response = await client.request(method, path, json=body)
                return response.status_code, response.content

    def _client(self, timeout: httpx.Timeout) -> httpx.AsyncClient:
        transport: httpx.AsyncBaseTransport = LoopbackTransport()
        if self.base_url.startswith("https:"):
            transport = httpx.AsyncHTTPTransport(
                trust_env=False, limits=httpx.Limits(max_connections=1, max_keepalive_connections=0)
            )
        return httpx.AsyncClient(
            base_url=self.base_url,
            headers=self.headers,
            timeout=timeout,
            trust_env=False,
            transport=transport,
        )


def budget(prompt_tokens: int | None, context: int, asked: int | None) -> int:
    """``max_tokens`` for an answer: what was asked for, else 8,192, but never more than the context has left.

    ``prompt_tokens`` None (the engine cannot count) is taken as 0: the engine itself then refuses what is too
    long. Raises ContextFull when not one token is left, BadInput when fewer than one were asked for.
    """
    if asked is not None and asked < 1:
        raise BadInput(
            f"An answer of {asked} tokens is none.", "Ask for 1 or more, or leave the limit automatic."
        )
    used = prompt_tokens or 0
    left = context - used
    if left < 1:
        raise ContextFull(used + 1, context)
    return min(left, LONGEST_ANSWER if asked is None else asked)


def chat_body(request: ChatRequest) -> dict[str, Any]:
    """The JSON that llama-server wants for ``request``. Raises BadInput for a sampling value that is no number."""
    sampling = request.sampling
    for name in ("temperature", "top_p", "min_p"):
        if not math.isfinite(getattr(sampling, name)):
            raise BadInput(f"{name} must be a finite number.", "Give it a number, such as 0.7.")
    body: dict[str, Any] = {
        "messages": _messages(request.messages),
        "max_tokens": request.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "cache_prompt": request.cache_prompt,
        "stream": True,
        "timings_per_token": True,
        "return_progress": True,
        **_template_arguments(request.thinking),
    }
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if request.thinking and request.thinking_budget is not None:
        body["thinking_budget_tokens"] = request.thinking_budget
    return body


def _messages(messages: tuple[Message, ...]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": _encodable(message.content)} for message in messages]


def _encodable(text: str) -> str:
    """Half a surrogate pair, which a browser may send, is no character: it becomes U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _template_arguments(thinking: bool) -> dict[str, Any]:
    return {} if thinking else {"chat_template_kwargs": {"enable_thinking": False}}


def _parsed(payload: str) -> object:
    """A chunk, or None for a payload that is no JSON: one bad chunk does not end an answer."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


async def _read_some(response: httpx.Response) -> bytes:
    body = b""
    async for received in response.aiter_bytes():
        body += received
        if len(body) > LARGEST_REFUSAL:
            break
    return body[:LARGEST_REFUSAL]


@contextmanager
def _translate(base_url: str) -> Iterator[None]:
    """The one seam where httpx's exceptions become ours."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise EngineUnreachable(
            f"No engine answers at {base_url}.", "Start it, or look at its log to see why it ended."
        ) from error
    except httpx.TimeoutException as error:
        raise EngineUnreachable(
            f"The engine at {base_url} is silent.", "Give it time, or stop it and start it again."
        ) from error
    except httpx.NetworkError as error:
        raise EngineUnreachable(
            f"The connection to the engine at {base_url} was cut.",
            "Look at the engine's log: it may have ended. Then ask again.",
        ) from error
    except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, httpx.CookieConflict) as error:
        raise ServerRefused(
            f"What answers at {base_url} does not speak as a llama-server does ({type(error).__name__}).",
            "Check the address and the port.",
        ) from error
