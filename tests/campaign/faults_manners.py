"""Engines without manners: they flood, do not end, leave children, lose their port or meet somebody else at it."""

from __future__ import annotations

import os
import signal
import socket
import time
from dataclasses import dataclass

import psutil

from launcher.supervise.logs import MOST_BYTES
from tests.campaign.faults_answer import CRASHED, KILLED
from tests.campaign.leftovers import GONE_S, lives
from tests.campaign.trial import IN_TIME, KEPT, NAMED, NO_ORPHAN, WORKS, Trial
from tests.campaign.world import World, fake_world, real_world
from tests.conftest import free_port
from tests.fakes import faulty_engine
from tests.fakes.faulty_engine import Orders


def _gone(trial: Trial, pids: list[int], what: str) -> None:
    """Within five seconds."""
    end = time.monotonic() + GONE_S
    while any(map(lives, pids)) and time.monotonic() < end:
        time.sleep(0.02)
    alive = [pid for pid in pids if lives(pid)]
    trial.check(NO_ORPHAN, not alive, f"{what}: {alive} live on")


# -- floods ---------------------------------------------------------------------------------------------------

FLOOD_WAYS = ((5_000_000, False), (60_000_000, False), (0, True), (30_000_000, True))


def floods(trial: Trial, way: tuple[int, bool]) -> None:
    """It starts and answers all the same, its log stays small; killed then, it comes back."""
    size, on = way
    world = fake_world(trial, Orders(bad=0, flood=size, flood_on=on))
    trial.fault()
    first = world.whole()
    trial.recovered()
    logs = sum(path.stat().st_size for path in (world.home / "logs").iterdir())
    trial.check(IN_TIME, logs <= MOST_BYTES, f"the logs have {logs:,} bytes")
    pid = world.owner.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    world.replaced(pid)
    trial.named(world.said, [KILLED])
    world.next_message(first)
    world.finish()


# -- ends when it likes ---------------------------------------------------------------------------------------

END_WAYS = ("switch", "switch in an answer", "quit", "quit in an answer")


def ignores_sigterm(trial: Trial, way: str) -> None:
    """It is killed, and the next one starts when it has gone."""
    world = fake_world(trial, Orders(deaf=True), rate=150.0)
    _ended_by_the_person(trial, world, way)


def closes_slowly(trial: Trial, way: tuple[str, float]) -> None:
    """The next one starts when the memory of the last one is free: while it is held, a start would fail."""
    lock = trial.folder / "memory"
    world = fake_world(trial, Orders(bad=0, close_s=way[1], lock=str(lock)), rate=150.0)
    _ended_by_the_person(trial, world, way[0])
    trial.check(WORKS, "out of memory" not in world.said, world.said)


SLOW_WAYS = tuple((way, close_s) for close_s in (0.05, 0.2, 0.4) for way in END_WAYS)


def _ended_by_the_person(trial: Trial, world: World, way: str) -> None:
    pid = world.ready()
    exchange = world.whole()
    if "answer" in way:
        exchange = world.say(after=exchange)
        shown = trial.dice.randint(1, 200)
        trial.wait(lambda: len(exchange.text) > shown, 20, "the answer to begin")
    trial.fault()
    if way.startswith("switch"):
        world.browser.switch(False)
        if "answer" in way:
            trial.check(KEPT, exchange.wait(20) and exchange.complete, "the answer was not waited for")
        world.replaced(pid)
        trial.check(NO_ORPHAN, not lives(pid), "two engines live")
        world.next_message(exchange)
    world.finish()
    trial.recovered()
    trial.check(NO_ORPHAN, not lives(pid), "the engine lives on")


# -- has children ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ForkWay:
    """How the engine ends, and whether its children hold its port."""

    end: str
    hold: bool


FORK_WAYS = tuple(ForkWay(end, hold) for hold in (False, True) for end in ("crash", "kill", "switch", "quit"))


