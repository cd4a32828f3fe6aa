"""When the engine has a problem: what is tried shows as it happens, and there is always something to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import httpx
import pytest
from playwright.sync_api import Browser, expect
from playwright.sync_api import Page as Tab

from launcher.lifecycle import Status
from tests.conftest import wait_until
from tests.webui.conftest import TOKEN, Running, Visitor, answered, ask, run_page
from tests.webui.fake_lifecycle import a_plan
from webui.views import status_view

FULL = "The GPU's memory is full."
STEPS = (f"{FULL} Trying without the drafter …", "That did not help. Trying a context of 8192 tokens …")
OFF = f"Speculation off: {FULL}"
REPORT = "# Bonsai Launcher 0.0.test\n\nState: failed. <b>It is full.</b>\n"
FAILED = {
    "phase": "failed",
    "message": FULL,
    "error": FULL,
    "remedy": "Close other programs. Tried in vain: without the drafter. The whole log is in engine.log.",
    "cause": "gpu-memory",
    "steps": STEPS,
    "pid": None,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("trouble")
        page = run_page(stack, folder, text="Fine.", rate=200, page={"report": lambda: REPORT})
        wait_until(lambda: page.ready, 60, "the page")
        yield page


@pytest.fixture
def page(whole: Running) -> Running:
    """The page as it was at first."""
    fresh = Status("ready", "Ready.", a_plan(), speculative=True, log_path="engine.log")
    whole.lifecycle.become(**{name: getattr(fresh, name) for name in fresh.__dataclass_fields__})
    whole.lifecycle.started.clear()
    return whole


@pytest.fixture
def client(page: Running) -> Iterator[httpx.Client]:
    with page.client(headers={"X-Bonsai-Token": TOKEN}) as client:
        yield client


@pytest.fixture
def tab(page: Running, visitor: Visitor) -> Tab:
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=page.url)
    return visitor.visit(page)


def clipboard(tab: Tab) -> str:
    return str(tab.evaluate("navigator.clipboard.readText()"))


# -- routes ---------------------------------------------------------------------------------------------------


def test_log_and_report_are_for_this_runs_page_alone(page: Running, client: httpx.Client) -> None:
    log = client.get("/bonsai/log").json()
    assert log == {"path": "engine.log", "text": page.lifecycle.log_tail()}
    assert client.get("/bonsai/report").json() == {"text": REPORT}
    with page.client() as stranger:
        for path in ("/bonsai/log", "/bonsai/report"):
            assert stranger.get(path).status_code == 403


def test_a_page_without_reports_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    with ExitStack() as stack:
        bare = run_page(stack, tmp_path_factory.mktemp("bare"))
        wait_until(lambda: bare.ready, 60, "the page")
        with bare.client(headers={"X-Bonsai-Token": TOKEN}) as client:
            answer = client.get("/bonsai/report")
    assert answer.status_code == 400
    assert answer.json()["error"] == "This page makes no reports."


def test_where_the_log_lies_stands_with_the_log() -> None:
    failed = Status("failed", FULL, log_path="engine.log", error=FULL, remedy=str(FAILED["remedy"]))
    assert status_view(failed)["remedy"] == "Close other programs. Tried in vain: without the drafter."
    elsewhere = replace(failed, remedy="Read /tmp/other.log.")
    assert status_view(elsewhere)["remedy"] == "Read /tmp/other.log."


# -- in a browser ---------------------------------------------------------------------------------------------


@pytest.mark.browser
def test_the_ladder_shows_as_it_happens(page: Running, tab: Tab) -> None:
    region = tab.locator("#b-trouble")
    expect(region).to_have_attribute("aria-live", "polite")
    expect(region).to_be_empty()
    page.lifecycle.become(phase="starting", message=STEPS[0], steps=STEPS[:1], pid=None)
    steps = region.locator("li")
    expect(steps).to_have_text([STEPS[0]])
    tab.evaluate("window.firstStep = document.querySelector('#b-trouble li')")
    page.lifecycle.become(message="Loading the model … 2 s")
    expect(steps.locator("small")).to_have_text("Loading the model … 2 s")
    expect(steps.locator("small")).to_have_attribute("aria-hidden", "true")
    page.lifecycle.become(message=STEPS[1], steps=STEPS)
    expect(steps).to_have_text(list(STEPS))
    assert tab.evaluate("window.firstStep.isConnected"), "what was read out already stays as it is"
    expect(region.locator("[aria-current=step]")).to_have_text(STEPS[1])
    page.lifecycle.become(phase="ready", message="Ready.")


@pytest.mark.browser
@pytest.mark.case("A-08")
def test_what_was_changed_stays_on_show_until_it_is_put_away(page: Running, tab: Tab) -> None:
    page.lifecycle.become(steps=STEPS, warnings=(OFF, f"The context is 8192 tokens only: {FULL}"))
    note = tab.locator("#b-trouble")
    expect(note).to_contain_text("The engine runs, but not quite as asked:")
    expect(note.locator("li")).to_have_text([f"Speculation off. The context is 8192 tokens only: {FULL}"])
    note.get_by_role("button", name="Put this note away").click()
    expect(note).to_be_empty()
    page.lifecycle.become(busy_with="chat")
    expect(tab.locator("#b-status")).to_have_attribute("title", "Ready. · own b1 · dspark 4 · busy: chat")
    expect(note).to_be_empty()
    tab.reload()
    tab.wait_for_function("document.documentElement.dataset.ready === 'yes'")
    expect(note).to_be_empty()
    page.lifecycle.become(warnings=(OFF,))
    expect(note.locator("li")).to_have_text([OFF])


@pytest.mark.browser
def test_a_restart_without_a_change_and_a_warning_without_a_restart(page: Running, tab: Tab) -> None:
    page.lifecycle.become(steps=("It crashed. Starting it again …",))
    expect(tab.locator("#b-trouble")).to_contain_text("The engine had a problem and works again:It crashed.")
    page.lifecycle.become(steps=(), warnings=("The engine's answer to a test question is empty.",))
    expect(tab.locator("#b-trouble")).to_contain_text("The engine runs, but:The engine's answer")


@pytest.mark.browser
def test_nothing_helped_and_three_ways_on(page: Running, tab: Tab) -> None:
    page.lifecycle.become(**FAILED)
    alert = tab.get_by_role("alert")
    expect(alert).to_contain_text(f"{FULL} Close other programs. Tried in vain: without the drafter.")
    expect(tab.locator("#b-trouble")).to_be_empty()
    alert.get_by_text("What was tried").click()
    expect(alert.locator("li")).to_have_text(list(STEPS))

    alert.get_by_role("button", name="Copy report").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog).to_contain_text("It is copied: paste it where you ask for help.")
    expect(dialog.locator("pre")).to_have_text(REPORT)
    assert clipboard(tab) == REPORT
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)

    alert.get_by_role("button", name="Open log").click()
    expect(dialog).to_contain_text("engine.log")
    expect(dialog.locator("pre")).to_contain_text("<b>one line</b>")
    dialog.get_by_role("button", name="Copy", exact=True).click()
    wait_until(lambda: clipboard(tab) == page.lifecycle.log_tail(), 5, "the log on the clipboard")
    tab.keyboard.press("Escape")
    expect(dialog).to_have_count(0)

    alert.get_by_role("button", name="Retry").click()
    expect(alert).to_have_count(0)
    assert page.lifecycle.started == [None]


@pytest.mark.browser
def test_a_report_is_copied_where_the_browser_has_no_clipboard_for_us(page: Running, tab: Tab) -> None:
    """As on a page that another machine opens: HTTP is no secure context."""
    tab.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    tab.evaluate("document.addEventListener('copy', () => { window.copied = String(getSelection()) || "
                 "document.activeElement.value.slice(0); })")  # fmt: skip
    page.lifecycle.become(**FAILED)
    tab.get_by_role("button", name="Copy report").click()
    tab.get_by_role("dialog").get_by_role("button", name="Copy").click()
    tab.wait_for_function("window.copied")
    assert tab.evaluate("window.copied") == REPORT


@pytest.mark.browser
def test_without_a_log_none_is_offered(page: Running, tab: Tab) -> None:
    page.lifecycle.become(**FAILED | {"log_path": "", "steps": ()})
    alert = tab.get_by_role("alert")
    expect(alert.get_by_role("button")).to_have_text(["Retry", "Copy report"])
    expect(alert.get_by_text("What was tried")).to_have_count(0)


@pytest.mark.browser
def test_the_machine_tab_has_the_same(page: Running, tab: Tab) -> None:
    page.lifecycle.become(**FAILED)
    tab.get_by_role("tab", name="Machine").click()
    machine = tab.locator("#b-machine")
    expect(machine).to_contain_text("Close other programs.")
    expect(machine.get_by_text("What was tried")).to_be_visible()
    machine.get_by_role("button", name="Copy report").click()
    expect(tab.get_by_role("dialog").locator("pre")).to_have_text(REPORT)
    tab.get_by_role("dialog").get_by_role("button", name="Close").click()
    machine.get_by_role("button", name="Open log").click()
    expect(tab.get_by_role("dialog")).to_contain_text("engine.log")
    tab.get_by_role("dialog").get_by_role("button", name="Close").click()
    machine.get_by_role("button", name="Retry").click()
    wait_until(lambda: page.lifecycle.started == [None], 5, "the retry")


@pytest.mark.browser
@pytest.mark.case("G-02")
def test_speculation_that_was_asked_for_and_does_not_run_is_said(page: Running, tab: Tab) -> None:
    page.lifecycle.become(inactive=True)
    expect(tab.locator("#b-status-text")).to_contain_text("Ready · speculation requested but not active")
    ask(tab, "Hello")
    answered(tab)
    figures = tab.locator(".b-figures").last
    expect(figures).to_contain_text("speculation requested but not active")
    expect(figures).not_to_contain_text("%")


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 360])
def test_a_long_story_leaves_room_for_the_message_box(page: Running, browser: Browser, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 640})
    tab = Visitor(context, [], []).visit(page)
    page.lifecycle.become(**FAILED | {"steps": STEPS * 9, "remedy": "Do this. " * 60})
    tab.get_by_text("What was tried").click()
    for button in ("Retry", "Copy report", "Open log"):
        tab.get_by_role("button", name=button).scroll_into_view_if_needed()
        expect(tab.get_by_role("button", name=button)).to_be_in_viewport()
    expect(tab.locator("#b-prompt")).to_be_in_viewport()
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()
