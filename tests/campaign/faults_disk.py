"""A disk that is full and folders that cannot be written for a while, met by a real launcher."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from launcher.supervise import records
from tests.campaign.browser import Exchange
from tests.campaign.faults_answer import CRASHED
from tests.campaign.launched import Launched
from tests.campaign.leftovers import check_files, check_processes, check_store
from tests.campaign.trial import KEPT, NAMED, WORKS, Trial
from tests.campaign.world import CLOSES_S, SPEED
from tests.fakes import faulty_engine
from tests.fakes.faulty_engine import Orders

LIMIT = 50_000  # bytes
WORD = "a"  # one piece of text for the fake engine, however long


def _fake(trial: Trial, **orders: object) -> Path:
    return faulty_engine.install(trial.folder / "bin", Orders(bad=-1, **orders), **SPEED)  # type: ignore[arg-type]


def log_cannot_be_written(trial: Trial, way: str) -> None:
    """The engine goes on, answers, and when it crashes it is started again."""
    flood = 3_000_000 if way == "at load" else 0
    it = Launched(trial, _fake(trial, flood=flood, flood_on=not flood), limit=LIMIT)
    trial.fault()
    it.open()
    pid = it.ready()
    first = _whole(trial, it, "Are you there?")
    trial.recovered()
    sizes = {path.name: path.stat().st_size for path in (it.home / "logs").iterdir()}
    trial.check(NAMED, max(sizes.values()) <= LIMIT, f"the disk was not full: {sizes}")
    os.kill(pid, signal.SIGSEGV)
    it.ready(but=pid)
    trial.named(" ".join(it.browser.status()["steps"]), [CRASHED])
    _whole(trial, it, "And now?", first)
    _over(trial, it)


LOG_WAYS = ("at load", "as it answers")


def store_is_full(trial: Trial, way: str) -> None:
    """What cannot be kept is said; what was kept before stays whole."""
    it = Launched(trial, _fake(trial), limit=LIMIT)
    it.open()
    it.ready()
    first = _whole(trial, it, "Are you there?")
    trial.fault()
    size = LIMIT + 1 if way == "the message" else LIMIT - 1000
    lost = it.browser.say(WORD * size, first if way == "the message" else None)
    trial.wait(lost.over.is_set, 30, "the page to say that it cannot be kept")
    trial.recovered()
    trial.named(lost.said, ["cannot be saved"])
    if way == "the answer":
        trial.check(KEPT, lost.text, "the answer was not even shown")
    _whole(trial, it, "And now?")
    trial.recovered()
    _over(trial, it, unsaved=(lost,))


FULL_WAYS = ("the message", "the answer")


def folder_read_only(trial: Trial, way: str) -> None:
    """What cannot be written is said, what was there stays, and when the folder is back all works."""
    it = Launched(trial, _fake(trial), ordinary=True)
    it.open()
    pid = it.ready()
    first = _whole(trial, it, "Are you there?")
    folder = it.home / ("run" if "engine" in way else "conversations")
    trial.fault()
    lost = MOMENTS[way](trial, it, folder, pid, first)
    trial.stack.callback(folder.chmod, 0o700)
    folder.chmod(0o700)
    if "engine" in way:
        it.browser.switch(None)
    _whole(trial, it, "And now?", first)
    trial.recovered()
    _over(trial, it, unsaved=(lost,) if lost else ())


def _before_a_message(trial: Trial, it: Launched, folder: Path, _pid: int, first: Exchange) -> Exchange:
    folder.chmod(0o500)
    lost = it.browser.say("Is it kept?", first)
    trial.wait(lost.over.is_set, 30, "the page to say that it cannot be kept")
    trial.named(lost.said, ["cannot be saved"])
    return lost


def _in_an_answer(trial: Trial, it: Launched, folder: Path, _pid: int, first: Exchange) -> Exchange:
    lost = it.browser.say("Is it kept?", first)
    trial.wait(lambda: lost.text, 30, "the answer to begin")
    folder.chmod(0o500)
    trial.wait(lost.over.is_set, 30, "the page to say that it cannot be kept")
    trial.named(lost.said, ["cannot be saved"])
    return lost


def _at_an_engine_start(trial: Trial, it: Launched, folder: Path, pid: int, first: Exchange) -> Exchange:
    folder.chmod(0o500)
    os.kill(pid, signal.SIGKILL)
    trial.wait(lambda: it.browser.phase() == "failed", 30, "the page to say that no engine starts")
    told = it.browser.status()
    trial.named(f"{told['error']} {told['remedy']}", [str(folder), "cannot be written"])
    lost = it.browser.say("Are you there?", first)
    trial.wait(lost.over.is_set, 30, "the page to say that no engine starts")
    trial.check(NAMED, lost.said, "no word")
    return lost


MOMENTS: dict[str, Callable[[Trial, Launched, Path, int, Exchange], Exchange]] = {
    "before a message": _before_a_message,
    "in an answer": _in_an_answer,
    "when an engine starts": _at_an_engine_start,
}
ONLY_WAYS = tuple(MOMENTS)


def _whole(trial: Trial, it: Launched, text: str, after: Exchange | None = None) -> Exchange:
    exchange = it.browser.say(text, after)
    over = exchange.wait(40)
    trial.check(WORKS, over and exchange.complete, f"{text} {exchange.said or it.browser.status()}")
    return exchange


def _over(trial: Trial, it: Launched, unsaved: tuple[Exchange, ...] = ()) -> None:
    it.end(CLOSES_S)
    check_processes(trial, it.home)
    records.sweep(it.home / "run")  # as the next start: what could not be deleted goes then
    check_files(trial, it.home)
    check_store(trial, it.home, it.browser.exchanges, unsaved)
