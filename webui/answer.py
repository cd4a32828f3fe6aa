"""Runs one answer: wait for the engine, see what fits, stream, and keep whatever came."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, replace

from launcher.client.events import (
    ChatRequest,
    Failed,
    Message,
    Progress,
    Sampling,
    Text,
    Thinking,
    Timings,
)
from launcher.client.http import EngineClient, budget
from launcher.errors import ContextFull, EngineUnreachable, LauncherError
from launcher.lifecycle import Lease, Lifecycle, Status
from launcher.plan import LaunchPlan
from launcher.store import ChatSettings, Turn
from webui import counting
from webui.blocks import Blocks
from webui.book import Book
from webui.conversation import index_of, messages_for, with_answer, without_oldest
from webui.draft import AnswerDraft
from webui.figures import engine_label
from webui.keeper import keep_on
from webui.state import LearnedRoom
from webui.stream import Outbox
from webui.turn import say_why

LIVE_EVERY_S = 0.5  # running speed is for eyes
BROKE_OFF = "The answer broke off: the engine ended. What came is kept."
NOT_BEGUN = "The engine ended before this answer began."
COMES_BACK = "The engine starts again by itself, at the latest with the next message."
GONE_S = 2.0  # one that is ending may take a connection and never answer


@dataclass(frozen=True)
class Ask:
    """Which prompt to answer, and how. ``leave_out_oldest`` lets old messages go when they do not fit."""

    conversation_id: str
    prompt_id: str
    answer_id: str
    leave_out_oldest: bool = False


class Answer:
    """``run`` it once; ``stop`` may be called at any time, from the same event loop."""

    def __init__(
        self,
        ask: Ask,
        lifecycle: Lifecycle,
        book: Book,
        outbox: Outbox,
        learned: LearnedRoom | None = None,
    ) -> None:
        self.ask = ask
        self._lifecycle = lifecycle
        self._book = book
        self._outbox = outbox
        self._learned = learned  # its ledger counts
        self._plan: LaunchPlan | None = None
        self._before = 0  # tokens of the conversation that a prompt cache would have kept
        self._draft = AnswerDraft(ask.answer_id, time.time())
        self.ended = asyncio.Event()  # what came is kept, nothing more is written
        self._stopped = False
        self._talk_task: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """End the answer: the engine's connection closes at once, what came is kept."""
        self._stopped = True
        if self._talk_task is not None:
            self._talk_task.cancel()

    async def run(self) -> Turn:
        """Stream into the outbox and return the turn as it was kept. Raises StoreError when it cannot be kept."""
        try:
            return await self._run()
        finally:
            self.ended.set()

    async def _run(self) -> Turn:
        fault: Exception | None = None
        self._talk_task = asyncio.ensure_future(self._talk())
        if self._stopped:
            self._talk_task.cancel()
        keeper = asyncio.ensure_future(
            keep_on(self._book, self.ask.conversation_id, self.ask.prompt_id, self._draft)
        )
        try:
            await self._talk_task
        except asyncio.CancelledError:
            # Either stop() or the end of the whole page: in both cases what came is kept below.
            self._talk_task.cancel()
        except ContextFull as problem:
            self._draft.context = problem.context
            self._draft.fail("full", problem.what)
        except LauncherError as problem:
            self._draft.fail("failed", f"{problem.what} {problem.remedy}".strip())
        except Exception as problem:  # a fault of ours: what came is kept all the same
            self._draft.fail("failed", f"The launcher itself failed: {problem!r}.")
            fault = problem
        finally:
            keeper.cancel()
        turn = self._draft.turn(time.perf_counter())
        await self._book.change(
            self.ask.conversation_id, lambda it: with_answer(it, self.ask.prompt_id, turn)
        )
        await counting.count(self._learned, self._plan, turn, self._before)
        if fault is not None:
            raise fault
        return turn

    async def _talk(self) -> None:
        reporter = asyncio.ensure_future(
            say_why(
                lambda: waiting_for(self._lifecycle.status()), lambda text: self._outbox.put({"wait": text})
            )
        )
        try:
            async with self._lifecycle.lease("chat") as lease:
                reporter.cancel()
                try:
                    await self._stream(lease)
                except EngineUnreachable as problem:
                    if await _is_gone(lease):
                        raise EngineUnreachable(NOT_BEGUN, COMES_BACK) from problem
                    raise
        finally:
            reporter.cancel()

    async def _stream(self, lease: Lease) -> None:
        draft, outbox = self._draft, self._outbox
        settings = await self._book.settings()
        draft.engine = engine_label(lease.plan)
        self._plan = lease.plan
        if not settings.tint:
            outbox.blocks = Blocks()
        draft.thinking_budget = settings.thinking_budget if settings.thinking else None
        request = await self._request(lease, settings)
        draft.limit = request.max_tokens
        outbox.put(
            {"reading": {"done": 0, "of": draft.prompt_tokens or 0}, "blocks": outbox.blocks is not None}
        )
        draft.begin(time.perf_counter())
        told = time.perf_counter()
        async with aclosing(lease.client.chat(request)) as events:
            async for event in events:
                now = time.perf_counter()
                if isinstance(event, Failed) and await _is_gone(lease):
                    event = replace(event, what=BROKE_OFF, remedy=COMES_BACK)  # noqa: PLW2901
                draft.take(event, now)
                match event:
                    case Text(text, drafted, _):
                        outbox.text(text, drafted)
                    case Thinking(text, _, _):
                        outbox.thinking(text)
                    case Progress(processed, total, _):
                        outbox.put({"reading": {"done": processed, "of": total}})
                    case Timings() if now - told >= LIVE_EVERY_S:
                        told = now
                        outbox.put({"live": {"tokens": draft.tokens, "speed": event.tokens_per_second}})
        if outbox.blocks is not None:
            outbox.put({"t": "", "r": [], "o": outbox.blocks.finish()})
            outbox.blocks = None

    async def _request(self, lease: Lease, settings: ChatSettings) -> ChatRequest:
        """The request, with a limit that fits what is left of the context. Raises ContextFull."""
        conversation = await self._book.load(self.ask.conversation_id)
        turns = conversation.turns[: index_of(conversation, self.ask.prompt_id) + 1]
        self._before = counting.before_tokens(turns)
        context = await lease.client.context_size() or lease.plan.context
        self._draft.context = context
        room = min(2048, context // 4)  # tokens that an answer should have when messages are left out for it
        while True:
            messages = messages_for(turns, settings.system_prompt)
            count = await self._count(lease.client, messages, settings)
            self._draft.prompt_tokens = count
            shorter = without_oldest(turns)
            if self.ask.leave_out_oldest and shorter and count is not None and count + room > context:
                self._draft.left_out += len(turns) - len(shorter)
                turns = shorter
                self._before = 0  # it begins otherwise now: no cache would have known it
                continue
            return ChatRequest(
                messages,
                budget(count, context, settings.max_tokens),
                Sampling(settings.temperature, settings.top_p, settings.top_k, settings.min_p, settings.seed),
                settings.thinking,
                settings.thinking_budget,
            )

    @staticmethod
    async def _count(
        client: EngineClient, messages: tuple[Message, ...], settings: ChatSettings
    ) -> int | None:
        return await client.count_tokens(messages, thinking=settings.thinking)


async def _is_gone(lease: Lease) -> bool:
    try:
        async with asyncio.timeout(GONE_S):
            return await lease.client.health() == "down"
    except TimeoutError:
        return True


def waiting_for(status: Status) -> str:
    """A sentence for somebody whose answer has not begun."""
    if status.phase == "ready":
        who = {"chat": "another answer", "race": "the race", "lab": "the lab"}.get(
            status.busy_with, status.busy_with
        )
        return f"The engine is busy with {who}; yours is next." if who else "The engine is about to answer."
    return status.message or "The engine is starting."
