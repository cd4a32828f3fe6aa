"""How much of the engine's speed reaches the eye, and what the page costs, beside a plain Gradio Chatbot.

    python -m benchmarks.streaming [--quick] [--chromium /usr/bin/chromium]

A producer on loopback streams at an exact rate in llama-server's own protocol; the whole product runs on
it (BONSAI_LLAMA_SERVER). A real browser shows the page; a MutationObserver notes when the last piece of
the answer became part of it. Every figure is a ratio or a difference within one run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import BrowserContext, Page, sync_playwright

from benchmarks.common import (
    child,
    cpu_seconds,
    free_port,
    get,
    get_json,
    machine,
    processes_with,
    table,
    wait,
)
from launcher.store import Store, Turn
from tests.fakes import paced_engine

RATE = 200.0
OBSERVE = """
(selector) => {
  const clock = () => performance.timeOrigin + performance.now();
  window.seen = {first: null, last: null, updates: 0};
  new MutationObserver((changes) => {
    for (const change of changes) {
      const node = change.target.nodeType === 3 ? change.target.parentElement : change.target;
      if (!node || !node.closest || !node.closest(selector)) continue;
      if (![...change.addedNodes].some((n) => n.textContent.trim()) && change.type !== "characterData") continue;
      window.seen.last = clock();
      window.seen.first ??= window.seen.last;
      window.seen.updates += 1;
    }
  }).observe(document.body, {childList: true, characterData: true, subtree: true});
}
"""


@dataclass(frozen=True)
class Case:
    """One measurement: tokens of the answer, messages before it, pages at once, and the page measured."""

    tokens: int
    history: int
    panes: int = 1
    page: str = "bonsai"  # or "chatbot"


@dataclass(frozen=True)
class Result:
    """``visible`` is the share of the producer's rate that is seen, from its first token to the last one on
    the page; ``behind_s`` the delay of the last piece; processor times are in seconds a pane."""

    case: Case
    visible: float
    behind_s: float
    server_cpu_s: float
    browser_cpu_s: float
    seconds: float


def history_messages(count: int) -> list[dict[str, str]]:
    """``count`` messages of about 200 tokens with Markdown in them."""
    text = (
        "A paragraph with **bold** words and `code`.\n\n```python\nfor i in range(10):\n    print(i)\n```\n\n"
        + "word " * 120
    )
    return [
        {"role": "assistant" if i % 2 else "user", "content": text if i % 2 else "question"}
        for i in range(count)
    ]


def save_history(home: Path, count: int) -> str | None:
    """A conversation in the product's store; returns its id."""
    if not count:
        return None
    store = Store(home)
    turns = tuple(
        Turn(id=f"t{i}", role=message["role"], content=message["content"], created=time.time(), ended="stop")
        for i, message in enumerate(history_messages(count))
    )
    return store.save(replace(store.new("History"), turns=turns)).id


@dataclass
class Pane:
    page: Page
    server: psutil.Process
    engine: str
    answer: str  # selector of the running answer
    prompt: str  # selector of the prompt box


