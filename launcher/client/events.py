"""What comes out of an engine while it answers, as values. Pages and terminal only render these."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Message:
    """One turn as the engine sees it. ``role`` is system, user or assistant."""

    role: str
    content: str


@dataclass(frozen=True)
class Sampling:
    """Defaults: the public demo's for 27B. ``seed`` None leaves the choice to the engine."""

    temperature: float = 0.7
    top_p: float = 0.95
    top_k: int = 20
    min_p: float = 0.0
    seed: int | None = None


@dataclass(frozen=True)
class ChatRequest:
    """``max_tokens`` is always sent, so that no answer runs on unseen to the end of the context."""

    messages: tuple[Message, ...]
    max_tokens: int
    sampling: Sampling = field(default_factory=Sampling)
    thinking: bool = True
    thinking_budget: int | None = None  # tokens; None: no limit of ours
    cache_prompt: bool = True


@dataclass(frozen=True)
class Progress:
    """Prompt processing: ``processed`` of ``total`` tokens, of which ``cached`` cost nothing."""

    processed: int
    total: int
    cached: int


@dataclass(frozen=True)
class Text:
    """A piece of the answer. ``drafted``: True from the drafter, False the target's own,
    None unknown (no speculation, or an engine that does not tell)."""

    text: str
    drafted: bool | None = None
    tokens: int = 1


@dataclass(frozen=True)
class Thinking:
    """A piece of the model's thoughts; never part of the answer."""

    text: str
    drafted: bool | None = None
    tokens: int = 1


@dataclass(frozen=True)
class Block:
    """One verify step: ``drafted`` tokens were proposed, the first ``accepted`` of them kept."""

    drafted: int
    accepted: int


@dataclass(frozen=True)
class Timings:
    """Figures of one answer. Speeds in tokens a second, times in seconds; None: unknown.

    ``prompt_tokens`` counts the whole prompt, the ``cached_tokens`` of it included; the prompt's speed is that
    of the others. ``draft_n`` is None when nothing was drafted: then there is no acceptance, not one of zero.
    ``measured_by`` is "server", or "client" when the engine gave none and we measured
    from the first to the last token ourselves.
    """

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    prompt_tokens_per_second: float | None = None
    predicted_tokens: int = 0
    tokens_per_second: float | None = None
    time_to_first_token_s: float | None = None
    total_s: float | None = None
    draft_n: int | None = None
    draft_n_accepted: int | None = None
    measured_by: str = "server"

    @property
    def acceptance(self) -> float | None:
        """Accepted over drafted tokens, 0 to 1; None when nothing was drafted."""
        if not self.draft_n:
            return None
        return (self.draft_n_accepted or 0) / self.draft_n


@dataclass(frozen=True)
class Finished:
    """The engine ended the answer: ``reason`` as it says it (stop, length, ...)."""

    reason: str
    timings: Timings


@dataclass(frozen=True)
class Failed:
    """The answer broke off. What came before it stays good."""

    what: str
    remedy: str
    timings: Timings


Event = Progress | Text | Thinking | Block | Timings | Finished | Failed
