"""Engine, page and a person at it in this process: everything but the command line is the product's own."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher import ladder
from launcher.hardware.detect import detect
from launcher.hardware.model import Machine
from launcher.health import Patience
from launcher.ladder import OtherEngine, Rescue, Rung
from launcher.lifecycle import Lifecycle, Status
from launcher.paths import Paths, locate
from launcher.plan import LaunchPlan, make_plan
from launcher.proof import prove_server
from launcher.provision import resolve_all
from launcher.settings import Settings, resolve
from launcher.store import Store
from launcher.supervise import records, vital
from launcher.supervise.server import Server
from tests import plans
from tests.campaign.browser import Browser, Exchange
from tests.campaign.leftovers import check_files, check_processes, check_store
from tests.campaign.trial import IN_TIME, WORKS, Broken, Trial
from tests.conftest import clean_environment, free_port
from tests.fakes import faulty_engine
from tests.fakes.faulty_engine import Orders
from webui.app import PageContext, gradio_environment, make_server

os.environ.update(gradio_environment(os.environ))

HEALTH = Patience(every_s=0.4, answer_s=1.0, misses=3)
LOADING = vital.Patience(silence=2.0, still=1.5, loopback=15.0, stranger=0.5, stop=0.6)
# Real engines move while they load, but not every moment.
REAL_LOADING = vital.Patience(silence=6.0, still=4.0, stop=3.0)
CLOSES_S = 12.0
OTHER = "prism for Vulkan"
SPEED = {"rate": 400.0, "tokens": 120, "blocks": ((4, 3),)}
MACHINE: list[Machine] = []


class World:
    """One launcher's life. ``said``: everything that a person has read of the engine so far."""

    def __init__(self, trial: Trial, owner: Lifecycle, home: Path, program: Path | None = None) -> None:
        self.trial, self.owner, self.home = trial, owner, home
        self.program = program or Path()
        self.seen: list[Status] = [owner.status()]
        owner.on_change(self.seen.append)
        self.closed = False
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        context = PageContext(owner, Store(home), "token", "127.0.0.1", port, "0.0.campaign")
        self._server = make_server(context)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, daemon=True, name="page"
        )
        self._thread.start()
        self.browser = Browser(f"http://127.0.0.1:{port}")
        trial.stack.callback(self.give_up)
        if not self.browser.open(30):
            raise Broken("the page has not come")
        self.browser.set(temperature=0, seed=1)

    # -- a person --------------------------------------------------------------------------------------------

    def say(self, text: str = "Tell me something.", after: Exchange | None = None) -> Exchange:
        return self.browser.say(text, after)

    def whole(
        self, text: str = "Tell me something.", after: Exchange | None = None, seconds: float = 30
    ) -> Exchange:
        """A message that is answered as it should be."""
        exchange = self.say(text, after)
        if not exchange.wait(seconds):
            raise Broken(f"no answer within {seconds:g} s: {self.owner.status()}")
        if not exchange.complete:
            raise Broken(f"no whole answer: {exchange.said or exchange.done}")
        return exchange

    @property
    def said(self) -> str:
        texts: dict[str, None] = {}
        for status in list(self.seen):
            for text in (*status.steps, status.message, status.error, status.remedy, *status.warnings):
                texts[text] = None
        return " | ".join([*texts, *(it.said for it in self.browser.exchanges)])

    # -- the engine ------------------------------------------------------------------------------------------

    def start(self, seconds: float = 30) -> Status:
        """Ask for the engine and wait until it is ready or has failed."""
        before = len(self.seen)
        self.owner.start()
        self.trial.wait(lambda: len(self.seen) > before, 5, "the start to begin")
        return self.settled(seconds)

    def ready(self, seconds: float = 30) -> int:
        """Start it; its number. Raises Broken when it is not ready then."""
        status = self.start(seconds)
        if status.phase != "ready" or status.pid is None:
            raise Broken(f"not ready: {status}")
        return status.pid

    def settled(self, seconds: float = 30) -> Status:
        """The state once nothing is under way any more."""
        self.trial.wait(
            lambda: self.owner.status().phase in ("ready", "failed"), seconds, "the engine to settle"
        )
        return self.owner.status()

    def replaced(self, pid: int, seconds: float = 30) -> Status:
        """The state after the engine ``pid`` has gone, or has been given up."""
        self.trial.wait(lambda: self.owner.status().pid != pid, seconds, "the death to be noticed")
        return self.settled(seconds)

    def repair(self, **config: Any) -> None:
        """The person mends what was broken: from now on the engine is a good one."""
        faulty_engine.install(self.program.parent, Orders(bad=-1), **{**SPEED, **config})

    def starts(self) -> list[dict[str, Any]]:
        return faulty_engine.starts(self.program)

    # -- afterwards ------------------------------------------------------------------------------------------

    def next_message(self, after: Exchange | None = None, seconds: float = 30) -> None:
        """It works, and with that all is well again."""
        exchange = self.say("And now?", after)
        over = exchange.wait(seconds)
        what = exchange.said or f"after {seconds:g} s: {self.owner.status()}"
        self.trial.check(WORKS, over and exchange.complete, what)
        self.trial.recovered()

    def finish(self, killed: float | None = None) -> None:
        """The launcher ends; then nothing of it is left but what people have written and read. ``killed``: when an
        earlier one in this home was."""
        began = time.monotonic()
        self._end()
        took = time.monotonic() - began
        self.trial.check(IN_TIME, took <= CLOSES_S, f"the launcher needed {took:.1f} s to end")
        check_processes(self.trial, self.home)
        check_files(self.trial, self.home)
        check_store(self.trial, self.home, self.browser.exchanges, killed=killed)

    def _end(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._server.should_exit = True
        self._thread.join(CLOSES_S)
        closing = threading.Thread(target=self.owner.close, daemon=True)
        closing.start()
        closing.join(CLOSES_S)
        self.browser.close()
        if self._thread.is_alive() or closing.is_alive():
            which = "page" if self._thread.is_alive() else "engine's owner"
            self.trial.check(IN_TIME, False, f"the {which} did not end")

    def give_up(self) -> None:
        """Whatever has happened: nothing goes on."""
        with contextlib.suppress(Exception):
            self._end()


def fake_world(
    trial: Trial,
    orders: Orders,
    *,
    system: str = "Linux",
    env: dict[str, str] | None = None,
    port: int | None = None,
    other: Orders | None = None,
    **config: Any,
) -> World:
    """A world whose engine does as ordered, with model files that need not exist. ``port``: the usual one there.
    ``other``: those of another engine on this machine, OTHER."""
    program = faulty_engine.install(trial.folder / "bin", orders, **{**SPEED, **config})
    second = other and faulty_engine.install(trial.folder / "other", other, **{**SPEED, **config})
    home = trial.folder / "home"
    settings: Settings = resolve({}, {"BONSAI_SPECULATIVE": "1", **(env or {})})
    usual = port or free_port()  # not the same for all: others on this machine have their tests, too

    def prepare(speculative: bool | None, rungs: tuple[Rung, ...]) -> LaunchPlan:
        chosen = settings
        if speculative is not None:
            chosen = chosen.with_speculative(speculative, "the page's switch")
        chosen = ladder.apply(chosen, rungs)
        engine = replace(plans.ENGINE, program=(chosen.llama_server.value or str(program),), line="prism")
        plan = make_plan(chosen, plans.MACHINE, plans.resolved(engine=engine))
        return ladder.marked(plan if plan.port_asked else replace(plan, port=usual), rungs)

    def others(plan: LaunchPlan) -> tuple[OtherEngine, ...]:
        there = second is not None and plan.resolved.engine.program[0] != str(second)
        return (OtherEngine(OTHER, "prism", str(second)),) if there else ()

    rescue = Rescue(lambda: settings, lambda: system, lenient=True, others=others)
    return World(trial, _owner(prepare, locate(str(home)), LOADING, rescue), home, program)


def real_world(
    trial: Trial, engine: str | Path, home: Path | None = None, *, env: dict[str, str] | None = None
) -> World:
    """A world on a real engine with the practice pair: "embedded", "built", or a program."""
    home = home or trial.folder / "home"
    paths = paths_of(trial, home)
    env = engine_env(trial, engine) | (env or {})
    settings, machine = resolve({}, env), this_machine()

    def prepare(speculative: bool | None, rungs: tuple[Rung, ...]) -> LaunchPlan:
        chosen = settings
        if speculative is not None:
            chosen = chosen.with_speculative(speculative, "the page's switch")
        chosen = ladder.apply(chosen, rungs)
        resolved = resolve_all(chosen, paths, env, machine, stand_in=True)
        return ladder.marked(make_plan(chosen, machine, resolved), rungs)

    records.sweep_once(paths.run)
    owner = _owner(
        prepare, paths, REAL_LOADING, Rescue(lambda: settings, lambda: machine.system, lenient=True)
    )
    return World(trial, owner, home)


def engine_env(trial: Trial, engine: str | Path) -> dict[str, str]:
    """The settings for a real engine with the practice pair."""
    env = {"BONSAI_MODEL": "practice", "BONSAI_SPECULATIVE": "1"}
    if engine == "embedded":
        return {**env, "BONSAI_ENGINE": "embedded"}
    return {**env, "BONSAI_LLAMA_SERVER": str(trial.built if engine == "built" else engine)}


def paths_of(trial: Trial, home: Path) -> Paths:
    """The folders of ``home``, with the practice pair there already."""
    paths = locate(str(home))
    if not paths.practice.exists():
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        paths.practice.symlink_to(trial.practice, target_is_directory=True)
    return paths


def this_machine() -> Machine:
    """Looked at once."""
    if not MACHINE:
        MACHINE.append(detect())
    return MACHINE[0]


def _owner(
    prepare: Callable[[bool | None, tuple[Rung, ...]], LaunchPlan],
    paths: Paths,
    loading: vital.Patience,
    rescue: Rescue,
) -> Lifecycle:
    return Lifecycle(
        prepare,
        lambda plan: Server(plan, paths.logs, paths.run, clean_environment(), patience=loading),
        rescue=rescue,
        prove=prove_server,
        patience=HEALTH,
    )
