"""Over all chats: the time that speculation saved or lost, net of the prompts that were read again for want of a cache.

    <data>/ledger.json

Chats are those on the page, and ``bonsai ask`` (of one message); what is asked in order to measure is not counted:
races, labs, ``bonsai oneshot``, nor what other programs ask a server.

What an answer saved is the time that plain decoding would have taken for its tokens, less the time that it took. The
plain speed is that of the same target, engine, settings and machine, as a race or a lab measured it; where it is not
known yet, the answer waits uncounted until it is. It is measured on short questions: in a long conversation plain
decoding is slower, so that there rather more was saved than is said. What was counted stays so when another speed
becomes known later.

A plain chat keeps its prompt cache; with speculation engines read the whole conversation again at each turn, and the
seconds for what a cache would have kept are the price. It is asked too of the first answer after a start of the engine,
which no cache outlives.

Only sums by month, target and method are kept, no text and nothing of single answers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from launcher.amounts import span
from launcher.client.events import Timings
from launcher.methods import PLAIN, Method
from launcher.store_shared import SharedFile

MOST_ROWS = 240
MOST_SPEEDS = 60
EARLIER = "earlier"  # in place of a month


@dataclass(frozen=True)
class Entry:
    """One answer of a chat.

    ``what`` names all that the speed of plain decoding depends on (counted.what_of). ``again_tokens`` of the prompt
    were in the conversation before, so that a prompt cache would have kept them, and were read again at ``prompt_s``
    for ``read_tokens``. ``plain_tokens_per_second``: None when it is not known.
    """

    what: str
    method: Method
    tokens: int
    decode_s: float
    read_tokens: int = 0
    prompt_s: float = 0.0
    again_tokens: int = 0
    plain_tokens_per_second: float | None = None
    at: float = 0.0  # seconds since 1970; 0: now


def entry_of(
    timings: Timings,
    method: Method,
    what: str,
    before_tokens: int,
    plain_tokens_per_second: float | None = None,
) -> Entry | None:
    """The entry of an answer with ``timings``. ``before_tokens``: prompt and answer of the turn before in this
    conversation, 0 for its first. None when it was too short to have a speed."""
    if not timings.tokens_per_second or timings.predicted_tokens < 2:
        return None
    prompt, cached = timings.prompt_tokens or 0, timings.cached_tokens or 0
    read, speed = max(prompt - cached, 0), timings.prompt_tokens_per_second
    return Entry(
        what=what,
        method=method,
        tokens=timings.predicted_tokens,
        decode_s=timings.predicted_tokens / timings.tokens_per_second,
        read_tokens=read,
        prompt_s=read / speed if speed else 0.0,
        again_tokens=max(min(before_tokens, prompt) - cached, 0),
        plain_tokens_per_second=plain_tokens_per_second,
    )


@dataclass(frozen=True)
class Sums:
    """Answers that speculated: tokens, seconds of decoding, seconds of reading again."""

    answers: int = 0
    tokens: int = 0
    decode_s: float = 0.0
    again_s: float = 0.0

    def plus(self, other: Sums) -> Sums:
        """Both together."""
        return Sums(
            self.answers + other.answers,
            self.tokens + other.tokens,
            self.decode_s + other.decode_s,
            self.again_s + other.again_s,
        )


@dataclass(frozen=True)
class Row:
    """One month of one target with one method. ``plain_s``: what plain decoding would have taken for the tokens of
    ``counted``; ``waiting`` are answers whose plain speed was not known when they came."""

    month: str
    what: str
    method: str
    counted: Sums = Sums()
    plain_s: float = 0.0
    waiting: Sums = Sums()

    def plus(self, other: Row) -> Row:
        """Both together, under this one's name."""
        return replace(
            self,
            counted=self.counted.plus(other.counted),
            plain_s=self.plain_s + other.plain_s,
            waiting=self.waiting.plus(other.waiting),
        )


@dataclass(frozen=True)
class PlainSpeed:
    """Tokens a second of plain decoding, and whence it is known ("a race", "a lab")."""

    what: str
    tokens_per_second: float
    source: str


@dataclass(frozen=True)
class Book:
    """All that is on disk."""

    rows: tuple[Row, ...] = ()
    speeds: tuple[PlainSpeed, ...] = ()


@dataclass(frozen=True)
class LedgerSummary:
    """Seconds: ``saved_s`` in decoding (negative: lost), ``prompt_lost_s`` by reading again, ``net_s`` both;
    ``answers`` that are counted, ``not_counted`` for want of a plain speed. ``sentence`` says it in words."""

    saved_s: float
    prompt_lost_s: float
    net_s: float
    answers: int
    not_counted: int
    sentence: str


