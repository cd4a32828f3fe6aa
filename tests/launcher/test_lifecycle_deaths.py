"""Engines that die or hang in work: what was answered stays, they come back, and not for ever."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from launcher.client.events import Event, Failed, Finished, Text
from launcher.client.http import EngineClient
from launcher.climb import FORGIVEN_AFTER_S, SERVED_S, Setbacks
from launcher.errors import EngineDied, EngineUnreachable, LauncherError
from launcher.health import HealthWatch, Patience, Pulse, still_there
from launcher.lifecycle import Status
from launcher.supervise.server import Server
from tests.conftest import wait_until
from tests.fakes import paced_engine
from tests.fakes.moody_engine import Moods, install, starts
from tests.fakes.paced_server import PacedConfig, PacedServer
from tests.launcher.lifecycle_room import MakeRoom, Room

ABORT = -signal.SIGABRT
ASSERT_LOG = "ggml-cuda.cu:1234: GGML_ASSERT(ne00 == ne10) failed"
QUICK = Patience(every_s=0.2, answer_s=0.3, misses=3)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[MakeRoom]:
    made: list[Room] = []

    def make(moods: Moods | None = None, *, rate: float = 2000, **more: object) -> Room:
        config: dict[str, Any] = {"rate": rate, "tokens": 60, "blocks": ((4, 3),)}
        folder = tmp_path / "bin"
        program = install(folder, moods, **config) if moods else paced_engine.install(folder, **config)
        made.append(Room(tmp_path, program, **({"BONSAI_SPECULATIVE": "1"} | more)))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for it in made:
        it.close()


def back(it: Room, pid: int | None) -> Status:
    """The state when the engine ``pid`` has been replaced or given up."""
    wait_until(lambda: it.owner.status().pid != pid, 10, "the death to be noticed")
    return it.settled()


def broken(it: Room, tokens: int = 40) -> list[Event]:
    """A question that the engine dies of: what came of the answer, or nothing."""
    try:
        return it.ask(tokens=tokens)
    except EngineUnreachable:
        return []


def test_an_answer_that_breaks_off_keeps_what_came_and_the_next_one_works(room: MakeRoom) -> None:
    it = room(Moods(at="chat", chat=2, after_tokens=20, log=ASSERT_LOG, status=ABORT, bad_starts=1), rate=200)
    pid = it.started().pid
    events = it.ask(tokens=60)
    assert any(isinstance(event, Text) for event in events)
    assert isinstance(events[-1], Failed)
    status = back(it, pid)
    assert status.phase == "ready"
    assert status.plan is not None
    assert status.plan.spec_type == "draft-dspark", "the first time it comes back as it was"
    assert "An internal check of the engine failed" in status.steps[-1]
    assert isinstance(it.ask()[-1], Finished)


@pytest.mark.case("A-07")
def test_the_second_death_in_a_row_takes_the_drafter_away(room: MakeRoom) -> None:
    it = room(Moods(at="chat", chat=2, log=ASSERT_LOG, status=ABORT, fine="plain"))
    pid = it.started().pid
    broken(it)
    status = back(it, pid)
    assert status.plan is not None
    assert status.plan.spec_type == "draft-dspark"
    broken(it)
    status = back(it, status.pid)
    assert status.phase == "ready"
    assert status.plan is not None
    assert status.plan.spec_type == "none"
    assert status.warnings[0].startswith("Speculation off: ")
    assert isinstance(it.ask()[-1], Finished)
    assert len(starts(it.program)) == 3


@pytest.mark.case("A-07")
def test_the_third_death_ends_it_with_the_cause_and_a_retry_is_possible(room: MakeRoom) -> None:
    it = room(Moods(at="chat", chat=2, log=ASSERT_LOG, status=ABORT, bad_starts=3))
    status = it.started()
    for _ in range(3):
        assert status.phase == "ready"
        broken(it)
        status = back(it, status.pid)
    assert status.phase == "failed"
    assert status.cause == "assert"
    assert "without the drafter" in status.remedy
    assert len(starts(it.program)) == 3
    assert isinstance(it.ask()[-1], Finished), "the next message starts it anew"


def test_who_waits_in_line_is_served_by_the_engine_that_comes_back(room: MakeRoom) -> None:
    it = room(Moods(at="chat", chat=2, after_tokens=20, log=ASSERT_LOG, status=ABORT, bad_starts=1), rate=200)
    it.started()

    async def scene() -> tuple[list[Event], ...]:
        first = asyncio.create_task(it.answer(tokens=60))
        await asyncio.sleep(0.02)
        return await asyncio.gather(first, it.answer(), it.answer())

    first, second, third = asyncio.run(asyncio.wait_for(scene(), 30))
    assert isinstance(first[-1], Failed)
    assert isinstance(second[-1], Finished)
    assert isinstance(third[-1], Finished)


def test_a_message_right_after_a_kill_waits_for_the_new_engine(room: MakeRoom) -> None:
    it = room()
    pid = it.started().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not psutil.pid_exists(pid), 5, "the death")
    assert isinstance(it.ask()[-1], Finished)


def test_a_hanging_engine_is_ended_and_replaced(room: MakeRoom) -> None:
    it = room(Moods(at="chat", chat=2, after_tokens=20, hang=True, bad_starts=1), patience=QUICK, rate=200)
    pid = it.started().pid
    events = it.ask(tokens=60)
    assert isinstance(events[-1], Failed), "the answer does not spin for ever"
    status = back(it, pid)
    assert status.phase == "ready"
    assert "does nothing any more" in status.steps[-1]
    assert isinstance(it.ask()[-1], Finished)


def test_an_engine_that_hangs_on_the_first_question_goes_down_the_ladder(room: MakeRoom) -> None:
    it = room(Moods(at="chat", chat=1, hang=True, fine="plain"), patience=QUICK)
    it.owner.start()

    def plain() -> bool:
        status = it.owner.status()
        drafts = status.plan is not None and status.plan.spec_type != "none"
        return status.phase == "ready" and not drafts and psutil.pid_exists(status.pid or 0)

    wait_until(plain, 25, "the engine without the drafter")
    assert not [s for s in it.seen if s.phase == "ready" and s.plan and s.plan.spec_type != "none"]
    assert "does nothing any more" in it.owner.status().steps[0]
    assert isinstance(it.ask()[-1], Finished)


def test_an_engine_stopped_at_rest_is_replaced(room: MakeRoom) -> None:
    it = room(patience=QUICK)
    pid = it.started().pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    assert back(it, pid).phase == "ready"
    assert isinstance(it.ask()[-1], Finished)


def test_closing_in_the_middle_of_a_question_does_not_wait(room: MakeRoom) -> None:
    it = room(rate=0.1)
    it.owner.start()
    wait_until(lambda: "question" in it.owner.status().message, 10, "the question before ready")
    closer = threading.Thread(target=it.owner.close)
    closer.start()
    closer.join(8)
    assert not closer.is_alive()


@pytest.mark.parametrize(
    ("served", "died", "count"),
    [
        (None, 1.0, 2),
        (None, FORGIVEN_AFTER_S + 1, 2),  # at the next request, however late
        (5.0, 20.0, 2),  # within a minute of the restart, though it served
        (
            FORGIVEN_AFTER_S + 1,
            FORGIVEN_AFTER_S + 1 + SERVED_S / 2,
            2,
        ),  # that answer is the one that broke off
        (5.0, FORGIVEN_AFTER_S + 1, 1),
    ],
)
def test_what_counts_as_dying_again(served: float | None, died: float, count: int) -> None:
    setbacks = Setbacks()
    setbacks.ready(-100)
    assert setbacks.died(-1) == 1
    setbacks.ready(0)
    if served is not None:
        setbacks.served(served)
    assert setbacks.died(died) == count


def looks(pulse: Pulse, *at: tuple[bool, float, float]) -> list[bool]:
    return [pulse.hung(*look) for look in at]


def test_three_misses_in_a_row_are_a_hang() -> None:
    looked = [(False, 0.0, 0.0), (True, 10.0, 10.0), (False, 20.0, 20.0), (False, 30.0, 30.0)]
    assert looks(Pulse(Patience()), *looked, (False, 40.0, 40.0)) == [False] * 4 + [True]


@pytest.mark.parametrize("gap", [(40.0, 7200.0), (7200.0, 7200.0), (40.0, -7200.0)])
def test_after_a_sleep_counting_starts_anew(gap: tuple[float, float]) -> None:
    """On Linux the monotonic clock stands still while the machine sleeps; on Windows it goes on."""
    clock, wall = gap
    looked = [(False, 20.0, 20.0), (False, 30.0, 30.0), (False, clock, wall)]
    assert looks(Pulse(Patience()), *looked) == [False] * 3


def test_the_watch_tells_once_and_ends_at_once(room: MakeRoom) -> None:
    it = room()
    it.started()
    told: list[object] = []
    silent = PacedServer(PacedConfig())
    with silent:
        server = it.serve(it.prepare(None, ()))
        server.port = silent.port
        watch = HealthWatch(lambda: [server], told.append, Patience(0.05, 0.2, 2))
        wait_until(lambda: sum(r.path == "/health" for r in silent.requests) > 3, 10, "looks")
        assert told == []
    wait_until(lambda: told, 10, "the silence to be told")
    watch.close()
    assert told == [server]


def test_the_watch_goes_on_after_a_moment_without_free_file_numbers(room: MakeRoom) -> None:
    class Scarce(Server):
        """Nobody answers for it, and at first nobody can be asked."""

        faults = 2

        @property
        def base_url(self) -> str:
            if Scarce.faults:
                Scarce.faults -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            return super().base_url

    it = room(server=Scarce)
    server = it.serve(it.prepare(None, ()))
    told: list[object] = []
    watch = HealthWatch(lambda: [server], told.append, Patience(0.05, 0.2, 2))
    wait_until(lambda: told, 10, "the silence to be told")
    watch.close()
    assert Scarce.faults == 0


def test_an_engine_that_is_gone_is_not_lent(room: MakeRoom) -> None:
    """The end of a connection may be seen before the end of the process: who waits in line must not get that one."""
    it = room()
    server = it.serve(it.prepare(None, ()))
    with PacedServer(PacedConfig()) as there:
        server.port = there.port
        assert asyncio.run(still_there(server, EngineClient(there.url)))
    assert not asyncio.run(still_there(server, EngineClient(there.url)))
    assert asyncio.run(still_there(None, EngineClient(there.url))), "one that is no process of ours"


def test_who_comes_while_it_hangs_is_answered_by_the_next_one(room: MakeRoom) -> None:
    it = room(patience=QUICK)
    pid = it.started().pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    assert isinstance(it.ask()[-1], Finished)
    assert it.owner.status().pid != pid


def test_a_borrower_hears_why_nothing_starts(room: MakeRoom) -> None:
    it = room(Moods(log="llama_model_load: error loading model: unknown model architecture: 'novel'"))
    with pytest.raises(EngineDied) as caught:
        it.ask()
    assert isinstance(caught.value, LauncherError)
    assert "novel" in caught.value.what
    assert "The whole log is in" in caught.value.remedy


def test_a_listener_that_breaks_down_does_not_take_the_engine_with_it(
    room: MakeRoom, capsys: pytest.CaptureFixture[str]
) -> None:
    it = room()

    def broken_listener(_: Status) -> None:
        raise RuntimeError("the page is gone")

    it.owner.on_change(broken_listener)
    assert it.started().phase == "ready"
    assert isinstance(it.ask()[-1], Finished)
    assert "the page is gone" in capsys.readouterr().err
