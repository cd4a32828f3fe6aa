"""Labs on real child processes at exact paces: blocks, order, fairness, budget, stops, deaths, going on."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from launcher.errors import StoreError
from launcher.lab import in_order, new_lab, next_block, run_lab
from launcher.lab_matrix import cells
from launcher.lab_stats import figures
from launcher.lab_types import (
    BlockStarted,
    Cell,
    CellDone,
    CellStarted,
    EnginePreparing,
    Lab,
    LabEnded,
    LabEvent,
    LabNote,
    LabPlan,
    LabSpec,
    LabStarted,
)
from launcher.lifecycle import Lease, Lifecycle, Workshop
from launcher.measure import Stop
from launcher.methods import PLAIN, Method
from launcher.plan import LaunchPlan, make_plan
from launcher.race_prompts import lab_prompt
from launcher.settings import resolve
from tests.launcher.lab_samples import SUBJECT, run
from tests.launcher.measuring_room import MeasuringRoom
from tests.plans import ENGINE, MACHINE, resolved

D2, D4, TABLE = Method("draft-dspark", 2), Method("draft-dspark", 4), Method("ngram-simple")


class Counting:
    """A workshop that notes which engines were asked for."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self.asked: list[str] = []

    async def engine(self, plan: LaunchPlan, *, fresh: bool = False) -> Lease:
        self.asked.append(plan.spec_type)
        return await self._workshop.engine(plan, fresh=fresh)

    def loaded(self) -> int:
        return self._workshop.loaded()


