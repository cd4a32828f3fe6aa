"""The store as the page uses it: one change at a time, off the event loop, and told to every open tab."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from launcher.store import ChatSettings, Conversation, Listing, Store

T = TypeVar("T")


class Book:
    """``changed`` is called on the event loop with a conversation's id after every change to it, and with
    whether it still exists.

    All methods raise StoreError. A change that has begun is finished even when its request is cancelled.
    """

    def __init__(self, store: Store, changed: Callable[[str, bool], None]) -> None:
        self._store = store
        self._changed = changed
        self._lock = asyncio.Lock()
        self._under_way: set[asyncio.Task[object]] = set()

    async def listing(self) -> Listing:
        """All conversations, newest first."""
        return await self._run(self._store.list)

    async def load(self, conversation_id: str) -> Conversation:
        """One conversation, whole."""
        return await self._run(lambda: self._store.load(conversation_id))

    async def begin(self, change: Callable[[Conversation], Conversation]) -> Conversation:
        """A new conversation, changed and saved."""
        made = await self._run(lambda: self._store.save(change(self._store.new())))
        self._changed(made.id, True)
        return made

    async def change(
        self, conversation_id: str, change: Callable[[Conversation], Conversation]
    ) -> Conversation:
        """Load, change and save as one step."""
        made = await self.keep(conversation_id, change)
        self._changed(conversation_id, True)
        return made

    async def keep(
        self, conversation_id: str, change: Callable[[Conversation], Conversation]
    ) -> Conversation:
        """As ``change``, but no tab is told: more is to come."""

        def step() -> Conversation:
            before = self._store.load(conversation_id)
            after = change(before)
            return before if after == before else self._store.save(after)

        return await self._run(step)

    async def rename(self, conversation_id: str, title: str) -> Conversation:
        """Give it another title."""
        made = await self._run(lambda: self._store.rename(conversation_id, title))
        self._changed(conversation_id, True)
        return made

    async def delete(self, conversation_id: str) -> None:
        """Remove it for good."""
        await self._run(lambda: self._store.delete(conversation_id))
        self._changed(conversation_id, False)

    async def export(self, conversation_id: str, form: str) -> str:
        """The text of a ``markdown`` or ``json`` export."""
        if form == "markdown":
            return await self._run(lambda: self._store.export_markdown(conversation_id))
        return await self._run(lambda: self._store.export_json(conversation_id))

    async def take_in(self, text: str) -> Conversation:
        """Import an exported conversation under a new id."""
        made = await self._run(lambda: self._store.import_json(text))
        self._changed(made.id, True)
        return made

    async def settings(self) -> ChatSettings:
        """How answers are asked for."""
        return await self._run(self._store.chat_settings)

    async def change_settings(self, change: Callable[[ChatSettings], ChatSettings]) -> ChatSettings:
        """Change and keep them as one step; ``change`` may raise LauncherError."""

        def step() -> ChatSettings:
            settings = change(self._store.chat_settings())
            self._store.save_chat_settings(settings)
            return settings

        return await self._run(step)

    async def _run(self, step: Callable[[], T]) -> T:
        task = asyncio.ensure_future(self._locked(step))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _locked(self, step: Callable[[], T]) -> T:
        async with self._lock:
            return await asyncio.to_thread(step)
