"""Races between real child processes at exact paces: order, fairness, verdicts, stops and deaths."""

from __future__ import annotations

import asyncio
import itertools
import json
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from launcher.lifecycle import Lease, Lifecycle, Workshop
from launcher.methods import PLAIN, Method
from launcher.plan import LaunchPlan, make_plan
from launcher.race import Stop, run_race, run_set
from launcher.race_types import (
    Block,
    Ended,
    Note,
    Piece,
    Preparing,
    Prompt,
    Race,
    RaceEvent,
    RaceSpec,
    RaceStarted,
    RoundDone,
    RunDone,
    RunStarted,
)
from launcher.settings import resolve
from tests.launcher.measuring_room import TEXT, MeasuringRoom
from tests.plans import ENGINE, MACHINE, resolved

DSPARK = Method("draft-dspark", 4)
PROMPT = Prompt("Say something.", "chat", "en")


class Spy:
    """A workshop that asks each fake engine what it saw before it may be stopped."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self.seen: dict[tuple[str, int], list[dict[str, Any]]] = {}
        self.asked: list[LaunchPlan] = []

    async def engine(self, plan: LaunchPlan, *, fresh: bool = False) -> Lease:
        await asyncio.to_thread(self.look)
        self.asked.append(plan)
        self._lease = await self._workshop.engine(plan, fresh=fresh)
        self._plan = plan
        return self._lease

    def loaded(self) -> int:
        return self._workshop.loaded()

    def look(self) -> None:
        """Note the chats of the engine that worked last; a restarted engine begins a list of its own."""
        if self.asked:
            with urllib.request.urlopen(f"{self._lease.client.base_url}/paced", timeout=5) as reply:
                chats = json.load(reply)["chats"]
            if chats:
                self.seen[self._plan.spec_type, chats[0]["started"]] = chats


class Track(MeasuringRoom[RaceEvent]):
    """Runs races on a fake engine and keeps what they told."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.keep = True
        self.owner: Lifecycle | None = None

    def plan(self, method: Method) -> LaunchPlan:
        engine = replace(ENGINE, program=(str(self.program),), spec_types=ENGINE.spec_types | {"ngram-mod"})
        return make_plan(resolve({}, {}), MACHINE, resolved(engine=engine), method)

    def spec(self, methods: Sequence[Method] = (PLAIN, DSPARK), **changes: Any) -> RaceSpec:
        plans = (self.plan(methods[0]), self.plan(methods[1]))
        return replace(RaceSpec(plans, PROMPT, max_tokens=120), **changes)

    def run(self, *specs: RaceSpec, stop: Stop | None = None) -> tuple[Race, ...]:
        self.owner = Lifecycle(lambda *_: self.plan(PLAIN), self.serve, lambda *_: self.keep)

        async def scene() -> tuple[Race, ...]:
            assert self.owner is not None
            async with self.owner.workshop("race") as workshop:
                self.spy = Spy(workshop)
                if len(specs) == 1:
                    races: tuple[Race, ...] = (await run_race(self.spy, specs[0], self.take, stop),)
                else:
                    races = await run_set(self.spy, specs, self.take, stop)
                if races[-1].ended != "failed":
                    self.spy.look()
                return races

        try:
            return asyncio.run(scene())
        finally:
            self.owner.close()


@pytest.fixture
def track(tmp_path: Path) -> Iterator[Track]:
    made = Track(tmp_path)
    yield made
    made.check_clean()


def test_a_faster_drafter_wins_early(track: Track) -> None:
    track.engine({"rate": 800}, rate=200)
    race = track.run(track.spec())[0]
    verdict = race.verdict
    assert (race.ended, verdict.word, verdict.sure) == ("sure", "faster", True)
    assert verdict.ratio == pytest.approx(4.0, rel=0.2)
    assert verdict.time_saved_s is not None
    assert verdict.time_saved_s > 0
    assert verdict.identical is True
    assert verdict.rounds < race.rounds_asked
    assert race.order[:4] == ("plain", "dspark 4", "dspark 4", "plain")


