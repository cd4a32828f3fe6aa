"""A person at the browser of a ``bonsai`` that was started for real."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import psutil
from playwright.sync_api import Page, sync_playwright

from tests.conftest import Bonsai, free_port, wait_until

ANSWER_MS = 90_000
START_MS = 60_000


@dataclass
class Visit:
    """A tab on a started launcher, what its scripts complained about, and every address that the browser asked."""

    tab: Page
    url: str
    process: subprocess.Popen[str]
    errors: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def engines(self) -> list[psutil.Process]:
        """The engines that run, children of the launcher; its watchman is none."""
        found = []
        for child in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.Error):
                if "--alias" in child.cmdline():
                    found.append(child)
        return found

    def engine(self) -> psutil.Process:
        """The one engine."""
        [engine] = self.engines()
        return engine

    def busy(self) -> bool:
        """Whether an engine works: it uses more than a tenth of a core."""
        return any(engine.cpu_percent(interval=0.3) > 10 for engine in self.engines())

    def ready(self) -> None:
        """Wait until the page says so."""
        self.tab.wait_for_selector("#b-status[data-phase=ready]", timeout=START_MS)

    def send(self, text: str) -> None:
        self.tab.fill("#b-prompt", text)
        self.tab.press("#b-prompt", "Enter")
        self.tab.wait_for_selector(".b-running", state="attached", timeout=ANSWER_MS)

    def answered(self) -> None:
        self.tab.wait_for_selector(".b-running", state="detached", timeout=ANSWER_MS)


@contextlib.contextmanager
def visiting(bonsai: Bonsai, chromium_path: str, env: Mapping[str, str]) -> Iterator[Visit]:
    """Start ``bonsai`` and open its page; both are ended."""
    port = free_port()
    process = bonsai.popen("--no-browser", "--ui-port", str(port), env=env)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium_path, args=["--no-sandbox"])
            wait_until(lambda: "http://" in bonsai.output(), 60, "the address of the page")
            visit = Visit(browser.new_page(), f"http://127.0.0.1:{port}/", process)
            visit.tab.on("pageerror", lambda problem: visit.errors.append(str(problem)))
            visit.tab.on("request", lambda request: visit.asked.append(request.url))
            visit.tab.goto(visit.url)
            visit.tab.wait_for_selector("#b-prompt", timeout=START_MS)
            yield visit
            browser.close()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
