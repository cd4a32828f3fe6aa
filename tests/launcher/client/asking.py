"""What the client's tests share: one question, and what came back."""

from __future__ import annotations

import asyncio

from launcher.client.events import ChatRequest, Event, Message, Text, Thinking
from launcher.client.http import EngineClient

HELLO = (Message("user", "hello there"),)
QUICK = 5000.0  # tokens a second


def ask(url: str, *, max_tokens: int = 8192, **how: object) -> list[Event]:
    async def collect() -> list[Event]:
        client = EngineClient(url, **how)  # type: ignore[arg-type]
        return [event async for event in client.chat(ChatRequest(HELLO, max_tokens))]

    return asyncio.run(collect())


def text_of(events: list[Event], kind: type[Text | Thinking] = Text) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))