@pytest.mark.case("A-06")
def test_a_slower_drafter_is_said_as_plainly(track: Track) -> None:
    track.engine({"rate": 200})
    verdict = track.run(track.spec())[0].verdict
    assert verdict.word == "slower"
    assert verdict.ratio == pytest.approx(0.25, rel=0.1)
    assert verdict.time_saved_s is not None
    assert verdict.time_saved_s < 0


def test_no_difference_takes_more_rounds(track: Track) -> None:
    track.engine({"rate": 400}, rate=400)
    race = track.run(track.spec(max_tokens=60))[0]
    assert race.verdict.word == "no difference"
    assert race.verdict.rounds >= 4
    low, high = race.verdict.spread or (0, 0)
    assert low <= 1 <= high


@pytest.mark.case("G-03")
def test_both_sides_get_the_same_requests_after_a_warm_up_that_does_not_count(track: Track) -> None:
    track.engine({"rate": 1600})
    race = track.run(track.spec(adaptive=False, rounds=3, seed=7))[0]
    assert (race.ended, race.verdict.rounds) == ("rounds", 3)
    assert race.order == ("plain", "dspark 4", "dspark 4", "plain", "plain", "dspark 4")
    assert len(track.spy.seen) == 2, "each engine was started once"
    bodies = [[chat["body"] for chat in chats] for chats in track.spy.seen.values()]
    assert bodies[0] == bodies[1]
    warm_up, *measured = bodies[0]
    assert warm_up == {**measured[0], "max_tokens": 32}
    assert measured == [measured[0]] * 3
    assert len(race.of(0)) == len(race.of(1)) == 3
    body = measured[0]
    assert body["cache_prompt"] is False
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.0, 7, 120)
    assert body["messages"] == [{"role": "user", "content": PROMPT.text}]
    assert body["chat_template_kwargs"] == {"enable_thinking": False}


def test_never_two_at_work_at_once(track: Track) -> None:
    track.engine({"rate": 1600})
    track.run(track.spec(adaptive=False, rounds=2))
    chats = sorted(
        (chat for chats in track.spy.seen.values() for chat in chats), key=lambda chat: chat["started"]
    )
    assert len(chats) == 6
    for one, following in itertools.pairwise(chats):
        assert one["finished_at"] <= following["started"]


def test_engines_that_do_not_fit_together_are_swapped_and_warmed_anew(track: Track) -> None:
    track.engine({"rate": 1600})
    track.keep = False
    race = track.run(track.spec(adaptive=False, rounds=2))[0]
    assert race.swapped
    assert race.verdict.rounds == 2
    assert len(track.kinds(Note)) == 1
    assert "take turns" in track.kinds(Note)[0].text
    # A | B B | A: three starts, each with a warm-up of its own; the two B in a row share one.
    assert sorted(len(chats) for chats in track.spy.seen.values()) == [2, 2, 3]
    assert all(chats[0]["body"]["max_tokens"] == 32 for chats in track.spy.seen.values())


def test_phrase_tables_that_remember_are_asked_once_each(track: Track) -> None:
    track.engine({"rate": 1600})
    race = track.run(track.spec((PLAIN, Method("ngram-mod")), adaptive=False, rounds=2))[0]
    assert race.verdict.rounds == 2
    assert not race.swapped
    tables = [chats for (spec_type, _), chats in track.spy.seen.items() if spec_type == "ngram-mod"]
    assert [len(chats) for chats in tables] == [2, 2], "started anew for each answer"
    for warm_up, measured in (([chat["body"] for chat in chats]) for chats in tables):
        assert warm_up["messages"] != measured["messages"]
        assert warm_up["max_tokens"] == 16
    assert len(next(chats for (spec_type, _), chats in track.spy.seen.items() if spec_type == "none")) == 3


