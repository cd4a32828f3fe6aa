"""The race as a person meets it: ``bonsai`` started for real, the practice pair on the embedded engine, a browser."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field

import psutil
import pytest
from playwright.sync_api import Page as Tab
from playwright.sync_api import expect, sync_playwright

from launcher.practice import expected_acceptance
from launcher.race_store import RaceStore
from tests.conftest import Bonsai, free_port, wait_until

pytestmark = pytest.mark.browser


@dataclass
class Visit:
    """A tab on a started launcher, what its scripts complained about and every address that it asked."""

    tab: Tab
    url: str
    process: subprocess.Popen[str]
    races: RaceStore
    errors: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def begin(self, rounds: int, tokens: int) -> None:
        self.tab.get_by_role("tab", name="Race").click()
        self.tab.wait_for_selector(".r-go", timeout=20_000)
        self.tab.click(".r-more:not(.r-blocked) summary")
        self.tab.locator(".r-rounds").select_option(str(rounds))
        self.tab.locator(".r-tokens").fill(str(tokens))
        self.tab.click(".r-go")

    def chat_works(self) -> None:
        self.tab.get_by_role("tab", name="Chat").click()
        self.tab.wait_for_selector("text=Ready", timeout=60_000)
        self.tab.fill("#b-prompt", "Implement quicksort in Python.")
        self.tab.press("#b-prompt", "Enter")
        expect(self.tab.locator(".b-answer").last).to_contain_text("def quicksort", timeout=90_000)


@pytest.fixture
def visit(bonsai: Bonsai, chromium_path: str) -> Iterator[Visit]:
    port = free_port()
    process = bonsai.popen("--no-browser", "--ui-port", str(port), env={"BONSAI_SPECULATIVE": "0"})
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium_path, args=["--no-sandbox"])
            wait_until(lambda: "http://" in bonsai.output(), 60, "the address of the page")
            visit = Visit(browser.new_page(), f"http://127.0.0.1:{port}", process, RaceStore(bonsai.home))
            visit.tab.on("pageerror", lambda problem: visit.errors.append(str(problem)))
            visit.tab.on("request", lambda request: visit.asked.append(request.url))
            visit.tab.goto(visit.url)
            visit.tab.wait_for_selector("text=Ready", timeout=60_000)
            yield visit
            browser.close()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def test_the_practice_pair_races_as_computed(visit: Visit) -> None:
    tab = visit.tab
    visit.begin(rounds=1, tokens=120)
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
    visit.chat_works()
    assert not visit.errors, visit.errors
    asked = {re.sub(r"^(\w+://[^/]+).*", r"\1", url) for url in visit.asked if url.startswith("http")}
    assert asked == {visit.url}
    [kept] = visit.races.list().races
    assert (kept.kind, kept.language, kept.sides) == ("code", "en", ("plain", "dspark 4"))


def test_an_engine_killed_in_mid_race_leaves_what_was_measured(visit: Visit) -> None:
    tab = visit.tab
    visit.begin(rounds=20, tokens=300)
    tab.wait_for_selector(".r-stands:not(:empty)", timeout=100_000)
    tab.wait_for_selector(".r-works .r-answer span")
    for engine in psutil.Process(visit.process.pid).children():
        engine.kill()
    tab.wait_for_selector(".r-verdict", timeout=30_000)
    expect(tab.locator(".r-problem")).to_contain_text("The race ended early.")
    expect(tab.locator(".r-headline")).to_contain_text("tokens/s")
    tab.locator(".r-scrubber").press("End")
    assert "def " in tab.locator(".r-replay .r-answer").first.inner_text()
    assert [it.ended for it in visit.races.list().races] == ["failed"]
    visit.chat_works()


def test_a_closed_tab_ends_the_engines_work(visit: Visit) -> None:
    visit.begin(rounds=20, tokens=300)
    visit.tab.wait_for_selector(".r-works .r-answer span", timeout=60_000)
    visit.tab.reload()
    visit.tab.wait_for_selector("text=Ready", timeout=60_000)

    def idle() -> bool:
        children = psutil.Process(visit.process.pid).children()
        return all(child.cpu_percent(interval=0.3) < 10 for child in children)

    wait_until(idle, 10, "the engines to be idle")
    assert [it.ended for it in visit.races.list().races] == ["stopped"]
