"""The page in a real browser: narrow and wide, light and dark, by keyboard, and first thing after the start."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.webui.conftest import StartPage, Visitor, answered, ask

pytestmark = [pytest.mark.browser]

LONG = "\n\n".join(f"Paragraph {number} with some words in it." for number in range(60))
WIDE = (
    "```\n" + "x" * 300 + "\n```\n\n| " + " | ".join(f"column {n}" for n in range(12)) + " |\n|" + "---|" * 12
)


def no_sideways_scroll(tab: object) -> bool:
    return bool(
        tab.evaluate(  # type: ignore[attr-defined]
            "document.documentElement.scrollWidth <= innerWidth && "
            "document.getElementById('b-scroll').scrollWidth <= document.getElementById('b-scroll').clientWidth"
        )
    )


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_is_cut_off(start_page: StartPage, browser: Browser, width: int) -> None:
    page = start_page(text=WIDE, rate=500)
    context = browser.new_context(viewport={"width": width, "height": 700})
    tab = Visitor(context, [], []).visit(page)
    ask(tab, "wide " * 40 + "y" * 200)
    answered(tab)
    assert no_sideways_scroll(tab)
    for button in (
        "#b-send",
        "#b-think",
        "#b-spec",
        "#b-tint",
        "#b-settings-open",
        "#b-side-open",
        "#b-theme",
    ):
        box = tab.locator(button).bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert box["y"] + box["height"] <= 700
    context.close()


def test_on_a_narrow_screen_the_list_opens_over_the_chat(start_page: StartPage, browser: Browser) -> None:
    page = start_page(text="Fine.", rate=500)
    context = browser.new_context(viewport={"width": 400, "height": 700})
    tab = Visitor(context, [], []).visit(page)
    ask(tab, "Hello")
    answered(tab)
    expect(tab.locator("#b-new")).not_to_be_in_viewport()
    tab.click("#b-side-open")
    expect(tab.locator("#b-new")).to_be_in_viewport()
    tab.click("#b-new")
    expect(tab.locator("#b-new")).not_to_be_in_viewport()
    expect(tab.locator("#b-empty")).to_be_visible()
    tab.click("#b-settings-open")
    expect(tab.locator("#b-set-temperature")).to_be_in_viewport()
    tab.keyboard.press("Escape")
    expect(tab.locator("#b-settings")).to_be_hidden()
    context.close()


LUMINANCE = """(selector) => {
    const parse = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
        .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const node = document.querySelector(selector);
    let behind = node;
    let fill = parse(getComputedStyle(behind).backgroundColor);
    while (fill.length === 4 && fill[3] === 0 && behind.parentElement) {
        behind = behind.parentElement;
        fill = parse(getComputedStyle(behind).backgroundColor);
    }
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(fill)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_in_both_schemes(start_page: StartPage, browser: Browser, scheme: str) -> None:
    page = start_page(
        text="# T\n\nText `code` [link](https://a.example)\n\n```py\ndef f(): pass  # x\n```", rate=500
    )
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
    tab = Visitor(context, [], []).visit(page)
    ask(tab, "Hello")
    answered(tab)
    dark = tab.evaluate("document.documentElement.classList.contains('b-dark')")
    assert dark == (scheme == "dark")
    for selector in (".b-bubble", ".b-answer .b-text p", ".b-answer .b-text a", ".b-text p code", ".hl-k", ".hl-c1",
                     ".b-figures", "#b-status-text", "#b-title", ".b-chip", ".b-chip[aria-pressed=true]", ".b-banner p",
                     ".b-item-open", ".b-group", "#b-keys", ".b-code-head span", "#b-tab-machine-button"):  # fmt: skip
        tab.wait_for_selector(selector, state="attached")
        assert tab.evaluate(LUMINANCE, selector) >= 4.5, selector
    context.close()


def test_the_scheme_can_be_chosen_and_stays(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text="Fine.", rate=500)
    tab = visitor.visit(page)
    is_dark = (
        "document.documentElement.classList.contains('b-dark') && document.body.classList.contains('dark')"
    )
    assert not tab.evaluate(is_dark)
    tab.click("#b-theme")
    assert tab.evaluate(is_dark)
    tab.reload()
    tab.wait_for_function("document.documentElement.dataset.ready === 'yes'", timeout=30_000)
    assert tab.evaluate(is_dark)


def test_scrolling_follows_unless_one_reads_further_up(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text=LONG, rate=150)
    tab = visitor.visit(page)
    ask(tab, "Go")
    tab.wait_for_function("document.getElementById('b-scroll').scrollTop > 300", timeout=20_000)
    at_end = "(e => e.scrollHeight - e.scrollTop - e.clientHeight < 80)(document.getElementById('b-scroll'))"
    assert tab.evaluate(at_end)
    tab.mouse.move(640, 400)
    tab.mouse.wheel(0, -400)
    tab.wait_for_function(f"!{at_end}")
    before = tab.evaluate("document.getElementById('b-scroll').scrollTop")
    tab.wait_for_function("n => document.querySelector('.b-text').innerText.length > n", arg=len(LONG) * 0.8)
    assert abs(tab.evaluate("document.getElementById('b-scroll').scrollTop") - before) < 5
    tab.click("#b-down")
    answered(tab)
    tab.wait_for_function(at_end)
    expect(tab.locator("#b-down")).to_be_hidden()


def test_everything_can_be_reached_by_keyboard(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text="Fine.", rate=500)
    tab = visitor.visit(page)
    tab.evaluate("document.activeElement.blur()")
    reached = set()
    for _ in range(40):
        tab.keyboard.press("Tab")
        reached.add(tab.evaluate("document.activeElement.id || document.activeElement.className"))
    for wanted in ("b-skip", "b-theme", "b-tab-chat-button", "b-new", "b-import", "b-side-open", "b-settings-open",
                   "b-suggestion", "b-prompt", "b-think", "b-spec", "b-tint"):  # fmt: skip
        assert wanted in reached
    outline = tab.evaluate(
        "() => { document.getElementById('b-think').focus(); "
        "return getComputedStyle(document.getElementById('b-think')).outlineStyle; }"
    )
    assert outline == "solid"


def test_what_a_screen_reader_is_told(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text="Fine.", rate=100, thinking_tokens=5)
    tab = visitor.visit(page)
    ask(tab, "Hello")
    answered(tab)
    expect(tab.locator("#b-announce")).to_contain_text("The answer is complete.")
    expect(tab.get_by_role("log", name="Conversation").get_by_role("article", name="You")).to_have_count(1)
    expect(tab.get_by_role("log", name="Conversation").get_by_role("article", name="Answer")).to_have_count(1)
    unnamed = tab.evaluate(
        """[...document.querySelectorAll('.b-chat button, .b-top button')].filter((e) => !e.hidden &&
            !(e.getAttribute('aria-label') || e.textContent.trim())).map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert unnamed == []
    ids = tab.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id).filter((id) => id)")
    assert len(ids) == len(set(ids))


def test_suggestions_fit_the_practice_pair(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text="Fine.", rate=500)
    tab = visitor.visit(page)
    expect(tab.locator(".b-banner")).to_contain_text("Practice pair: not a language model")
    tab.locator(".b-suggestion").first.click()
    answered(tab)
    expect(tab.locator(".b-bubble")).to_have_text("Implement quicksort in Python.")
