"""Conversations for the store's tests."""

from __future__ import annotations

from dataclasses import replace

from launcher.client.events import Timings
from launcher.store import Conversation, Store, Turn


def question(text: str = "What is a monad?", number: int = 1) -> Turn:
    return Turn(f"q{number}", "user", text, 1_700_000_000.0 + number)


def answer(text: str = "A burrito.", number: int = 1) -> Turn:
    return Turn(
        f"a{number}",
        "assistant",
        text,
        1_700_000_001.5 + number,
        thinking="hm",
        thinking_s=0.5,
        runs=((4, "draft"), (6, "target")),
        blocks=((4, 2), (4, 0)),
        timings=Timings(
            prompt_tokens=5, predicted_tokens=9, tokens_per_second=50.5, draft_n=8, draft_n_accepted=2
        ),
        context_used=14,
        context_size=4096,
        engine="embedded · practice small",
        ended="stop",
    )


def kept(store: Store, *turns: Turn) -> Conversation:
    return store.save(replace(store.new(), turns=turns or (question(), answer())))
