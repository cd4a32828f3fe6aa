"""A real page on a real port, with a paced engine behind it and conversations in a folder of its own."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from playwright.sync_api import Page as Tab

from launcher.store import Store
from tests.conftest import wait_until
from tests.fakes.paced_server import PacedConfig, PacedServer
from tests.webui.fake_lifecycle import FakeLifecycle
from webui.app import PageContext, gradio_environment, make_server
from webui.state import Row

TOKEN = "the-token-of-this-run"

os.environ.update(gradio_environment(os.environ))


@dataclass
class Running:
    """One page: where it is, and what is behind it."""

    url: str
    port: int
    engine: PacedServer
    lifecycle: FakeLifecycle
    store: Store
    quits: list[bool]
    stop: Callable[[], None]

    def client(self, **more: Any) -> httpx.Client:
        """A client that is not the page: it has no cookie, and the token only when asked for it."""
        return httpx.Client(base_url=self.url, trust_env=False, timeout=20, **more)

    @property
    def ready(self) -> bool:
        return bool(httpx.get(f"{self.url}/bonsai/ready", trust_env=False).json()["ready"])


StartPage = Callable[..., Running]


def run_page(
    stack: ExitStack, folder: Path, *, page: dict[str, Any] | None = None, port: int = 0, **engine: Any
) -> Running:
    """Start a page and a paced engine behind it (``engine``: fields of PacedConfig); ``stack`` ends both.
    ``page`` changes fields of the PageContext."""
    paced = stack.enter_context(PacedServer(PacedConfig(**engine)))
    store = Store(folder / "data")
    listening = socket.create_server(("127.0.0.1", port))
    port = listening.getsockname()[1]
    lifecycle = FakeLifecycle(paced.url)
    quits: list[bool] = []
    context = PageContext(
        lifecycle=lifecycle,
        store=store,
        run_token=TOKEN,
        host="127.0.0.1",
        port=port,
        version="0.0.test",
        settings_rows=lambda: (Row("BONSAI_MODEL", "practice", "default"),),
        look=lambda: (Row("Processor", "two cores", "the system"),),
        notices=("A notice.",),
        on_quit=lambda: quits.append(True),
    )
    server = make_server(replace(context, **(page or {})))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()

    def end() -> None:
        server.should_exit = True
        thread.join(15)
        assert not thread.is_alive(), "the page's server does not stop"

    stack.callback(end)
    wait_until(lambda: server.started, 20, "the page's server")
    return Running(f"http://127.0.0.1:{port}", port, paced, lifecycle, store, quits, end)


@pytest.fixture
def start_page(tmp_path: Path) -> Iterator[StartPage]:
    """``run_page`` whose pages end with the test."""
    with ExitStack() as stack:
        yield lambda **given: run_page(stack, tmp_path, **given)


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Browser]:
    # Not for the whole session: Playwright keeps an event loop running in this thread as long as it lives.
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Visitor:
    """A person with a browser: every request is noted, and every error that a script reported."""

    context: BrowserContext
    requests: list[str]
    errors: list[str]

    def visit(self, page: Running, path: str = "/") -> Tab:
        tab = self.context.new_page()
        tab.on("pageerror", lambda problem: self.errors.append(str(problem)))
        tab.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        tab.goto(page.url + path)
        tab.wait_for_function("document.documentElement.dataset.ready === 'yes'", timeout=60_000)
        return tab


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Visitor]:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    requests: list[str] = []
    errors: list[str] = []
    context.on("request", lambda request: requests.append(request.url))
    yield Visitor(context, requests, errors)
    context.close()
    assert not errors, errors


def frames(answer: httpx.Response) -> list[dict[str, Any]]:
    """What a streamed answer told, one thing after the other."""
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    return [json.loads(part[6:]) for part in answer.text.split("\n\n") if part]


@contextmanager
def news(client: httpx.Client) -> Iterator[list[dict[str, Any]]]:
    """What the page pushes to a tab, in a list that grows; the first of it is there."""
    seen: list[dict[str, Any]] = []
    with client.stream("GET", "/bonsai/events", timeout=10) as answer:

        def read() -> None:
            try:
                for line in answer.iter_lines():
                    if line.startswith("data: "):
                        seen.append(json.loads(line[6:]))
            except httpx.HTTPError:
                return

        threading.Thread(target=read, daemon=True).start()
        wait_until(lambda: seen, 5, "the first news")
        yield seen


def ask(tab: Tab, text: str) -> None:
    """Type a message and send it."""
    tab.fill("#b-prompt", text)
    tab.press("#b-prompt", "Enter")


def answered(tab: Tab) -> None:
    """Wait until no answer is running any more."""
    tab.wait_for_function(
        "document.querySelector('.b-answer') && !document.querySelector('.b-running')", timeout=60_000
    )
