"""Takes the pictures of the documents anew: ``python -m tests.screenshots`` writes docs/img/*.png.

The whole product with the practice pair, in a real browser, a quick lab included (some minutes); few colours keep the
files small.
"""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from tests.conftest import ROOT, clean_environment, find_chromium, free_port

FOLDER = ROOT / "docs" / "img"
COLOURS = 64
WAIT_MS = 240_000


def take(tab: Page, name: str) -> None:
    """One picture of what is in the window now."""
    picture = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(FOLDER / f"{name}.png", optimize=True)


def ask(tab: Page, text: str) -> None:
    """Send it and wait for the whole answer."""
    tab.fill("#b-prompt", text)
    tab.press("#b-prompt", "Enter")
    tab.wait_for_selector(".b-running", timeout=WAIT_MS)
    tab.wait_for_selector(".b-running", state="detached", timeout=WAIT_MS)
    tab.wait_for_timeout(400)


@contextlib.contextmanager
def visit(chromium: str, **settings: str) -> Iterator[Page]:
    """A tab on the product, started for it in an empty home."""
    port = free_port()
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        env = clean_environment({"BONSAI_HOME": home, **settings})
        launcher = subprocess.Popen(
            [sys.executable, "-m", "launcher", "--no-browser", "--ui-port", str(port)], env=env, cwd=ROOT
        )
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            tab = browser.new_page(viewport={"width": 1180, "height": 800})
            for _ in range(100):
                try:
                    tab.goto(f"http://127.0.0.1:{port}/")
                    break
                except Exception:
                    time.sleep(0.2)
            tab.wait_for_selector("text=Ready", timeout=WAIT_MS)
            yield tab
        finally:
            browser.close()
            launcher.send_signal(signal.SIGTERM)
            launcher.wait(20)


def main() -> None:
    chromium = find_chromium()
    if chromium is None:
        sys.exit("No Chromium found.")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with visit(chromium) as tab:
        tab.wait_for_selector("text=What will run, and why", timeout=WAIT_MS)
        take(tab, "first")
    with visit(chromium, BONSAI_MODEL="practice", BONSAI_SPECULATIVE="1") as tab:
        ask(tab, "Implement quicksort in Python.")
        take(tab, "chat")
        tab.get_by_role("button", name="Tint").click()
        tab.wait_for_timeout(800)
        take(tab, "tint")
        tab.get_by_role("tab", name="Race").click()
        tab.get_by_role("button", name="Race", exact=True).click()
        tab.wait_for_selector(".r-verdict", timeout=WAIT_MS)
        tab.wait_for_timeout(3500)
        take(tab, "race")
        tab.get_by_role("tab", name="Machine").click()
        tab.wait_for_timeout(1500)
        take(tab, "machine")
    with visit(chromium, BONSAI_MODEL="practice") as tab:
        tab.get_by_role("tab", name="Lab").click()
        tab.get_by_role("button", name="Start the lab").click()
        tab.wait_for_selector(".l-result", timeout=3 * WAIT_MS)
        tab.locator(".l-result").first.scroll_into_view_if_needed()
        tab.wait_for_timeout(1500)
        take(tab, "lab")
    for file in sorted(FOLDER.glob("*.png")):
        sys.stdout.write(f"{file.relative_to(ROOT)}: {file.stat().st_size // 1000} kB\n")


if __name__ == "__main__":
    main()
