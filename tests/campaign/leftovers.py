"""What a fault may not leave: processes, keys and records of them, damaged or forgotten conversations."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Collection, Sequence
from pathlib import Path

import psutil

from launcher.errors import StoreError
from launcher.store import Conversation, Store, Turn
from tests.campaign.browser import Exchange
from tests.campaign.trial import KEPT, NO_ORPHAN, Trial
from webui.keeper import KEEP_EVERY_S

GONE_S = 5.0
LAST_MOMENTS_S = KEEP_EVERY_S + 1.5  # a busy disk included


def ours(home: Path, but: Collection[int] = ()) -> list[psutil.Process]:
    """Who names ``home`` in their command line or environment; zombies hold nothing."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid in but or process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if any(str(home) in word for word in (*process.cmdline(), *process.environ().values())):
                found.append(process)
    return found


def lives(pid: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def engine_pids(home: Path) -> list[int]:
    """The engines that are noted in ``home``, oldest first."""
    found = []
    for path in sorted((home / "run").glob("*.child.json")):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            process = json.loads(path.read_text())["process"]
            if process is not None:
                found.append((float(process[1]), int(process[0])))
    return [pid for _, pid in sorted(found)]


def check_processes(trial: Trial, home: Path, since: float | None = None) -> None:
    """Within five seconds of ``since`` (monotonic; default: now) nobody is left. Who is, is ended."""
    end = (time.monotonic() if since is None else since) + GONE_S
    while (left := ours(home, trial.strangers)) and time.monotonic() < end:
        time.sleep(0.02)
    told = []
    for process in left:
        with contextlib.suppress(psutil.Error):
            told.append(f"{process.pid} {' '.join(process.cmdline())[:200]}")
            process.kill()
    trial.check(NO_ORPHAN, not left, f"left: {told}")


def check_files(trial: Trial, home: Path) -> None:
    """No key and no record of what is gone."""
    run = home / "run"
    left = [path.name for path in run.iterdir() if path.suffix in (".key", ".json")] if run.exists() else []
    left = [name for name in left if name != "page.json"]
    trial.check(NO_ORPHAN, not left, f"left in the folder of what runs: {left}")


def check_store(
    trial: Trial,
    home: Path,
    exchanges: Sequence[Exchange],
    unsaved: Collection[Exchange] = (),
    killed: float | None = None,
) -> None:
    """Everything loads, every message is there, and of every answer at least what had been shown. ``unsaved``: those
    that could not be kept, which was said. ``killed``: when the page's process was (monotonic): what came in the last
    moments before that may be lost."""
    store = Store(home)
    listed = store.list()
    trial.check(KEPT, not listed.set_aside and not listed.unreadable, f"damaged: {listed}")
    for exchange in exchanges:
        if exchange.conversation and exchange not in unsaved:
            try:
                _check_one(trial, store.load(exchange.conversation), exchange, killed)
            except StoreError as error:
                trial.check(KEPT, False, f"{exchange.message['text'][:40]!r}: {error}")


def _check_one(trial: Trial, conversation: Conversation, exchange: Exchange, killed: float | None) -> None:
    prompt = exchange.begun["prompt"]["id"]
    at = next((at for at, turn in enumerate(conversation.turns) if turn.id == prompt), None)
    if at is None:
        trial.check(KEPT, False, f"the message {exchange.message['text'][:40]!r} is not there any more")
        return
    trial.check(KEPT, conversation.turns[at].content == exchange.message["text"], "the message has changed")
    answer = conversation.turns[at + 1] if at + 1 < len(conversation.turns) else None
    shown = exchange.text
    if killed is not None and not exchange.done:
        shown = exchange.shown(killed - LAST_MOMENTS_S)
    if answer is None or answer.role != "assistant":
        trial.check(KEPT, not shown, f"{len(shown)} characters of an answer were shown, none is kept")
        return
    same = answer.content == shown if exchange.done else answer.content.startswith(shown)
    trial.check(KEPT, same, f"shown: …{shown[-60:]!r}, kept: …{answer.content[-60:]!r}")
    trial.check(KEPT, _marked(answer), f"ended {answer.ended!r}, note {answer.note!r}")


def _marked(answer: Turn) -> bool:
    """A whole answer, or one that says that it is not."""
    return answer.ended in ("stop", "length") or bool(answer.ended and answer.note)
