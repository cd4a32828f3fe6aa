"""Answers and plain speeds of this machine, on their way into the time ledger from page and terminal.

A ledger that cannot be read or written takes nothing from an answer or a measurement: nothing here raises for that.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import suppress

from launcher.client.events import Timings
from launcher.errors import LauncherError
from launcher.hardware.model import Machine
from launcher.in_use import key_here
from launcher.lab_types import Lab
from launcher.learned import Key
from launcher.ledger import Ledger, entry_of
from launcher.methods import PLAIN
from launcher.paths import Paths
from launcher.plan import LaunchPlan
from launcher.race_figures import plain_speed
from launcher.race_types import Race, RaceSpec

SETTINGS = ("-c", "-ngl", "-fa", "-b", "-t", "-ctk", "-ctv")


def count(paths: Paths, machine: Machine, plan: LaunchPlan, timings: Timings, before_tokens: int = 0) -> None:
    """Enter an answer of a chat, by an engine of ``plan``. ``before_tokens``: of the prompt as many were read or
    written before in the same conversation; 0 for its first answer, and for ``bonsai ask``, a chat of one message."""
    if plan.method == PLAIN:
        return
    with suppress(LauncherError):
        entry = entry_of(timings, plan.method, _what(paths, machine, plan), before_tokens)
        if entry is not None:
            Ledger(paths.data).add(entry)


def know_plain(
    paths: Paths, machine: Machine, plan: LaunchPlan, tokens_per_second: float, source: str
) -> None:
    """``source`` ("a race") measured plain decoding by an engine of ``plan``."""
    with suppress(LauncherError):
        Ledger(paths.data).know_plain(_what(paths, machine, plan), tokens_per_second, source)


def know_lab(paths: Paths, key: Key, lab: Lab) -> None:
    """Where ``lab`` measured plain decoding: its speed, the median of all its answers. ``key``: of what it measured."""
    rates = [run.rate for run in lab.runs if run.cell.method == PLAIN]
    side = next((side for side in lab.sides if side.method == PLAIN), None)
    if rates and side is not None:
        with suppress(LauncherError):
            Ledger(paths.data).know_plain(what_of(key, side.argv), statistics.median(rates), "a lab")


def know_raced(paths: Paths, spec: RaceSpec, races: Sequence[Race]) -> None:
    """Where one side of ``races`` decoded plainly: its speed, the median of all their rounds. ``spec``: of any of
    them, all have the same two plans."""
    speed = plain_speed(races)
    plan = next((plan for plan in spec.plans if plan.method == PLAIN), None)
    if plan is not None and spec.machine is not None and speed is not None:
        know_plain(paths, spec.machine, plan, speed, "a race")


def what_of(key: Key, argv: Sequence[str]) -> str:
    """What a speed is that of, for Entry and PlainSpeed: machine, files and engine, and those words of the engine's
    command line ``argv`` that change how fast it is, its context among them."""
    words = [f"{flag} {argv[argv.index(flag) + 1]}" for flag in SETTINGS if flag in argv]
    return " | ".join((key.text, " ".join(words)))


def _what(paths: Paths, machine: Machine, plan: LaunchPlan) -> str:
    return what_of(key_here(paths, machine, plan.resolved), plan.argv)