class Ledger:
    """In ``folder`` / ledger.json. Safe for any number of threads and processes; methods raise StoreError and
    FolderError. A broken file is set aside, and a new one begun."""

    def __init__(self, folder: Path) -> None:
        self._file = SharedFile(folder / "ledger.json", Book, "the time ledger", "bonsai-ledger")

    def add(self, entry: Entry) -> None:
        """Count one answer. Plain ones, and what cannot be (no token, no time), change nothing."""
        if entry.method == PLAIN or entry.tokens < 1 or not _positive(entry.decode_s):
            return
        if not math.isfinite(entry.prompt_s) or entry.prompt_s < 0:
            return
        self._file.change(lambda book: _added(book, entry))

    def know_plain(self, what: str, tokens_per_second: float, source: str) -> None:
        """Plain decoding of ``what`` was measured; answers that waited for it are counted with it."""
        if not _positive(tokens_per_second):
            return
        speed = PlainSpeed(what, tokens_per_second, source)

        def change(book: Book) -> Book:
            kept = [one for one in book.speeds if one.what != what]
            rows = tuple(_priced(row, speed) for row in book.rows)
            return Book(rows, (*kept, speed)[-MOST_SPEEDS:])

        self._file.change(change)

    def plain_speed(self, what: str) -> PlainSpeed | None:
        """What is known of plain decoding of ``what``."""
        return next((one for one in self._file.read().speeds if one.what == what), None)

    def rows(self) -> tuple[Row, ...]:
        """The sums, oldest month first."""
        return self._file.read().rows

    def summary(self) -> LedgerSummary:
        """Everything together."""
        rows = self._file.read().rows
        saved = sum(row.plain_s - row.counted.decode_s for row in rows)
        lost = sum(row.counted.again_s for row in rows)
        answers = sum(row.counted.answers for row in rows)
        waiting = sum(row.waiting.answers for row in rows)
        return LedgerSummary(
            saved, lost, saved - lost, answers, waiting, _sentence(saved, lost, answers, waiting)
        )


def _positive(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0


def _added(book: Book, entry: Entry) -> Book:
    speed = next((one.tokens_per_second for one in book.speeds if one.what == entry.what), None)
    plain = entry.plain_tokens_per_second if _positive(entry.plain_tokens_per_second) else speed
    share = min(max(entry.again_tokens, 0) / entry.read_tokens, 1.0) if entry.read_tokens > 0 else 0.0
    sums = Sums(1, entry.tokens, entry.decode_s, entry.prompt_s * share)
    row = Row(
        month=time.strftime("%Y-%m", time.localtime(entry.at or time.time())),
        what=entry.what,
        method=entry.method.name,
        counted=sums if plain else Sums(),
        plain_s=entry.tokens / plain if plain else 0.0,
        waiting=Sums() if plain else sums,
    )
    return replace(book, rows=_bounded(_merged((*book.rows, row))))


def _priced(row: Row, speed: PlainSpeed) -> Row:
    """``row`` with its waiting answers counted at ``speed``, if it is about the same."""
    if row.what != speed.what or not row.waiting.answers:
        return row
    return replace(
        row,
        counted=row.counted.plus(row.waiting),
        plain_s=row.plain_s + row.waiting.tokens / speed.tokens_per_second,
        waiting=Sums(),
    )


def _merged(rows: Sequence[Row]) -> tuple[Row, ...]:
    """One row for each month, target and method, by month; EARLIER comes first."""
    found: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        name = (row.month, row.what, row.method)
        found[name] = found[name].plus(row) if name in found else row
    return tuple(sorted(found.values(), key=lambda row: (row.month != EARLIER, row.month)))


def _bounded(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """At most MOST_ROWS: first the oldest months become one, then what they were about is given up."""
    for what in (None, ""):
        if len(rows) > MOST_ROWS:
            half = len(rows) - MOST_ROWS // 2
            old = [
                replace(row, month=EARLIER, what=row.what if what is None else what) for row in rows[:half]
            ]
            rows = _merged((*old, *rows[half:]))
    return rows


def _sentence(saved: float, lost: float, answers: int, waiting: int) -> str:
    """In words, as plain for a loss as for a gain."""
    left_out = (
        f" {_count(waiting)} {'is' if waiting == 1 else 'are'} not counted: how fast plain decoding is there is not "
        "known yet; a race or a lab tells."
        if waiting
        else ""
    )
    if not answers:
        return f"No answer with speculation has been counted yet.{left_out}"
    what = f"{'saved' if saved >= 0 else 'lost'} {span(abs(saved))} of decoding"
    price = f", and {span(lost)} went into reading conversations again, which plain chats keep in a cache"
    net = saved - lost
    whole = f" Net: {span(abs(net))} {'saved' if net >= 0 else 'lost'}."
    return f"Over {_count(answers)} speculation {what}{price if lost >= 0.05 else ''}.{whole}{left_out}"


def _count(answers: int) -> str:
    return "1 answer" if answers == 1 else f"{answers:,} answers"
