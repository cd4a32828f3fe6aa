"""An answer is kept while it comes: the launcher may be killed at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.store import Conversation, Turn
from tests.conftest import wait_until
from tests.webui.conftest import TOKEN, Running, run_page
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


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with ExitStack() as stack:
        page = run_page(stack, tmp_path_factory.mktemp("keeper"), rate=60, tokens=4000)
        wait_until(lambda: page.ready, 60, "the page")
        yield page


@pytest.mark.parametrize("does", ["deletes it", "writes it anew"])
def test_who_changes_an_answer_in_another_tab_while_it_comes_has_the_last_word(
    page: Running, does: str
) -> None:
    """Until now it came back, or over the change, with the next writing."""

    def answers() -> list[Turn]:
        listed = page.store.list().conversations
        turns = page.store.load(listed[0].id).turns if listed else ()
        return [turn for turn in turns if turn.role == "assistant"]

    with page.client(headers={"X-Bonsai-Token": TOKEN}) as client, ThreadPoolExecutor() as pool:
        chat = pool.submit(client.post, "/bonsai/chat", json={"text": "Tell me a long story."})
        wait_until(answers, 10, "the beginning of the answer on the disk")
        conversation = page.store.list().conversations[0].id
        at = f"/bonsai/conversations/{conversation}/turns/{answers()[0].id}"
        if does == "deletes it":
            client.delete(at).raise_for_status()
        else:
            client.patch(at, json={"text": "Mine."}).raise_for_status()
        chat.result(timeout=10)
        assert [turn.content for turn in answers()] == ([] if does == "deletes it" else ["Mine."])
    page.store.delete(conversation)
