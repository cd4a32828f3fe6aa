"""Keeps an answer while it comes, so that even the sudden end of the launcher itself loses only its last moments."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial

from launcher.errors import LauncherError
from launcher.store import Conversation, Turn
from webui.book import Book
from webui.conversation import index_of, with_answer
from webui.draft import AnswerDraft

KEEP_EVERY_S = 2.0
SHARE = 20  # writing takes at most this part of the time, however long the conversation is
UNFINISHED = "This answer is not finished."


async def keep_on(book: Book, conversation_id: str, prompt_id: str, draft: AnswerDraft) -> None:
    """Write what has come of ``draft`` every two seconds, until cancelled. What cannot be written is told when the
    answer ends."""
    pause, kept = KEEP_EVERY_S, 0
    while True:
        await asyncio.sleep(pause)
        turn = replace(draft.turn(time.perf_counter()), ended="failed", note=UNFINISHED)
        size = len(turn.content) + len(turn.thinking)
        if size == kept:
            continue
        began = time.perf_counter()
        with suppress(LauncherError):
            await book.keep(conversation_id, partial(with_part, prompt_id=prompt_id, answer=turn))
            kept = size
        pause = max(KEEP_EVERY_S, SHARE * (time.perf_counter() - began))


def with_part(conversation: Conversation, prompt_id: str, answer: Turn) -> Conversation:
    """As with_answer, but an earlier answer gives way only to the end of this one: after a sudden end of the launcher,
    one that is whole is worth more than the beginning of the next."""
    after = conversation.turns[index_of(conversation, prompt_id) + 1 :]
    if after and after[0].role == "assistant" and after[0].id != answer.id and after[0].content:
        return conversation
    return with_answer(conversation, prompt_id, answer)
