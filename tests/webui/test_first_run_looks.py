"""Getting a model, in a real browser: what it looks and sounds like, what it costs, and what stands beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, expect

from tests.webui.conftest import Visitor
from tests.webui.fake_lifecycle import a_plan
from tests.webui.fetch_rooms import TOTAL
from tests.webui.first_pages import Place, button, card_of, run_place
from tests.webui.test_page_looks import LUMINANCE, no_sideways_scroll
from webui.state import Row

pytestmark = [pytest.mark.browser]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with ExitStack() as stack:
        yield run_place(stack, tmp_path_factory.mktemp("first"))


@pytest.fixture
def place(served: Place) -> Place:
    return served.renew()


def test_a_screen_reader_hears_tenths_not_every_byte(place: Place, visitor: Visitor) -> None:
    room = place.room
    tab = visitor.visit(place.page)
    tab.evaluate(
        "() => { window.heard = []; new MutationObserver(() => window.heard.push("
        "document.getElementById('f-say').textContent)).observe(document.getElementById('f-say'), "
        "{ childList: true, characterData: true, subtree: true }); }"
    )
    button(tab, "Fetch 9.3 GB").click()
    expect(button(tab, "Pause")).to_be_visible()
    card = card_of(tab)
    for share in (1, 2, 12, 13, 14, 25, 26):
        room.came("weights", TOTAL * share // 100 + 1)
        expect(card.locator(".f-total b")).to_have_text(f"{share} %")
    room.done()
    expect(tab.locator("#f-say")).to_have_text("Everything is fetched and checked.")
    heard = [text.split(",")[0] for text in tab.evaluate("window.heard")]
    assert heard == [
        "Fetching",
        "10 percent fetched",
        "20 percent fetched",
        "Everything is fetched and checked.",
    ]
    expect(tab.locator("#f-say")).to_have_attribute("aria-live", "polite")
    unnamed = card.evaluate("it => [...it.querySelectorAll('button, progress')].filter((e) => "
                            "!(e.getAttribute('aria-label') || e.textContent.trim())).length")  # fmt: skip
    assert unnamed == 0


def test_news_come_by_themselves_and_a_hidden_tab_costs_nothing(place: Place, visitor: Visitor) -> None:
    room = place.room
    tab = visitor.visit(place.page)
    button(tab, "Fetch 9.3 GB").click()
    expect(button(tab, "Pause")).to_be_visible()
    visitor.requests.clear()
    for have in range(1, 8):
        room.came("weights", have * 1_000_000_000)
    expect(card_of(tab).locator(".f-state").nth(1)).to_contain_text("7.00 of 7.17 GB")
    assert visitor.requests == []
    tab.evaluate(
        "() => { Object.defineProperty(document, 'hidden', { configurable: true, get: () => true }); "
        "document.dispatchEvent(new Event('visibilitychange')); }"
    )
    before = card_of(tab).locator(".f-total").inner_text()
    room.done()
    # Seen again, it is up to date at once.
    assert card_of(tab).locator(".f-total").inner_text() == before
    assert visitor.requests == []
    tab.evaluate("() => { delete document.hidden; document.dispatchEvent(new Event('visibilitychange')); }")
    expect(button(tab, "Use it now")).to_be_visible()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_can_be_read(place: Place, browser: Browser, width: int, scheme: str) -> None:
    room = place.room
    context = browser.new_context(viewport={"width": width, "height": 760}, color_scheme=scheme)  # type: ignore[arg-type]
    errors: list[str] = []
    tab = Visitor(context, [], errors).visit(place.page)
    expect(button(tab, "Fetch 9.3 GB")).to_be_visible()
    cut = """() => [...document.querySelectorAll('.f-card *, .f-strip > *')].filter((e) =>
        e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline' &&
        !e.matches('.f-strip-text')).map((e) => e.className || e.tagName)"""

    def looked_at(*selectors: str) -> None:
        assert no_sideways_scroll(tab)
        assert tab.evaluate(cut) == []
        for selector in selectors:
            assert tab.evaluate(LUMINANCE, selector) >= 4.5, selector

    looked_at(
        ".f-head p", ".f-facts dt", ".f-facts dd > span", ".f-part h4", ".f-where", ".f-licence", ".b-primary"
    )
    tab.evaluate("document.querySelectorAll('.f-more').forEach((it) => { it.open = true; })")
    looked_at(".f-pairs dd")
    room.begin()
    room.came("weights", 3_000_000_000)
    expect(button(tab, "Pause")).to_be_visible()
    looked_at(".f-total span", ".f-state", ".f-strip-text", ".f-strip-show")
    room.came("weights", 3_000_000_000, state="failed")
    room.become(phase="failed", error="A long sentence about it. " * 4, remedy="x" * 120)
    expect(button(tab, "Try again")).to_be_visible()
    looked_at(".f-alert p", ".f-alert b", "[data-state=failed] .f-state", ".f-strip-text")
    room.done()
    expect(button(tab, "Use it now")).to_be_visible()
    looked_at()
    context.close()
    assert not errors


def test_the_machine_tab_looks_again_until_the_hardware_is_known(place: Place, visitor: Visitor) -> None:
    place.rows[:] = [Row("Hardware", "still looking", pending=True)]
    tab = visitor.visit(place.page)
    expect(card_of(tab)).to_contain_text("Hardware: still looking")
    tab.get_by_role("tab", name="Machine").click()
    expect(tab.locator("#b-machine")).to_contain_text("still looking")

    def asked() -> int:
        return sum(url.endswith("/bonsai/machine") for url in visitor.requests)

    begun = asked()
    place.rows[:] = [Row("Processor", "found at last")]
    expect(tab.locator("#b-machine")).to_contain_text("found at last")
    expect(tab.locator("#f-machine")).to_contain_text("found at last")
    after = asked()
    assert begun < after
    tab.wait_for_timeout(1300)
    assert asked() == after, "what is known is not asked for again"
    # Elsewhere nobody asks, though it be unknown.
    place.rows[:] = [Row("Hardware", "still looking", pending=True)]
    tab.get_by_role("tab", name="Race").click()
    after = asked()
    tab.wait_for_timeout(1300)
    assert asked() == after
    visitor.errors.clear()  # nothing can be raced on this page, which its Race tab says


def test_without_a_drafter_the_reason_stands_beside_the_switch(place: Place, visitor: Visitor) -> None:
    place.page.lifecycle.become(plan=a_plan(speculative=True, drafter=False))
    tab = visitor.visit(place.page)
    switch = tab.locator("#b-spec")
    expect(switch).to_be_disabled()
    expect(switch).to_have_attribute("aria-pressed", "false")
    reason = tab.locator("#b-spec-why")
    expect(reason).to_have_text("Speculation is off: no drafter was given with BONSAI_DRAFTER.")
    expect(reason).to_be_visible()
    expect(switch).to_have_attribute("aria-describedby", "b-spec-why")
    place.page.lifecycle.become(plan=a_plan(speculative=True))
    expect(switch).to_be_enabled()
    expect(reason).to_be_hidden()
