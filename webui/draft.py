"""An answer while it comes: events in, the turn to keep out, with a sentence on how it ended. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from launcher.client.events import Block, Event, Failed, Finished, Text, Thinking, Timings
from launcher.store import Turn

_ORIGIN = {True: "draft", False: "target", None: ""}


@dataclass
class AnswerDraft:
    """``prompt_tokens``, ``context`` and ``limit`` (of this answer) are in tokens; times in seconds on one clock."""

    id: str
    created: float
    engine: str = ""
    prompt_tokens: int | None = None
    context: int | None = None
    limit: int | None = None
    thinking_budget: int | None = None
    left_out: int = 0  # messages that the model did not read, for want of context
    ended: str = ""
    problem: str = ""
    timings: Timings | None = None
    _text: list[str] = field(default_factory=list)
    _runs: list[tuple[int, str]] = field(default_factory=list)
    _blocks: list[tuple[int, int]] = field(default_factory=list)
    _thoughts: list[str] = field(default_factory=list)
    _tokens: int = 0
    _thinking_tokens: int = 0
    _first: float | None = None
    _last: float | None = None
    _thought_from: float | None = None
    _thought_until: float | None = None
    _asked: float = 0.0

    def begin(self, now: float) -> None:
        """The request goes out."""
        self._asked = now

    def take(self, event: Event, now: float) -> None:
        """Count in one event of the engine."""
        match event:
            case Text(text, drafted, tokens):
                self._saw(tokens, now)
                if self._thought_from is not None and self._thought_until is None:
                    self._thought_until = now
                self._text.append(text)
                self._run(len(text), _ORIGIN[drafted])
            case Thinking(text, _, tokens):
                self._saw(tokens, now)
                self._thinking_tokens += tokens
                if self._thought_from is None:
                    self._thought_from = now
                self._thoughts.append(text)
            case Block(drafted_n, accepted_n):
                self._blocks.append((drafted_n, accepted_n))
            case Timings():
                self.timings = event
            case Finished(reason, timings):
                self.ended, self.timings = reason or "stop", timings
            case Failed(what, remedy, timings):
                self.fail("failed", f"{what} {remedy}".strip())
                self.timings = timings

    def fail(self, ended: str, problem: str) -> None:
        """The answer ended badly: ``ended`` as in Turn, ``problem`` for people."""
        self.ended, self.problem = ended, problem

    @property
    def tokens(self) -> int:
        """How many tokens came so far."""
        return max(self._tokens, self.timings.predicted_tokens if self.timings else 0)

    def turn(self, now: float) -> Turn:
        """What to keep."""
        content = "".join(self._text)
        timings = self._figures() if self._first is not None or self.timings else None
        thought_s = None
        if self._thought_from is not None:
            thought_s = (self._thought_until or self._last or now) - self._thought_from
        used = None
        if timings is not None:
            prompt = timings.prompt_tokens if timings.prompt_tokens is not None else self.prompt_tokens
            used = None if prompt is None else prompt + timings.predicted_tokens
        turn = Turn(
            id=self.id,
            role="assistant",
            content=content,
            created=self.created,
            thinking="".join(self._thoughts),
            thinking_s=thought_s,
            runs=tuple(self._runs) if any(origin for _, origin in self._runs) else (),
            blocks=tuple(self._blocks),
            timings=timings,
            context_used=used,
            context_size=self.context,
            engine=self.engine,
            ended=self.ended or "stopped",
        )
        if turn.ended == "length" and content.strip() and self._full(turn):
            turn = replace(turn, ended="full")
        return replace(turn, note=self._note(turn))

    def _full(self, turn: Turn) -> bool:
        return (
            bool(self.context)
            and turn.context_used is not None
            and turn.context_used >= (self.context or 0) - 1
        )

    def _saw(self, tokens: int, now: float) -> None:
        self._tokens += tokens
        self._first = now if self._first is None else self._first
        self._last = now

    def _run(self, length: int, origin: str) -> None:
        if self._runs and self._runs[-1][1] == origin:
            self._runs[-1] = (self._runs[-1][0] + length, origin)
        else:
            self._runs.append((length, origin))

    def _figures(self) -> Timings:
        """The engine's figures; where an answer was stopped before it gave any, our own."""
        first = None if self._first is None else self._first - self._asked
        if self.timings is not None:
            if self._tokens > self.timings.predicted_tokens and not self.ended:
                # Running figures come a few times a second: the last tokens before a stop are newer.
                newer = replace(self.timings, predicted_tokens=self._tokens)
            else:
                newer = self.timings
            return (
                newer
                if newer.time_to_first_token_s is not None
                else replace(newer, time_to_first_token_s=first)
            )
        span = (self._last or 0.0) - (self._first or 0.0)
        speed = (self._tokens - 1) / span if self._tokens > 1 and span > 0 else None
        return Timings(
            prompt_tokens=self.prompt_tokens,
            predicted_tokens=self._tokens,
            tokens_per_second=speed,
            time_to_first_token_s=first,
            measured_by="client",
        )

    def _note(self, turn: Turn) -> str:
        notes = [self._ending(turn)]
        if self.thinking_budget and self._thinking_tokens >= self.thinking_budget:
            notes.append(f"Thinking was cut at its budget of {self.thinking_budget:,} tokens.")
        if self.left_out:
            count = f"{self.left_out} oldest messages were" if self.left_out > 1 else "oldest message was"
            notes.append(f"The {count} left out of what the model read.")
        return " ".join(note for note in notes if note)

    def _ending(self, turn: Turn) -> str:
        if self.problem:
            return self.problem
        if turn.ended == "stopped":
            return "Stopped." if turn.content or turn.thinking else "Stopped before the first token."
        if turn.ended == "full":
            return f"Cut here: the context of {self.context:,} tokens is full."
        if turn.ended == "length":
            return self._cut(turn)
        if not turn.content.strip():
            return (
                "The model ended after its thoughts, without an answer. Try again, or switch thinking off."
                if turn.thinking
                else "The model gave an empty answer. Try again, or word the question differently."
            )
        return ""

    def _cut(self, turn: Turn) -> str:
        tokens = f"{turn.timings.predicted_tokens if turn.timings else self._tokens:,}"
        if not turn.content.strip() and turn.thinking:
            return (
                f"Ran out of tokens while thinking ({tokens}). Raise the answer limit, set a thinking budget, "
                "or switch thinking off, and try again."
            )
        limit = f" of {self.limit:,} tokens" if self.limit else ""
        return f"Cut at the limit{limit}. Continue, or raise the answer limit in the settings."
