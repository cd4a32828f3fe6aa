"""Conversations on disk: one JSON file each, written whole or not at all, private to their owner."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from launcher.client.events import Timings


@dataclass(frozen=True)
class Turn:
    """One message of a conversation as kept on disk.

    ``runs`` are (characters, origin) pairs over ``content`` in order: origin "draft", "target"
    or "" (unknown); they serve the tint. ``blocks`` are (drafted, accepted) per verify step.
    ``ended`` is how an answer ended: "stop", "length", "stopped" (by the person), "failed", ... or ""
    for a person's turn; ``note`` a sentence shown under the answer (an error, a cut, ...).
    """

    id: str
    role: str  # "user" or "assistant"
    content: str
    created: float  # seconds since 1970
    thinking: str = ""
    thinking_s: float | None = None
    runs: tuple[tuple[int, str], ...] = ()
    blocks: tuple[tuple[int, int], ...] = ()
    timings: Timings | None = None
    context_used: int | None = None
    context_size: int | None = None
    engine: str = ""  # e.g. "embedded 2026.10.11549 · practice small · dspark 4"
    ended: str = ""
    note: str = ""


@dataclass(frozen=True)
class ChatSettings:
    """What a person sets for answers; None for max_tokens and thinking_budget means automatic / none."""

    system_prompt: str = ""
    temperature: float = 0.7
    top_p: float = 0.95
    top_k: int = 20
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int | None = None
    thinking: bool = True
    thinking_budget: int | None = None
    tint: bool = False


@dataclass(frozen=True)
class Conversation:
    id: str
    title: str
    created: float
    updated: float
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True)
class ConversationSummary:
    id: str
    title: str
    updated: float
    turns: int


@dataclass(frozen=True)
class Listing:
    """``set_aside`` names files that could not be read and were kept under another name."""

    conversations: tuple[ConversationSummary, ...]
    set_aside: tuple[str, ...] = field(default=())


class Store:
    """All methods raise StoreError (unreadable, full disk, read-only) and never lose what was there."""

    def __init__(self, folder: Path) -> None:
        raise NotImplementedError

    def list(self) -> Listing:
        """All conversations, newest first; a broken file is renamed to ``*.broken`` and reported once."""
        raise NotImplementedError

    def new(self, title: str = "") -> Conversation:
        raise NotImplementedError

    def load(self, conversation_id: str) -> Conversation:
        raise NotImplementedError

    def save(self, conversation: Conversation) -> Conversation:
        """Write it and return it with ``updated`` set to now."""
        raise NotImplementedError

    def rename(self, conversation_id: str, title: str) -> Conversation:
        raise NotImplementedError

    def delete(self, conversation_id: str) -> None:
        raise NotImplementedError

    def export_markdown(self, conversation_id: str) -> str:
        raise NotImplementedError

    def export_json(self, conversation_id: str) -> str:
        raise NotImplementedError

    def import_json(self, text: str) -> Conversation:
        """Take in an exported conversation under a new id; StoreError names what is wrong with the file."""
        raise NotImplementedError

    def chat_settings(self) -> ChatSettings:
        raise NotImplementedError

    def save_chat_settings(self, settings: ChatSettings) -> None:
        raise NotImplementedError
