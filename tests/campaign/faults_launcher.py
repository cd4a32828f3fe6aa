"""The launcher itself is killed, asked to end once or twice, and started twice."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from launcher import instance
from tests.campaign.browser import Exchange
from tests.campaign.faults_real import LONG, STORY
from tests.campaign.launched import Launched
from tests.campaign.leftovers import check_files, check_processes, check_store, engine_pids
from tests.campaign.trial import IN_TIME, KEPT, NAMED, NO_ORPHAN, WORKS, Trial
from tests.campaign.world import CLOSES_S, paths_of, real_world

AT_ONCE_S = 4.0  # from a second signal to the end
MOMENTS = ("starting", "loading", "proof", "idle", "prompt", "answer", "stopping")


@dataclass(frozen=True)
class EndWay:
    number: int
    twice: bool
    moment: str

    def __str__(self) -> str:
        return f"{signal.Signals(self.number).name}{' twice' if self.twice else ''}, {self.moment}"


KILL_WAYS = tuple(EndWay(signal.SIGKILL, False, moment) for moment in MOMENTS)
SIGNAL_WAYS = tuple(
    EndWay(number, twice, moment)
    for twice in (False, True)
    for moment in MOMENTS[:-1]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
)


def ended(trial: Trial, way: EndWay) -> None:
    """Nothing of it lives on, what was written is there, and the next start works."""
    engine = trial.dice.choice(["built", "embedded"])
    it = Launched(trial, engine)
    shown = BEGINNINGS[way.moment](trial, it)
    trial.fault()
    struck = time.monotonic()
    it.send(way.number)
    if way.twice:
        trial.pause(trial.dice.uniform(0.02, 0.5))
        it.send(way.number)
    within = 1.0 if way.number == signal.SIGKILL else AT_ONCE_S if way.twice else CLOSES_S
    status = it.ended(within + 15)
    took = time.monotonic() - struck
    trial.check(IN_TIME, took <= within, f"it ended after {took:.1f} s, the bound is {within:g} s")
    check_processes(trial, it.home, struck if way.number == signal.SIGKILL else None)
    _looks_proper(trial, it, way, status)
    if shown is not None:
        trial.check(KEPT, shown.wait(5), "the tab still waits for a launcher that is gone")
    # The next start: it sweeps, finds all that was written, and answers.
    world = real_world(trial, engine, it.home)
    world.browser.exchanges += it.browser.exchanges
    world.browser.set(max_tokens=60)
    with instance.the_page(paths_of(trial, it.home).run) as page:
        trial.check(
            WORKS, isinstance(page, instance.Mine), "the page of the dead launcher is still in the way"
        )
    world.next_message(shown if way.moment != "prompt" else None, 45)
    world.finish(killed=struck if way.number == signal.SIGKILL or way.twice else None)


def _looks_proper(trial: Trial, it: Launched, way: EndWay, status: int) -> None:
    if way.number == signal.SIGKILL:
        return
    trial.check(NAMED, "Traceback" not in it.said, it.said[-800:])
    proper = {0, 128 + way.number, -way.number}
    if way.moment != "starting":  # Python itself may not have been up yet
        trial.check(NAMED, status in proper, f"exit status {status}")
        if not way.twice:
            check_files(trial, it.home)


def _starting(trial: Trial, _it: Launched) -> Exchange | None:
    trial.pause(trial.dice.uniform(0, 2.0))
    return None


def _loading(trial: Trial, it: Launched) -> Exchange | None:
    trial.wait(lambda: engine_pids(it.home) or not it.lives, 60, "the engine's process")
    trial.pause(trial.dice.uniform(0, 0.3))
    return None


def _proof(trial: Trial, it: Launched) -> Exchange | None:
    it.open()
    trial.wait(lambda: it.browser.phase() in ("ready", "starting"), 60, "the engine to start")
    trial.wait(
        lambda: "question" in it.browser.status().get("message", "") or it.browser.phase() == "ready",
        60,
        "the question before ready",
    )
    return None


def _idle(trial: Trial, it: Launched) -> Exchange | None:
    it.open()
    it.ready()
    exchange = it.browser.say(STORY)
    trial.wait(lambda: exchange.complete, 60, "an answer")
    trial.pause(trial.dice.uniform(0, 0.5))
    return exchange


def _prompt(trial: Trial, it: Launched) -> Exchange | None:
    it.open()
    it.ready()
    exchange = it.browser.say(LONG)
    trial.wait(lambda: exchange.reading > 0, 60, "the prompt to be read")
    return exchange


def _answer(trial: Trial, it: Launched) -> Exchange | None:
    it.open()
    it.ready()
    it.browser.set(max_tokens=2000)
    exchange = it.browser.say(STORY)
    shown = trial.dice.randint(1, 250)
    trial.wait(lambda: len(exchange.text) > shown or exchange.over.is_set(), 60, "the answer to begin")
    trial.pause(trial.dice.uniform(0, 5))
    return exchange


def _stopping(trial: Trial, it: Launched) -> Exchange | None:
    exchange = _answer(trial, it)
    it.send(signal.SIGTERM)
    trial.pause(trial.dice.uniform(0, 0.4))
    return exchange


BEGINNINGS: dict[str, Callable[[Trial, Launched], Exchange | None]] = {
    "starting": _starting,
    "loading": _loading,
    "proof": _proof,
    "idle": _idle,
    "prompt": _prompt,
    "answer": _answer,
    "stopping": _stopping,
}


# -- two of them ----------------------------------------------------------------------------------------------

TWO_WAYS = (
    "one home at once",
    "one home, the first is killed",
    "two homes, the same ports",
    "bonsai ask beside it",
)
RUNNING = "is running already"


def two_at_once(trial: Trial, way: str) -> None:
    """One home has one page; two homes, or a page and a command, do not disturb one another."""
    TWO[way](trial)


def _one_home(trial: Trial) -> None:
    trial.fault()
    both = [Launched(trial, "built"), Launched(trial, "built")]
    trial.wait(lambda: any(not it.lives for it in both), 60, "one of two launchers to step back")
    stays, goes = sorted(both, key=lambda it: it.lives, reverse=True)
    trial.named(goes.said, [RUNNING, str(stays.port)])
    trial.check(NAMED, goes.process.returncode == 0, f"exit status {goes.process.returncode}")
    _serves(trial, stays)
    trial.recovered()
    _over(trial, stays)


def _first_killed(trial: Trial) -> None:
    first = Launched(trial, "built")
    first.open()
    first.ready()
    exchange = first.browser.say("Tell me a short story.")
    trial.wait(lambda: exchange.complete, 60, "an answer")
    trial.fault()
    first.send(signal.SIGKILL)
    second = Launched(trial, "built", home=first.home)
    first.ended(5)
    _serves(trial, second)
    trial.recovered()
    second.browser.exchanges += first.browser.exchanges
    _over(trial, second)


def _two_homes(trial: Trial) -> None:
    trial.fault()
    both = [Launched(trial, "built", home=trial.folder / f"home {number}") for number in (1, 2)]
    for it in both:
        _serves(trial, it)
    trial.recovered()
    for it in both:
        _over(trial, it)


def _ask_beside(trial: Trial) -> None:
    it = Launched(trial, "built")
    it.open()
    pid = it.ready()
    trial.fault()
    env = {**os.environ, "BONSAI_HOME": str(it.home), "BONSAI_LLAMA_SERVER": str(trial.built)}
    command = [*it.process.args[:3], "ask", "--max-tokens", "20", "hello"]  # type: ignore[index]
    done = subprocess.run(
        command,
        env=env | {"BONSAI_MODEL": "practice"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    trial.check(WORKS, done.returncode == 0 and done.stdout.strip(), done.stderr[-500:])
    trial.check(NO_ORPHAN, engine_pids(it.home) == [pid], "the page's own engine was touched")
    _serves(trial, it)
    trial.recovered()
    _over(trial, it)


def _serves(trial: Trial, it: Launched) -> None:
    it.open()
    exchange = it.browser.say("And now?")
    over = exchange.wait(60)
    trial.check(WORKS, over and exchange.complete, exchange.said or "no answer within 60 s")


def _over(trial: Trial, it: Launched) -> None:
    it.end()
    check_processes(trial, it.home)
    check_files(trial, it.home)
    check_store(trial, it.home, it.browser.exchanges)


TWO: dict[str, Callable[[Trial], None]] = dict(
    zip(TWO_WAYS, (_one_home, _first_killed, _two_homes, _ask_beside), strict=True)
)