def test_engines_that_fit_stay_and_the_person_is_told(track: Track) -> None:
    track.engine({"rate": 1600})
    race = track.run(track.spec())[0]
    assert not race.swapped
    assert [note.text for note in track.kinds(Note)] == [
        "Both engines stay loaded; only one works at a time."
    ]


@pytest.mark.case("G-04")
def test_the_first_difference_is_shown(track: Track) -> None:
    track.engine({"rate": 1600, "text": TEXT.replace("word20", "WORD20")})
    verdict = track.run(track.spec())[0].verdict
    assert verdict.identical is False
    assert verdict.first_difference is not None
    assert verdict.first_difference.char == TEXT.index("word20")
    assert verdict.first_difference.a.startswith(TEXT[verdict.first_difference.char - 24 :][:24])
    assert "WORD20" in verdict.first_difference.b


def test_above_temperature_0_texts_may_differ(track: Track) -> None:
    track.engine({"rate": 1600, "text": TEXT[::-1]})
    verdict = track.run(track.spec(temperature=0.7))[0].verdict
    assert (verdict.identical, verdict.first_difference) == (None, None)


def test_a_drafter_that_hardly_fits_is_said(track: Track) -> None:
    track.engine({"rate": 400, "blocks": ((4, 0),) * 19 + ((4, 1),)})
    verdict = track.run(track.spec())[0].verdict
    assert verdict.word == "slower"
    assert any("hardly fits" in warning for warning in verdict.warnings)


@pytest.mark.case("G-02")
def test_speculation_that_is_asked_for_and_does_not_happen_is_said(track: Track) -> None:
    track.engine({"blocks": ()})
    race = track.run(track.spec(adaptive=False, rounds=1))[0]
    assert any("not active" in warning for warning in race.verdict.warnings)
    assert race.of(1)[0].timings.acceptance is None


def test_the_time_line_has_every_letter_and_every_block(track: Track) -> None:
    track.engine({"rate": 1600})
    race = track.run(track.spec(adaptive=False, rounds=1))[0]
    plain, drafting = race.of(0)[0], race.of(1)[0]
    for run in (plain, drafting):
        assert sum(mark.chars for mark in run.marks) == len(run.text)
        assert sum(mark.tokens for mark in run.marks) == 120
        times = [mark.at_s for mark in run.marks]
        assert times == sorted(times)
        assert times[0] == 0
    assert plain.steps == ()
    assert {mark.origin for mark in plain.marks} == {""}
    told = [(step.drafted, step.accepted) for step in drafting.steps]
    assert told == [(4, 3), (4, 1)] * 20
    assert [mark.origin for mark in drafting.marks[1:7]] == ["draft"] * 3 + ["target", "draft", "target"]
    # at 1600 tokens a second a lot of the client holds many steps: they are spread, not heaped
    assert len({mark.at_s for mark in drafting.marks}) >= 38
    assert drafting.steps[0].at_s == drafting.marks[1].at_s == drafting.marks[4].at_s


def test_everything_is_told_in_order(track: Track) -> None:
    track.engine({"rate": 1600})
    race = track.run(track.spec(adaptive=False, rounds=1))[0]
    order = [type(event).__name__ for event in track.events if not isinstance(event, Piece | Block | Note)]
    order = [name for name in order if name not in ("Live", "Reading")]
    one = ["Preparing", "Preparing", "RunStarted", "RunDone"]
    assert order == ["RaceStarted", *one, *one, "RoundDone", "Ended"]
    text = "".join(piece.text for piece in track.kinds(Piece) if piece.side == 1)
    assert text == race.of(1)[0].text
    assert track.kinds(RoundDone)[0].verdict == race.verdict
    assert track.kinds(Ended)[0].race is race
    assert {
        event.side for event in track.kinds(RunStarted, RunDone, Preparing) if hasattr(event, "side")
    } == {0, 1}


