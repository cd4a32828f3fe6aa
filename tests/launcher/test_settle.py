"""Memory that comes back a moment after an engine is gone is waited for, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.hardware.model import Gpu, Machine
from launcher.memory import needed_bytes
from launcher.plan import make_plan
from launcher.settings import resolve
from launcher.settle import MOST_S, STEP_S, let_memory_return
from tests import plans

PLAN = make_plan(resolve({}, {}), plans.MACHINE, plans.resolved(engine=replace(plans.ENGINE, backend="cuda")))
NEEDED = needed_bytes(PLAN) or 0


def machine(free: int | None) -> Machine:
    card = Gpu(vendor="nvidia", name="a card", backend="cuda", total_bytes=2 * NEEDED, free_bytes=free)
    return replace(plans.MACHINE, gpus=(card,))


@pytest.mark.case("D-14")
@pytest.mark.parametrize(
    ("free", "fits", "waits"),
    [
        ([NEEDED], True, 0),
        ([0, 1, NEEDED], True, 2),
        ([5, 5], False, 1),  # nothing comes back any more: the ladder knows what to do then
        ([None], True, 0),
        (list(range(100)), False, round(MOST_S / STEP_S)),
    ],
)
def test_waiting_for_memory(free: list[int | None], fits: bool, waits: int) -> None:
    looks, slept = iter(free), list[float]()
    assert let_memory_return(PLAN, lambda: machine(next(looks)), slept.append) == fits
    assert len(slept) == waits


def test_an_engine_on_the_processor_is_not_waited_for() -> None:
    def never() -> Machine:
        raise AssertionError("nobody needs to look")

    assert let_memory_return(plans.plan_for("llama-server"), never, lambda _: None)
