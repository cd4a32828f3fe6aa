"""Engines and connections that go wrong while they answer."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

from tests.campaign.browser import Exchange
from tests.campaign.trial import IN_TIME, KEPT, NAMED, WORKS, Broken, Trial
from tests.campaign.world import World, fake_world
from tests.fakes.faulty_engine import CUTS, WRONG, Orders

KILLED = "The system killed the engine at once"
CRASHED = "The engine crashed (signal SIGSEGV"
ABORTED = "The engine stopped itself (signal SIGABRT)"
STOPPED = "The engine still runs, but it does nothing any more."
HOWS: dict[int | str, str] = {
    3: "The engine ended with exit code 3",
    -signal.SIGSEGV: CRASHED,
    -signal.SIGABRT: ABORTED,
    -signal.SIGKILL: KILLED,
}


@dataclass(frozen=True)
class DeathWay:
    """It ends at its ``chat``-th request (the first is the launcher's own question), in ``bad`` starts in a row."""

    chat: int
    how: int
    bad: int


DEATH_WAYS = tuple(
    DeathWay(chat, how, bad) for bad in (1, 3) for how in (3, -11, -6, -9) for chat in (1, 2, 3)
)


def dies_at_request(trial: Trial, way: DeathWay) -> None:
    """What had been shown is kept; it comes back by itself twice, and after that the person's next message starts it."""
    tokens = trial.dice.choice([0, trial.dice.randint(1, 20 if way.chat == 1 else 90)])
    world = fake_world(trial, Orders(bad=way.bad, at="chat", chat=way.chat, how=way.how, tokens=tokens))
    if way.chat == 1:
        trial.fault()
        last = world.say()
        trial.wait(last.over.is_set, 40, "the page to give up or to answer")
    else:
        world.ready()
        for _ in range(way.bad):
            last = _until_it_breaks(trial, world, way.chat - 1)
        if way.bad == 3:  # who asks before that is told why, too
            trial.wait(lambda: world.owner.status().phase == "failed", 20, "the third death to be the last")
    world.next_message(last)
    trial.named(world.said, [HOWS[way.how]])
    world.finish()


def _until_it_breaks(trial: Trial, world: World, messages: int) -> Exchange:
    last: Exchange | None = None
    for _ in range(messages):
        trial.fault()
        last = world.say(after=last)
        trial.wait(last.over.is_set, 30, "an answer to end")
        if not last.complete:
            trial.check(NAMED, last.said, "an answer broke off without a word")
            break
    assert last is not None
    return last


@dataclass(frozen=True)
class StopWay:
    """``how`` it hangs: by its own SIGSTOP, deaf, or stopped by somebody; what the person does: waits, or presses Stop."""

    how: str
    person: str


STOP_WAYS = tuple(StopWay(how, person) for how in ("stop", "sleep", "us") for person in ("waits", "stops"))


def hangs_in_answer(trial: Trial, way: StopWay) -> None:
    """It is noticed, ended and replaced; a person who does not wait is not held up."""
    tokens = trial.dice.randint(1, 60)
    orders = Orders(at="" if way.how == "us" else "chat", chat=2, how=way.how, tokens=tokens)
    world = fake_world(trial, orders, rate=150.0)
    pid = world.ready()
    exchange = world.say()
    trial.wait(lambda: len(exchange.text) > tokens // 2, 20, "the answer to begin")
    trial.fault()
    if way.how == "us":
        os.kill(pid, signal.SIGSTOP)
    if way.person == "stops":
        world.browser.stop(exchange)
        trial.check(IN_TIME, exchange.wait(3), "Stop is not obeyed within 3 s")
        trial.check(KEPT, exchange.ended == "stopped", f"ended {exchange.ended!r}")
    else:
        trial.wait(exchange.over.is_set, 30, "the answer to be given up")
        trial.check(KEPT, exchange.ended == "failed", f"ended {exchange.ended!r}")
    world.replaced(pid)
    trial.named(world.said, [STOPPED])
    world.next_message(exchange)
    world.finish()


# What a person is told of an answer whose connection went wrong while the engine lives.
CUT_SAYS = {
    "reset": "broke off",
    "ends": "broke off",
    "half a chunk": "broke off",
    "an error": "Compute error",
    "refused 500": "The paced server refuses",
    "refused 503": "The paced server refuses",
}


def stream_is_cut(trial: Trial, way: str) -> None:
    """What came is kept, the answer says how it ended, and the engine goes on."""
    tokens = trial.dice.randint(0, 100)
    world = fake_world(trial, Orders(at="chat", how=way, tokens=tokens))
    pid = world.ready()
    trial.fault()
    exchange = world.say()
    trial.wait(exchange.over.is_set, 30, "the answer to end")
    trial.named(exchange.said, [CUT_SAYS[way]])
    trial.check(KEPT, exchange.ended == "failed", f"ended {exchange.ended!r}")
    world.next_message(exchange)
    trial.check(WORKS, world.owner.status().pid == pid, "a good engine was replaced")
    world.finish()


def stream_is_wrong(trial: Trial, way: str) -> None:
    """An answer that is none is told as such, and harms nothing."""
    world = fake_world(trial, Orders(at="chat", how=way))
    world.ready()
    trial.fault()
    exchange = world.say()
    trial.wait(exchange.over.is_set, 30, "the answer to end")
    trial.check(NAMED, exchange.ended == "failed" and exchange.said, f"{exchange.ended!r}: {exchange.said!r}")
    trial.check(NAMED, "launcher itself failed" not in exchange.said, exchange.said)
    world.next_message(exchange)
    world.finish()


def message_in_line(trial: Trial, way: int) -> None:
    """A second message waits while the engine is killed in the first answer: the engine that comes back answers it."""
    world = fake_world(trial, Orders(), rate=150.0)
    pid = world.ready()
    first = world.say()
    trial.wait(lambda: first.text, 20, "the answer to begin")
    second = world.say("I wait.")
    trial.wait(lambda: world.owner.status().waiting, 5, "the second message to stand in line")
    shown = trial.dice.randint(1, 250)
    trial.wait(lambda: len(first.text) > shown or first.over.is_set(), 20, "the moment")
    trial.fault()
    os.kill(pid, way)
    trial.wait(first.over.is_set, 20, "the first answer to end")
    if not second.wait(30):
        raise Broken(f"the second message has no answer: {world.owner.status()}")
    trial.check(WORKS, second.complete, f"the message in line: {second.said}")
    trial.named(world.said, [{9: KILLED, 11: CRASHED, 6: ABORTED}[way]])
    world.next_message(second)
    world.finish()


CUT_WAYS, WRONG_WAYS, LINE_WAYS = CUTS, tuple(WRONG), (9, 11, 6)
