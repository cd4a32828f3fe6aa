"""A page with two paced engines behind it: one plain, one that drafts, each as fast as a test wants it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Page as Tab

from launcher.methods import PLAIN, Method, Offer
from launcher.plan import LaunchPlan, make_plan
from launcher.race_store import RaceStore
from launcher.settings import resolve
from tests import plans
from tests.webui.conftest import Visitor
from tests.webui.memory import Memory
from tests.webui.two_engines import TwoEngines, run_both
from webui.state import RaceRoom

DSPARK = Method("draft-dspark", 4)
SHORT = Method("draft-dspark", 2)
OFFERS = (
    Offer(PLAIN),
    Offer(SHORT),
    Offer(DSPARK),
    Offer(Method("ngram-mod"), "This llama-server (b1) cannot do ngram-mod."),
)


@dataclass
class Track(TwoEngines):
    """``races`` are the kept ones."""

    races: RaceStore
    memory: Memory


def race_plans(a: Method, b: Method) -> tuple[LaunchPlan, LaunchPlan]:
    first, second = (make_plan(resolve({}, {}), plans.MACHINE, plans.resolved(), method) for method in (a, b))
    return first, second


def run_track(
    stack: ExitStack, folder: Path, *, drafting: dict[str, Any] | None = None, **engine: Any
) -> Track:
    """Start it; ``engine`` is for both, ``drafting`` only for the one that drafts (fields of PacedConfig)."""
    races = RaceStore(folder / "data")
    room = RaceRoom(races, lambda: OFFERS, lambda: (PLAIN, DSPARK), race_plans, lambda: plans.MACHINE)
    memory = Memory()
    given = {"races": room, "learned": memory}
    both = run_both(stack, folder, 600, page=given, drafting=drafting, **engine)
    return Track(**vars(both), races=races, memory=memory)


def open_tab(track: Track, visitor: Visitor) -> Tab:
    """A visitor on the Race tab, ready to start."""
    tab = visitor.visit(track.page)
    tab.get_by_role("tab", name="Race").click()
    tab.wait_for_selector(".r-go")
    return tab


def choose(tab: Tab, *, rounds: int = 2, tokens: int = 60) -> None:
    """Set the conditions; few rounds and tokens keep tests short."""
    tab.evaluate("document.querySelectorAll('#r-setup details').forEach((it) => { it.open = true; })")
    tab.locator(".r-rounds").select_option(str(rounds))
    tab.locator(".r-tokens").fill(str(tokens))


def race(tab: Tab, **conditions: Any) -> None:
    """Run one and wait for its verdict."""
    choose(tab, **conditions)
    tab.click(".r-go")
    tab.wait_for_selector(".r-verdict", timeout=60_000)
