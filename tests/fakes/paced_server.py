"""A stand-in for llama-server that streams at an exact rate and misbehaves on order.

Speaks llama-server's chat stream (prompt progress, timings a token, draft counters a verify block), its
health, model, settings, slot and token counting routes. Standard library only. In tests::

    with PacedServer(PacedConfig(rate=200, tokens=500)) as server:
        ... server.url, server.chats[0].body, server.chats[0].closed_at ...

As a program, for benchmarks that must not share an interpreter with what they measure::

    python -m tests.fakes.paced_server --rate 200 --tokens 2000 --port 0

It prints its port; ``GET /paced`` tells what it saw. SIGTERM ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from tests.fakes import paced_text
from tests.fakes.paced_stream import Stream, head, refusal_body


@dataclass(frozen=True)
class PacedConfig:
    """What is served. Rates in tokens a second, times in seconds, counts in tokens; None: never."""

    rate: float = 200.0
    tokens: int = 2000  # of the answer proper, unless ``text`` is given
    text: str | None = None
    thinking_tokens: int = 0  # come first, as reasoning_content
    inline_thinking: bool = False  # ... or as <think>…</think> in the content
    blocks: tuple[tuple[int, int], ...] = ()  # (drafted, accepted), over and over; empty: no speculation
    prompt_s: float = 0.0  # reading the prompt, told in ten steps
    silence_s: float = 0.0  # nothing at all is sent before that
    context: int = 16384
    alias: str = "paced"
    api_key: str = ""
    slots: int = 1
    loading_s: float = 0.0  # 503 for so long after the start
    timings: str = "all"  # "all" chunks, the "finish" chunk, a "usage" chunk without choices, or "none"
    cut_bytes: int = 0  # write in pieces of so many bytes; 0: whole chunks
    die_after: int | None = None  # reset the connection after so many tokens
    cut_after: int | None = None  # end the stream properly, but without a finish
    error_after: int | None = None  # an error chunk after so many tokens
    refuse: int = 0  # answer every chat with this HTTP status
    can_count: bool = True  # whether /v1/chat/completions/input_tokens exists


@dataclass
class Chat:
    """One chat request. Times are ``time.monotonic()``; ``closed_at`` is set when the client left early."""

    body: dict[str, Any]
    started: float
    sent: int = 0
    finished_at: float | None = None
    closed_at: float | None = None


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class PacedServer:
    """Runs on a thread of its own between ``with`` (or ``async with``) and its end."""

    def __init__(self, config: PacedConfig | None = None, port: int = 0) -> None:
        self.config = config or PacedConfig()
        self.port = port
        self.requests: list[Request] = []
        self.chats: list[Chat] = []
        self.working = 0
        self._born = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self.serve()), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def closed_at(self) -> list[float]:
        """When clients left before the end of an answer, in the order of their requests."""
        return [chat.closed_at for chat in self.chats if chat.closed_at is not None]

    def __enter__(self) -> PacedServer:
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the paced server did not start")
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def __aenter__(self) -> PacedServer:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.__exit__)

    async def serve(self) -> None:
        """Serve until told to stop."""
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._slot = asyncio.Semaphore(self.config.slots)
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        self._born = time.monotonic()
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._connection(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await _read_request(reader)
            if request is not None:
                self.requests.append(request)
                await self._answer(request, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        loading = time.monotonic() - self._born < self.config.loading_s
        path = request.path.partition("?")[0]
        wanted = f"Bearer {self.config.api_key}"
        if (
            self.config.api_key
            and path not in ("/health", "/paced")
            and request.headers.get("authorization") != wanted
        ):
            status, body = 401, refusal_body(401, "Invalid API Key", "authentication_error")
        elif loading and path != "/paced":
            status, body = 503, refusal_body(503, "Loading model", "unavailable_error")
        elif (request.method, path) == ("POST", "/v1/chat/completions"):
            await self._chat(json.loads(request.body), reader, writer)
            return
        else:
            status, body = self._question(request.method, path, request.body)
        content = json.dumps(body).encode()
        writer.write(head(status, f"Content-Length: {len(content)}", "application/json") + content)
        await writer.drain()

    def _question(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        config = self.config
        answers: dict[tuple[str, str], Any] = {
            ("GET", "/health"): {"status": "ok"},
            ("GET", "/v1/models"): {"object": "list", "data": [{"id": config.alias, "object": "model"}]},
            ("GET", "/props"): {
                "default_generation_settings": {"n_ctx": config.context},
                "total_slots": config.slots,
                "model_alias": config.alias,
            },
            ("GET", "/slots"): [
                {"id": slot, "n_ctx": config.context, "is_processing": slot < self.working}
                for slot in range(config.slots)
            ],
            ("GET", "/paced"): {
                "requests": [request.path for request in self.requests],
                "chats": [dataclasses.asdict(chat) for chat in self.chats],
            },
        }
        if (method, path) == ("POST", "/v1/chat/completions/input_tokens") and config.can_count:
            return 200, {"input_tokens": prompt_tokens(json.loads(body))}
        if (method, path) in answers:
            return 200, answers[method, path]
        return 404, refusal_body(404, "File Not Found", "not_found_error")

    async def _chat(
        self, body: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        chat = Chat(body, time.monotonic())
        self.chats.append(chat)
        work = asyncio.ensure_future(self._generate(chat, writer))
        gone = asyncio.ensure_future(reader.read(1))  # a client sends nothing more: this ends when it leaves
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() or isinstance(work.exception(), ConnectionError):
                chat.closed_at = time.monotonic()
            else:
                await work
        finally:
            work.cancel()
            gone.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)

    async def _generate(self, chat: Chat, writer: asyncio.StreamWriter) -> None:
        config = self.config
        needed = prompt_tokens(chat.body)
        if config.refuse:
            content = json.dumps(refusal_body(config.refuse, "The paced server refuses.", "server_error"))
        elif needed >= config.context:
            too_long = refusal_body(400, "request exceeds the context size", "exceed_context_size_error")
            too_long["error"] |= {"n_prompt_tokens": needed, "n_ctx": config.context}
            content = json.dumps(too_long)
        else:
            async with self._slot:
                self.working += 1
                try:
                    await self._stream(chat, writer, needed)
                finally:
                    self.working -= 1
            return
        status = config.refuse or 400
        writer.write(head(status, f"Content-Length: {len(content)}", "application/json") + content.encode())
        await writer.drain()
        chat.finished_at = time.monotonic()

    async def _stream(self, chat: Chat, writer: asyncio.StreamWriter, needed: int) -> None:
        config = self.config
        stream = Stream(config.alias, config.timings, needed, config.cut_bytes, writer)
        await asyncio.sleep(min(config.silence_s, 1e6))
        writer.write(head(200, "Transfer-Encoding: chunked", "text/event-stream"))
        steps = 10 if config.prompt_s else 1
        for step in range(steps + 1):
            stream.progress(needed * step // steps)
            if step < steps:
                await asyncio.sleep(config.prompt_s / steps)
        kinds, reason = self._tokens(chat.body)
        blocks = _blocks(config.blocks, len(kinds))
        start = time.monotonic()
        at = 0
        for drafted, accepted, size in blocks:
            # The block's first token is due by the clock; a late wake-up is caught up, not added.
            delay = start + at / config.rate - time.monotonic()
            if delay > 0:
                await asyncio.sleep(delay)
            stream.block(drafted, accepted)
            for kind, text in kinds[at : at + size]:
                for limit, end in (
                    (config.die_after, stream.die),
                    (config.cut_after, stream.end),
                    (config.error_after, stream.error),
                ):
                    if limit is not None and chat.sent >= limit:
                        end()
                        chat.finished_at = time.monotonic()
                        return
                chat.sent += 1
                stream.token(kind, text, time.monotonic() - start)
            at += size
            if writer.transport.get_write_buffer_size() > 1 << 16:
                await writer.drain()
        stream.finish(reason, time.monotonic() - start)
        await writer.drain()
        chat.finished_at = time.monotonic()

    def _tokens(self, body: dict[str, Any]) -> tuple[list[tuple[str, str]], str]:
        config = self.config
        answer = paced_text.markdown(config.tokens) if config.text is None else paced_text.pieces(config.text)
        may_think = (body.get("chat_template_kwargs") or {}).get("enable_thinking", True)
        thoughts = paced_text.thoughts(config.thinking_tokens) if may_think else []
        if thoughts and config.inline_thinking:
            kinds = [("content", text) for text in ["<think>", *thoughts, "</think>", "\n\n", *answer]]
        else:
            kinds = [("reasoning_content", text) for text in thoughts]
            kinds += [("content", text) for text in answer]
        most = body.get("max_tokens") or len(kinds)
        return kinds[:most], "length" if most < len(kinds) else "stop"


def _blocks(pattern: tuple[tuple[int, int], ...], tokens: int) -> list[tuple[int, int, int]]:
    """(drafted, accepted, tokens) of each verify step; the first token is always the target's alone."""
    out = [(0, 0, 1)] if tokens else []
    at = 1
    while at < tokens:
        drafted, accepted = pattern[(len(out) - 1) % len(pattern)] if pattern else (0, 0)
        size = min(accepted + 1, tokens - at)
        out.append((drafted, accepted, size))
        at += size
    return out


