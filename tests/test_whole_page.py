"""The whole product as a person meets it: ``bonsai`` started for real, a real engine, a real browser."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import expect

from launcher.practice import expected_acceptance
from tests.conftest import Bonsai, wait_until
from tests.visits import ANSWER_MS, START_MS, Visit, visiting

pytestmark = pytest.mark.browser


@pytest.fixture
def visit(bonsai: Bonsai, chromium_path: str) -> Iterator[Visit]:
    with visiting(bonsai, chromium_path, {"BONSAI_SPECULATIVE": "1"}) as visit:
        visit.ready()
        yield visit


def is_gone(engine: psutil.Process) -> bool:
    return not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE


def test_from_a_typed_prompt_to_a_conversation_that_stays(visit: Visit) -> None:
    tab = visit.tab
    visit.send("Give me a long answer.")
    tab.wait_for_function(
        "document.querySelector('.b-running .b-text')?.textContent.length > 20", timeout=ANSWER_MS
    )
    before = len(tab.inner_text(".b-running .b-text"))
    tab.wait_for_function(
        f"document.querySelector('.b-running .b-text').textContent.length > {before}", timeout=ANSWER_MS
    )
    assert visit.busy()
    tab.click("#b-send")  # while an answer runs, it is the Stop button
    visit.answered()
    wait_until(lambda: not visit.busy(), 2, "the engine to be idle after Stop")

    visit.send("Implement quicksort in Python.")
    tab.wait_for_selector(".b-turn.b-answer >> nth=1", timeout=ANSWER_MS)
    visit.answered()
    figures = tab.locator(".b-answer .b-figures").nth(1).inner_text()
    expected = expected_acceptance("code")
    assert f"{expected.draft_n_accepted}/{expected.draft_n}" in figures, figures
    assert re.search(r"343 tokens.*tok/s.*first token.*context", figures, re.DOTALL), figures
    assert "def quicksort(items):\n    " in tab.locator(".b-answer pre").first.inner_text()

    tab.reload()
    tab.wait_for_selector("text=def quicksort", timeout=ANSWER_MS)
    assert tab.locator(".b-answer").count() == 2
    assert {re.sub(r"^(\w+://[^/]+).*", r"\1/", url) for url in visit.asked if url.startswith("http")} == {
        visit.url
    }


def test_closing_the_tab_ends_the_engines_work(visit: Visit) -> None:
    visit.send("Give me a long answer.")
    visit.tab.wait_for_selector(".b-running .b-text", timeout=ANSWER_MS)
    wait_until(visit.busy, 10, "the engine to work")
    visit.tab.close()
    wait_until(lambda: not visit.busy(), 3, "the engine to be idle")


def test_the_switch_restarts_the_engine_without_the_drafter(visit: Visit) -> None:
    tab = visit.tab
    first = visit.engine().pid
    tab.get_by_role("button", name=re.compile("Speculation")).click()
    if tab.get_by_role("dialog").count():
        tab.get_by_role("dialog").get_by_role("button").last.click()
    wait_until(lambda: first not in [engine.pid for engine in visit.engines()], 20, "the restart")
    visit.ready()
    visit.send("Implement quicksort in Python.")
    tab.wait_for_selector(".b-answer .b-figures", timeout=ANSWER_MS)
    visit.answered()
    assert "accepted" not in tab.locator(".b-answer .b-figures").first.inner_text()


@pytest.mark.system("posix")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ending_it_leaves_nothing_behind(visit: Visit, number: signal.Signals, home: Path) -> None:
    engine = visit.engine()
    visit.process.send_signal(number)
    assert visit.process.wait(20) in (0, 130, 128 + number)
    assert is_gone(engine)
    assert list((home / "run").iterdir()) == []


@pytest.mark.system("posix")
def test_an_impatient_second_interrupt_ends_it_without_a_traceback(visit: Visit, bonsai: Bonsai) -> None:
    engine = visit.engine()
    visit.process.send_signal(signal.SIGINT)
    time.sleep(0.02)  # so that both arrive; the second while the first is being obeyed
    visit.process.send_signal(signal.SIGINT)
    assert visit.process.wait(20) == 130
    assert "Traceback" not in bonsai.output()
    assert is_gone(engine)


@pytest.mark.system("linux")
def test_killing_it_takes_the_engine_along(visit: Visit) -> None:
    engine = visit.engine()
    visit.process.kill()
    visit.process.wait(5)
    wait_until(lambda: is_gone(engine), 5, "the engine to die with the launcher")


def test_an_engine_killed_in_mid_answer_comes_back_and_the_next_message_works(visit: Visit) -> None:
    tab = visit.tab
    first = visit.engine().pid
    visit.send("Give me a long answer.")
    tab.wait_for_function(
        "document.querySelector('.b-running .b-text')?.textContent.length > 20", timeout=ANSWER_MS
    )
    visit.engine().kill()
    visit.answered()
    answer = tab.locator(".b-answer").first
    expect(answer.locator(".b-note")).to_contain_text(
        "The answer broke off: the engine ended. What came is kept."
    )
    assert len(answer.locator(".b-text").inner_text()) > 20
    wait_until(lambda: visit.engines() and visit.engine().pid != first, 20, "another engine")
    visit.ready()
    expect(tab.locator("#b-trouble")).to_contain_text("The engine had a problem and works again")
    visit.send("Implement quicksort in Python.")
    visit.answered()
    expect(tab.locator(".b-answer").last).to_contain_text("def quicksort")
    expect(tab.locator(".b-answer .b-figures").last).to_contain_text("accepted")
    tab.get_by_role("button", name="Put this note away").click()
    expect(tab.locator("#b-trouble")).to_be_empty()
    assert not visit.errors, visit.errors


def test_without_an_engine_the_page_opens_and_names_the_ways(bonsai: Bonsai, chromium_path: str) -> None:
    with visiting(bonsai, chromium_path, {"BONSAI_ENGINE": "mainline"}) as visit:
        visit.tab.wait_for_selector("text=bonsai engines build", timeout=START_MS)
        visit.tab.wait_for_selector(
            "text=asks for a mainline engine, but none is on this machine", timeout=5_000
        )


def test_a_taken_port_that_nobody_asked_for_is_told_and_left(bonsai: Bonsai) -> None:
    with socket.socket() as listener:
        with contextlib.suppress(OSError):  # somebody else has it already: as good
            listener.bind(("127.0.0.1", 7860))
            listener.listen()
        process = bonsai.popen("--no-browser")
        try:
            wait_until(lambda: "Port 7860 is taken by" in bonsai.output(), 60, "the word about the port")
            assert process.poll() is None
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)