@contextmanager
def bonsai_pane(browser: BrowserContext, case: Case) -> Iterator[Pane]:
    """The product on the paced engine, with the history opened."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        program = paced_engine.install(home / "bin", rate=RATE, tokens=case.tokens)
        conversation = save_history(home, case.history)
        port, engine_port = free_port(), free_port()
        env = {"BONSAI_HOME": folder, "BONSAI_LLAMA_SERVER": str(program), "BONSAI_PORT": str(engine_port)}
        argv = [sys.executable, "-m", "launcher", "--no-browser", "--ui-port", str(port)]
        with child(argv, env) as process:
            wait(lambda: get(f"http://127.0.0.1:{engine_port}/health")[0] == 200, 60, "the engine")
            page = browser.new_page()
            page.goto(f"http://127.0.0.1:{port}/" + (f"#{conversation}" if conversation else ""))
            page.wait_for_selector("#b-prompt", timeout=60_000)
            if conversation:
                page.click("#b-list li button >> nth=0")
                page.wait_for_selector(f".b-turn >> nth={case.history - 1}", state="attached", timeout=30_000)
            engine = f"http://127.0.0.1:{engine_port}"
            yield Pane(page, psutil.Process(process.pid), engine, ".b-running .b-text", "#b-prompt")
            page.close()


@contextmanager
def chatbot_pane(browser: BrowserContext, case: Case) -> Iterator[Pane]:
    """The plain Chatbot on a producer of its own."""
    port, engine_port = free_port(), free_port()
    engine = f"http://127.0.0.1:{engine_port}"
    producer = [sys.executable, "-m", "tests.fakes.paced_server", "--port", str(engine_port)]
    producer += ["--rate", str(RATE), "--tokens", str(case.tokens)]
    argv = [
        sys.executable,
        "-m",
        "benchmarks.plain_chatbot",
        engine,
        str(port),
        json.dumps(history_messages(case.history)),
    ]
    with child(producer), child(argv, {"GRADIO_ANALYTICS_ENABLED": "False"}) as process:
        wait(lambda: get(f"http://127.0.0.1:{port}/")[0] == 200, 60, "the plain page")
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/")
        page.wait_for_selector("#prompt textarea", timeout=60_000)
        time.sleep(1)
        yield Pane(page, psutil.Process(process.pid), engine, "#chat", "#prompt textarea")
        page.close()


def run(browser: BrowserContext, profile: str, case: Case) -> Result:
    """Measure one case; figures of several panes are averaged (the worst for ``behind_s``)."""
    with ExitStack() as stack:
        make = bonsai_pane if case.page == "bonsai" else chatbot_pane
        panes = [stack.enter_context(make(browser, case)) for _ in range(case.panes)]
        time.sleep(2)
        browsers = processes_with(profile)
        cpu = cpu_seconds(browsers)
        servers = [cpu_seconds([pane.server]) for pane in panes]
        begun = time.monotonic()
        for pane in panes:
            pane.page.evaluate(OBSERVE, pane.answer)
            pane.page.fill(pane.prompt, "Write at length.")
            pane.page.press(pane.prompt, "Enter")
        seen = []
        for pane in panes:
            finished = _finished(pane, case.tokens)
            _settled(pane, finished)
            seen.append((finished, pane.page.evaluate("window.seen")))
        seconds = time.monotonic() - begun
        time.sleep(0.5)
        browser_cpu = cpu_seconds(browsers) - cpu
        server_cpu = sum(
            cpu_seconds([pane.server]) - before for pane, before in zip(panes, servers, strict=True)
        )
        sending = (case.tokens - 1) / RATE  # seconds from the producer's first token to its last
        behind = [s["last"] / 1000 - finished for finished, s in seen]
        shares = [sending / (sending + max(0.0, late)) for late in behind]
        return Result(
            case,
            sum(shares) / len(shares),
            max(behind),
            server_cpu / case.panes,
            browser_cpu / case.panes,
            seconds,
        )


def _finished(pane: Pane, tokens: int) -> float:
    """Wall-clock time at which the producer sent its last token."""
    chat: dict[str, Any] = {}

    def done() -> bool:
        nonlocal chat
        chats = get_json(f"{pane.engine}/paced")["chats"]
        chat = chats[-1] if chats else {}
        pane.page.wait_for_timeout(100)
        return chat.get("sent") == tokens and chat.get("finished_at") is not None

    wait(done, tokens / RATE * 2 + 60, "the producer to finish")
    return time.time() - (time.monotonic() - float(chat["finished_at"]))


def _settled(pane: Pane, finished: float) -> None:
    """Wait until nothing was added to the answer for two seconds."""
    while True:
        last = pane.page.evaluate("window.seen.last") or 0
        if time.time() - max(last / 1000, finished) > 2:
            return
        pane.page.wait_for_timeout(200)


def real_engine(browser: BrowserContext) -> tuple[float, float]:
    """The practice target's long answer on the embedded engine: (share of the engine's own decode speed
    that is seen from the first piece to the last, the engine's tokens a second)."""
    with tempfile.TemporaryDirectory() as folder:
        port, engine_port = free_port(), free_port()
        env = {"BONSAI_HOME": folder, "BONSAI_PORT": str(engine_port), "BONSAI_ENGINE": "embedded"}
        argv = [sys.executable, "-m", "launcher", "--no-browser", "--ui-port", str(port)]
        with child(argv, env):
            wait(lambda: get(f"http://127.0.0.1:{engine_port}/health")[0] == 200, 60, "the engine")
            page = browser.new_page()
            page.goto(f"http://127.0.0.1:{port}/")
            page.wait_for_selector("#b-prompt", timeout=60_000)
            page.evaluate(OBSERVE, ".b-running .b-text")
            page.fill("#b-prompt", "Give me a long answer.")
            page.press("#b-prompt", "Enter")
            page.wait_for_selector(".b-running", timeout=30_000)
            page.wait_for_selector(".b-running", state="detached", timeout=300_000)
            seen = page.evaluate("window.seen")
            page.close()
        store = Store(Path(folder))
        timings = store.load(store.list().conversations[0].id).turns[-1].timings
        assert timings is not None
        assert timings.tokens_per_second is not None
        visible = timings.predicted_tokens / ((seen["last"] - seen["first"]) / 1000)
        return visible / timings.tokens_per_second, timings.tokens_per_second


