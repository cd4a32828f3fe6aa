"""Waits until an ended engine's memory is back: a driver may give it out again a moment after the process is gone."""

from __future__ import annotations

from collections.abc import Callable

from launcher.hardware.model import Machine
from launcher.memory import needed_bytes
from launcher.plan import LaunchPlan

MOST_S = 10.0
STEP_S = 0.5


def let_memory_return(
    plan: LaunchPlan, look: Callable[[], Machine], sleep: Callable[[float], object]
) -> bool:
    """Before ``plan`` is started on the only CUDA GPU: wait until it fits, or until no more memory comes back, ten
    seconds at most. ``look``: the machine as it is now. Returns whether it fits; True where nobody can tell."""
    wanted = needed_bytes(plan)
    if plan.resolved.engine.backend != "cuda" or wanted is None:
        return True
    before = -1
    for _ in range(round(MOST_S / STEP_S)):
        free = _free(look())
        if free is None or free >= wanted:
            return True
        if free <= before:
            return False
        before = free
        sleep(STEP_S)
    return False


def _free(machine: Machine) -> int | None:
    cards = [gpu for gpu in machine.gpus if gpu.backend == "cuda"]
    return cards[0].free_bytes if len(cards) == 1 else None