def test_stopping_between_rounds_gives_the_verdict_so_far(track: Track) -> None:
    track.engine({"rate": 800})
    stop = Stop()
    track.hook = lambda event: stop.after_round() if isinstance(event, RunStarted) else None
    race = track.run(track.spec(), stop=stop)[0]
    assert (race.ended, race.verdict.rounds) == ("stopped", 1)
    assert race.order == ("plain", "dspark 4")


def test_stopping_at_once_closes_the_answer_and_keeps_what_was_whole(track: Track) -> None:
    track.engine({"rate": 50}, rate=800)
    stop = Stop()

    def in_round_2(event: RaceEvent) -> None:
        if isinstance(event, Piece) and len(track.kinds(RunStarted)) == 3:
            stop.now()

    track.hook = in_round_2
    race = track.run(track.spec(max_tokens=40), stop=stop)[0]
    assert (race.ended, race.verdict.rounds, race.verdict.word) == ("stopped", 1, "slower")
    assert [run.ended for run in race.runs] == ["length", "length", "stopped"]
    assert race.runs[-1].text
    last = next(chats[-1] for (spec_type, _), chats in track.spy.seen.items() if spec_type != "none")
    assert last["finished_at"] is None, "the engine did not compute on"


def test_an_engine_killed_in_mid_race_leaves_a_readable_result(track: Track) -> None:
    track.engine({"rate": 100}, rate=800)

    def kill(event: RaceEvent) -> None:
        if isinstance(event, Piece) and event.side == 1 and len(track.kinds(RunStarted)) == 3:
            for child in psutil.Process().children():
                if "draft-dspark" in child.cmdline():
                    child.kill()

    track.hook = kill
    race = track.run(track.spec(max_tokens=40))[0]
    assert race.ended == "failed"
    assert race.problem.startswith("dspark 4, round 2: ")
    assert race.remedy
    assert (race.verdict.rounds, race.verdict.word) == (1, "slower")
    assert race.runs[-1].ended == "failed"
    assert race.runs[-1].text
    assert isinstance(track.events[-1], Ended)


def test_an_engine_that_does_not_start_is_a_result_too(track: Track) -> None:
    track.engine({})
    track.program.write_text("#!/bin/sh\necho 'error: failed to load model' >&2\nexit 1\n")
    race = track.run(track.spec())[0]
    assert race.ended == "failed"
    assert "failed to load model" in race.problem
    assert (race.verdict.ratio, race.verdict.word, race.order) == (None, "", ())


def test_an_engine_that_refuses_is_told_in_its_own_words(track: Track) -> None:
    track.engine({}, refuse=500)
    race = track.run(track.spec())[0]
    assert race.ended == "failed"
    assert "refuses" in race.problem


def test_the_same_method_twice_is_a_race_on_one_engine(track: Track) -> None:
    track.engine({})
    race = track.run(track.spec((PLAIN, PLAIN), max_tokens=60))[0]
    assert [side.name for side in race.sides] == ["plain (A)", "plain (B)"]
    assert race.verdict.word == "no difference"
    assert len(track.spy.seen) == 1


def test_a_set_of_prompts_runs_on_the_same_engines(track: Track) -> None:
    track.engine({"rate": 1600})
    prompts = [Prompt("one", "code", "en"), Prompt("two", "thinking", "en")]
    races = track.run(*(track.spec(prompt=prompt, adaptive=False, rounds=1) for prompt in prompts))
    assert [race.prompt.kind for race in races] == ["code", "thinking"]
    assert [(event.number, event.total) for event in track.kinds(RaceStarted)] == [(1, 2), (2, 2)]
    assert [race.thinking for race in races] == [False, True]
    assert len(track.spy.seen) == 2


def test_a_set_ends_where_it_is_stopped(track: Track) -> None:
    track.engine({"rate": 1600})
    stop = Stop()
    track.hook = lambda event: stop.after_round() if isinstance(event, RunStarted) else None
    specs = [track.spec(prompt=Prompt(text)) for text in ("one", "two")]
    races = track.run(*specs, stop=stop)
    assert [race.ended for race in races] == ["stopped"]
