"""The race as a person meets it: ``bonsai`` started for real, the practice pair on the embedded engine, a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from launcher.practice import expected_acceptance
from launcher.race_store import RaceStore
from tests.conftest import Bonsai, wait_until
from tests.visits import Visit, visiting

pytestmark = pytest.mark.browser


@pytest.fixture
def visit(bonsai: Bonsai, chromium_path: str) -> Iterator[Visit]:
    with visiting(bonsai, chromium_path, {"BONSAI_SPECULATIVE": "0"}) as visit:
        visit.ready()
        yield visit


@pytest.fixture
def races(bonsai: Bonsai) -> RaceStore:
    return RaceStore(bonsai.home)


def begin(visit: Visit, rounds: int, tokens: int) -> None:
    visit.tab.get_by_role("tab", name="Race").click()
    visit.tab.wait_for_selector(".r-go", timeout=20_000)
    visit.tab.click(".r-more:not(.r-blocked) summary")
    visit.tab.locator(".r-rounds").select_option(str(rounds))
    visit.tab.locator(".r-tokens").fill(str(tokens))
    visit.tab.click(".r-go")


def chat_works(visit: Visit) -> None:
    visit.tab.get_by_role("tab", name="Chat").click()
    visit.ready()
    visit.send("Implement quicksort in Python.")
    expect(visit.tab.locator(".b-answer").last).to_contain_text("def quicksort", timeout=90_000)


def test_the_practice_pair_races_as_computed(visit: Visit, races: RaceStore) -> None:
    tab = visit.tab
    begin(visit, rounds=1, tokens=120)
    tab.wait_for_selector(".r-verdict", timeout=100_000)
    assert tab.locator(".r-against option:checked").all_inner_texts() == ["plain", "dspark 4"]
    expect(tab.locator(".r-headline")).to_contain_text("tokens/s")
    expect(tab.locator(".r-notes")).to_contain_text("Both texts are identical.")
    expected = expected_acceptance("code", max_tokens=120)
    cells = tab.locator(".r-sides tr", has_text="accepted of drafted").locator("td")
    assert cells.all_inner_texts() == ["–", f"{expected.draft_n_accepted} of {expected.draft_n}"]
    ribbon = tab.locator(".r-ribbon")
    assert int(ribbon.get_attribute("data-drafted") or 0) == expected.draft_n
    assert int(ribbon.get_attribute("data-accepted") or 0) == expected.draft_n_accepted
    tab.locator(".r-scrubber").press("End")
    texts = tab.locator(".r-replay .r-answer").all_inner_texts()
    assert texts[0] == texts[1]
    assert "def " in texts[0]
    tab.locator(".r-scrubber").press("Home")
    assert tab.locator(".r-replay .r-answer").all_inner_texts() == ["", ""]
    chat_works(visit)
    assert not visit.errors, visit.errors
    asked = {re.sub(r"^(\w+://[^/]+).*", r"\1", url) for url in visit.asked if url.startswith("http")}
    assert asked == {visit.url.rstrip("/")}
    [kept] = races.list().races
    assert (kept.kind, kept.language, kept.sides) == ("code", "en", ("plain", "dspark 4"))


def test_an_engine_killed_in_mid_race_leaves_what_was_measured(visit: Visit, races: RaceStore) -> None:
    tab = visit.tab
    begin(visit, rounds=20, tokens=300)
    tab.wait_for_selector(".r-stands:not(:empty)", timeout=100_000)
    tab.wait_for_selector(".r-works .r-answer span")
    for engine in visit.engines():
        engine.kill()
    tab.wait_for_selector(".r-verdict", timeout=30_000)
    expect(tab.locator(".r-problem")).to_contain_text("The race ended early.")
    expect(tab.locator(".r-headline")).to_contain_text("tokens/s")
    tab.locator(".r-scrubber").press("End")
    assert "def " in tab.locator(".r-replay .r-answer").first.inner_text()
    assert [it.ended for it in races.list().races] == ["failed"]
    chat_works(visit)


def test_a_closed_tab_ends_the_engines_work(visit: Visit, races: RaceStore) -> None:
    begin(visit, rounds=20, tokens=300)
    visit.tab.wait_for_selector(".r-works .r-answer span", timeout=60_000)
    visit.tab.reload()
    visit.ready()
    wait_until(lambda: not visit.busy(), 10, "the engines to be idle")
    assert [it.ended for it in races.list().races] == ["stopped"]
