"""The owner of the engine, with real child processes that answer, die and hang on order."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from launcher.client.events import ChatRequest, Finished, Message
from launcher.errors import EngineDied, FolderError, LauncherError, PlanRefused
from launcher.ladder import Rung
from launcher.lifecycle import Lifecycle, Status, Workshop
from launcher.plan import LaunchPlan
from launcher.supervise.server import Server
from tests.conftest import wait_until
from tests.fakes import paced_engine
from tests.plans import plan_for
from webui.views import status_view

Make = Callable[..., Lifecycle]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes a Lifecycle on a program; every engine is gone at the end."""
    made: list[Lifecycle] = []

    def lifecycle(program: Path, *, keep: bool = True, **more: Any) -> Lifecycle:
        def prepare(speculative: bool | None, _: tuple[Rung, ...]) -> LaunchPlan:
            return plan_for(program, speculative=bool(speculative))

        def serve(plan: LaunchPlan) -> Server:
            return Server(plan, tmp_path / "logs", tmp_path / "run", dict(os.environ))

        made.append(Lifecycle(prepare, serve, lambda *_: keep, **more))
        return made[-1]

    yield lifecycle
    for owner in made:
        pid = owner.status().pid
        owner.close()
        assert pid is None or not psutil.pid_exists(pid)
    assert not list((tmp_path / "run").glob("*"))


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    return paced_engine.install(tmp_path / "bin", rate=400, tokens=40, blocks=((4, 3),))


def script(folder: Path, text: str) -> Path:
    program = folder / "llama-server"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def ready(owner: Lifecycle) -> Status:
    wait_until(lambda: owner.status().phase in ("ready", "failed"), 20, "the engine to be ready")
    status = owner.status()
    assert status.phase == "ready", status
    return status


async def answer(owner: Lifecycle, who: str = "chat") -> list[object]:
    async with owner.lease(who) as lease:
        request = ChatRequest((Message("user", "hello"),), max_tokens=40)
        return [event async for event in lease.client.chat(request)]


def test_phases_are_published_in_order(make: Make, engine: Path) -> None:
    owner = make(engine)
    seen: list[str] = []
    owner.on_change(lambda status: seen.append(status.phase))
    owner.start()
    ready(owner)
    phases = [phase for phase, before in zip(seen, ["", *seen], strict=False) if phase != before]
    assert phases == ["preparing", "starting", "ready"]


def test_a_lease_waits_for_readiness_and_answers(make: Make, engine: Path) -> None:
    events = asyncio.run(answer(make(engine)))
    assert isinstance(events[-1], Finished)


def test_leases_exclude_each_other_in_the_order_of_asking(make: Make, engine: Path) -> None:
    owner = make(engine)
    inside: list[str] = []

    async def hold(who: str, first: asyncio.Event) -> None:
        async with owner.lease(who):
            first.set()
            inside.append(who)
            assert owner.status().busy_with == who
            await asyncio.sleep(0.05)
            inside.append(who)

    async def all_three() -> None:
        started = asyncio.Event()
        tasks = [asyncio.create_task(hold("a", started))]
        await started.wait()
        tasks.append(asyncio.create_task(hold("b", started)))
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(hold("c", started)))
        await asyncio.gather(*tasks)

    asyncio.run(all_three())
    assert inside == ["a", "a", "b", "b", "c", "c"]
    assert owner.status().busy_with == ""


def test_giving_up_in_line_frees_the_place(make: Make, engine: Path) -> None:
    owner = make(engine)

    async def scene() -> None:
        async with owner.lease("first"):
            waiting = asyncio.create_task(answer(owner, "second"))
            await asyncio.sleep(0.05)
            assert owner.status().waiting == 1
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert owner.status().waiting == 0
        assert isinstance((await answer(owner, "third"))[-1], Finished)

    asyncio.run(scene())


def test_switching_speculation_waits_for_the_answer_and_restarts(make: Make, engine: Path) -> None:
    owner = make(engine)
    owner.start(False)
    before = ready(owner)

    async def scene() -> None:
        async with owner.lease("chat"):
            owner.start(True)
            await asyncio.sleep(0.1)
            assert owner.status().pid == before.pid
            assert "restarts when" in owner.status().message

    asyncio.run(scene())
    wait_until(lambda: owner.status().speculative and owner.status().phase == "ready", 20, "the restart")
    assert owner.status().pid != before.pid
    assert before.pid is not None
    assert not psutil.pid_exists(before.pid)


