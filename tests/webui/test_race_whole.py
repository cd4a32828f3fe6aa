"""The race as a person meets it: ``bonsai`` started for real, the practice pair on the embedded engine, a browser."""

from __future__ import annotations

import re
import signal

import pytest
from playwright.sync_api import expect, sync_playwright

from launcher.practice import expected_acceptance
from launcher.race_store import RaceStore
from tests.conftest import Bonsai, free_port, wait_until

pytestmark = pytest.mark.browser


def test_the_practice_pair_races_as_computed(bonsai: Bonsai, chromium_path: str) -> None:
    port = free_port()
    process = bonsai.popen("--no-browser", "--ui-port", str(port), env={"BONSAI_SPECULATIVE": "0"})
    errors: list[str] = []
    asked: list[str] = []
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium_path, args=["--no-sandbox"])
            wait_until(lambda: "http://" in bonsai.output(), 60, "the address of the page")
            tab = browser.new_page()
            tab.on("pageerror", lambda problem: errors.append(str(problem)))
            tab.on("request", lambda request: asked.append(request.url))
            tab.goto(f"http://127.0.0.1:{port}/")
            tab.wait_for_selector("text=Ready", timeout=60_000)
            tab.get_by_role("tab", name="Race").click()
            tab.wait_for_selector(".r-go", timeout=20_000)
            assert tab.locator(".r-against option:checked").all_inner_texts() == ["plain", "dspark 4"]
            tab.click(".r-more:not(.r-blocked) summary")
            tab.locator(".r-rounds").select_option("1")
            tab.locator(".r-tokens").fill("120")
            tab.click(".r-go")
            tab.wait_for_selector(".r-verdict", timeout=100_000)
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
            # The chat has its own engine back.
            tab.get_by_role("tab", name="Chat").click()
            tab.wait_for_selector("text=Ready", timeout=60_000)
            tab.fill("#b-prompt", "Implement quicksort in Python.")
            tab.press("#b-prompt", "Enter")
            tab.wait_for_selector(".b-answer .b-figures", timeout=90_000)
            browser.close()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
    assert not errors, errors
    assert {re.sub(r"^(\w+://[^/]+).*", r"\1", url) for url in asked if url.startswith("http")} == {
        f"http://127.0.0.1:{port}"
    }
    [kept] = RaceStore(bonsai.home).list().races
    assert (kept.kind, kept.language, kept.sides) == ("code", "en", ("plain", "dspark 4"))
