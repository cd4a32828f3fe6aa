"""Choosing another model, in a real browser: the list, what stands against it, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Locator, expect
from playwright.sync_api import Page as Tab

from launcher.errors import BadInput
from tests.conftest import wait_until
from tests.webui.conftest import Visitor
from tests.webui.fake_lifecycle import a_plan
from tests.webui.fetch_rooms import MODELS, OFFER
from tests.webui.first_pages import Place, button, card_of, run_place
from tests.webui.test_page_looks import no_sideways_scroll

pytestmark = [pytest.mark.browser]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with ExitStack() as stack:
        yield run_place(stack, tmp_path_factory.mktemp("models"))


@pytest.fixture
def place(served: Place) -> Place:
    return served.renew()


def opened(tab: Tab) -> Locator:
    """The list on the card."""
    card_of(tab).get_by_text("Another model", exact=True).click()
    found = card_of(tab).get_by_role("list", name="Models")
    expect(found).to_be_visible()
    return found


def row(found: Locator, name: str) -> Locator:
    return found.locator(f'[data-model="{name}"]')


def test_the_list_tells_everything_and_hides_nothing(place: Place, visitor: Visitor) -> None:
    tab = visitor.visit(place.page)
    expect(card_of(tab).get_by_text("Another model", exact=True)).to_be_visible()
    assert not any(it.endswith("/bonsai/models") for it in visitor.requests), "nobody has asked for it"
    found = opened(tab)
    expect(row(found, "auto")).to_contain_text("AutomaticIn use")
    expect(found.locator("li")).to_have_count(len(MODELS.rows) + 1)
    for it, texts in zip(
        MODELS.rows,
        (
            ("Automatic", "9.1 GB to fetch", "trained for it (draft-dspark)", "Licence Apache-2.0"),
            ("2.3 GB, here already", "No drafter is published for this size"),
            ("3.8 GB and a file of unknown size, here, not checked yet", "Partly on the GPU."),
            ("5.9 GB to fetch", "Does not run here.", "it does not read groups of 128."),
        ),
        strict=True,
    ):
        for text in (it.label, it.says, *texts):
            expect(row(found, it.name)).to_contain_text(text)
        expect(row(found, it.name).get_by_role("button")).to_have_count(1 if it.runs else 0)
    assert place.room.calls == []


def test_what_is_chosen_is_offered_and_can_be_taken_back(place: Place, visitor: Visitor) -> None:
    tab = visitor.visit(place.page)
    other = visitor.visit(place.page)
    tab.bring_to_front()
    row(opened(tab), "ternary/8B").get_by_role("button", name="Use it: Ternary Bonsai 8B").click()
    expect(card_of(tab).get_by_role("heading", name="Get Ternary Bonsai 8B")).to_be_focused()
    assert place.room.calls == ["choose ternary/8B"]
    expect(card_of(tab).get_by_role("list", name="Models")).to_be_hidden()
    expect(tab.locator("#f-say")).to_have_text("Ternary Bonsai 8B is chosen from now on.")
    expect(card_of(other).get_by_role("heading", name="Get Ternary Bonsai 8B")).to_be_visible()
    found = opened(tab)
    expect(row(found, "ternary/8B")).to_contain_text("Chosen")
    expect(row(found, "ternary/8B").get_by_role("button")).to_have_count(0)
    row(found, "auto").get_by_role("button").click()
    expect(card_of(tab).get_by_role("heading", name="Get Ternary Bonsai 27B")).to_be_focused()
    assert place.room.calls == ["choose ternary/8B", "choose auto"]


def test_what_was_put_off_is_shown_again_when_it_is_chosen(place: Place, visitor: Visitor) -> None:
    tab = visitor.visit(place.page)
    button(tab, "Not now").click()
    expect(button(tab, "Show")).to_be_visible()
    tab.get_by_role("tab", name="Machine").click()
    models = tab.locator("#f-models")
    expect(models).to_contain_text("Ternary Bonsai 27B is taken automatically.")
    models.get_by_text("Another model", exact=True).click()
    row(models, "ternary/27B").get_by_role("button").click()
    expect(models).to_contain_text("Ternary Bonsai 27B was chosen.")
    tab.get_by_role("tab", name="Chat").click()
    expect(button(tab, "Fetch 9.3 GB")).to_be_visible()


def test_the_machine_tab_has_the_list_when_nothing_is_lacking(place: Place, visitor: Visitor) -> None:
    place.room.offered = None
    place.page.lifecycle.become(plan=a_plan(practice=False))
    tab = visitor.visit(place.page)
    expect(card_of(tab)).to_be_hidden()
    tab.get_by_role("tab", name="Machine").click()
    models = tab.locator("#f-models")
    models.get_by_text("Another model", exact=True).click()
    row(models, "ternary/8B").get_by_role("button").click()
    card = tab.locator("#f-machine .f-card")
    expect(card.get_by_role("heading", name="Get Ternary Bonsai 8B")).to_be_focused()
    running = place.page.lifecycle.status().plan
    assert running is not None
    expect(card).to_contain_text(f"until it is here, {running.resolved.target.label} answers.")


def test_while_something_is_fetched_it_asks_to_cancel_that(place: Place, visitor: Visitor) -> None:
    room = place.room
    tab = visitor.visit(place.page)
    button(tab, "Fetch 9.3 GB").click()
    expect(button(tab, "Pause")).to_be_visible()
    tab.get_by_role("tab", name="Machine").click()
    models = tab.locator("#f-models")
    models.get_by_text("Another model", exact=True).click()
    use = row(models, "ternary/8B").get_by_role("button")
    use.click()
    dialog = tab.get_by_role("dialog")
    expect(dialog).to_contain_text("Cancel fetching, and use Ternary Bonsai 8B?")
    dialog.get_by_role("button", name="Cancel", exact=True).click()
    expect(dialog).to_have_count(0)
    assert room.calls == ["begin"]
    use.click()
    dialog.get_by_role("button", name="Cancel fetching").click()
    wait_until(lambda: room.calls == ["begin", "cancel", "choose ternary/8B"], 5, "the choice")
    expect(tab.locator("#f-machine").get_by_role("heading", name="Get Ternary Bonsai 8B")).to_be_visible()


def test_what_the_server_refuses_is_said(place: Place, visitor: Visitor) -> None:
    tab = visitor.visit(place.page)
    found = opened(tab)
    place.room.problem = BadInput("The race has the engines.", "Wait for its end.")
    row(found, "ternary/8B").get_by_role("button").click()
    expect(tab.locator(".b-toast.bad")).to_contain_text("The race has the engines. Wait for its end.")
    expect(row(found, "ternary/8B").get_by_role("button")).to_be_enabled()
    assert place.room.calls == []
    visitor.errors.clear()  # the refusal itself is noted by the browser's console


def test_what_comes_first_is_said_and_nothing_can_be_chosen(place: Place, visitor: Visitor) -> None:
    place.room.listed = replace(MODELS, fixed="BONSAI_MODEL asks for 4B, and comes before what is chosen.")
    tab = visitor.visit(place.page)
    found = opened(tab)
    expect(card_of(tab)).to_contain_text("BONSAI_MODEL asks for 4B, and comes before what is chosen.")
    expect(row(found, "ternary/8B")).to_contain_text("2.3 GB, here already")
    expect(found.get_by_role("button")).to_have_count(0)


def test_it_works_by_keyboard_and_on_a_small_screen(place: Place, browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 400, "height": 800})
    tab = context.new_page()
    tab.goto(place.page.url)
    tab.wait_for_function("document.documentElement.dataset.ready === 'yes'", timeout=60_000)
    summary = card_of(tab).get_by_text("Another model", exact=True)
    summary.focus()
    tab.keyboard.press("Enter")
    found = card_of(tab).get_by_role("list", name="Models")
    expect(found).to_be_visible()
    assert no_sideways_scroll(tab)
    tab.keyboard.press("Tab")
    expect(row(found, "ternary/27B").get_by_role("button")).to_be_focused()
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    expect(card_of(tab).get_by_role("heading", name="Get Ternary Bonsai 8B")).to_be_focused()
    assert OFFER.title != "Ternary Bonsai 8B"
    context.close()
