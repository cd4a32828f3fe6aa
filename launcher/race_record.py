"""Pure: what an engine tells during one answer -> the live events of a race, and its time line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from launcher.client import events
from launcher.client.events import Event, Failed, Finished, Progress, Text, Thinking, Timings
from launcher.race_types import Block, Live, Mark, Piece, RaceEvent, Reading, Run, Step

# The client reads an answer in lots some 30 ms apart; what comes within this time came in one lot.
LOT_S = 0.005


@dataclass
class _Raw:
    """A piece or (with ``chars`` None) a verify block, as it arrived."""

    at_s: float
    chars: int | None
    tokens: int
    origin: str = ""
    thinking: bool = False
    drafted: int = 0
    accepted: int = 0


class Recorder:
    """One answer of ``side`` in ``round``. Times are read by the caller from one clock, in seconds."""

    def __init__(self, side: int, round_: int, started: float) -> None:
        self.failure: Failed | None = None
        self._side, self._round, self._started = side, round_, started
        self._first: float | None = None
        self._raw: list[_Raw] = []
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._timings = Timings()
        self._ended = "stopped"  # until the engine says how it ended

    def take(self, event: Event, now: float) -> RaceEvent | None:
        """What to tell of ``event``, if anything."""
        match event:
            case Progress(processed, total):
                return Reading(self._side, processed, total)
            case Text() | Thinking():
                return self._piece(event, now)
            case events.Block(drafted, accepted):
                at = self._at(now)
                self._raw.append(_Raw(at, None, 0, drafted=drafted, accepted=accepted))
                return Block(self._side, drafted, accepted, at)
            case Timings():
                self._timings = event
                return Live(self._side, event)
            case Finished(reason, timings):
                self._ended, self._timings = reason, timings
            case Failed(timings=timings):
                self._ended, self._timings, self.failure = "failed", timings, event
        return None

    def run(self, failed: bool = False) -> Run:
        """The whole answer, as far as it came. ``failed``: the engine gave no answer or broke off unseen."""
        marks, steps = spread_lots(self._raw)
        return Run(
            side=self._side,
            round=self._round,
            timings=self._timings,
            text="".join(self._text),
            thinking="".join(self._thoughts),
            marks=marks,
            steps=steps,
            ended="failed" if failed else self._ended,
            started=self._started,
        )

    def _piece(self, event: Text | Thinking, now: float) -> Piece:
        at, thinking = self._at(now), isinstance(event, Thinking)
        origin = {True: "draft", False: "target", None: ""}[event.drafted]
        (self._thoughts if thinking else self._text).append(event.text)
        self._raw.append(_Raw(at, len(event.text), event.tokens, origin, thinking))
        return Piece(self._side, event.text, thinking, origin, event.tokens, at)

    def _at(self, now: float) -> float:
        if self._first is None:
            self._first = now
        return now - self._first


def spread_lots(raw: Sequence[_Raw]) -> tuple[tuple[Mark, ...], tuple[Step, ...]]:
    """The time line without the lots: what arrived together is spread over the time since the lot before.

    The tokens of a verify step came out of the engine together and stay together; the steps of a lot, and plain
    tokens, are spread evenly. So a time is off by less than a lot, and speeds over longer spans are right.
    """
    marks: list[Mark] = []
    steps: list[Step] = []
    before = 0.0
    for lot in _lots(_units(raw)):
        arrived = lot[-1][0].at_s
        for number, unit in enumerate(lot, start=1):
            at = round(before + (arrived - before) * number / len(lot), 6)
            for item in unit:
                if item.chars is None:
                    steps.append(Step(at, item.drafted, item.accepted))
                else:
                    marks.append(Mark(at, item.chars, item.tokens, item.origin, item.thinking))
        before = arrived
    return tuple(marks), tuple(steps)


def _units(raw: Sequence[_Raw]) -> list[list[_Raw]]:
    """What the engine gave out at once: a verify block with the tokens it kept and the target's own, or a token."""
    units: list[list[_Raw]] = []
    left = 0  # tokens of the block that are still to come
    for item in raw:
        if item.chars is None:
            left = item.accepted + 1
            units.append([item])
        elif left > 0:
            units[-1].append(item)
            left -= item.tokens
        else:
            units.append([item])
    return units


def _lots(units: Sequence[list[_Raw]]) -> list[list[list[_Raw]]]:
    lots: list[list[list[_Raw]]] = []
    for unit in units:
        if lots and unit[0].at_s - lots[-1][-1][0].at_s < LOT_S:
            lots[-1].append(unit)
        else:
            lots.append([unit])
    return lots
