"""The real engines, killed, crashed and stopped at random moments of their life."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from tests.campaign.browser import Exchange
from tests.campaign.faults_answer import ABORTED, CRASHED, KILLED, STOPPED
from tests.campaign.leftovers import engine_pids
from tests.campaign.trial import KEPT, NAMED, Broken, Trial
from tests.campaign.world import World, real_world

LONG = "word and " * 1500  # takes a real engine a second or more to read
STORY = "Tell me a long story."
TOLD_S = 10.0  # until a death is noticed and told
SAYS = {
    signal.SIGKILL: KILLED,
    signal.SIGSEGV: CRASHED,
    signal.SIGABRT: ABORTED,
    signal.SIGSTOP: STOPPED,
    signal.SIGTERM: "The engine was ended from outside",
}
MOMENTS = ("load", "proof", "idle", "prompt", "answer")


@dataclass(frozen=True)
class RealWay:
    engine: str
    number: int
    moment: str

    def __str__(self) -> str:
        return f"{signal.Signals(self.number).name} to the {self.engine} engine, {self.moment}"


WAYS = {
    engine: tuple(
        RealWay(engine, number, moment)
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGSTOP, signal.SIGTERM)
        for moment in MOMENTS
    )
    for engine in ("built", "embedded")
}


def struck(trial: Trial, way: RealWay) -> None:
    """It comes back by itself, with the cause said; of an answer there is what had been shown."""
    world = real_world(trial, way.engine)
    world.browser.set(max_tokens=120)
    exchange = STRIKES[way.moment](trial, world, way)
    cause = SAYS[signal.Signals(way.number)]
    # A server that is asked to end while it loads does so after its first answer: the death may be yet to come.
    with contextlib.suppress(Broken):
        trial.wait(lambda: cause in world.said, TOLD_S, "the cause")
    world.settled(45)
    trial.named(world.said, [cause])
    trial.check(NAMED, world.owner.status().phase == "ready", f"it has not come back: {world.owner.status()}")
    # The long prompt would be read all over again before an answer in the same conversation.
    world.next_message(None if way.moment == "prompt" else exchange, 45)
    world.finish()


def _strike(trial: Trial, pid: int, number: int) -> None:
    trial.fault()
    os.kill(pid, number)


def _while_loading(trial: Trial, world: World, way: RealWay) -> Exchange:
    exchange = world.say(STORY)
    trial.wait(lambda: engine_pids(world.home), 20, "the engine's process")
    moment = trial.dice.uniform(0, 0.25 if way.engine == "built" else 1.0)
    trial.pause(moment)
    _strike(trial, engine_pids(world.home)[-1], way.number)
    return _answered(trial, exchange)


def _at_the_proof(trial: Trial, world: World, way: RealWay) -> Exchange:
    exchange = world.say(STORY)
    trial.wait(lambda: "question" in world.owner.status().message, 30, "the question before ready")
    trial.pause(trial.dice.uniform(0, 0.05))
    _strike(trial, engine_pids(world.home)[-1], way.number)
    return _answered(trial, exchange)


def _answered(trial: Trial, exchange: Exchange) -> Exchange:
    """Who asked before the engine was ready has waited, and is answered when it comes back; unless it came sooner."""
    trial.wait(exchange.over.is_set, 45, "the answer")
    trial.check(KEPT, exchange.complete or exchange.said, "an answer without a word")
    return exchange


def _idle(trial: Trial, world: World, way: RealWay) -> Exchange:
    pid = world.ready()
    exchange = world.whole(STORY)
    trial.pause(trial.dice.uniform(0, 0.3))
    _strike(trial, pid, way.number)
    world.replaced(pid, 45)
    return exchange


def _in_prompt(trial: Trial, world: World, way: RealWay) -> Exchange:
    pid = world.ready()
    exchange = world.say(LONG)
    trial.wait(lambda: exchange.reading > 0, 20, "the prompt to be read")
    trial.pause(trial.dice.uniform(0, 0.3))
    return _broken(trial, world, way, pid, exchange)


def _in_answer(trial: Trial, world: World, way: RealWay) -> Exchange:
    pid = world.ready()
    exchange = world.say(STORY)
    shown = trial.dice.randint(1, 300)
    trial.wait(lambda: len(exchange.text) > shown or exchange.over.is_set(), 30, "the answer to begin")
    return _broken(trial, world, way, pid, exchange)


def _broken(trial: Trial, world: World, way: RealWay, pid: int, exchange: Exchange) -> Exchange:
    _strike(trial, pid, way.number)
    trial.wait(exchange.over.is_set, 45, "the answer to be given up")
    world.replaced(pid, 45)
    return exchange


STRIKES: dict[str, Callable[[Trial, World, RealWay], Exchange]] = {
    "load": _while_loading,
    "proof": _at_the_proof,
    "idle": _idle,
    "prompt": _in_prompt,
    "answer": _in_answer,
}
