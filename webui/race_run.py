"""Runs a race for one tab: waits for the engines, passes on what the race tells, keeps what was measured."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any

from launcher.errors import StoreError
from launcher.lifecycle import Lifecycle, Workshop
from launcher.methods import PLAIN
from launcher.race import run_set
from launcher.race_figures import plain_speed
from launcher.race_store import RaceStore
from launcher.race_types import (
    Ended,
    Live,
    Note,
    Piece,
    Preparing,
    Race,
    RaceEvent,
    RaceSpec,
    RaceStarted,
    Reading,
    RoundDone,
    RunDone,
    RunStarted,
)
from webui.blocks import utf16
from webui.counting import know_plain
from webui.race_views import result_view, row_view, verdict_view
from webui.state import LearnedRoom
from webui.stream import Frame, Outbox
from webui.turn import Turn

_ORIGIN = {"draft": 1, "target": 0}


class RaceOutbox(Outbox):
    """Joins what comes between two sendings.

    A piece is ``{"s": side, "t": text, "r": [[characters, origin], …]}``, or with ``"h"`` in place of ``"t"`` for
    thoughts; characters are UTF-16 units, origins 1 (drafter), 0 (target), -1 (unknown). Of running figures only
    the latest goes out.
    """

    def piece(self, piece: Piece) -> None:
        """More text of one side."""
        kind = "h" if piece.thinking else "t"
        last = self._frames[-1] if self._frames else {}
        if kind not in last or last.get("s") != piece.side:
            last = {"s": piece.side, kind: "", "r": []}
            self.put(last)
        last[kind] += piece.text
        length, origin = utf16(piece.text), _ORIGIN.get(piece.origin, -1)
        runs = last["r"]
        if runs and runs[-1][1] == origin:
            runs[-1][0] += length
        else:
            runs.append([length, origin])

    def live(self, frame: Frame) -> None:
        """Figures that make earlier ones stale."""
        self._frames = [it for it in self._frames if "live" not in it]
        self.put(frame)


class RunningRace(Turn):
    """Streams into an outbox. Frames besides: ``begin``, those of frame_of, pieces and ``live`` figures (RaceOutbox), and
    for each race ``ended`` and ``kept``."""

    name = user = "race"

    def __init__(
        self,
        specs: Sequence[RaceSpec],
        lifecycle: Lifecycle,
        store: RaceStore,
        outbox: RaceOutbox,
        learned: LearnedRoom | None = None,
    ) -> None:
        super().__init__(lifecycle)
        self.id = uuid.uuid4().hex
        self._specs = specs
        self._store = store
        self._outbox = outbox
        self._learned = learned  # its ledger is told how fast plain decoding is
        self._races: list[Race] = []
        self._saves: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        self._tell({"begin": {"id": self.id, "total": len(self._specs)}})
        await super().run()

    async def _measure(self, workshop: Workshop) -> None:
        await run_set(workshop, self._specs, self._take, self._stop)

    async def _result(self) -> Frame:
        await asyncio.gather(*self._saves)
        races = self._races
        if len(self._specs) == 1:
            return {"result": result_view(races[0])}
        return {"over": {"ended": races[-1].ended, "races": len(races)}}

    def _tell(self, frame: Frame) -> None:
        self._outbox.put(frame)

    async def _close(self) -> None:
        await asyncio.gather(*self._saves)
        plain = next((plan for plan in self._specs[0].plans if plan.method == PLAIN), None)
        if plain is not None:
            await know_plain(self._learned, plain, plain_speed(self._races), "a race")
        self._outbox.close()

    def _take(self, event: RaceEvent) -> None:
        match event:
            case Piece():
                self._outbox.piece(event)
            case Live(side, timings):
                figures = {"tokens": timings.predicted_tokens, "speed": timings.tokens_per_second}
                self._outbox.live({"live": {"s": side, **figures, "acceptance": timings.acceptance}})
            case Ended(race):
                self._races.append(race)
                if any(run.marks for run in race.runs):
                    self._saves.append(asyncio.ensure_future(self._save(race)))
                self._tell({"ended": row_view(race)})
            case _:
                frame = frame_of(event)
                if frame is not None:
                    self._tell(frame)

    async def _save(self, race: Race) -> None:
        try:
            await asyncio.to_thread(self._store.save, race)
            self._tell({"kept": race.id})
        except StoreError as problem:
            self._tell({"note": f"This race is not kept. {problem.what} {problem.remedy}".strip()})


def frame_of(event: RaceEvent) -> dict[str, Any] | None:
    """What the page is told of the steps of a race; None for what it does not show."""
    frame: dict[str, Any] | None = None
    match event:
        case RaceStarted(number, total, prompt, sides, rounds):
            names = [side.name for side in sides]
            about = {"kind": prompt.kind, "language": prompt.language, "names": names, "rounds": rounds}
            frame = {"race": {"number": number, "total": total, **about}}
        case Preparing(side, message):
            frame = {"prepare": {"s": side, "message": message}}
        case RunStarted(side, number):
            frame = {"run": {"s": side, "round": number}}
        case Reading(side, processed, total):
            frame = {"reading": {"s": side, "done": processed, "of": total}}
        case RunDone(run):
            timings = run.timings
            figures = {"speed": timings.tokens_per_second, "acceptance": timings.acceptance}
            frame = {
                "ran": {"s": run.side, "round": run.round, "tokens": timings.predicted_tokens, **figures}
            }
        case RoundDone(number, verdict):
            frame = {"round": {"number": number, **verdict_view(verdict)}}
        case Note(text):
            frame = {"note": text}
    return frame