def prompt_tokens(body: dict[str, Any]) -> int:
    """A plain count for prompts: pieces of the texts and four tokens a message for its frame."""
    messages = body.get("messages") or []
    return sum(4 + len(paced_text.pieces(str(message.get("content", "")))) for message in messages)


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    first = (await reader.readline()).decode("latin-1").split()
    if len(first) < 2:
        return None
    request = Request(first[0], first[1])
    while line := (await reader.readline()).decode("latin-1").strip():
        name, _, value = line.partition(":")
        request.headers[name.strip().lower()] = value.strip()
    request.body = await reader.readexactly(int(request.headers.get("content-length", 0)))
    return request


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    for item in dataclasses.fields(PacedConfig):
        flag = "--" + item.name.replace("_", "-")
        if item.name == "blocks":
            parser.add_argument(flag, default=(), type=_pattern, help="e.g. 4/4,4/1,4/0")
        elif isinstance(item.default, bool):
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=item.default)
        elif item.default is None:
            parser.add_argument(flag, type=str if item.name == "text" else int)
        else:
            parser.add_argument(flag, type=type(item.default), default=item.default)
    given = vars(parser.parse_args())
    server = PacedServer(port=given.pop("port"))
    server.config = PacedConfig(**given)
    asyncio.run(_announce(server))


def _pattern(text: str) -> tuple[tuple[int, int], ...]:
    pairs = [pair.split("/") for pair in text.split(",")]
    return tuple((int(drafted), int(accepted)) for drafted, accepted in pairs)


async def _announce(server: PacedServer) -> None:
    serving = asyncio.ensure_future(server.serve())
    while not server._ready.is_set():
        await asyncio.sleep(0.01)
    print(server.port, flush=True)
    await serving


if __name__ == "__main__":
    main()
