"""The first start of a person who has nothing: the page, practice meanwhile, consent, the fetch, the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from launcher.practice import ensure_pair, known_text
from tests.conftest import Bonsai
from tests.fakes.file_server import Fault, sha256
from tests.fakes.hub_server import HubServer
from tests.fakes.release_server import ReleaseServer
from tests.standins import Standins, standins
from tests.visits import Visit, visiting

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
def visit(bonsai: Bonsai, chromium_path: str, hub: HubServer, files: Standins) -> Iterator[Visit]:
    with ReleaseServer(files.releases) as releases:
        env = {"BONSAI_MODEL": "auto", "HF_ENDPOINT": hub.url, "BONSAI_RELEASES_URL": releases.url}
        with visiting(bonsai, chromium_path, env) as visit:
            yield visit


def test_from_nothing_to_the_model(visit: Visit, hub: HubServer, files: Standins) -> None:
    tab = visit.tab
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
    visit.send("Implement quicksort in Python.")  # meanwhile
    visit.answered()
    assert "def quicksort" in tab.inner_text(".b-answer")

    expect(tab.locator("#b-status")).to_contain_text("Ternary Bonsai 27B", timeout=SLOW_MS)
    expect(tab.locator("#b-status")).to_contain_text("Ready", timeout=SLOW_MS)
    expect(tab.locator("#b-banners")).not_to_contain_text("Practice pair")
    tab.get_by_role("button", name="New chat").click()
    visit.send("Implement quicksort in Python.")
    visit.answered()
    assert known_text("code").splitlines()[0][:20] in tab.inner_text(".b-answer >> nth=-1")