def forks(trial: Trial, way: ForkWay) -> None:
    """What it has started ends with it, however it ends, and holds no port."""
    count = trial.dice.randint(1, 3)
    world = fake_world(trial, Orders(bad=0, fork=count, hold=way.hold))
    pid = world.ready()
    exchange = world.whole()
    children = [it.pid for it in psutil.Process(pid).children(recursive=True)]
    trial.check(NAMED, len(children) >= count, "the fake engine has no children")
    trial.fault()
    if way.end == "switch":
        world.browser.switch(False)
    elif way.end != "quit":
        os.kill(pid, signal.SIGSEGV if way.end == "crash" else signal.SIGKILL)
    if way.end != "quit":
        world.replaced(pid)
        _gone(trial, [pid, *children], "the engine and what it started")
        if way.end in ("crash", "kill"):
            trial.named(world.said, [CRASHED if way.end == "crash" else KILLED])
        world.next_message(exchange)
    world.finish()
    _gone(trial, [pid, *children], "the engine and what it started")
    trial.recovered()


# -- at the port ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PortWay:
    """``stranger``: who takes it in the moment before ours would; ``asked``: the person asked for that very port."""

    stranger: str
    asked: bool
    engine: str


PORT_WAYS = tuple(
    PortWay(stranger, asked, engine)
    for engine in ("fake", "built")
    for asked in (False, True)
    for stranger in ("http", "silent", "rubbish")
)


def port_taken_in_the_gap(trial: Trial, way: PortWay) -> None:
    """Another port is taken, or the one asked for is named; the stranger is not touched."""
    port = free_port()
    env = {"BONSAI_PORT": str(port)} if way.asked else {}
    if way.engine == "fake":
        world = fake_world(trial, Orders(stranger=way.stranger), env=env)
    else:
        program = faulty_engine.wrapped(trial.folder / "bin", trial.built, way.stranger)
        world = real_world(trial, program, env=env)
        world.program = program
    trial.fault()
    first = world.say("Are you there?")
    trial.wait(lambda: first.over.is_set() or world.owner.status().phase == "ready", 30, "a start to end")
    first.wait(30)
    trial.recovered()
    trial.strangers += [start["stranger"] for start in world.starts() if start["stranger"]]
    trial.check(NAMED, trial.strangers, "the stranger has not come")
    if way.asked:
        trial.named(first.said, ["BONSAI_PORT", f"port {port}"])
        _send_away(trial)
    else:
        trial.check(WORKS, first.complete, first.said)
    world.next_message(first)
    world.finish()
    _send_away(trial)


def _send_away(trial: Trial) -> None:
    """The strangers live: nobody touched them. Now they go."""
    for pid in trial.strangers:
        trial.check(NO_ORPHAN, lives(pid), "a process that is not ours was ended")
        os.kill(pid, signal.SIGKILL)
    trial.strangers.clear()


HELD_WAYS = (("plain", False), ("plain", True), ("shared", False), ("shared", True))


def port_held(trial: Trial, way: tuple[str, bool]) -> None:
    """Somebody has the port before: another one is taken, or the one asked for is named with who has it."""
    kind, asked = way
    with socket.socket() as listener:
        if kind == "shared":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        world = fake_world(trial, Orders(), env={"BONSAI_PORT": str(port)} if asked else {}, port=port)
        trial.fault()
        first = world.say("Are you there?")
        trial.wait(first.over.is_set, 30, "the page to give up or to answer")
        trial.recovered()
        if asked:
            trial.named(first.said, [f"BONSAI_PORT asks for port {port}", f"process {os.getpid()}"])
        else:
            trial.check(WORKS, first.complete, first.said)
            started = world.starts()[-1]["argv"]
            trial.check(NAMED, started[started.index("--port") + 1] != str(port), "the port was shared")
    world.next_message(first)
    world.finish()


ELSE_WAYS = (1, 0)


def somebody_else(trial: Trial, way: int) -> None:
    """A server that answers under another name is not taken for ours."""
    world = fake_world(trial, Orders(bad=way, alias="somebody"))
    trial.fault()
    first = world.say("Are you there?")
    trial.wait(first.over.is_set, 30, "the page to give up or to answer")
    trial.recovered()
    if way:
        trial.check(WORKS, first.complete, first.said)
        trial.check(NAMED, len(world.starts()) == 2, "the second start has another port")
    else:
        trial.named(first.said, ["another server", "it calls itself somebody"])
    world.repair()
    world.next_message(first)
    world.finish()
