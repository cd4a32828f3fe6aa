"""The page in a real browser: conversations, messages, settings, the engine's switch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page as Tab
from playwright.sync_api import expect

from tests.conftest import wait_until
from tests.webui.conftest import TOKEN, StartPage, Visitor, answered, ask

pytestmark = [pytest.mark.browser]


def menu(tab: Tab, title: str, item: str) -> None:
    """Open the menu of a conversation and choose an item."""
    tab.hover(f".b-item-open[title='{title}']")
    tab.click(f"button[aria-label='More for {title}']")
    tab.get_by_role("menuitem", name=item, exact=True).click()


def test_edit_and_send_again(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text="Fine.", rate=200)
    tab = visitor.visit(page)
    for text in ("One", "Two"):
        ask(tab, text)
        answered(tab)
    expect(tab.locator(".b-turn")).to_have_count(4)
    tab.locator(".b-prompt").first.hover()
    tab.locator(".b-prompt").first.get_by_role("button", name="Edit").click()
    expect(tab.locator(".b-edit")).to_be_focused()
    tab.locator(".b-edit").fill("Other")
    tab.get_by_role("button", name="Send", exact=True).first.click()
    answered(tab)
    expect(tab.locator(".b-turn")).to_have_count(2)
    expect(tab.locator(".b-bubble")).to_have_text("Other")
    assert page.engine.chats[-1].body["messages"] == [{"role": "user", "content": "Other"}]


def test_an_edit_can_be_called_off(start_page: StartPage, visitor: Visitor) -> None:
    tab = visitor.visit(start_page(text="Fine.", rate=200))
    ask(tab, "One")
    answered(tab)
    tab.locator(".b-answer").hover()
    tab.locator(".b-answer").get_by_role("button", name="Edit the text").click()
    tab.locator(".b-edit").press("Escape")
    expect(tab.locator(".b-answer .b-text")).to_have_text("Fine.")
    tab.locator(".b-answer").get_by_role("button", name="Edit the text").click()
    expect(tab.locator(".b-edit")).to_be_focused()
    tab.locator(".b-edit").fill("Mine.")
    tab.get_by_role("button", name="Save").click()
    expect(tab.locator(".b-answer .b-text")).to_have_text("Mine.")


def test_answer_again_and_delete(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text="Fine.", rate=200)
    tab = visitor.visit(page)
    ask(tab, "One")
    answered(tab)
    tab.locator(".b-answer").get_by_role("button", name="Answer again").click()
    wait_until(lambda: len(page.engine.chats) == 2, 10, "a second answer")
    answered(tab)
    expect(tab.locator(".b-turn")).to_have_count(2)
    tab.locator(".b-answer").get_by_role("button", name="Delete").click()
    tab.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(tab.locator(".b-answer")).to_have_count(1)
    tab.locator(".b-answer").get_by_role("button", name="Delete").click()
    tab.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(tab.locator(".b-answer")).to_have_count(0)
    # A message without an answer offers to be answered.
    tab.get_by_role("button", name="Answer", exact=True).click()
    expect(tab.locator(".b-answer .b-text")).to_have_text("Fine.")


def test_conversations_are_renamed_switched_and_deleted(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text="Fine.", rate=200)
    tab = visitor.visit(page)
    ask(tab, "First talk")
    answered(tab)
    tab.click("#b-new")
    expect(tab.locator("#b-empty")).to_be_visible()
    ask(tab, "Second talk")
    answered(tab)
    expect(tab.locator(".b-item-open")).to_have_count(2)
    menu(tab, "First talk", "Rename")
    tab.get_by_role("dialog").get_by_role("textbox").fill("Renamed")
    tab.keyboard.press("Enter")
    tab.click(".b-item-open[title='Renamed']")
    expect(tab.locator(".b-bubble")).to_have_text("First talk")
    expect(tab.locator("#b-title")).to_have_text("Renamed")
    menu(tab, "Renamed", "Delete")
    tab.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(tab.locator(".b-item-open")).to_have_count(1)
    expect(tab.locator("#b-empty")).to_be_visible()
    assert [it.title for it in page.store.list().conversations] == ["Second talk"]


def test_export_and_import(start_page: StartPage, visitor: Visitor, tmp_path: Path) -> None:
    page = start_page(text="A *fine* answer.", rate=200)
    tab = visitor.visit(page)
    ask(tab, "Keep this")
    answered(tab)
    with tab.expect_download() as caught:
        menu(tab, "Keep this", "Export as Markdown")
    assert "A *fine* answer." in Path(caught.value.path()).read_text()
    with tab.expect_download() as caught:
        menu(tab, "Keep this", "Export as JSON")
    saved = tmp_path / "talk.json"
    caught.value.save_as(saved)
    assert caught.value.suggested_filename == "Keep this.json"
    json.loads(saved.read_text())
    menu(tab, "Keep this", "Delete")
    tab.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(tab.locator(".b-item-open")).to_have_count(0)
    tab.set_input_files("#b-import-file", saved)
    expect(tab.locator(".b-bubble")).to_have_text("Keep this")
    expect(tab.locator(".b-answer em")).to_have_text("fine")
    saved.write_text("nonsense")
    tab.set_input_files("#b-import-file", saved)
    expect(tab.locator(".b-toast.bad")).to_be_visible()
    visitor.errors.clear()  # the refusal itself is noted by the browser's console


def test_tint_marks_the_drafters_tokens_while_streaming_and_after(
    start_page: StartPage, visitor: Visitor
) -> None:
    page = start_page(rate=60, tokens=120, blocks=((4, 3), (4, 0)))
    tab = visitor.visit(page)
    tab.click("#b-tint")
    expect(tab.locator("#b-tint")).to_have_attribute("aria-pressed", "true")
    ask(tab, "Go")
    tab.wait_for_function("document.querySelectorAll('.b-running .b-draft').length > 3")
    answered(tab)
    answer = tab.locator(".b-answer")
    kept = page.store.load(page.store.list().conversations[0].id).turns[-1]
    drafted, at = [], 0
    for length, origin in kept.runs:
        if origin == "draft":
            drafted.append(kept.content[at : at + length])
        at += length
    spans = answer.locator(".b-text .b-draft").all_text_contents()
    assert spans == drafted
    assert answer.locator(".b-text").text_content() == kept.content
    expect(answer.locator(".b-legend")).to_contain_text("from the drafter")
    # Not by colour alone.
    border = "e => getComputedStyle(e).borderBottomStyle"
    assert answer.locator(".b-text .b-draft").first.evaluate(border) == "solid"
    tab.click("#b-tint")
    expect(answer.locator(".b-md")).to_be_visible()
    tab.reload()
    expect(tab.locator("#b-tint")).to_have_attribute("aria-pressed", "false", timeout=20_000)


def test_tint_switched_in_mid_answer(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(rate=40, tokens=300, blocks=((4, 3), (4, 0)))
    tab = visitor.visit(page)
    ask(tab, "Go")
    tab.wait_for_function("document.querySelector('.b-running .b-text')?.textContent.length > 60")
    tab.click("#b-tint")
    tab.wait_for_function("document.querySelectorAll('.b-running .b-draft').length > 5")
    tab.click("#b-tint")
    expect(tab.locator(".b-running .b-draft")).to_have_count(0)
    grown = tab.locator(".b-running .b-text").text_content() or ""
    tab.wait_for_function(
        "n => document.querySelector('.b-running .b-text').textContent.length > n", arg=len(grown) + 20
    )
    answered(tab)
    kept = page.store.load(page.store.list().conversations[0].id).turns[-1]
    assert kept.content.startswith(grown[:40].strip()[:5])


def test_settings_reach_the_engine_and_stay(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text="Fine.", rate=200)
    tab = visitor.visit(page)
    tab.click("#b-settings-open")
    temperature = tab.locator("#b-set-temperature input[type=number]")
    expect(temperature).to_have_value("0.7")
    temperature.fill("0.25")
    tab.locator("#b-set-system_prompt textarea").fill("Be brief.")
    tab.locator("#b-set-max_tokens input").fill("77")
    tab.locator("#b-set-seed input").fill("5")
    wait_until(
        lambda: (
            (it := page.store.chat_settings()) and (it.temperature, it.max_tokens, it.seed) == (0.25, 77, 5)
        ),
        5,
        "the settings to be kept",
    )
    tab.click("#b-settings-close")
    tab.click("#b-think")
    expect(tab.locator("#b-think")).to_have_attribute("aria-pressed", "false")
    ask(tab, "Go")
    answered(tab)
    body = page.engine.chats[-1].body
    assert (body["temperature"], body["max_tokens"], body["seed"]) == (0.25, 77, 5)
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    tab.reload()
    tab.wait_for_function("document.documentElement.dataset.ready === 'yes'", timeout=30_000)
    tab.click("#b-settings-open")
    expect(tab.locator("#b-set-system_prompt textarea")).to_have_value("Be brief.")
    expect(tab.locator("#b-set-max_tokens input")).to_have_value("77")
    # Emptied, it is automatic again.
    tab.locator("#b-set-max_tokens input").fill("")
    wait_until(lambda: page.store.chat_settings().max_tokens is None, 5, "the limit to be automatic")


def test_the_speculation_switch_says_what_it_costs(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text="Fine.", rate=200)
    tab = visitor.visit(page)
    expect(tab.locator("#b-spec")).to_have_attribute("aria-pressed", "true")
    tab.click("#b-spec")
    tab.get_by_role("dialog").get_by_role("button", name="Switch off").click()
    wait_until(lambda: page.lifecycle.started == [False], 5, "the restart")
    expect(tab.locator("#b-spec")).to_have_attribute("aria-pressed", "false")
    tab.click("#b-spec")
    expect(tab.get_by_role("dialog")).to_contain_text("reads the whole conversation again")
    expect(tab.get_by_role("dialog")).to_contain_text("on a Mac it may be slower")
    tab.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert page.lifecycle.started == [False]


def test_without_a_drafter_the_switch_is_off_and_says_why(start_page: StartPage, visitor: Visitor) -> None:
    from tests.webui.fake_lifecycle import a_plan

    page = start_page(text="Fine.", rate=200)
    page.lifecycle.become(plan=a_plan(speculative=True, drafter=False))
    tab = visitor.visit(page)
    expect(tab.locator("#b-spec")).to_be_disabled()
    expect(tab.locator("#b-spec")).to_have_attribute(
        "title", "No speculation: no drafter was given with BONSAI_DRAFTER"
    )


def test_a_failed_engine_says_what_to_do_and_can_be_tried_again(
    start_page: StartPage, visitor: Visitor
) -> None:
    page = start_page(text="Fine.", rate=200)
    tab = visitor.visit(page)
    page.lifecycle.become(
        phase="failed",
        message="It ended.",
        error="The engine ended while loading.",
        remedy="Free some memory.",
    )
    banner = tab.get_by_role("alert")
    expect(banner).to_contain_text("The engine ended while loading. Free some memory.")
    expect(tab.locator("#b-status")).to_contain_text("Failed")
    banner.get_by_role("button", name="Retry").click()
    expect(tab.locator("#b-status")).to_contain_text("Ready")
    expect(banner).to_have_count(0)
    assert page.lifecycle.started == [None]


@pytest.mark.case("E-11")
def test_a_full_context_offers_two_ways_out(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text="Fine.", rate=300, context=512)
    tab = visitor.visit(page)
    for _ in range(4):
        ask(tab, "word " * 160)
        answered(tab)
    expect(tab.locator(".b-note.b-bad")).to_contain_text("the context holds 512")
    expect(tab.get_by_role("button", name="New conversation")).to_be_visible()
    tab.get_by_role("button", name="Leave out the oldest messages").click()
    answered(tab)
    expect(tab.locator(".b-answer").last.locator(".b-note")).to_contain_text(
        "left out of what the model read"
    )
    expect(tab.locator(".b-answer").last.locator(".b-text")).to_have_text("Fine.")


def test_an_answer_cut_by_the_context_is_gone_on_with_without_the_oldest(
    start_page: StartPage, visitor: Visitor
) -> None:
    page = start_page(rate=500, tokens=300, context=400)
    tab = visitor.visit(page)
    ask(tab, "word " * 180)
    answered(tab)
    expect(tab.locator(".b-note")).to_contain_text("Cut here: the context of 400 tokens is full")
    first = tab.locator(".b-answer .b-text").inner_text()
    tab.get_by_role("button", name="Leave out the oldest messages").click()
    tab.wait_for_function(
        "document.querySelectorAll('.b-answer:not(.b-running)').length === 2", timeout=30_000
    )
    assert tab.locator(".b-answer").first.locator(".b-text").inner_text() == first
    expect(tab.locator(".b-answer").last.locator(".b-note")).to_contain_text(
        "left out of what the model read"
    )


@pytest.mark.case("E-09")
def test_an_answer_cut_by_its_limit_offers_to_go_on(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(rate=300, tokens=300)
    page.store.save_chat_settings(page.store.chat_settings().__class__(max_tokens=20))
    tab = visitor.visit(page)
    ask(tab, "Go")
    answered(tab)
    expect(tab.locator(".b-note")).to_contain_text("Cut at the limit of 20 tokens")
    tab.get_by_role("button", name="Continue").click()
    wait_until(lambda: len(page.engine.chats) == 2, 10, "the next request")
    answered(tab)


def test_the_machine_tab_and_quit(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text="Fine.", rate=200)
    tab = visitor.visit(page)
    tab.get_by_role("tab", name="Machine").click()
    machine = tab.locator("#b-machine")
    expect(machine).to_contain_text("A notice.")
    expect(machine).to_contain_text("--spec-draft-n-max 4")
    expect(machine).to_contain_text("<b>one line</b>")
    expect(machine).to_contain_text("BONSAI_MODEL")
    assert machine.locator("b").count() == 0
    tab.get_by_role("button", name="Quit Bonsai").click()
    tab.get_by_role("dialog").get_by_role("button", name="Quit").click()
    expect(machine).to_contain_text("Bonsai has been closed")
    expect(tab.locator("#b-status-text")).to_have_text("Closed")
    wait_until(lambda: page.quits, 5, "on_quit")
    tab.get_by_role("tab", name="Chat").click()
    tab.get_by_role("tab", name="Machine").click()
    expect(machine).to_contain_text("Bonsai has been closed")
    # Nobody is asked any more: a request to the server that went would stand among the tab's errors.


def test_deleting_a_conversation_ends_its_answer_and_the_engines_work(
    start_page: StartPage, visitor: Visitor
) -> None:
    page = start_page(rate=50, tokens=5000)
    tab = visitor.visit(page)
    ask(tab, "Something long")
    tab.wait_for_function("document.querySelector('.b-running .b-text')?.textContent.length > 20")
    menu(tab, "Something long", "Delete")
    tab.get_by_role("dialog").get_by_role("button", name="Delete").click()
    wait_until(lambda: bool(page.engine.closed_at), 2, "the engine's work to end")
    expect(tab.locator(".b-turn")).to_have_count(0)
    expect(tab.locator(".b-item")).to_have_count(0)
    expect(tab.locator(".b-toast")).to_have_count(0)
    expect(tab.locator("#b-send")).to_have_attribute("aria-label", "Send")


def test_a_conversation_deleted_elsewhere_in_mid_answer_leaves_the_tab(
    start_page: StartPage, visitor: Visitor
) -> None:
    page = start_page(rate=50, tokens=5000)
    tab = visitor.visit(page)
    ask(tab, "Something long")
    tab.wait_for_function("document.querySelector('.b-running .b-text')?.textContent.length > 20")
    gone = page.store.list().conversations[0].id
    with page.client(headers={"X-Bonsai-Token": TOKEN}) as client:
        assert client.delete(f"/bonsai/conversations/{gone}").status_code == 200
    wait_until(lambda: bool(page.engine.closed_at), 2, "the engine's work to end")
    expect(tab.locator(".b-turn")).to_have_count(0)
    assert page.store.list().conversations == ()
    tab.close()
    visitor.errors.clear()  # the tab may have looked once more, in vain, for what was deleted


def test_deleting_a_message_ends_the_answer_to_it(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(rate=50, tokens=5000)
    tab = visitor.visit(page)
    ask(tab, "Something long")
    tab.wait_for_function("document.querySelector('.b-running .b-text')?.textContent.length > 20")
    tab.hover(".b-prompt")
    tab.get_by_role("button", name="Delete with its answer").click()
    tab.get_by_role("dialog").get_by_role("button", name="Delete").click()
    wait_until(lambda: bool(page.engine.closed_at), 2, "the engine's work to end")
    expect(tab.locator(".b-turn")).to_have_count(0)


def test_a_tab_that_was_hidden_catches_up(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text="An answer.", rate=200)
    tab = visitor.visit(page)
    ask(tab, "Before")
    answered(tab)
    hide = "now => { Object.defineProperty(document, 'hidden', {value: now, configurable: true});"
    hide += " document.dispatchEvent(new Event('visibilitychange')); }"
    tab.evaluate(hide, True)
    kept = page.store.list().conversations[0].id
    with page.client(headers={"X-Bonsai-Token": TOKEN}) as client:
        client.patch(f"/bonsai/conversations/{kept}", json={"title": "Renamed elsewhere"})
        client.post("/bonsai/chat", json={"text": "From elsewhere", "conversation": kept})
    expect(tab.locator(".b-bubble")).to_have_count(1)
    tab.evaluate(hide, False)
    expect(tab.locator(".b-bubble")).to_have_count(2)
    expect(tab.locator(".b-item-open")).to_have_text("Renamed elsewhere")
