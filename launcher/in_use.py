"""What was learned on this machine, in the plans that are started: where nobody asked for anything else, or against it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from launcher import learned
from launcher.errors import PlanRefused, StoreError
from launcher.hardware.model import Machine
from launcher.learned import Key, Learned
from launcher.methods import PLAIN
from launcher.paths import Paths
from launcher.plan import LaunchPlan, make_plan
from launcher.resolved import Resolved
from launcher.settings import Settings
from launcher.verified import Verified


def key_here(paths: Paths, machine: Machine, resolved: Resolved) -> Key:
    """What an advice for this machine and these files is kept under. Reads no file's content."""
    return learned.key_of(machine, resolved, lambda path: Verified(paths.data).known(Path(path)))


def entry_here(
    settings: Settings, paths: Paths, machine: Machine, resolved: Resolved, *, switch: bool | None = None
) -> Learned | None:
    """What was learned for exactly these parts and is to be used. None where ``settings`` say whether to speculate,
    where the person's ``switch`` (None: not touched) is off, or on and plain decoding was learned, and where nothing
    can be read."""
    if settings.speculative.asked or switch is False:
        return None
    with suppress(StoreError):
        entry = learned.learned(paths, key_here(paths, machine, resolved))
        return entry if entry is None or switch is None or entry.method != PLAIN else None
    return None


def plan_with(settings: Settings, machine: Machine, resolved: Resolved, entry: Learned | None) -> LaunchPlan:
    """The plan by ``settings`` and ``entry``, or without it where it cannot be had any more. Raises PlanRefused as
    make_plan."""
    if entry is not None:
        # ``entry`` was found to be wanted: what the switch says is in it.
        free = replace(settings, speculative=replace(settings.speculative, source="default"))
        with suppress(PlanRefused):
            method = learned.chosen(free, entry)
            return make_plan(learned.apply(free, entry), machine, resolved, method, source=entry.source)
    return make_plan(settings, machine, resolved)


def plan_here(settings: Settings, paths: Paths, machine: Machine, resolved: Resolved) -> LaunchPlan:
    """The plan for this machine, with what was learned on it. Raises PlanRefused as make_plan."""
    return plan_with(settings, machine, resolved, entry_here(settings, paths, machine, resolved))
