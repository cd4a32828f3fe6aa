"""Our routes, over HTTP, as the page's scripts use them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import httpx
import pytest

from launcher.store import Turn
from tests.conftest import wait_until
from tests.webui.conftest import TOKEN, Running, frames, news, run_page


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with ExitStack() as stack:
        page = run_page(
            stack, tmp_path_factory.mktemp("routes"), text="An *answer*.", rate=300, blocks=((4, 2),)
        )
        wait_until(lambda: page.ready, 60, "the page")
        yield page


@pytest.fixture
def client(page: Running) -> Iterator[httpx.Client]:
    for it in page.store.list().conversations:
        page.store.delete(it.id)
    with page.client(headers={"X-Bonsai-Token": TOKEN}) as client:
        yield client


def chat(client: httpx.Client, **body: Any) -> list[dict[str, Any]]:
    return frames(client.post("/bonsai/chat", json=body))


def test_a_first_message_begins_a_conversation(client: httpx.Client, page: Running) -> None:
    sent = chat(client, text="How are you?")
    assert sent[0]["begin"]["title"] == "How are you?"
    assert sent[0]["prompt"]["content"] == "How are you?"
    done = sent[-1]["done"]
    assert done["html"] == "<p>An <em>answer</em>.</p>\n"
    assert "".join(frame.get("t", "") for frame in sent) == "An *answer*."
    # The blocks drawn on the way are the answer's HTML.
    assert "".join(op[2] for frame in sent for op in frame.get("o", []) if op[0] == "b") == done["html"]
    assert client.get(f"/bonsai/conversations/{sent[0]['begin']['id']}").json()["turns"][1] == done
    assert len(page.store.list().conversations) == 1


def test_send_again_and_edit(client: httpx.Client) -> None:
    first = chat(client, text="One")[0]
    conversation = first["begin"]["id"]
    chat(client, text="Two", conversation=conversation)
    chat(client, action="again", conversation=conversation, turn=first["prompt"]["id"])
    turns = client.get(f"/bonsai/conversations/{conversation}").json()["turns"]
    assert [turn["content"] for turn in turns] == ["One", "An *answer*.", "Two", "An *answer*."]
    chat(client, action="edit", conversation=conversation, turn=first["prompt"]["id"], text="Other")
    turns = client.get(f"/bonsai/conversations/{conversation}").json()["turns"]
    assert [turn["content"] for turn in turns] == ["Other", "An *answer*."]


def test_changing_and_deleting_messages(client: httpx.Client) -> None:
    sent = chat(client, text="One")
    at = f"/bonsai/conversations/{sent[0]['begin']['id']}/turns"
    changed = client.patch(f"{at}/{sent[-1]['done']['id']}", json={"text": "By **hand**"}).json()
    assert changed["turns"][1]["html"] == "<p>By <strong>hand</strong></p>\n"
    assert client.delete(f"{at}/{sent[0]['prompt']['id']}").json()["turns"] == []


def test_rename_delete_and_list(client: httpx.Client) -> None:
    one = chat(client, text="One")[0]["begin"]["id"]
    chat(client, text="Two")
    assert (
        client.patch(f"/bonsai/conversations/{one}", json={"title": " A  new\nname "}).json()["title"]
        == "A new name"
    )
    listed = client.get("/bonsai/conversations").json()["conversations"]
    assert {it["title"] for it in listed} == {"A new name", "Two"}
    assert client.delete(f"/bonsai/conversations/{one}").status_code == 200
    assert [it["title"] for it in client.get("/bonsai/conversations").json()["conversations"]] == ["Two"]


def test_what_was_exported_can_be_imported(client: httpx.Client) -> None:
    one = chat(client, text="Ünïcode → name / ../x")[0]["begin"]["id"]
    answer = client.get(f"/bonsai/conversations/{one}/export", params={"form": "json"})
    assert answer.headers["content-disposition"] == (
        "attachment; filename=\"n-code-name-x.json\"; filename*=UTF-8''%C3%9Cn%C3%AFcode%20name%20x.json"
    )
    made = client.post("/bonsai/conversations/import", content=answer.content).json()
    assert made["id"] != one
    before = client.get(f"/bonsai/conversations/{one}").json()
    assert [turn["content"] for turn in made["turns"]] == [turn["content"] for turn in before["turns"]]
    markdown = client.get(f"/bonsai/conversations/{one}/export", params={"form": "markdown"})
    assert markdown.headers["content-type"].startswith("text/markdown")
    assert "An *answer*." in markdown.text


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff\xfe\x00", b"{}", b"[" * 100_000])
def test_a_file_that_is_no_export(client: httpx.Client, content: bytes) -> None:
    answer = client.post("/bonsai/conversations/import", content=content)
    assert answer.status_code in {400, 409}
    assert answer.json()["error"]
    assert client.get("/bonsai/conversations").json()["conversations"] == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "chat", {"text": "  "}),
        ("POST", "chat", {"text": 5}),
        ("POST", "chat", []),
        ("POST", "chat", {"action": "again", "conversation": "0123456789abcdef", "turn": "x"}),
        ("POST", "chat", {"text": "x", "conversation": "../../etc/passwd"}),
        ("GET", "conversations/0123456789abcdef", None),
        ("GET", "conversations/..%2F..%2Fetc%2Fpasswd", None),
        ("DELETE", "conversations/..%2Fsettings", None),
        ("GET", "conversations/0123456789abcdef/export?form=exe", None),
        ("PUT", "settings", {"temperature": 99}),
        ("PUT", "settings", "hot"),
        ("POST", "engine", {"speculative": "maybe"}),
    ],
)
def test_mistakes_are_told_in_a_sentence(client: httpx.Client, method: str, path: str, body: Any) -> None:
    answer = client.request(method, f"/bonsai/{path}", json=body)
    assert answer.status_code in {400, 404, 409}
    if answer.status_code != 404:
        assert answer.json()["error"].endswith(".")


def test_settings_are_kept(client: httpx.Client, page: Running) -> None:
    assert client.put("/bonsai/settings", json={"temperature": 0.25, "tint": True}).json()["tint"] is True
    assert page.store.chat_settings().temperature == 0.25
    client.put("/bonsai/settings", json={"tint": False})


def test_the_machine_tab_has_the_command_line_with_reasons(client: httpx.Client, page: Running) -> None:
    found = client.get("/bonsai/machine").json()
    assert found["plan"]["argv"] == list(page.lifecycle.plan.argv)
    assert {"part": "--spec-draft-n-max 4", "why": found["plan"]["reasons"][4]["why"]} in found["plan"][
        "reasons"
    ]
    assert found["machine"] == [{"name": "Processor", "value": "two cores", "source": "the system"}]
    assert found["log"].startswith("main: server is listening")
    assert "not a language model" in found["status"]["practice"]


def test_without_a_drafter_speculation_is_not_offered(client: httpx.Client, page: Running) -> None:
    from tests.webui.fake_lifecycle import a_plan

    before = page.lifecycle.status()
    page.lifecycle.become(plan=a_plan(speculative=True, drafter=False))
    try:
        speculation = client.get("/bonsai/machine").json()["status"]["speculation"]
    finally:
        page.lifecycle.become(plan=before.plan)
    assert (speculation["on"], speculation["possible"]) == (False, False)
    assert speculation["why"] == "no drafter was given with BONSAI_DRAFTER"


def test_news_are_pushed(client: httpx.Client, page: Running) -> None:
    with news(client) as seen:
        assert seen[0]["status"]["phase"] == "ready"
        page.lifecycle.become(phase="starting", message="Loading …")
        wait_until(
            lambda: any(it.get("status", {}).get("phase") == "starting" for it in seen), 5, "the change"
        )
        made = page.store.save(replace(page.store.new("x"), turns=(Turn("u1", "user", "x", 0.0),)))
        client.delete(f"/bonsai/conversations/{made.id}")
        wait_until(lambda: {"gone": made.id} in seen, 5, "the deleted conversation")
        page.lifecycle.become(phase="ready", message="Ready.")


def test_scripts_are_served_with_a_version_and_nothing_else_is(client: httpx.Client) -> None:
    from webui.assets import address

    answer = client.get(address("main.js"))
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "immutable" in answer.headers["cache-control"]
    for name in ("..%2Fapp.py", "app.py", "chat.html", "nothing.js"):
        assert client.get(f"/bonsai/static/x/{name}").status_code == 404


def test_quit(page: Running, client: httpx.Client) -> None:
    """Last in this file: the page is gone afterwards."""
    assert client.post("/bonsai/quit", json={}).status_code == 200
    wait_until(lambda: page.quits, 5, "on_quit")

    def gone() -> bool:
        try:
            client.get("/bonsai/ready")
        except httpx.HTTPError:
            return True
        return False

    wait_until(gone, 10, "the server to end")


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize(("problem", "written"), [(asyncio.CancelledError(), False), (ValueError("x"), True)])
def test_only_faults_are_written_when_the_page_was_told_twice_to_end(
    caplog: pytest.LogCaptureFixture, problem: BaseException, written: bool
) -> None:
    with caplog.at_level("ERROR"):
        logging.getLogger("uvicorn.error").error("Exception in ASGI application", exc_info=problem)
    assert ("Exception in ASGI application" in caplog.text) == written
