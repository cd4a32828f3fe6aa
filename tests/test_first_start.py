"""The first start of a person who has nothing: the page, practice meanwhile, consent, the fetch, the model."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from launcher.practice import ensure_pair, known_text
from tests.conftest import Bonsai, free_port, wait_until
from tests.fakes.file_server import Fault, sha256
from tests.fakes.hub_server import HubServer
from tests.fakes.release_server import ReleaseServer
from tests.standins import Standins, standins

pytestmark = [pytest.mark.browser, pytest.mark.engine, pytest.mark.system("posix")]
SLOW_MS = 60_000


@pytest.fixture
def files(built_engine: Path, tmp_path: Path) -> Standins:
    """A trio that really runs: the built engine in the release's archive, the practice target under the real name."""
    target = ensure_pair(tmp_path, "small").target.read_bytes()
    # One thread, as the practice pair has it here: two that wait for each other beside a browser hardly move.
    program = f'#!/bin/sh\ncase "$1" in -m) set -- "$@" -t 1;; esac\nexec "{built_engine}" "$@"\n'
    return standins(program=program, target=target)


@pytest.fixture
def hub(files: Standins) -> Iterator[HubServer]:
    with HubServer(files.hub) as hub:
        yield hub


@pytest.fixture
def tab(bonsai: Bonsai, chromium_path: str, hub: HubServer, files: Standins) -> Iterator[Page]:
    port = free_port()
    with ReleaseServer(files.releases) as releases, sync_playwright() as playwright:
        env = {"BONSAI_MODEL": "auto", "HF_ENDPOINT": hub.url, "BONSAI_RELEASES_URL": releases.url}
        process = bonsai.popen("--no-browser", "--ui-port", str(port), env=env)
        browser = playwright.chromium.launch(executable_path=chromium_path, args=["--no-sandbox"])
        try:
            wait_until(lambda: "http://" in bonsai.output(), 60, "the address of the page")
            tab = browser.new_page()
            tab.goto(f"http://127.0.0.1:{port}/")
            yield tab
        finally:
            browser.close()
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) is not None


def ask(tab: Page, text: str) -> None:
    tab.fill("#b-prompt", text)
    tab.press("#b-prompt", "Enter")
    tab.wait_for_selector(".b-running", state="attached", timeout=SLOW_MS)
    tab.wait_for_selector(".b-running", state="detached", timeout=SLOW_MS)


def test_from_nothing_to_the_model(tab: Page, hub: HubServer, files: Standins) -> None:
    fetch = tab.get_by_role("button", name="Fetch", exact=False).first
    expect(fetch).to_be_visible(timeout=SLOW_MS)
    assert hub.requests == []  # nothing before the consent

    expect(tab.locator("#b-status")).to_contain_text("Ready", timeout=SLOW_MS)
    expect(tab.locator("#b-banners")).to_contain_text("Practice pair")

    weights = files.choice.weights.file
    data = files.hub[weights.repo][weights.name]
    hub.store.always[sha256(data)] = Fault(rate=len(data) / 5)
    fetch.click()
    expect(tab.get_by_role("button", name="Pause")).to_be_visible(timeout=SLOW_MS)
    ask(tab, "Implement quicksort in Python.")  # meanwhile
    assert "def quicksort" in tab.inner_text(".b-answer")

    expect(tab.locator("#b-status")).to_contain_text("Ternary Bonsai 27B", timeout=SLOW_MS)
    expect(tab.locator("#b-status")).to_contain_text("Ready", timeout=SLOW_MS)
    expect(tab.locator("#b-banners")).not_to_contain_text("Practice pair")
    tab.get_by_role("button", name="New chat").click()
    ask(tab, "Implement quicksort in Python.")
    assert known_text("code").splitlines()[0][:20] in tab.inner_text(".b-answer >> nth=-1")
