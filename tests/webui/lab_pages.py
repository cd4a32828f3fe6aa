"""A page with a lab room over two paced engines: one plain, one that drafts, each as fast as a test wants it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from playwright.sync_api import Page as Tab

from launcher.lab_page import LabPlanner
from launcher.lab_setup import Parts, subject_of
from launcher.lab_store import LabStore
from launcher.methods import PLAIN
from launcher.paths import Paths
from launcher.plan import make_plan
from launcher.settings import resolve
from tests import plans
from tests.webui.conftest import Visitor
from tests.webui.memory import Memory
from tests.webui.two_engines import TwoEngines, run_both

# What a browser asks for.
DSPARK = {"type": "draft-dspark", "length": 4, "p_min": None, "draft_on": None}
TABLE = {"type": "ngram-simple", "length": None, "p_min": None, "draft_on": None}
ASKED: dict[str, Any] = {
    "preset": "quick",
    "kinds": ["code"],
    "language": "it",
    "methods": [DSPARK, TABLE],
    "temperatures": [0],
    "tokens": 12,
    "runs": 1,
    "minutes": 3,
}
TYPES = frozenset({"none", "draft-dspark", "draft-simple", "ngram-simple"})


class Planner(LabPlanner):
    """The page's own planner, on parts that are not on this machine."""

    def __init__(self, folder: Path) -> None:
        self._of = resolve({}, {})
        super().__init__(lambda: self._of, Paths(folder, folder, folder), {}, lambda: plans.MACHINE)
        self.engine = replace(plans.ENGINE, spec_types=TYPES)

    def parts(self) -> Parts:
        resolved = plans.resolved(engine=self.engine)
        plain = make_plan(self._of, plans.MACHINE, resolved, PLAIN)
        return Parts(self._of, plans.MACHINE, resolved, subject_of(plain, plans.MACHINE))


@dataclass
class Bench(TwoEngines):
    """``labs`` are the kept ones."""

    labs: LabStore
    planner: Planner
    memory: Memory


def run_bench(
    stack: ExitStack, folder: Path, *, drafting: dict[str, Any] | None = None, **engine: Any
) -> Bench:
    """Start it; ``engine`` is for both, ``drafting`` only for the one that drafts (fields of PacedConfig)."""
    planner, memory = Planner(folder / "data"), Memory()
    given = {"lab": planner, "learned": memory}
    both = run_both(stack, folder, 800, page=given, drafting=drafting, **engine)
    return Bench(**vars(both), labs=planner.store, planner=planner, memory=memory)


def open_tab(bench: Bench, visitor: Visitor) -> Tab:
    """A visitor on the Lab tab, ready to start."""
    tab = visitor.visit(bench.page)
    tab.get_by_role("tab", name="Lab").click()
    tab.wait_for_selector("#l-setup .r-go, .l-running", state="attached")
    return tab


def choose(tab: Tab, *, tokens: int = 24, runs: int = 1) -> None:
    """Few tokens and answers keep tests short."""
    tab.evaluate("document.querySelector('.l-more').open = true")
    tab.get_by_label("Tokens of an answer").fill(str(tokens))
    tab.get_by_label("Answers of each").select_option(str(runs))