class Room(MeasuringRoom[LabEvent]):
    """Runs labs on a fake engine and keeps what they told."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.saved: list[Lab] = []
        self.engine({"rate": 1600})

    def spec(
        self,
        methods: Sequence[Method] = (PLAIN, D4),
        kinds: Sequence[str] = ("code",),
        temperatures: Sequence[float] = (0.0,),
        **plan: Any,
    ) -> LabSpec:
        types = ENGINE.spec_types | {"ngram-simple"}
        parts = resolved(engine=replace(ENGINE, program=(str(self.program),), spec_types=types))
        launches = {method: make_plan(resolve({}, {}), MACHINE, parts, method) for method in methods}
        made = LabPlan(
            cells(kinds, methods, temperatures), tuple(lab_prompt(kind) for kind in kinds), max_tokens=40
        )
        return LabSpec(replace(made, **plan), SUBJECT, launches)

    def run(self, spec: LabSpec, *, stop: Stop | None = None, lab: Lab | None = None) -> Lab:
        owner = Lifecycle(lambda *_: spec.launches[PLAIN], self.serve, lambda *_: True)

        async def scene() -> Lab:
            async with owner.workshop("lab") as workshop:
                self.workshop = Counting(workshop)
                return await run_lab(self.workshop, spec, self.take, stop, save=self.save, lab=lab)

        try:
            return asyncio.run(scene())
        finally:
            owner.close()

    def save(self, lab: Lab) -> None:
        self.saved.append(lab)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path)
    yield made
    made.check_clean()


# --- order, without an engine ---------------------------------------------------------------------------


def test_the_order_is_shuffled_by_engine_and_repeatable() -> None:
    every = cells(("code", "prose"), (PLAIN, D2, D4, TABLE), (0.0, 1.0))
    orders = [in_order(every, 42, block) for block in range(1, 9)]
    assert len(set(orders)) == 8
    assert in_order(every, 42, 3) == orders[2]
    assert in_order(every, 43, 3) != orders[2]
    assert orders[0][0].method == PLAIN
    assert any(order[0].method != PLAIN for order in orders[1:])
    for order in orders:
        assert sorted(map(repr, order)) == sorted(map(repr, every))
        assert len(list(itertools.groupby(order, key=lambda cell: cell.method))) == 4


def test_a_broken_block_is_gone_on_with_and_keeps_its_order(room: Room) -> None:
    spec = room.spec((PLAIN, D2, D4), least=1, most=1)
    empty = new_lab(spec)
    number, order = next_block(empty)
    assert number == 1
    half = replace(empty, runs=(run(order[0], 1, 100), run(order[1], 1, 100)))
    assert next_block(half) == (1, order[2:])
    full = replace(empty, runs=tuple(run(cell, 1, 100) for cell in order))
    assert next_block(full) == (2, ())


# --- on engines -----------------------------------------------------------------------------------------


def test_every_cell_is_measured_in_blocks_until_it_is_known(room: Room) -> None:
    room.engine({"rate": 400}, rate=100)
    spec = room.spec((PLAIN, D4), ("code", "prose"), least=3, precision=0.5, max_tokens=41)
    made = room.run(spec)
    assert made.ended == "sure"
    for cell in spec.plan.cells:  # beside other work on the machine one more may be needed to be sure
        blocks = [one.block for one in made.of(cell)]
        assert blocks == [*range(1, max(3, len(blocks)) + 1)]
    found = figures(made, Cell("code", D4, 0.0))
    assert found.ratio == pytest.approx(4, rel=0.25)
    assert found.identical is True
    assert found.acceptance == pytest.approx(0.5, abs=0.03)
    assert [event.cells for event in room.kinds(BlockStarted)][:3] == [4, 4, 4]
    assert len(room.kinds(EnginePreparing)) == len(made.runs) + 2, "two starts, each warmed up once"


def test_what_is_never_known_well_enough_ends_at_the_most(room: Room) -> None:
    made = room.run(room.spec((PLAIN, D4), least=2, most=3, precision=0.00001))
    assert made.ended == "runs"
    assert len(made.runs) == 6


def test_events_in_order_and_kept_after_every_answer(room: Room) -> None:
    made = room.run(room.spec(least=1, most=1))
    names = [type(event).__name__ for event in room.events]
    cell = ["EnginePreparing", "EnginePreparing", "CellStarted", "CellDone"]
    assert names == ["LabStarted", "BlockStarted", *cell, *cell, "LabEnded"]
    assert [len(lab.runs) for lab in room.saved] == [1, 2, 2]
    assert [lab.ended for lab in room.saved] == ["", "", "runs"]
    assert room.saved[-1] == made == room.kinds(LabEnded)[0].lab
    started = room.kinds(CellStarted)
    assert [(event.at, event.of) for event in started] == [(1, 2), (2, 2)]


def test_a_lab_is_gone_on_with_where_it_was_left(room: Room) -> None:
    spec = room.spec((PLAIN, D2, D4), least=2, most=2)
    stop = Stop()
    room.hook = lambda _: stop.after_round() if len(room.kinds(CellDone)) == 4 else None
    first = room.run(spec, stop=stop)
    assert (first.ended, len(first.runs)) == ("stopped", 4)
    room.hook, room.events = lambda _: None, []
    whole = room.run(spec, lab=first)
    assert (whole.id, whole.ended, len(whole.runs)) == (first.id, "runs", 6)
    assert whole.runs[:4] == first.runs
    assert room.kinds(LabStarted)[0].left == 0
    assert len(room.kinds(CellDone)) == 2
    seen = [(one.cell, one.block) for one in whole.runs]
    assert len(set(seen)) == len(seen)
    assert whole.spent_s > first.spent_s


def test_what_is_whole_is_not_measured_at_all(room: Room) -> None:
    spec = room.spec(least=1, most=1)
    first = room.run(spec)
    again = room.run(spec, lab=first)
    assert again.runs == first.runs
    assert room.workshop.asked == []


def test_stopping_at_once_loses_the_running_cell_alone(room: Room) -> None:
    room.engine({"rate": 30}, rate=800)
    stop = Stop()
    room.hook = lambda event: (
        stop.now() if isinstance(event, CellStarted) and event.cell.method == D4 else None
    )
    made = room.run(room.spec(least=1, most=1), stop=stop)
    assert (made.ended, [one.cell.method for one in made.runs]) == ("stopped", [PLAIN])


def test_the_budget_of_time(room: Room) -> None:
    made = room.run(room.spec((PLAIN, D2, D4), budget_s=0.2, precision=0.0001))
    assert made.ended == "budget"
    assert 1 <= len(made.runs) < 9
    assert made.runs[0].cell.method == PLAIN


def kill_when(room: Room, method: Method) -> Callable[[LabEvent], None]:
    def kill(event: LabEvent) -> None:
        if isinstance(event, CellStarted) and event.cell.method == method:
            for child in psutil.Process().children(recursive=True):
                words = child.cmdline()
                if str(room.program) in " ".join(words) and words[words.index("--spec-type") + 1] == (
                    method.spec_type
                ):
                    child.kill()

    return kill


def test_a_method_whose_engine_dies_is_left_out_and_tried_again_later(room: Room) -> None:
    spec = room.spec((PLAIN, D4, TABLE), ("code", "prose"), least=1, most=1)
    room.engine({"rate": 50}, rate=50)
    room.hook = kill_when(room, TABLE)
    made = room.run(spec)
    assert [failure.method for failure in made.failures] == [TABLE]
    assert made.ended == "runs"
    assert {one.cell.method for one in made.runs} == {PLAIN, D4}
    assert "ngram-simple is left out" in room.kinds(LabNote)[0].text
    room.hook = lambda _: None
    whole = room.run(spec, lab=made)
    assert (whole.failures, len(whole.runs)) == ((), 6)
    assert whole.runs[:4] == made.runs


def test_where_plain_decoding_fails_the_lab_fails(room: Room) -> None:
    room.engine({"rate": 50}, rate=50)
    room.hook = kill_when(room, PLAIN)
    made = room.run(room.spec())
    assert (made.ended, made.runs) == ("failed", ())
    assert made.problem.startswith("plain, code, temperature 0: ")
    assert made.remedy


def test_a_lab_that_cannot_be_kept_goes_on_and_says_so(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Lab) -> None:
        raise StoreError("The disk is full.", "Free some space.")

    monkeypatch.setattr(room, "save", full)
    made = room.run(room.spec(least=1, most=1))
    assert len(made.runs) == 2
    assert [note.text for note in room.kinds(LabNote)] == [
        "This lab is not kept. The disk is full. Free some space."
    ]
