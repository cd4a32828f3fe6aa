"""Another model on the page: what runs goes on until the files of the other are here, and nothing is changed under
a fetch or a measurement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from launcher import catalog
from launcher.choose_model import named
from launcher.chosen import Chosen
from launcher.errors import BadInput, FolderError
from launcher.fetch_page import Fetching
from launcher.shelf import place_of
from launcher.verified import Verified
from tests.conftest import wait_until
from tests.fakes.file_server import sha256
from tests.launcher.fetch_world import World, slow, some_of, wait_for, world

pytestmark = pytest.mark.system("posix")  # the engines of these tests are shell scripts


@dataclass
class Page:
    net: World
    chosen: Chosen
    job: Fetching
    started: list[str]
    measuring: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        offer = self.job.offer()
        return offer.title if offer else ""

    def bring(self) -> None:
        """Fetch what is offered."""
        self.job.begin()
        wait_until(lambda: self.started, 20, "the start with it")

    def put(self, name: str) -> None:
        """The weights of a model lie here in every format, and were read."""
        for weights in named(self.net.settings(), name, catalog.load()).weights:
            place = place_of(self.net.paths, weights.file)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(self.net.weights[1])
            Verified(self.net.paths.data).remember(place, weights.file.sha256 or sha256(self.net.weights[1]))


@pytest.fixture
def page(home: Path) -> Iterator[Page]:
    with world(home.parent) as net:
        started: list[str] = []
        measuring: list[str] = []
        # One engine for all, so that what lacks is a model.
        chosen = Chosen(net.settings(engine=net.files.choice.line.name), net.paths)
        job = Fetching(
            chosen,
            net.paths,
            net.env,
            lambda: net.machine,
            lambda: started.append(chosen.in_use().model.value),
            lambda: measuring[0] if measuring else "",
        )
        net.jobs.append(job)
        yield Page(net, chosen, job, started, measuring)


def test_where_nothing_is_here_another_is_offered_and_what_stands_in_says_so(page: Page) -> None:
    assert page.title == "Ternary Bonsai 27B"
    told: list[int] = []
    page.job.on_change(lambda state: told.append(state.choices))
    page.job.choose("bonsai/8B")
    assert page.title == "Bonsai 8B (1-bit)"
    assert page.started == ["8B"]
    assert told[-1] == 1
    assert page.job.state().phase == "idle"
    assert page.net.sent() == 0, "a choice is no consent"
    page.job.choose("auto")
    assert (page.title, page.started) == ("Ternary Bonsai 27B", ["8B", "auto"])
    assert page.net.paths.config_file.read_text() == ""


def test_what_runs_goes_on_until_the_other_is_here(page: Page) -> None:
    page.bring()
    assert page.started == ["auto"]
    page.job.choose("8B")
    assert page.title == "Ternary Bonsai 8B"
    assert page.chosen.in_use().model.value == "auto"
    assert page.started == ["auto"], "nothing is restarted for what is not here"
    page.job.use()
    assert page.started == ["auto", "auto"]
    assert [row.name for row in page.job.models().rows if row.chosen] == ["ternary/8B"]
    page.job.choose("27B")
    assert page.started == ["auto", "auto"], "it runs already"
    assert page.title == ""


def test_what_is_here_is_started_at_once(page: Page) -> None:
    page.bring()
    page.put("8B")
    page.job.choose("8B")
    assert (page.started, page.title) == (["auto", "8B"], "")
    page.job.choose("4B")
    assert (page.started, page.title) == (["auto", "8B"], "Ternary Bonsai 4B")
    page.job.choose("auto")
    assert (page.started, page.title) == (["auto", "8B", "auto"], "")


def test_nothing_is_changed_while_something_is_fetched(page: Page) -> None:
    slow(page.net)
    page.job.begin()
    some_of(page.job, "weights")
    with pytest.raises(BadInput, match="being fetched") as caught:
        page.job.choose("8B")
    assert caught.value.remedy == "Cancel that first."
    assert not page.net.paths.config_file.exists()
    page.job.cancel()
    wait_for(page.job, "cancelled")
    page.job.choose("8B")
    state = page.job.state()
    assert (state.phase, state.items, page.title) == ("idle", (), "Ternary Bonsai 8B")


def test_what_is_fetched_is_what_was_chosen_last(page: Page) -> None:
    page.job.choose("8B")
    page.job.begin()
    state = wait_for(page.job, "failed")  # the hub has it not
    assert any("Ternary-Bonsai-8B" in item.name for item in state.items), state
    page.job.choose("auto")
    page.job.begin()
    wait_for(page.job, "done")


def test_nothing_is_changed_while_something_is_measured(page: Page) -> None:
    page.measuring.append("race")
    with pytest.raises(BadInput, match="The race has the engines"):
        page.job.choose("8B")
    assert not page.net.paths.config_file.exists()
    assert page.started == []


def test_a_choice_that_cannot_be_kept_changes_nothing(page: Page) -> None:
    page.net.paths.config_file.mkdir(parents=True)
    with pytest.raises(FolderError, match="cannot be written"):
        page.job.choose("8B")
    assert page.title == "Ternary Bonsai 27B"
    assert page.started == []
    page.job.begin()  # and what can be done otherwise still can
    wait_for(page.job, "done")
