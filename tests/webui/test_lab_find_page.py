"""Finding what is best here in a real browser: the button, what is known so far, and using what was found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, expect
from playwright.sync_api import Page as Tab

from tests.webui.conftest import Visitor, ask
from tests.webui.lab_pages import Bench, open_tab, run_bench
from tests.webui.test_page_looks import LUMINANCE
from tests.webui.two_engines import pace

pytestmark = [pytest.mark.browser]

NAME = "Find what is best here"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield run_bench(stack, tmp_path_factory.mktemp("find"))


@pytest.fixture
def bench(shared: Bench) -> Bench:
    shared.memory.taken = None
    pace(shared, plain={"rate": 1200}, drafting={"rate": 2400})
    return shared


def by_keyboard(tab: Tab) -> None:
    """It is the first button of the tab."""
    tab.get_by_role("tab", name="Lab").focus()
    for _ in range(12):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.matches('.b-button')"):
            break
    assert tab.evaluate("document.activeElement.textContent") == NAME
    tab.keyboard.press("Enter")


def test_from_the_button_to_what_is_used_and_undone(bench: Bench, visitor: Visitor) -> None:
    tab = open_tab(bench, visitor)
    card = tab.get_by_role("form", name=NAME)
    expect(card).to_contain_text("code at temperature 0 for coding, chat at temperature 1 for a general chat")
    expect(card.locator(".l-takes")).to_contain_text(re.compile(r"It usually takes \d+ to \d+ answers"))
    by_keyboard(tab)
    expect(tab.locator("#l-say")).to_contain_text("The search begins.")
    running = tab.get_by_role("region", name="Running search")
    coding = running.get_by_role("region", name="For a coding assistant", exact=True)
    expect(coding.locator("tr[aria-current]")).to_have_count(1)
    expect(coding).to_contain_text(
        re.compile(r"Of those asked so far, dspark \d looks best, at \d\.\d\dx plain decoding")
    )
    expect(coding.locator("tr", has_text="dspark 3")).to_contain_text("foreseen")
    expect(running.locator(".l-clock")).to_contain_text(re.compile(r"\d:\d\d of at most about \d:\d\d"))
    expect(card).to_be_hidden()
    tab.reload()  # the search goes on
    tab.wait_for_function("document.documentElement.dataset.ready === 'yes'")
    tab.get_by_role("tab", name="Lab").click()
    verdict = tab.get_by_role("region", name="What is best here")
    expect(verdict).to_contain_text("of engine time", timeout=30_000)
    coding = verdict.get_by_role("region", name="For a coding assistant")
    expect(coding.locator(".l-method")).to_contain_text(re.compile(r"dspark \d.*[12]\.\d\dx"))
    expect(coding.locator(".l-sure")).to_contain_text(re.compile(r"(Sure|Fairly sure|Not sure) · ratio"))
    expect(coding).to_contain_text(re.compile(r"It took .* of engine time"))
    coding.get_by_role("button", name="Use this").click()
    strip = tab.locator("#l-learned")
    expect(strip).to_contain_text(re.compile(r"dspark \d – advised for coding, measured here"))
    expect(coding.locator(".l-in-use")).to_be_visible()
    strip.locator("summary").click()
    expect(strip).to_contain_text("For a coding assistant: Use dspark")
    strip.get_by_role("button", name="Undo").click()
    expect(strip.locator("*")).to_have_count(0)
    expect(coding.get_by_role("button", name="Use this")).to_be_visible()
    assert bench.memory.taken is None
    expect(tab.get_by_role("button", name="Show what was found last")).to_be_visible()
    expect(card.locator(".l-takes")).to_contain_text(
        re.compile(r"the last search here took [\d.]+ s\. The chat")
    )


def test_it_waits_for_the_answer_and_is_stopped(bench: Bench, visitor: Visitor) -> None:
    pace(bench, plain={"rate": 15}, drafting={"rate": 1000})
    tab = open_tab(bench, visitor)
    tab.get_by_role("tab", name="Chat").click()
    ask(tab, "Hello")
    tab.wait_for_selector(".b-running .b-text")
    tab.get_by_role("tab", name="Lab").click()
    expect(tab.locator("#l-find .r-wait")).to_have_text(
        "An answer is running: the search waits until it has ended."
    )
    tab.get_by_role("button", name=NAME).click()
    expect(tab.locator(".l-running .b-phase")).to_have_text("Waits for the running answer.")
    tab.get_by_role("button", name="Stop now").click()
    expect(tab.locator(".b-toast")).to_have_text("Stopped before the search began.")
    expect(tab.get_by_role("button", name=NAME)).to_be_visible()
    tab.get_by_role("tab", name="Chat").click()
    tab.keyboard.press("Escape")
    tab.wait_for_selector(".b-running", state="detached")
    tab.get_by_role("tab", name="Lab").click()
    pace(bench, plain={"rate": 60}, drafting={"rate": 60})
    tab.get_by_role("button", name=NAME).click()
    running = tab.get_by_role("region", name="Running search")
    expect(running.locator(".b-phase")).to_contain_text(
        re.compile(r"dspark 4 answers: code, temperature 0, at most 300"), timeout=20_000
    )
    tab.get_by_role("button", name="Stop after this answer").click()
    verdict = tab.get_by_role("region", name="What is best here")
    expect(verdict).to_contain_text("The search was stopped", timeout=20_000)
    expect(verdict).to_contain_text("For a general chat nothing is known: the search ended before.")
    expect(verdict.locator(".l-sure")).to_contain_text("Not sure")


def test_what_ends_it_stays_on_the_page_with_its_remedy(bench: Bench, visitor: Visitor) -> None:
    pace(bench, plain={"die_after": 5})
    tab = open_tab(bench, visitor)
    tab.get_by_role("button", name=NAME).click()
    problem = tab.get_by_role("region", name="Problem")
    expect(problem).to_contain_text(re.compile(r"\w\. \w"), timeout=20_000)
    expect(tab.get_by_role("button", name=NAME)).to_be_enabled()


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1280, "light")])
def test_narrow_and_wide_light_and_dark(bench: Bench, browser: Browser, width: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
    tab = open_tab(bench, Visitor(context, [], []))
    fits = (
        "(width) => { const host = document.getElementById('b-lab-host');"
        " return document.documentElement.scrollWidth <= width && host.scrollWidth <= host.clientWidth; }"
    )
    assert tab.evaluate(LUMINANCE, ".l-go") >= 4.5
    assert tab.evaluate(fits, width)
    tab.get_by_role("button", name=NAME).click()
    tab.wait_for_selector(".l-running .l-foreseen")
    tab.wait_for_selector(".l-running .l-now")
    assert tab.evaluate(fits, width)
    for selector in (".l-known .l-foreseen td", ".l-known .l-now th", ".l-part h3 small", ".l-said"):
        assert tab.evaluate(LUMINANCE, selector) >= 4.5, selector
    tab.get_by_role("region", name="What is best here").wait_for(timeout=30_000)
    tab.evaluate("document.querySelectorAll('.l-result details').forEach((it) => { it.open = true; })")
    assert tab.evaluate(fits, width)
    for selector in (".l-found .l-sure", ".l-found .l-small", ".l-found .l-known td"):
        assert tab.evaluate(LUMINANCE, selector) >= 4.5, selector
    context.close()
