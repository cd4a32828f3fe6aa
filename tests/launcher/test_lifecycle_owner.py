"""The owner's thread outlives every fault, nobody waits for what will not come, and what was wished for meanwhile counts."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.client.events import Finished
from launcher.errors import LauncherError
from launcher.lifecycle import Status
from launcher.supervise.server import Server
from tests.conftest import wait_until
from tests.fakes import paced_engine
from tests.fakes.moody_engine import Moods, install
from tests.launcher.lifecycle_room import MakeRoom, Room
from tests.launcher.test_lifecycle_deaths import QUICK, back, broken

ABORT = -signal.SIGABRT
ASSERT_LOG = "ggml-cuda.cu:1234: GGML_ASSERT(ne00 == ne10) failed"


@pytest.fixture
def room(tmp_path: Path) -> Iterator[MakeRoom]:
    made: list[Room] = []

    def make(moods: Moods | None = None, **more: Any) -> Room:
        config: dict[str, Any] = {"rate": 2000, "tokens": 60, "blocks": ((4, 3),)}
        folder = tmp_path / "bin"
        program = install(folder, moods, **config) if moods else paced_engine.install(folder, **config)
        made.append(Room(tmp_path, program, **({"BONSAI_SPECULATIVE": "1"} | more)))
        return made[-1]

    yield make
    for it in made:
        it.close()


def test_a_fault_of_ours_after_a_death_is_told_and_the_next_message_works(
    room: MakeRoom, capsys: pytest.CaptureFixture[str]
) -> None:
    it = room(Moods(at="chat", chat=1, log=ASSERT_LOG, status=ABORT, bad_starts=2), proven=False)
    pid = it.started().pid
    broken(it)
    assert back(it, pid).phase == "ready"
    it.faults.append(OSError("the disk went away"))  # when the plan of the next rung is made
    broken(it)
    wait_until(lambda: it.owner.status().phase == "failed", 10, "the fault to be told")
    assert "the disk went away" in it.owner.status().error
    assert "Traceback" in capsys.readouterr().err
    assert isinstance(it.ask()[-1], Finished)


def test_a_fault_of_ours_while_an_engine_is_buried_is_told_and_the_next_message_works(
    room: MakeRoom, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = [OSError("the log cannot be closed")]

    class Failing(Server):
        def stop(self, *, at_once: bool = False) -> None:
            super().stop(at_once=at_once)
            if faults:
                raise faults.pop()

    it = room(proven=False, server=Failing)
    pid = it.started().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: it.owner.status().phase == "failed", 10, "the fault to be told")
    assert "the log cannot be closed" in it.owner.status().error
    assert "Traceback" in capsys.readouterr().err
    assert isinstance(it.ask()[-1], Finished)


def test_an_engine_that_dies_in_the_moment_it_answers_is_replaced(room: MakeRoom) -> None:
    class Fleeting(Server):
        doomed = 1

        def start(self, cancel: threading.Event, progress: Callable[[str], None]) -> None:
            super().start(cancel, progress)
            if Fleeting.doomed:
                Fleeting.doomed -= 1
                assert self.pid is not None
                os.kill(self.pid, signal.SIGKILL)
                wait_until(lambda: not self.alive, 5, "its end")

    it = room(proven=False, server=Fleeting)
    assert isinstance(it.ask()[-1], Finished)


def test_a_switch_in_the_last_moment_of_a_start_breaks_off_nothing_else(room: MakeRoom) -> None:
    """Between the look whether the start was broken off and "ready": who measures then got an engine that never ran."""

    class Hooked(threading.Event):
        hook: Callable[[], None] | None = None

        def is_set(self) -> bool:
            found, hook = super().is_set(), self.hook
            if hook is not None:
                self.hook = None
                other = threading.Thread(target=hook)
                other.start()
                other.join(0.5)  # it may have to wait until this one is through
            return found

    class Waiting(Server):
        """The first one is ready when somebody stands in line, and the switch is pressed a moment later."""

        def start(self, cancel: threading.Event, progress: Callable[[str], None]) -> None:
            super().start(cancel, progress)
            if not self.plan.speculation_requested:
                wait_until(lambda: it.owner.status().waiting, 10, "somebody in line")
                event.hook = lambda: it.owner.start(True)

    it = room(proven=False, server=Waiting)
    it.owner._break_off = event = Hooked()

    async def measure() -> str:
        async with it.owner.workshop("lab") as workshop:
            return await (await workshop.engine(it.prepare(True, ()))).client.health()

    it.owner.start(False)
    wait_until(lambda: it.owner.status().phase == "starting", 10, "the start")
    assert asyncio.run(asyncio.wait_for(measure(), 20)) == "ok"


def test_one_that_not_even_a_kill_ends_is_replaced_all_the_same(room: MakeRoom) -> None:
    """It is stuck in the kernel, as in a graphics driver that hangs."""

    stuck: list[Server] = []

    class Stuck(Server):
        def start(self, cancel: threading.Event, progress: Callable[[str], None]) -> None:
            super().start(cancel, progress)
            if not stuck:
                stuck.append(self)
                assert self.pid is not None
                os.kill(self.pid, signal.SIGSTOP)

        def stop(self, *, at_once: bool = False) -> None:
            if self not in stuck:
                super().stop(at_once=at_once)

    it = room(proven=False, server=Stuck, patience=QUICK)
    try:
        pid = it.started().pid
        assert back(it, pid).phase == "ready"
        assert "does nothing any more" in it.owner.status().steps[0]
        assert isinstance(it.ask()[-1], Finished)
    finally:
        for server in stuck:
            Server.stop(server, at_once=True)


def test_a_switch_back_while_the_old_engine_is_being_stopped_starts_no_engine_in_vain(room: MakeRoom) -> None:
    it = room(proven=False)
    it.started(False)

    def switch_back(status: Status) -> None:
        if status.phase == "stopping":
            it.owner.start(False)

    it.owner.on_change(switch_back)
    before = len(it.seen)
    it.owner.start(True)
    wait_until(lambda: [s for s in it.seen[before:] if s.phase == "ready"], 20, "readiness")
    assert not next(s for s in it.seen[before:] if s.phase == "ready").speculative


def test_after_the_end_nobody_waits_for_an_engine(room: MakeRoom) -> None:
    it = room()

    async def scene() -> None:
        async with it.owner.workshop("lab") as workshop:
            await asyncio.to_thread(it.owner.close)
            with pytest.raises(LauncherError, match="ending"):
                await workshop.engine(it.prepare(None, ()))
        with pytest.raises(LauncherError, match="ending"):
            await it.answer()

    asyncio.run(asyncio.wait_for(scene(), 10))
