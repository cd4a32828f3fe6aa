"""Engines that go wrong before they are ready."""

from __future__ import annotations

from dataclasses import dataclass

from tests.campaign.trial import NAMED, Trial
from tests.campaign.world import OTHER, fake_world
from tests.fakes.faulty_engine import Orders
from tests.launcher.diagnose_cases import (
    CAPTURED,
    CAPTURED_WITH_DRAFTER,
    COMPOSED,
    COMPOSED_WITH_DRAFTER,
    LOGS,
)


@dataclass(frozen=True)
class LogWay:
    """An engine that writes this captured log and ends with that status, at each start."""

    name: str
    status: int
    cause: str
    said: str
    system: str = "Linux"
    drafter: bool = False


LOG_WAYS = (
    *(LogWay(name, *row) for name, row in CAPTURED.items()),
    *(LogWay(name, *row, drafter=True) for name, row in CAPTURED_WITH_DRAFTER.items()),
    *(LogWay(f"composed_{name}", *row) for name, row in COMPOSED.items()),
    *(LogWay(f"composed_{name}", *row, drafter=True) for name, row in COMPOSED_WITH_DRAFTER.items()),
)


def dies_at_load(trial: Trial, way: LogWay) -> None:
    """The message that starts it is told why there is no answer; when it has been mended, the next one works."""
    orders = Orders(bad=0, at="load", how=way.status, log=str(LOGS / f"{way.name}.log"))
    world = fake_world(
        trial, orders, system=way.system, env={"BONSAI_SPECULATIVE": "1" if way.drafter else "0"}
    )
    trial.fault()
    first = world.say("Are you there?")
    trial.wait(first.over.is_set, 40, "the page to give up or to answer")
    trial.recovered()
    status = world.settled()
    trial.check(NAMED, status.phase == "failed", f"an engine that always dies: {status}")
    trial.named((*status.steps, status.error)[0], [way.said])
    if not way.drafter:
        trial.check(NAMED, status.cause == way.cause, f"{status.cause!r} instead of {way.cause!r}")
    trial.named(first.said, [status.error, "The whole log is in", str(world.home / "logs")])
    world.repair()
    world.next_message(first)
    world.finish()


@dataclass(frozen=True)
class HangWay:
    """``how`` it stands still; ``bad`` starts of it do; whether there is a drafter that could be at fault."""

    how: str
    bad: int
    drafter: bool


HANG_WAYS = tuple(
    HangWay(how, bad, drafter)
    for bad, drafter in ((1, True), (0, True), (1, False), (0, False))
    for how in ("stop", "sleep", "loading")
)


def hangs_at_load(trial: Trial, way: HangWay) -> None:
    """It is ended and tried again, then without the drafter, and if that hangs too, the page says so."""
    orders = Orders(bad=way.bad, at="load", how=way.how)
    world = fake_world(trial, orders, env={"BONSAI_SPECULATIVE": str(int(way.drafter))})
    trial.fault()
    first = world.say("Are you there?")
    trial.wait(first.over.is_set, 40, "the page to give up or to answer")
    trial.recovered()
    status = world.settled()
    trial.named(
        " ".join((*status.steps, status.error)), ["The engine still runs, but it does nothing any more."]
    )
    trial.check(
        NAMED, (status.phase == "ready") == (way.bad == 1), f"{status.phase}: {status.steps} {status.error}"
    )
    if not way.bad:
        trial.named(first.said, ["The whole log is in"])
    world.repair()
    world.next_message(first)
    world.finish()


@dataclass(frozen=True)
class OtherWay:
    """An engine that cannot run here, as ``log`` says, while another one is on this machine: it is "well", fails "too",
    or "breaks" in the first answer."""

    log: LogWay
    other: str


CANNOT_RUN_HERE = (
    "missing-library",
    "old-driver",
    "old-gpu",
    "old-cpu",
    "old-system",
    "no-backend",
    "blocked",
)
_ORDERS = {
    "well": Orders(bad=-1),
    "too": Orders(bad=0, at="load", how=1),
    "breaks": Orders(bad=1, at="chat", chat=2, tokens=20, how=-6),
}
OTHER_WAYS = tuple(
    OtherWay(log, other)
    for other in _ORDERS
    for log in [it for it in LOG_WAYS if it.cause in CANNOT_RUN_HERE and not it.drafter][:5]
)


def another_engine(trial: Trial, way: OtherWay) -> None:
    """The other engine takes over, aloud; where it fails as well, both are named."""
    log = way.log
    orders = Orders(bad=0, at="load", how=log.status, log=str(LOGS / f"{log.name}.log"))
    world = fake_world(trial, orders, system=log.system, other=_ORDERS[way.other])
    trial.fault()
    first = world.say("Are you there?")
    trial.wait(first.over.is_set, 40, "the page to give up or to answer")
    trial.recovered()
    status = world.settled()
    trial.named(status.steps[0], [log.said, OTHER])
    if way.other == "too":
        trial.check(NAMED, status.phase == "failed", f"two engines that always die: {status}")
        trial.named(status.remedy, [f"Tried in vain: {OTHER}"])
        world.repair()
    else:
        trial.check(NAMED, status.phase == "ready", f"{status.phase}: {status.error}")
        trial.named(" ".join(status.warnings), [f"The engine is {OTHER}: "])
    world.next_message(first)
    world.finish()
