"""A page on which a model can be fetched, or so it is told: nothing is."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Locator
from playwright.sync_api import Page as Tab

from tests.conftest import wait_until
from tests.webui.conftest import Running, run_page
from tests.webui.fake_lifecycle import a_plan
from tests.webui.fetch_rooms import Room
from webui.state import Row


@dataclass
class Place:
    """One page for all tests of a file. ``rows``: what the page is told of the machine."""

    page: Running
    room: Room
    rows: list[Row]

    def renew(self) -> Place:
        """As it was at first."""
        fresh = Room()
        self.room.offered, self.room.problem, self.room.now = fresh.offered, None, fresh.now
        self.room.listed = fresh.listed
        self.room.calls.clear()
        self.rows[:] = [Row("GPU", "an NVIDIA card, 24 GiB"), Row("Memory", "64 GiB"), Row("System", "Linux")]
        self.page.lifecycle.plan = a_plan()
        self.page.lifecycle.become(phase="ready", message="Ready.", plan=a_plan(), error="", remedy="")
        return self


def run_place(stack: ExitStack, folder: Path) -> Place:
    """Start it; ``stack`` ends it."""
    room, rows = Room(), list[Row]()
    given = {"fetching": room, "look": lambda: tuple(rows)}
    page = run_page(stack, folder, page=given, text="Fine.", rate=300)
    wait_until(lambda: page.ready, 60, "the page")
    return Place(page, room, rows)


def card_of(tab: Tab) -> Locator:
    """The card in the chat."""
    return tab.locator("#f-chat .f-card")


def button(tab: Tab, name: str) -> Locator:
    """A button of the card in the chat."""
    return card_of(tab).get_by_role("button", name=name, exact=True)


def strip_of(tab: Tab) -> Locator:
    """The line at the top of every tab."""
    return tab.locator(".f-strip")
