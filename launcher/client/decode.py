"""llama-server's chat stream, chunk by parsed chunk, as events. Pure: the clock is an argument.

Where the verify-block edges come from: the counters ``draft_n`` and ``draft_n_accepted`` in a chunk's
``timings`` move once per verify block, before the block's first token is sent. The first Δaccepted
tokens after a move came from the drafter, what follows until the next move is the target's own.
``predicted_n`` counts tokens, so a chunk covers Δpredicted_n of them: usually one; several when the
server held back half a character or half a tag; none when one token led to two deltas.

A piece whose tokens are of mixed origin gets ``drafted=None``: nobody can tell which letters are whose.
Several blocks between two chunks (only while text is held back) are told as one.
"""

from __future__ import annotations

from typing import Any

from launcher.client.events import Block, Event, Failed, Finished, Progress, Text, Thinking, Timings
from launcher.client.figures import count, from_client, from_server
from launcher.client.refusal import refusal
from launcher.client.thinking import ThinkSplitter
from launcher.errors import ContextFull

TIMINGS_EVERY_S = 0.1  # running figures are for eyes; ten a second are plenty


class ChunkDecoder:
    """One answer. ``started`` is when the request was sent, on the clock that ``now`` is read from (s)."""

    def __init__(self, started: float = 0.0) -> None:
        self.over = False  # an error ended the answer: nothing more is to come
        self.reason = ""  # the engine's finish_reason, once it gave one
        self._started = started
        self._first: float | None = None
        self._last: float | None = None
        self._told = started
        self._timings: dict[str, Any] | None = None  # of the last chunk that had any
        self._usage: dict[str, Any] | None = None
        self._prompt_total: int | None = None
        self._pieces = 0
        self._counted = 0  # tokens accounted for
        self._draft_n = self._draft_n_accepted = 0
        # Tokens of the current block that are still to come: drafted ones, and the target's own.
        self._left = self._own = 0
        self._pending: list[bool | None] = []  # origins of tokens whose text has not come yet
        self._split = ThinkSplitter()
        self._server_splits = False

    @property
    def begun(self) -> bool:
        """Whether something of the answer, thoughts included, has come."""
        return self._first is not None

    def feed(self, chunk: object, now: float) -> list[Event]:
        """Events of one parsed chunk. Raises ContextFull when the engine says that the prompt is too long."""
        if self.over or not isinstance(chunk, dict):
            return []
        if chunk.get("error"):
            return self._error(chunk, now)
        events: list[Event] = []
        progress = chunk.get("prompt_progress")
        if isinstance(progress, dict):
            self._prompt_total = count(progress.get("total"))
            events.append(
                Progress(
                    count(progress.get("processed")) or 0,
                    self._prompt_total or 0,
                    count(progress.get("cache")) or 0,
                )
            )
        timings = chunk.get("timings")
        timed = False
        if isinstance(timings, dict):
            timed = True
            self._count(timings, events)
        if isinstance(chunk.get("usage"), dict):
            self._usage = chunk["usage"]
        choices = chunk.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            self._choice(choices[0], timed, now, events)
        if timed and self._first is not None and now - self._told >= TIMINGS_EVERY_S:
            self._told = now
            events.append(self.timings(now))
        return events

    def finish(self, now: float, *, done: bool = False, what: str = "", remedy: str = "") -> list[Event]:
        """The stream is over: what was held back, then Finished or Failed.

        ``done`` says that the stream's own end mark came, which counts as a finish where a server gave no
        reason; ``what`` and ``remedy`` explain a break, if anything is known about it.
        """
        if self.over:
            return []
        self.over = True
        events: list[Event] = []
        self._give(self._split.flush(), now, events)
        if done and not self.reason:
            self.reason = "stop"
        if not self.reason:
            broke = "The answer broke off: the engine closed the connection before it was done."
            again = "What came so far is kept. Ask again; if it stays so, look at the engine's log."
            return [*events, Failed(what or broke, remedy or again, self.timings(now))]
        if self.reason == "stop" and self._split.unclosed:
            # The model ended by itself inside its thoughts: what it wrote there is all the answer there is.
            events.append(Text(self._split.unclosed, None, 0))
        return [*events, Finished(self.reason, self.timings(now))]

    def timings(self, now: float) -> Timings:
        """The figures so far; the server's where it gave any, else measured by us."""
        first = None if self._first is None else self._first - self._started
        total = now - self._started
        if self._timings is not None:
            return from_server(self._timings, first, total)
        span = (self._last or 0.0) - (self._first or 0.0)
        return from_client(
            pieces=self._pieces,
            span_s=span,
            usage=self._usage,
            prompt_total=self._prompt_total,
            first_s=first,
            total_s=total,
        )

    def _error(self, chunk: dict[str, Any], now: float) -> list[Event]:
        events: list[Event] = []
        self._give(self._split.flush(), now, events)
        self.over = True
        problem = refusal(chunk, 0)
        if isinstance(problem, ContextFull):
            raise problem
        return [*events, Failed(problem.what, problem.remedy, self.timings(now))]

    def _count(self, timings: dict[str, Any], events: list[Event]) -> None:
        """Note which tokens a chunk covers and where they came from; tell a new verify block."""
        self._timings = timings
        fresh = max(0, (count(timings.get("predicted_n")) or 0) - self._counted)
        self._counted += fresh
        drafted, accepted = count(timings.get("draft_n")), count(timings.get("draft_n_accepted")) or 0
        if drafted is None:
            self._pending += [None] * fresh
            return
        new_drafted, new_accepted = drafted - self._draft_n, accepted - self._draft_n_accepted
        if new_drafted > 0 or new_accepted > 0:
            self._draft_n, self._draft_n_accepted = drafted, accepted
            new_accepted = max(0, new_accepted)
            events.append(Block(max(new_drafted, new_accepted), new_accepted))
            older = max(0, min(self._left + self._own, fresh - 1))  # held back from the block before
            self._take(older)
            fresh -= older
            self._left, self._own = new_accepted, 1
        self._take(fresh)

    def _take(self, tokens: int) -> None:
        from_drafter = min(tokens, self._left)
        self._left -= from_drafter
        if tokens > from_drafter:
            self._own = 0
        self._pending += [True] * from_drafter + [False] * (tokens - from_drafter)

    def _choice(self, choice: dict[str, Any], timed: bool, now: float, events: list[Event]) -> None:
        delta = choice.get("delta")
        if isinstance(delta, dict):
            pieces: list[tuple[bool, str]] = []
            thought, content = delta.get("reasoning_content"), delta.get("content")
            if isinstance(thought, str) and thought:
                self._server_splits = True
                pieces.append((True, thought))
            if isinstance(content, str) and content:
                pieces += [(False, content)] if self._server_splits else self._split.feed(content)
                if not timed and self._timings is None:
                    self._pending.append(None)  # a server that does not count: a delta is a token
            elif pieces and not timed and self._timings is None:
                self._pending.append(None)
            self._give(pieces, now, events)
        if isinstance(choice.get("finish_reason"), str):
            self.reason = choice["finish_reason"]

    def _give(self, pieces: list[tuple[bool, str]], now: float, events: list[Event]) -> None:
        if not pieces:
            return
        if self._first is None:
            self._first = now
        self._last = now
        origins, self._pending = self._pending, []
        self._pieces += len(origins)
        drafted = origins[0] if origins and origins.count(origins[0]) == len(origins) else None
        for thinking, text in pieces[:-1]:
            events.append(Thinking(text, drafted, 0) if thinking else Text(text, drafted, 0))
        thinking, text = pieces[-1]
        tokens = len(origins)
        events.append(Thinking(text, drafted, tokens) if thinking else Text(text, drafted, tokens))
