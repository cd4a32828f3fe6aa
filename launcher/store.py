"""Conversations on disk: one JSON file each, written whole or not at all, private to their owner.

    <folder>/conversations/<id>.json     <folder>/chat_settings.json

A file that makes no sense is renamed, never deleted, and the rest goes on loading.
"""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import replace
from pathlib import Path

from launcher import store_files, store_format
from launcher.errors import StoreError
from launcher.json_folder import Form, JsonFolder
from launcher.store_errors import MissingError, told
from launcher.store_markdown import markdown
from launcher.store_types import (
    ChatSettings,
    Conversation,
    ConversationSummary,
    Listing,
    Turn,
    title_for,
)

__all__ = [
    "ChatSettings",
    "Conversation",
    "ConversationSummary",
    "Listing",
    "Store",
    "Turn",
    "title_for",
]

LARGEST_IMPORT = 32 * 1024 * 1024  # characters


class Store:
    """All methods raise StoreError (unreadable, full disk, read-only) and never lose what was there.

    Safe for any number of threads; several processes may share a folder, the last writer of a file wins.
    The folder is made when something is first written.
    """

    def __init__(self, folder: Path) -> None:
        self._files = JsonFolder(
            folder / "conversations",
            Form(
                noun="conversation",
                nouns="conversations",
                read=_parse,
                write=lambda conversation: store_format.dump_conversation(conversation).encode(),
                summary=lambda read: ConversationSummary(read.id, read.title, read.updated, len(read.turns)),
                order=lambda summary: (-summary.updated, summary.id),
                broken=(store_format.MalformedError,),
            ),
        )
        self._settings = folder / "chat_settings.json"
        self._lock = threading.RLock()

    def list(self) -> Listing:
        """All conversations, newest first; a broken file is renamed to ``*.broken-<time>`` and reported once."""
        listed = self._files.list()
        return Listing(listed.entries, listed.set_aside, listed.unreadable)

    def new(self, title: str = "") -> Conversation:
        """An empty conversation under a fresh random id; nothing is written before ``save``."""
        now = time.time()
        return Conversation(secrets.token_hex(8), " ".join(title.split()), now, now)

    def load(self, conversation_id: str) -> Conversation:
        """The whole conversation. StoreError when there is none, or its file makes no sense (it is set aside)."""
        return self._files.load(conversation_id)

    def save(self, conversation: Conversation) -> Conversation:
        """Write it and return it with ``updated`` set to now, and a title from its first words if it had none."""
        title = " ".join(conversation.title.split()) or _first_words(conversation)
        title = title[: store_format.LONGEST_TITLE].rstrip()
        return self._write(replace(conversation, title=title, updated=time.time()))

    def rename(self, conversation_id: str, title: str) -> Conversation:
        """Give it another title; an empty one stands for its first words. Its place in the list stays."""
        with self._lock:
            conversation = self.load(conversation_id)
            title = " ".join(title.split())[: store_format.LONGEST_TITLE].rstrip()
            return self._write(replace(conversation, title=title or _first_words(conversation)))

    def delete(self, conversation_id: str) -> None:
        """Remove it for good; one that is gone already is no error."""
        self._files.delete(conversation_id)

    def export_markdown(self, conversation_id: str) -> str:
        """For people to read: texts as they are, thoughts folded, figures under each answer."""
        return markdown(self.load(conversation_id))

    def export_json(self, conversation_id: str) -> str:
        """For ``import_json``, of this or another machine."""
        return store_format.dump_conversation(self.load(conversation_id))

    def import_json(self, text: str) -> Conversation:
        """Take in an exported conversation under a new id; StoreError names what is wrong with the file."""
        remedy = "Choose a file that was exported here as JSON."
        if len(text) > LARGEST_IMPORT:
            raise StoreError(
                f"The file is larger than {LARGEST_IMPORT // 1024**2} million characters, too large to import.",
                remedy,
            )
        try:
            taken = store_format.parse_conversation(text, secrets.token_hex(8))
        except store_format.MalformedError as error:
            raise StoreError(f"This file cannot be imported. {error.what}", remedy) from error
        return self._write(replace(taken, title=taken.title or _first_words(taken)))

    def chat_settings(self) -> ChatSettings:
        """What was saved, or the defaults; a broken file is set aside and reported by the next ``list``."""
        with self._lock:
            try:
                with told(f"The chat settings in {self._settings} cannot be read"):
                    text = _decoded(store_files.read(self._settings))
                return store_format.parse_settings(text)
            except store_format.MalformedError:
                self._files.set_aside(self._settings)
            except MissingError:
                pass
            return ChatSettings()

    def save_chat_settings(self, settings: ChatSettings) -> None:
        """Keep them for the next run."""
        text = store_format.dump_settings(settings)
        with self._lock, told(f"The chat settings cannot be saved in {self._settings}"):
            store_files.write(self._settings, text.encode())

    def _write(self, conversation: Conversation) -> Conversation:
        self._files.save(conversation)
        return conversation


def _first_words(conversation: Conversation) -> str:
    return next((title_for(turn.content) for turn in conversation.turns if turn.role == "user"), "")


def _parse(data: bytes, conversation_id: str) -> Conversation:
    return store_format.parse_conversation(_decoded(data), conversation_id)


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise store_format.MalformedError("It is not text in UTF-8.") from None
