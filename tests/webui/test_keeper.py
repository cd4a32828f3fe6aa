"""An answer is kept while it comes: the launcher may be killed at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.store import Conversation
from tests.webui.test_answer import Scene, play, until
from webui.answer import Answer, Ask
from webui.keeper import UNFINISHED
from webui.stream import Outbox


def test_what_has_come_is_on_disk_before_the_end_and_marked(tmp_path: Path) -> None:
    async def act(it: Scene) -> None:
        answer, outbox = it.answer(await it.prompt("Tell me a long story."))
        running = asyncio.ensure_future(answer.run())
        await until(lambda: len(it.kept) == 2)
        partial = it.kept[1]
        assert partial.content
        assert (partial.ended, partial.note) == ("failed", UNFINISHED)
        await until(lambda: len(it.kept[1].content) > len(partial.content))
        answer.stop()
        turn = await running
        assert it.kept == (it.kept[0], turn), "one answer, as it ended"
        assert turn.ended == "stopped"
        assert turn.content.startswith(partial.content)
        assert outbox.take()

    play(tmp_path, act, rate=40, tokens=2000)


def test_an_answer_that_is_whole_gives_way_only_to_the_end_of_another(tmp_path: Path) -> None:
    async def act(it: Scene) -> None:
        first, _ = it.answer(await it.prompt("Tell me a long story."))
        it.engine.config = replace(it.engine.config, tokens=20)
        whole = await first.run()
        assert whole.ended in ("stop", "length")
        it.engine.config = replace(it.engine.config, tokens=2000)
        writes: list[str] = []
        keep = it.book.keep

        async def noted(conversation_id: str, change: Callable[[Conversation], Conversation]) -> Conversation:
            made = await keep(conversation_id, change)
            writes.append(conversation_id)
            return made

        it.book.keep = noted  # type: ignore[method-assign]
        outbox = Outbox()
        again = Answer(Ask(it.conversation, "u1", "another"), it.lifecycle, it.book, outbox)
        running = asyncio.ensure_future(again.run())
        await until(lambda: writes)
        assert it.kept[1] == whole, "as a kill now would leave it"
        again.stop()
        turn = await running
        assert it.kept[1] == turn

    play(tmp_path, act, rate=200, tokens=2000)


def test_nothing_is_written_before_the_first_token(tmp_path: Path) -> None:
    async def act(it: Scene) -> None:
        answer, _ = it.answer(await it.prompt("Hello"))
        running = asyncio.ensure_future(answer.run())
        with pytest.raises(TimeoutError):
            await until(lambda: len(it.kept) == 2, 2.5)
        answer.stop()
        assert (await running).content == ""

    play(tmp_path, act, silence_s=60)