def test_asking_again_for_the_same_plan_keeps_the_engine(make: Make, engine: Path) -> None:
    owner = make(engine)
    owner.start()
    pid = ready(owner).pid
    owner.start()
    wait_until(lambda: owner.status().phase == "ready", 5, "readiness")
    assert owner.status().pid == pid


def test_death_at_rest_is_noticed_and_it_is_started_again(make: Make, engine: Path) -> None:
    owner = make(engine)
    owner.start()
    pid = ready(owner).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: owner.status().phase != "ready", 5, "the death to be noticed")
    assert ready(owner).pid != pid, "started again in the background"
    assert isinstance(asyncio.run(answer(owner))[-1], Finished)


def test_an_engine_that_dies_while_loading_is_reported_at_once_with_its_log(
    make: Make, tmp_path: Path
) -> None:
    owner = make(script(tmp_path, "echo 'error: failed to load model' >&2; exit 3"))
    with pytest.raises(EngineDied, match=r"exit code 3.*failed to load model") as caught:
        asyncio.run(answer(owner))
    assert "failed to load model" in caught.value.log_tail
    assert owner.status().phase == "failed"
    assert "failed to load model" in owner.log_tail()


def test_a_program_that_cannot_start_is_one_sentence(make: Make, tmp_path: Path) -> None:
    with pytest.raises(LauncherError, match="cannot be started"):
        asyncio.run(answer(make(tmp_path / "nothing")))


def test_closing_while_it_loads_ends_the_child(make: Make, tmp_path: Path) -> None:
    owner = make(script(tmp_path, "exec sleep 60"))
    owner.start()
    wait_until(lambda: owner.status().phase == "starting", 5, "the start")
    closer = threading.Thread(target=owner.close)
    closer.start()
    closer.join(10)
    assert not closer.is_alive()
    assert owner.status().phase == "stopped"


