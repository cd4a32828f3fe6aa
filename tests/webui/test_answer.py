"""One answer from asking to keeping, against an engine that does as it is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import EngineDied, StoreError
from launcher.store import ChatSettings, Store, Turn
from tests.fakes.paced_server import PacedConfig, PacedServer
from tests.webui.fake_lifecycle import FakeLifecycle
from tests.webui.memory import Memory
from webui.answer import Answer, Ask, waiting_for
from webui.book import Book
from webui.conversation import with_prompt
from webui.stream import Outbox


@dataclass
class Scene:
    engine: PacedServer
    lifecycle: FakeLifecycle
    store: Store
    book: Book
    conversation: str = ""
    memory: Memory = field(default_factory=Memory)

    async def prompt(self, text: str, turn_id: str = "u1") -> str:
        """Put a message into the conversation, a new one for the first."""
        turn = Turn(turn_id, "user", text, 0.0)
        if self.conversation:
            await self.book.change(self.conversation, lambda it: with_prompt(it, turn))
        else:
            self.conversation = (await self.book.begin(lambda it: with_prompt(it, turn))).id
        return turn_id

    def answer(self, prompt_id: str, **more: Any) -> tuple[Answer, Outbox]:
        outbox = Outbox()
        ask = Ask(self.conversation, prompt_id, f"a-{prompt_id}", **more)
        return Answer(ask, self.lifecycle, self.book, outbox, self.memory), outbox

    async def ask(self, text: str, turn_id: str = "u1", **more: Any) -> tuple[Turn, list[dict[str, Any]]]:
        answer, outbox = self.answer(await self.prompt(text, turn_id), **more)
        turn = await answer.run()
        return turn, frames(outbox)

    @property
    def kept(self) -> tuple[Turn, ...]:
        return self.store.load(self.conversation).turns

    def settings(self, **changes: Any) -> None:
        self.store.save_chat_settings(ChatSettings(**changes))


def frames(outbox: Outbox) -> list[dict[str, Any]]:
    return [json.loads(part[6:]) for part in outbox.take().decode().split("\n\n") if part]


@asynccontextmanager
async def scene(folder: Path, **engine: Any) -> AsyncIterator[Scene]:
    async with PacedServer(PacedConfig(**engine)) as paced:
        store = Store(folder)
        yield Scene(paced, FakeLifecycle(paced.url), store, Book(store, lambda *_: None))


def play(folder: Path, act: Callable[[Scene], Awaitable[None]], **engine: Any) -> None:
    async def run() -> None:
        async with scene(folder, **engine) as it:
            await asyncio.wait_for(act(it), 30)

    asyncio.run(run())


async def until(condition: Callable[[], object], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def test_an_answer_is_streamed_and_kept(tmp_path: Path) -> None:
    async def act(it: Scene) -> None:
        turn, sent = await it.ask("Hello")
        assert turn.content == "Some *good* text."
        assert it.kept == (it.kept[0], turn)
        assert "".join(frame.get("t", "") for frame in sent) == turn.content
        assert sent[0]["reading"]["of"] > 0
        assert turn.ended == "stop"
        assert turn.context_size == 16384
        assert turn.timings is not None
        assert turn.context_used == (turn.timings.prompt_tokens or 0) + turn.timings.predicted_tokens
        assert turn.engine.endswith("speculation dspark 4")
        assert turn.timings.draft_n
        assert {origin for _, origin in turn.runs} >= {"draft", "target"}

    play(tmp_path, act, text="Some *good* text.", rate=500, blocks=((4, 2),))


@pytest.mark.case("E-05")
def test_what_the_engine_is_asked(tmp_path: Path) -> None:
    async def act(it: Scene) -> None:
        it.settings(system_prompt="Be brief.", temperature=0.1, seed=7, thinking=True, thinking_budget=99)
        await it.ask("One")
        await it.ask("Two", "u2")
        await it.ask("Three", "u3")
        body = it.engine.chats[-1].body
        assert [(m["role"], m["content"]) for m in body["messages"]] == [
            ("system", "Be brief."),
            ("user", "One"),
            ("assistant", "Yes."),
            ("user", "Two"),
            ("assistant", "Yes."),
            ("user", "Three"),
        ]
        assert (body["temperature"], body["seed"], body["thinking_budget_tokens"]) == (0.1, 7, 99)
        assert body["max_tokens"] == 8192

    play(tmp_path, act, text="Yes.", rate=500, thinking_tokens=5)


def test_the_limit_is_what_the_context_has_left(tmp_path: Path) -> None:
    async def act(it: Scene) -> None:
        await it.ask("word " * 100)
        limit = it.engine.chats[-1].body["max_tokens"]
        assert 0 < limit < 1024 - 100
        it.settings(max_tokens=33)
        await it.ask("more", "u2")
        assert it.engine.chats[-1].body["max_tokens"] == 33

    play(tmp_path, act, text="Yes.", rate=500, context=1024)


@pytest.mark.case("E-02")
def test_stop_in_the_middle(tmp_path: Path) -> None:
    async def act(it: Scene) -> None:
        answer, _ = it.answer(await it.prompt("Go"))
        running = asyncio.ensure_future(answer.run())
        # Figures come ten times a second: the second of them has a speed.
        await until(lambda: it.engine.chats and it.engine.chats[0].sent > 100)
        answer.stop()
        turn = await running
        await until(lambda: it.engine.closed_at, 2)
        assert (turn.ended, turn.note) == ("stopped", "Stopped.")
        assert turn.content
        assert it.kept[-1] == turn
        assert turn.timings is not None
        assert turn.timings.tokens_per_second
        # The engine is free again at once.
        second, _ = it.answer(await it.prompt("Again", "u2"))
        running = asyncio.ensure_future(second.run())
        await until(lambda: len(it.engine.chats) == 2 and it.engine.chats[1].sent > 2)
        second.stop()
        await running

    play(tmp_path, act, rate=200, tokens=5000)


def test_stop_before_the_first_token(tmp_path: Path) -> None:
    async def act(it: Scene) -> None:
        answer, _ = it.answer(await it.prompt("Go"))
        running = asyncio.ensure_future(answer.run())
        await until(lambda: it.engine.chats)
        answer.stop()
        turn = await running
        await until(lambda: it.engine.closed_at, 2)
        assert (turn.content, turn.note, turn.timings) == ("", "Stopped before the first token.", None)

    play(tmp_path, act, silence_s=60)


def test_stop_before_it_began(tmp_path: Path) -> None:
    async def act(it: Scene) -> None:
        answer, _ = it.answer(await it.prompt("Go"))
        answer.stop()
        assert (await answer.run()).ended == "stopped"
        assert it.engine.chats == []

    play(tmp_path, act)


def test_the_end_of_the_page_keeps_what_came(tmp_path: Path) -> None:
    async def act(it: Scene) -> None:
        answer, _ = it.answer(await it.prompt("Go"))
        running = asyncio.ensure_future(answer.run())
        await until(lambda: it.engine.chats and it.engine.chats[0].sent > 20)
        running.cancel()
        await asyncio.wait({running})
        assert it.kept[-1].role == "assistant"
        assert it.kept[-1].content
        await until(lambda: it.engine.closed_at, 2)

    play(tmp_path, act, rate=200, tokens=5000)


@pytest.mark.case("E-08")
def test_a_second_answer_says_that_it_waits_and_can_be_stopped(tmp_path: Path) -> None:
    async def act(it: Scene) -> None:
        first, _ = it.answer(await it.prompt("One"))
        running = asyncio.ensure_future(first.run())
        await until(lambda: it.engine.chats)
        second, outbox = it.answer(await it.prompt("Two", "u2"))
        waiting = asyncio.ensure_future(second.run())
        await until(outbox.filled.is_set)
        assert frames(outbox) == [{"wait": "The engine is busy with another answer; yours is next."}]
        second.stop()
        assert (await waiting).note == "Stopped before the first token."
        assert len(it.engine.chats) == 1
        first.stop()
        await running
        assert [turn.id for turn in it.kept] == ["u1", "a-u1", "u2", "a-u2"]

    play(tmp_path, act, rate=100, tokens=5000)


def test_an_engine_that_does_not_start(tmp_path: Path) -> None:
    async def act(it: Scene) -> None:
        it.lifecycle.error = EngineDied("The engine ended while loading.", "Look at its log.")
        turn, _ = await it.ask("Go")
        assert (turn.ended, turn.note) == ("failed", "The engine ended while loading. Look at its log.")
        assert it.kept[-1] == turn

    play(tmp_path, act)


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ({"refuse": 500}, "The paced server refuses."),
        ({"die_after": 20}, "broke off"),
        ({"cut_after": 20}, "broke off"),
        ({"error_after": 20}, "error"),
    ],
)
def test_an_answer_that_fails_says_why_and_keeps_what_came(
    tmp_path: Path, engine: dict[str, Any], said: str
) -> None:
    async def act(it: Scene) -> None:
        turn, _ = await it.ask("Go")
        assert turn.ended == "failed"
        assert said in turn.note
        assert bool(turn.content) == ("refuse" not in engine)
        assert it.kept[-1] == turn

    play(tmp_path, act, rate=500, tokens=200, **engine)


@pytest.mark.case("E-11")
@pytest.mark.parametrize("can_count", [True, False])
def test_a_full_context_is_told(tmp_path: Path, can_count: bool) -> None:
    async def act(it: Scene) -> None:
        turn, _ = await it.ask("word " * 700)
        assert turn.ended == "full"
        assert "the context holds 512" in turn.note
        assert turn.content == ""

    play(tmp_path, act, context=512, can_count=can_count)


def test_the_oldest_messages_are_left_out_visibly_when_that_is_wanted(tmp_path: Path) -> None:
    async def act(it: Scene) -> None:
        for number in range(1, 5):
            await it.ask(f"{number} " + "word " * 90, f"u{number}", leave_out_oldest=number == 4)
        turn = it.kept[-1]
        assert turn.ended == "stop"
        assert turn.note.endswith("oldest messages were left out of what the model read.")
        sent = it.engine.chats[-1].body["messages"]
        assert sent[0]["role"] == "user"
        assert not sent[0]["content"].startswith("1 ")
        assert sent[-1]["content"].startswith("4 ")
        # Nothing is lost from the conversation itself.
        assert len(it.kept) == 8
        charged = [before for _, _, before in it.memory.counted]
        assert charged[0] == 0
        assert 0 < charged[1] < charged[2]
        assert charged[3] == 0, "no cache knows a conversation that begins otherwise"

    play(tmp_path, act, text="Yes.", rate=500, context=512)


@pytest.mark.case("E-09")
def test_out_of_tokens_while_thinking(tmp_path: Path) -> None:
    async def act(it: Scene) -> None:
        it.settings(max_tokens=40)
        turn, _ = await it.ask("Think")
        assert (turn.content, turn.ended) == ("", "length")
        assert turn.note.startswith("Ran out of tokens while thinking (40)")
        assert turn.thinking

    play(tmp_path, act, rate=500, thinking_tokens=400)


def test_thinking_switched_off(tmp_path: Path) -> None:
    async def act(it: Scene) -> None:
        it.settings(thinking=False, thinking_budget=5)
        turn, _ = await it.ask("Think")
        assert turn.thinking == ""
        assert "thinking_budget_tokens" not in it.engine.chats[-1].body

    play(tmp_path, act, text="Yes.", rate=500, thinking_tokens=40)


def test_another_answer_to_the_same_prompt(tmp_path: Path) -> None:
    async def act(it: Scene) -> None:
        await it.ask("One")
        await it.ask("Two", "u2")
        answer, _ = it.answer("u1")
        await answer.run()
        assert [turn.id for turn in it.kept] == ["u1", "a-u1", "u2", "a-u2"]
        # It is answered from what stands before it.
        assert len(it.engine.chats[-1].body["messages"]) == 1

    play(tmp_path, act, text="Yes.", rate=500)


def test_a_conversation_deleted_meanwhile_does_not_come_back(tmp_path: Path) -> None:
    async def act(it: Scene) -> None:
        answer, _ = it.answer(await it.prompt("Go"))
        running = asyncio.ensure_future(answer.run())
        await until(lambda: it.engine.chats and it.engine.chats[0].sent > 5)
        await it.book.delete(it.conversation)
        answer.stop()
        with pytest.raises(StoreError):
            await running
        assert it.store.list().conversations == ()

    play(tmp_path, act, rate=100, tokens=2000)


@pytest.mark.case("E-11")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"busy_with": "race"}, "The engine is busy with the race; yours is next."),
        ({"busy_with": ""}, "The engine is about to answer."),
        ({"phase": "starting", "message": "Loading the weights …"}, "Loading the weights …"),
        ({"phase": "preparing", "message": ""}, "The engine is starting."),
    ],
)
def test_why_nothing_comes(changes: dict[str, Any], said: str) -> None:
    lifecycle = FakeLifecycle("http://127.0.0.1:9")
    lifecycle.become(**changes)
    assert waiting_for(lifecycle.status()) == said


def test_a_fault_of_ours_keeps_what_came(tmp_path: Path) -> None:
    class Broken(Book):
        async def settings(self) -> ChatSettings:
            raise RuntimeError("a fault")

    async def act(it: Scene) -> None:
        it.book.__class__ = Broken
        answer, _ = it.answer(await it.prompt("Go"))
        with pytest.raises(RuntimeError, match="a fault"):
            await answer.run()
        assert (it.kept[-1].ended, "a fault" in it.kept[-1].note) == ("failed", True)

    play(tmp_path, act)
