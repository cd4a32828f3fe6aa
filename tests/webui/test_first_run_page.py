"""Getting a model, in a real browser: the offer, consent, progress, and what can go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from launcher.errors import NetworkProblem
from tests.conftest import wait_until
from tests.webui.conftest import Visitor, answered, ask
from tests.webui.fake_lifecycle import a_plan
from tests.webui.fetch_rooms import ENGINE, FOUND, HERE, OFFER, TOTAL, WEIGHTS
from tests.webui.first_pages import Place, button, card_of, run_place, strip_of

pytestmark = [pytest.mark.browser]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with ExitStack() as stack:
        yield run_place(stack, tmp_path_factory.mktemp("first"))


@pytest.fixture
def place(served: Place) -> Place:
    return served.renew()


def test_the_offer_says_everything_before_anybody_agrees(place: Place, visitor: Visitor) -> None:
    tab = visitor.visit(place.page)
    card = card_of(tab)
    expect(card.get_by_role("heading", name="Get Ternary Bonsai 27B")).to_be_visible()
    for text in (
        "Nothing is fetched before you press the button; until it is here, the practice pair answers.",
        "GPU: an NVIDIA card, 24 GiB",
        "The build for CUDA 12.8: the driver supports 12.9.",
        "Trained for exactly these weights",
        "Ternary-Bonsai-27B-Q2_0.gguf",
        "7.2 GB",
        "From huggingface.co/prism-ml/Ternary-Bonsai-27B-gguf",
        "9.9 GB needed, 212 GB free.",
        OFFER.folder,
        OFFER.memory,
        f"Licence of the model: {OFFER.licence}",
        OFFER.offers[0],
    ):
        expect(card).to_contain_text(text)
    left_out = card.get_by_text("What was left out, and why")
    expect(card.get_by_text("the frozen Prism build does not read groups of 64")).to_be_hidden()
    left_out.click()
    expect(card.get_by_text("the frozen Prism build does not read groups of 64")).to_be_visible()
    expect(strip_of(tab)).to_be_hidden()
    # The practice pair answers meanwhile, and the conversation then has the room for itself.
    ask(tab, "Hello")
    answered(tab)
    expect(card).to_be_hidden()
    assert place.room.calls == []


def test_fetching_from_consent_to_use(place: Place, visitor: Visitor) -> None:
    room = place.room
    tab = visitor.visit(place.page)
    button(tab, "Fetch 9.3 GB").click()
    wait_until(lambda: room.calls == ["begin"], 5, "the consent")
    expect(button(tab, "Pause")).to_be_focused()
    room.came("weights", 2_765_121_600)
    card = card_of(tab)
    row = card.locator("li", has_text="Ternary-Bonsai-27B-Q2_0.gguf")
    expect(row.locator(".f-state")).to_have_text("2.77 of 7.17 GB · 84 MB/s · about 50 s left")
    bar = row.get_by_role("progressbar")
    expect(bar).to_have_attribute("aria-valuetext", "2.77 of 7.17 GB · 84 MB/s · about 50 s left")
    assert bar.evaluate("it => it.position") == pytest.approx(2_765_121_600 / 7_165_121_600)
    expect(card.locator(".f-total")).to_contain_text("29 %")
    expect(strip_of(tab)).to_contain_text("Getting Ternary Bonsai 27B · 29 % · 84 MB/s · about 80 s left")
    for state, text in (
        ("checking", "Checking what is here already"),
        ("unpacking", "Unpacking"),
        ("proving", "Trying it once on this machine"),
    ):
        room.came("engine", 218_400_000, state=state)
        expect(card.locator("li", has_text=ENGINE.name).locator(".f-state")).to_contain_text(text)
    room.came("engine", 218_400_000, state="running", note="trying again in 12 s")
    expect(card).to_contain_text("trying again in 12 s")
    button(tab, "Pause").click()
    expect(button(tab, "Resume")).to_be_focused()
    expect(row.locator(".f-state")).to_have_text("Paused · 2.77 of 7.17 GB")
    expect(strip_of(tab)).to_have_attribute("data-phase", "paused")
    button(tab, "Resume").click()
    expect(button(tab, "Pause")).to_be_focused()
    room.done()
    expect(card.get_by_role("heading", name="Ternary Bonsai 27B is ready")).to_be_visible()
    expect(row.locator(".f-state")).to_have_text("7.2 GB · checked")
    button(tab, "Use it now").click()
    wait_until(lambda: room.calls == ["begin", "pause", "resume", "use"], 5, "the wish to use it")
    place.page.lifecycle.become(phase="starting", message="Loading …")
    expect(button(tab, "Starting …")).to_be_disabled()
    expect(strip_of(tab)).to_contain_text("is being started")
    place.page.lifecycle.become(phase="ready", message="Ready.", plan=a_plan(practice=False))
    expect(card).to_be_hidden()
    expect(strip_of(tab)).to_be_hidden()


def test_an_open_page_is_not_built_anew_by_progress(place: Place, visitor: Visitor) -> None:
    """Whatever is in focus, open or selected stays while figures change."""
    room = place.room
    tab = visitor.visit(place.page)
    button(tab, "Fetch 9.3 GB").click()
    expect(button(tab, "Pause")).to_be_enabled()
    room.came("weights", 1_000_000_000)
    expect(card_of(tab).locator(".f-state").nth(1)).to_contain_text("1.00 of 7.17 GB")
    tab.evaluate("window.kept = [...document.querySelectorAll('#f-chat .f-card *')]")
    for have in range(2, 6):
        room.came("weights", have * 1_000_000_000)
    expect(card_of(tab).locator(".f-state").nth(1)).to_contain_text("5.00 of 7.17 GB")
    assert tab.evaluate("window.kept.every((it) => it.isConnected)")
    expect(button(tab, "Pause")).to_be_focused()


def test_cancelling_asks_and_keeps(place: Place, visitor: Visitor) -> None:
    room = place.room
    tab = visitor.visit(place.page)
    button(tab, "Fetch 9.3 GB").click()
    button(tab, "Cancel").click()
    expect(tab.get_by_role("dialog")).to_contain_text("What came so far is kept")
    tab.get_by_role("dialog").get_by_role("button", name="Cancel", exact=True).click()
    assert room.calls == ["begin"]
    button(tab, "Cancel").click()
    half = replace(OFFER, to_fetch=TOTAL - 3_000_000_000)
    room.offered = replace(half, items=tuple(
        replace(it, have=3_000_000_000) if it.part == "weights" else it for it in half.items
    ))  # fmt: skip
    tab.get_by_role("dialog").get_by_role("button", name="Cancel fetching").click()
    expect(card_of(tab)).to_contain_text("What came so far is kept, and fetching goes on from there.")
    expect(card_of(tab)).to_contain_text("7.2 GB, 3.0 GB of it here already")
    button(tab, "Fetch 6.3 GB").click()
    wait_until(lambda: room.calls == ["begin", "cancel", "begin"], 5, "another start")


def test_a_failure_is_told_with_its_remedy_and_can_be_tried_again(place: Place, visitor: Visitor) -> None:
    room = place.room
    tab = visitor.visit(place.page)
    button(tab, "Fetch 9.3 GB").click()
    expect(button(tab, "Pause")).to_be_enabled()
    room.came("weights", 2_000_000_000, state="failed")
    room.become(phase="failed", error="The connection was cut.", remedy="Check the network.")
    alert = card_of(tab).get_by_role("alert")
    expect(alert).to_contain_text("The connection was cut.")
    expect(alert).to_contain_text("Check the network.")
    expect(card_of(tab).locator("[data-state=failed] .f-state")).to_have_text(
        "Not complete · 2.00 of 7.17 GB"
    )
    expect(strip_of(tab)).to_contain_text("is not complete: The connection was cut.")
    button(tab, "Not now").click()
    expect(alert).to_be_hidden()
    expect(strip_of(tab)).to_be_hidden()
    button(tab, "Show").click()
    button(tab, "Try again").click()
    wait_until(lambda: room.calls == ["begin", "retry"], 5, "another try")
    expect(alert).to_have_count(0)
    expect(button(tab, "Pause")).to_be_visible()


def test_what_was_found_is_checked_behind_the_page_and_can_be_stopped(place: Place, visitor: Visitor) -> None:
    room = place.room
    room.offered = replace(OFFER, items=(replace(ENGINE, state="done"), FOUND), to_fetch=0, disk_needed=None)
    room.now = replace(room.now, items=(FOUND,), total=FOUND.total, phase="checking")
    tab = visitor.visit(place.page)
    room.came("weights", 2_940_000_000, state="checking", rate=500e6, left_s=8.4)
    words = f"Checking {FOUND.name}: 41 % · 500 MB/s · a few seconds left"
    expect(strip_of(tab)).to_contain_text(words)
    card = card_of(tab)
    expect(card.get_by_role("heading", name="Checking Ternary Bonsai 27B")).to_be_visible()
    expect(card.locator(".f-total")).to_contain_text("41 %")
    expect(card.locator("li .f-state")).to_have_text("2.94 of 7.17 GB · 500 MB/s · a few seconds left")
    expect(card).to_contain_text(f"Lies at {FOUND.where}")
    expect(card.get_by_role("progressbar").first).to_have_attribute("aria-label", "Checked of everything")
    expect(button(tab, "Pause")).to_have_count(0)
    ask(tab, "Hello")  # the practice pair answers meanwhile
    answered(tab)
    expect(strip_of(tab)).to_contain_text(words)
    tab.click("#b-new")
    button(tab, "Stop").click()
    wait_until(lambda: room.calls == ["cancel"], 5, "the stop")  # without a question: nothing is lost
    room.become(phase="idle", items=(), total=None, have=0)
    expect(card.get_by_role("heading", name="Use Ternary Bonsai 27B")).to_be_visible()
    expect(card).to_contain_text("7.2 GB · here, not checked yet")
    expect(strip_of(tab)).to_be_hidden()
    button(tab, "Check it").click()
    wait_until(lambda: room.calls == ["cancel", "begin"], 5, "the wish to check it")


def test_what_the_server_refuses_is_said(place: Place, visitor: Visitor) -> None:
    tab = visitor.visit(place.page)
    expect(button(tab, "Fetch 9.3 GB")).to_be_visible()
    place.room.problem = NetworkProblem("There is no network.", "Connect it.")
    button(tab, "Fetch 9.3 GB").click()
    expect(tab.locator(".b-toast.bad")).to_contain_text("There is no network. Connect it.")
    expect(button(tab, "Fetch 9.3 GB")).to_be_enabled()
    visitor.errors.clear()  # the refusal itself is noted by the browser's console


def test_not_now_is_remembered_and_can_be_taken_back(place: Place, visitor: Visitor) -> None:
    tab = visitor.visit(place.page)
    button(tab, "Not now").click()
    expect(card_of(tab)).to_have_text("Ternary Bonsai 27B can be fetched: 9.3 GB.Show")
    expect(button(tab, "Show")).to_be_focused()
    tab.reload()
    expect(button(tab, "Show")).to_be_visible(timeout=30_000)
    expect(button(tab, "Fetch 9.3 GB")).to_have_count(0)
    button(tab, "Show").click()
    expect(button(tab, "Fetch 9.3 GB")).to_be_visible()


def test_too_small_a_disk_stops_it_and_little_memory_is_said(place: Place, visitor: Visitor) -> None:
    place.room.offered = replace(
        OFFER,
        items=(ENGINE, HERE, OFFER.items[2]),
        to_fetch=TOTAL - (WEIGHTS.total or 0),
        disk_ok=False,
        disk_free=2_000_000_000,
        memory_ok=False,
        memory="It needs more than there is.",
        notices=("The driver is old.",),
    )
    tab = visitor.visit(place.page)
    card = card_of(tab)
    expect(button(tab, "Fetch 2.2 GB")).to_be_disabled()
    for text in ("Not enough space", "Make room for 7.9 GB more", "Not all of it fits", "The driver is old.",
                 "It needs more than there is.", "of 9.3 GB; the rest is here already",
                 "Used where it is /data/models/x.gguf", "7.2 GB · here already"):  # fmt: skip
        expect(card).to_contain_text(text)
    nameless = tuple(
        replace(it, total=None, where="/engines/x") if it.part == "engine" else it for it in OFFER.items
    )
    place.room.offered = replace(OFFER, items=nameless, disk_ok=False)
    button(tab, "Look again").click()
    expect(card).to_contain_text("3 files; the size of 1 is not known yet")
    expect(card).to_contain_text("Goes to /engines/x")
    place.room.offered = replace(OFFER, disk_about=True, disk_free=9_900_000_000)
    button(tab, "Look again").click()
    expect(card).to_contain_text("Perhaps not enough space")
    expect(card).to_contain_text("About 9.9 GB needed, 9.9 GB free")
    expect(button(tab, "Fetch 9.3 GB")).to_be_enabled()
    place.room.offered = replace(OFFER, offline="BONSAI_OFFLINE is set, so nothing can be fetched.")
    tab.reload()
    expect(card).to_contain_text("BONSAI_OFFLINE is set")
    expect(button(tab, "Fetch 9.3 GB")).to_be_disabled()
    place.room.offered = OFFER
    button(tab, "Look again").click()
    expect(button(tab, "Fetch 9.3 GB")).to_be_enabled()


def test_the_machine_tab_has_it_too_and_the_line_leads_there(place: Place, visitor: Visitor) -> None:
    room = place.room
    tab = visitor.visit(place.page)
    button(tab, "Fetch 9.3 GB").click()
    ask(tab, "Hello")
    answered(tab)
    room.came("weights", 4_000_000_000)
    for name in ("Race", "Chat"):
        tab.get_by_role("tab", name=name).click()
        expect(strip_of(tab)).to_be_visible()
        # It takes its place from nobody.
        assert tab.evaluate("document.documentElement.scrollHeight <= innerHeight")
    strip_of(tab).click()
    machine = tab.locator("#f-machine")
    expect(machine.get_by_role("heading", name="Models and engines")).to_be_visible()
    expect(machine.get_by_role("heading", name="Getting Ternary Bonsai 27B")).to_be_focused()
    machine.get_by_role("button", name="Pause").click()
    wait_until(lambda: room.calls == ["begin", "pause"], 5, "the pause")
    expect(machine.get_by_role("button", name="Resume")).to_be_visible()
    # Nothing to fetch, nothing to see.
    room.offered = None
    room.become(phase="cancelled")
    expect(machine).to_be_hidden()
    expect(strip_of(tab)).to_be_hidden()
    visitor.errors.clear()  # nothing can be raced on this page, which its Race tab says


def test_settings_that_fit_nothing_are_told_on_the_machine_tab(place: Place, visitor: Visitor) -> None:
    place.room.problem = NetworkProblem("These parts do not fit.", "Choose others.")
    tab = visitor.visit(place.page)
    tab.get_by_role("tab", name="Machine").click()
    expect(tab.locator("#f-machine").get_by_role("alert")).to_have_text(
        "These parts do not fit. Choose others."
    )
    place.room.problem = None
    tab.locator("#f-machine").get_by_role("button", name="Look again").click()
    expect(tab.locator("#f-machine").get_by_role("button", name="Fetch 9.3 GB")).to_be_visible()


def test_a_page_opened_meanwhile_sees_how_it_stands(place: Place, visitor: Visitor) -> None:
    place.room.begin()
    place.room.came("weights", 3_000_000_000)
    tab = visitor.visit(place.page)
    expect(card_of(tab).locator(".f-total")).to_contain_text("32 %")
    place.room.done()
    tab.reload()
    expect(button(tab, "Use it now")).to_be_visible(timeout=30_000)
    expect(card_of(tab).get_by_role("heading", level=2)).to_have_text("The model is ready")