def idle(browser: BrowserContext) -> float:
    """Share of a core that the product's server uses with an open page and nothing to do."""
    with bonsai_pane(browser, Case(10, 0)) as pane:
        time.sleep(5)
        before, begun = cpu_seconds([pane.server]), time.monotonic()
        time.sleep(20)
        return (cpu_seconds([pane.server]) - before) / (time.monotonic() - begun)


CASES = [
    Case(500, 0),
    Case(2000, 0),
    Case(8000, 0),
    Case(500, 30),
    Case(2000, 30),
    Case(8000, 30),
    Case(2000, 0, panes=2),
    Case(8000, 30, panes=2),
    Case(2000, 0, page="chatbot"),
    Case(8000, 0, page="chatbot"),
]
QUICK = [Case(500, 0), Case(500, 30, panes=2), Case(500, 0, page="chatbot")]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short answers only")
    parser.add_argument("--chromium", default=os.environ.get("CHROMIUM", "/usr/bin/chromium"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-profile-") as profile, sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            profile, executable_path=options.chromium, args=["--no-sandbox"], headless=True
        )
        results = []
        for case in QUICK if options.quick else CASES:
            results.append(run(browser, profile, case))
            print(results[-1], file=sys.stderr, flush=True)
        idle_share = idle(browser)
        real_share, real_speed = real_engine(browser)
        browser.close()
    rows = [
        (
            {"bonsai": "Bonsai", "chatbot": "plain Chatbot, 50 ms"}[r.case.page],
            r.case.tokens,
            r.case.history,
            r.case.panes,
            f"{r.visible:.3f}",
            f"{r.behind_s:.2f} s",
            f"{r.server_cpu_s / r.seconds:.3f}",
            f"{r.browser_cpu_s:.1f} s",
        )
        for r in results
    ]
    print(machine(), "\n")
    headers = ["page", "tokens", "messages before", "panes", "visible / engine's rate", "behind at the end"]
    print(table([*headers, "server, cores", "browser, CPU"], rows))
    print(
        f"\nThe practice target's long answer, embedded engine at {real_speed:.0f} tokens/s: {real_share:.3f} of it seen."
    )
    print(f"Server at rest with an open page: {idle_share:.4f} of a core.")
    _compare(results)


def _compare(results: list[Result]) -> None:
    for tokens in (500, 2000, 8000):
        ours = [r for r in results if r.case == Case(tokens, 0)]
        plain = [r for r in results if r.case == Case(tokens, 0, page="chatbot")]
        if ours and plain:
            ratio = ours[0].browser_cpu_s / plain[0].browser_cpu_s
            print(f"Browser time for {tokens} tokens, Bonsai / plain Chatbot: {ratio:.2f}")


if __name__ == "__main__":
    main()
