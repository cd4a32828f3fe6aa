"""The first start of a person who has the gigabytes already: they are read behind the page, which stays usable."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

from launcher.fetch_lock import only_one
from tests.conftest import Bonsai
from tests.launcher.test_fetch_found import gigabytes
from tests.visits import START_MS, visiting

pytestmark = [pytest.mark.browser, pytest.mark.system("posix")]


def test_a_check_behind_the_page(bonsai: Bonsai, chromium_path: str, tmp_path: Path) -> None:
    file = gigabytes(tmp_path)
    env = {"BONSAI_MODEL": "27B", "BONSAI_MODELS_DIR": str(file.parent)}
    # As if another launcher read it: here it stays at its beginning, however fast this machine is.
    with only_one(bonsai.home / "verified.json.lock", lambda: None):
        with visiting(bonsai, chromium_path, env) as visit:
            tab = visit.tab
            strip, card = tab.locator(".f-strip"), tab.locator("#f-chat .f-card")
            expect(strip).to_contain_text(f"Checking {file.name}: 0 %", timeout=START_MS)
            expect(strip).to_contain_text("another start is reading it")
            assert f"Reading {file} once (7.2 GB)" in bonsai.output()
            tab.get_by_role("tab", name="Machine").click()
            expect(tab.locator("#b-machine")).to_contain_text("This machine")
            tab.get_by_role("tab", name="Chat").click()
            expect(card.get_by_role("heading", name="Checking Ternary Bonsai 27B")).to_be_visible()
            card.get_by_role("button", name="Stop").click()
            expect(strip).to_be_hidden()
            expect(card).to_contain_text("7.2 GB · here, not checked yet")
            card.get_by_role("button", name="Fetch").click()  # the rest; what is here is read before
            expect(strip).to_contain_text("Checking")
            begun = time.monotonic()
        assert time.monotonic() - begun < 10  # quitting waits for no reading
    assert not (bonsai.home / "verified.json").exists()
    assert file.exists()