def test_a_fault_of_ours_while_starting_is_told_and_the_next_start_works(
    engine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = [OSError("the disk went away")]

    def prepare(speculative: bool | None, _: tuple[Rung, ...]) -> LaunchPlan:
        if faults:
            raise faults.pop()
        return plan_for(engine, speculative=bool(speculative))

    owner = Lifecycle(prepare, lambda plan: Server(plan, tmp_path, tmp_path / "run", dict(os.environ)))
    try:
        with pytest.raises(LauncherError, match="the disk went away"):
            asyncio.run(asyncio.wait_for(answer(owner), 10))
        assert owner.status().phase == "failed"
        assert "Traceback" in capsys.readouterr().err
        assert isinstance(asyncio.run(asyncio.wait_for(answer(owner), 20))[-1], Finished)
    finally:
        owner.close()


def test_a_drafter_that_is_refused_can_be_switched_off_again(engine: Path, tmp_path: Path) -> None:
    def prepare(speculative: bool | None, _: tuple[Rung, ...]) -> LaunchPlan:
        if speculative:
            raise PlanRefused("The drafter does not fit.")
        return plan_for(engine)

    owner = Lifecycle(prepare, lambda plan: Server(plan, tmp_path, tmp_path / "run", dict(os.environ)))
    try:
        owner.start()
        ready(owner)
        owner.start(True)
        wait_until(lambda: owner.status().phase == "failed", 10, "the refusal")
        switch = status_view(owner.status())["speculation"]
        assert (switch["on"], switch["possible"], switch["label"]) == (True, True, "")
        owner.start(not switch["on"])
        wait_until(lambda: owner.status().phase == "ready", 20, "the way back")
        assert not owner.status().speculative
    finally:
        owner.close()


@pytest.mark.parametrize("keep", [True, False])
def test_a_workshop_lends_every_engine_and_gives_the_chat_its_own_back(
    make: Make, engine: Path, keep: bool
) -> None:
    owner = make(engine, keep=keep)
    owner.start(False)
    chat = ready(owner)
    plain, drafting = plan_for(engine), plan_for(engine, speculative=True)

    async def one(workshop: Workshop, plan: LaunchPlan) -> Finished:
        lease = await workshop.engine(plan)
        request = ChatRequest((Message("user", "hello"),), max_tokens=40)
        last = [event async for event in lease.client.chat(request)][-1]
        assert isinstance(last, Finished)
        return last

    async def scene() -> None:
        async with owner.workshop("race") as workshop:
            waiting = asyncio.create_task(answer(owner))
            assert (await one(workshop, plain)).timings.draft_n is None
            assert (await one(workshop, drafting)).timings.draft_n
            assert workshop.loaded() == (2 if keep else 1)
            assert owner.status().busy_with == "race"
            assert not waiting.done()
        assert isinstance((await waiting)[-1], Finished)

    asyncio.run(scene())
    assert owner.status().plan == plain
    assert (owner.status().pid == chat.pid) == keep, "the chat's engine is reused when it could stay"


def test_a_workshop_that_is_given_up_leaves_a_working_chat(make: Make, engine: Path, tmp_path: Path) -> None:
    owner = make(engine)
    broken = plan_for(script(tmp_path, "exit 1"))

    async def scene() -> None:
        with pytest.raises(EngineDied):
            async with owner.workshop("race") as workshop:
                await workshop.engine(broken)
        assert isinstance((await answer(owner))[-1], Finished)

    asyncio.run(scene())


@pytest.mark.system("linux")
def test_the_engine_dies_with_a_launcher_that_is_killed(tmp_path: Path, engine: Path) -> None:
    code = f"""
import os, time
from pathlib import Path
from launcher.lifecycle import Lifecycle
from launcher.supervise.server import Server
from tests.plans import plan_for
folder = Path({str(tmp_path)!r})
owner = Lifecycle(lambda s, _: plan_for({str(engine)!r}), lambda p: Server(p, folder, folder, dict(os.environ)))
owner.start()
while owner.status().pid is None: time.sleep(0.05)
print(owner.status().pid, flush=True)
time.sleep(60)
"""
    launcher = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert launcher.stdout is not None
    pid = int(launcher.stdout.readline())
    assert psutil.pid_exists(pid)
    launcher.kill()
    launcher.wait()

    def gone() -> bool:
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    wait_until(gone, 5, "the engine to die with its launcher")


@pytest.mark.system("posix")
def test_a_log_that_cannot_be_written_is_not_the_engines_fault(engine: Path, tmp_path: Path) -> None:
    server = Server(plan_for(engine), tmp_path / "logs", tmp_path / "run", dict(os.environ))
    server.log_path.mkdir()
    with pytest.raises(FolderError, match=r"The log .* cannot be written"):
        server.start(threading.Event(), lambda _: None)
    assert not list((tmp_path / "run").iterdir())


def test_a_measured_engine_starts_when_the_memory_of_the_one_before_is_back(make: Make, engine: Path) -> None:
    waited_for: list[LaunchPlan] = []
    owner = make(engine, keep=False, settle=lambda plan, _: waited_for.append(plan))
    owner.start(False)
    ready(owner)
    plain, drafting = plan_for(engine), plan_for(engine, speculative=True)

    async def scene() -> None:
        async with owner.workshop("lab") as workshop:
            for plan in (plain, drafting, drafting):
                await workshop.engine(plan)
            assert waited_for == [drafting], "the one that is there already has its memory"

    asyncio.run(scene())


def test_where_no_chat_was_asked_for_none_is_started_after_a_measurement(make: Make, engine: Path) -> None:
    owner = make(engine)
    seen: list[Status] = []
    owner.on_change(seen.append)

    async def scene() -> None:
        async with owner.workshop("lab") as workshop:
            await workshop.engine(plan_for(engine))
        async with owner.workshop("lab"):
            pass
        for _ in range(30):  # the owner would have begun at once
            assert not any(status.phase == "preparing" for status in seen)
            await asyncio.sleep(0.01)
        async with owner.workshop("lab"):
            chat = asyncio.create_task(answer(owner))
            while not owner.status().waiting:
                await asyncio.sleep(0.01)
        assert isinstance((await chat)[-1], Finished), "who waited meanwhile gets one"

    asyncio.run(asyncio.wait_for(scene(), 30))


def test_who_leaves_while_an_engine_is_loaded_for_them_does_not_hold_up_the_chat(
    make: Make, engine: Path, tmp_path: Path
) -> None:
    owner = make(engine)
    owner.start()
    ready(owner)
    endless = plan_for(script(tmp_path, "exec sleep 600"))

    async def scene() -> None:
        async with owner.workshop("race") as workshop:
            loading = asyncio.create_task(workshop.engine(endless))
            while "Loading the model" not in owner.status().message:
                await asyncio.sleep(0.01)
            loading.cancel()
        assert isinstance((await answer(owner))[-1], Finished)
        async with owner.workshop("race") as workshop:
            assert await (await workshop.engine(plan_for(engine, speculative=True))).client.health() == "ok"

    asyncio.run(asyncio.wait_for(scene(), 20))
