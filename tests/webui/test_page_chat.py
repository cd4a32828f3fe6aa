"""The page in a real browser: asking, watching, stopping, and finding everything again."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.conftest import wait_until
from tests.webui.conftest import StartPage, Visitor, answered, ask

pytestmark = [pytest.mark.browser]

TEXT = (
    "# A title\n\nSome **bold** words.\n\n```python\ndef f(x):\n    return x\n```\n\n- one\n- two\n\nThe end."
)


def test_an_answer_grows_and_ends_as_markdown_with_its_figures(
    start_page: StartPage, visitor: Visitor
) -> None:
    page = start_page(text=TEXT, rate=15, blocks=((4, 3), (4, 1)))
    tab = visitor.visit(page)
    ask(tab, "Write something")
    tab.wait_for_function("document.querySelector('.b-running .b-text')?.textContent.length > 5")
    early = tab.locator(".b-running .b-text").inner_text()
    # While it runs, a finished block looks as it will in the end, and the answer goes on growing.
    expect(tab.locator(".b-running h3.b-h1")).to_have_text("A title")
    tab.wait_for_function("n => document.querySelector('.b-text')?.innerText.length > n", arg=len(early) + 20)
    answered(tab)
    answer = tab.locator(".b-answer").last
    expect(answer.locator("strong")).to_have_text("bold")
    assert answer.locator("pre code").inner_text().rstrip() == "def f(x):\n    return x"
    expect(answer.locator("li")).to_have_count(2)
    figures = answer.locator(".b-figures").inner_text()
    for part in ("tokens", "tok/s", "first token", "accepted (", "context "):
        assert part in figures
    expect(tab.locator(".b-item-open")).to_have_text("Write something")


@pytest.mark.case("E-02")
def test_stop_ends_the_engines_work_and_keeps_what_came(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(rate=40, tokens=4000)
    tab = visitor.visit(page)
    ask(tab, "Long please")
    tab.wait_for_function("document.querySelector('.b-running .b-text')?.textContent.length > 30")
    expect(tab.locator("#b-send")).to_have_attribute("aria-label", "Stop")
    tab.click("#b-send")
    answered(tab)
    wait_until(lambda: page.engine.closed_at, 2, "the engine's connection to close")
    assert page.engine.working == 0
    expect(tab.locator(".b-note")).to_have_text("Stopped.")
    kept = page.store.load(page.store.list().conversations[0].id).turns[-1]
    assert kept.ended == "stopped"
    assert len(kept.content) > 20
    # The next message works at once.
    ask(tab, "Again")
    tab.wait_for_function("document.querySelector('.b-running .b-text')?.textContent.length > 5")
    tab.keyboard.press("Escape")
    answered(tab)


@pytest.mark.case("E-02")
def test_stop_before_the_first_token(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(silence_s=60)
    tab = visitor.visit(page)
    ask(tab, "Hello")
    wait_until(lambda: page.engine.chats, 10, "the engine to get the request")
    tab.keyboard.press("Escape")
    wait_until(lambda: page.engine.closed_at, 2, "the engine's connection to close")
    answered(tab)
    expect(tab.locator(".b-note")).to_have_text("Stopped before the first token.")


@pytest.mark.case("E-02")
@pytest.mark.parametrize("way", ["close", "reload"])
def test_leaving_the_page_stops_the_engine(start_page: StartPage, visitor: Visitor, way: str) -> None:
    page = start_page(rate=30, tokens=4000)
    tab = visitor.visit(page)
    ask(tab, "Long please")
    tab.wait_for_function("document.querySelector('.b-running .b-text')?.textContent.length > 20")
    if way == "close":
        tab.close()
    else:
        tab.reload()
    wait_until(lambda: page.engine.closed_at, 2, "the engine's connection to close")
    wait_until(
        lambda: page.store.load(page.store.list().conversations[0].id).turns[-1].role == "assistant",
        3,
        "what came to be kept",
    )
    if way == "reload":
        expect(tab.locator(".b-note")).to_have_text("Stopped.", timeout=20_000)


def test_a_reload_and_a_new_tab_find_the_conversation(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text="A short answer.", rate=200)
    tab = visitor.visit(page)
    ask(tab, "Remember me")
    answered(tab)
    tab.reload()
    expect(tab.locator(".b-bubble")).to_have_text("Remember me", timeout=30_000)
    expect(tab.locator(".b-answer .b-text")).to_have_text("A short answer.")
    other = visitor.visit(page)
    expect(other.locator(".b-bubble")).to_have_text("Remember me")


@pytest.mark.case("E-06")
def test_thoughts_are_folded_and_never_sent_back(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text="So it is.", rate=60, thinking_tokens=40)
    tab = visitor.visit(page)
    ask(tab, "Think")
    tab.wait_for_selector(".b-running .b-thinking:not([hidden])")
    tab.click(".b-running .b-thinking summary")
    tab.wait_for_function("document.querySelector('.b-running .b-thoughts').textContent.length > 20")
    answered(tab)
    expect(tab.locator(".b-thinking summary")).to_contain_text("Thought for")
    # It was opened by hand and stays open.
    expect(tab.locator(".b-thinking")).to_have_attribute("open", "")
    ask(tab, "And now?")
    tab.wait_for_function(
        "document.querySelectorAll('.b-answer:not(.b-running)').length === 2", timeout=30_000
    )
    sent = page.engine.chats[-1].body["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert sent[1]["content"] == "So it is."


@pytest.mark.case("E-08")
def test_a_second_tab_waits_its_turn_and_can_be_stopped(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(rate=30, tokens=4000)
    first = visitor.visit(page)
    ask(first, "First")
    first.wait_for_function("document.querySelector('.b-running .b-text')?.textContent.length > 10")
    second = visitor.visit(page)
    second.click("#b-new")
    ask(second, "Second")
    expect(second.locator(".b-phase")).to_contain_text("busy with another answer", timeout=10_000)
    second.keyboard.press("Escape")
    answered(second)
    expect(second.locator(".b-note")).to_have_text("Stopped before the first token.")
    assert len(page.engine.chats) == 1
    assert page.engine.working == 1
    first.keyboard.press("Escape")
    answered(first)


@pytest.mark.case("E-11")
def test_reading_the_prompt_is_shown(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text="Done.", prompt_s=3.0)
    tab = visitor.visit(page)
    ask(tab, "word " * 60)
    expect(tab.locator(".b-phase")).to_contain_text("Reading the prompt,", timeout=5_000)
    expect(tab.locator(".b-phase")).to_contain_text(" s", timeout=5_000)
    answered(tab)


def test_shift_enter_is_a_new_line(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text="Yes.", rate=200)
    tab = visitor.visit(page)
    tab.fill("#b-prompt", "one")
    tab.press("#b-prompt", "Shift+Enter")
    tab.keyboard.type("two")
    assert tab.input_value("#b-prompt") == "one\ntwo"
    tab.press("#b-prompt", "Enter")
    answered(tab)
    assert page.engine.chats[0].body["messages"] == [{"role": "user", "content": "one\ntwo"}]


def test_a_broken_answer_keeps_what_came_and_says_so(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(rate=200, tokens=400, die_after=30)
    tab = visitor.visit(page)
    ask(tab, "Go")
    answered(tab)
    expect(tab.locator(".b-note.b-bad")).to_contain_text("broke off")
    assert len(tab.locator(".b-answer .b-text").inner_text()) > 20
    expect(tab.locator(".b-offers button")).to_have_text("Try again")


def test_a_tab_outlives_a_restart_of_bonsai(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text="A short answer.", rate=200)
    tab = visitor.visit(page)
    ask(tab, "Remember me")
    answered(tab)
    tab.fill("#b-prompt", "half a thought")
    page.stop()
    expect(tab.locator(".b-banner.bad")).to_contain_text("Bonsai does not answer", timeout=10_000)
    start_page(text="A short answer.", rate=200, port=page.port, page={"run_token": "another"})
    expect(tab.locator(".b-banner.bad")).to_have_count(0, timeout=30_000)
    expect(tab.locator(".b-bubble")).to_have_text("Remember me", timeout=20_000)
    assert tab.input_value("#b-prompt") == "half a thought"
    tab.press("#b-prompt", "Enter")
    tab.wait_for_function(
        "document.querySelectorAll('.b-answer:not(.b-running)').length === 2", timeout=30_000
    )
    visitor.errors.clear()  # what the browser noted while nobody answered
