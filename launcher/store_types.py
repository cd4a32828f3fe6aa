"""What is kept of conversations, as values."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.client.events import Timings
from launcher.json_folder import Listed

TITLE_LENGTH = 60  # characters


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
    """A conversation as kept on disk, its turns in order."""

    id: str
    title: str
    created: float  # seconds since 1970
    updated: float  # seconds since 1970
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True)
class ConversationSummary:
    """One line of a list. ``turns`` is their number."""

    id: str
    title: str
    updated: float  # seconds since 1970
    turns: int


class Listing(Listed[ConversationSummary]):
    """The kept conversations, newest first."""

    @property
    def conversations(self) -> tuple[ConversationSummary, ...]:
        """The entries."""
        return self.entries


def title_for(text: str) -> str:
    """A title for a conversation that begins with ``text``: its first line, cut at a word."""
    line = next((" ".join(line.split()) for line in text.splitlines() if line.strip()), "")
    if len(line) <= TITLE_LENGTH:
        return line
    return line[:TITLE_LENGTH].rsplit(" ", 1)[0] + "…"
