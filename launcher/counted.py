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
from launcher.ledger import Ledger, entry_of
from launcher.methods import PLAIN
from launcher.paths import Paths
from launcher.plan import LaunchPlan
from launcher.race_types import Race, RaceSpec


def count(paths: Paths, machine: Machine, plan: LaunchPlan, timings: Timings, before_tokens: int = 0) -> None:
    """Enter an answer of a chat, by an engine of ``plan``. ``before_tokens``: of the prompt as many were read or
    written before in the same conversation; 0 for its first answer, and for ``bonsai ask``, a chat of one message."""
    if plan.method == PLAIN:
        return
    with suppress(LauncherError):
        entry = entry_of(timings, plan.method, what_of(paths, machine, plan), before_tokens)
        if entry is not None:
            Ledger(paths.data).add(entry)


def know_plain(
    paths: Paths, machine: Machine, plan: LaunchPlan, tokens_per_second: float, source: str
) -> None:
    """``source`` ("a race") measured plain decoding by an engine of ``plan``."""
    with suppress(LauncherError):
        Ledger(paths.data).know_plain(what_of(paths, machine, plan), tokens_per_second, source)


def know_raced(paths: Paths, spec: RaceSpec, races: Sequence[Race]) -> None:
    """Where one side of ``races`` decoded plainly: its speed, the median of all their rounds. ``spec``: of any of
    them, all have the same two plans."""
    rates = [
        run.timings.tokens_per_second or 0.0
        for race in races
        for side, one in enumerate(race.sides)
        if one.method == PLAIN
        for run in race.of(side)
    ]
    plan = next((plan for plan in spec.plans if plan.method == PLAIN), None)
    if plan is not None and spec.machine is not None and rates:
        know_plain(paths, spec.machine, plan, statistics.median(rates), "a race")


def what_of(paths: Paths, machine: Machine, plan: LaunchPlan) -> str:
    """What a speed by ``plan`` is that of, for Entry and PlainSpeed."""
    return key_here(paths, machine, plan.resolved).text
