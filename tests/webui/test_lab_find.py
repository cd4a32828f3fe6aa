"""Finding what is best here over the page's routes, and a search of the page without a page."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from launcher.advise_run import Findings
from tests.conftest import wait_until
from tests.fakes.paced_server import PacedConfig, PacedServer
from tests.webui.conftest import frames
from tests.webui.fake_lifecycle import FakeLifecycle
from tests.webui.lab_pages import ASKED, Bench, Planner, run_bench
from tests.webui.test_lab_routes import HEADERS, Follower
from tests.webui.two_engines import pace
from webui.lab_form import find_view
from webui.lab_pace import search_s
from webui.lab_search import RunningSearch

ENGLISH = {"language": "en"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with ExitStack() as stack:
        bench = run_bench(stack, tmp_path_factory.mktemp("find"))
        wait_until(lambda: bench.page.ready, 60, "the page")
        yield bench


@pytest.fixture
def bench(shared: Bench) -> Bench:
    shared.memory.taken = None
    shared.memory.plain.clear()
    shared.page.engine.chats.clear()
    pace(shared, plain={"rate": 800}, drafting={"rate": 2400})
    return shared


@pytest.fixture
def client(bench: Bench) -> Iterator[httpx.Client]:
    with bench.page.client(headers=HEADERS) as client:
        yield client
        wait_until(lambda: client.get("/bonsai/lab").json()["running"] == "", 20, "the search to be over")


def watched(bench: Bench, client: httpx.Client, **body: Any) -> list[dict[str, Any]]:
    """A whole search from its first frame on: it waits for an answer of the chat until somebody watches."""
    pace(bench, plain={"rate": 20})
    with (
        bench.page.client(headers=HEADERS) as chat,
        chat.stream("POST", "/bonsai/chat", json={"text": "Hello"}) as answer,
    ):
        lines = answer.iter_lines()  # held: a dropped one would end the answer
        next(line for line in lines if '"t"' in line)
        begin(client, **body)
        follower = Follower(bench)
        follower.until("search")
        bench.page.engine.chats.clear()
        pace(bench, plain={"rate": 800}, drafting={"rate": 2400})
    return follower.end()


def begin(client: httpx.Client, **body: Any) -> str:
    begun = client.post("/bonsai/lab/find", json=ENGLISH | body)
    assert begun.status_code == 200, begun.text
    return str(begun.json()["id"])


def test_it_tells_what_is_asked_and_known_and_ends_with_advice(bench: Bench, client: httpx.Client) -> None:
    sent = watched(bench, client, language="it")
    first = sent[0]["search"]
    assert [part["purpose"] for part in first["parts"]] == ["coding", "chat"]
    assert [row["name"] for row in first["parts"][0]["rows"]][:2] == ["plain", "dspark 1"]
    asked = [it["ask"] for it in sent if "ask" in it]
    assert asked[0] == {"purpose": "coding", "name": "plain", "tokens": 300}
    assert [it["answer"] for it in sent if "answer" in it] == asked
    assert asked[-1]["purpose"] == "chat"
    parts = [it for it in sent if "part" in it]
    shares = [it["share"] for it in parts]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert any(0 < it["spent_s"] < it["limit_s"] for it in parts)
    rows = parts[-1]["part"]["rows"]
    assert [row["ratio"] for row in rows] == sorted((row["ratio"] for row in rows), reverse=True)
    foreseen = [
        row["name"] for it in parts for row in it["part"]["rows"] if row["ratio"] and not row["answers"]
    ]
    assert "dspark 3" in foreseen
    result = sent[-1]["found"]
    assert result["id"] == first["id"]
    assert [(one["purpose"], one["plain"]) for one in result["advice"]] == [
        ("coding", False),
        ("chat", False),
    ]
    assert all(one["ratio"] == pytest.approx(3, rel=0.4) for one in result["advice"])
    assert all(one["text"].startswith("For a ") for one in result["advice"])
    answers = sum(row["answers"] for one in result["advice"] for row in one["rows"])
    assert answers == len(asked)
    assert result["how"].startswith(f"Found with {answers} answers in ")
    wait_until(lambda: bench.memory.plain, 5, "the plain speed in the ledger")
    [(speed, source)] = bench.memory.plain
    assert source == "the advisor"
    assert speed == pytest.approx(800, rel=0.4)
    assert "classe LRUCache con metodi" in str(bench.page.engine.chats[0].body["messages"])
    assert client.get("/bonsai/lab").json()["found"] == result  # for a tab that comes later


def test_advice_is_used_shown_and_undone(bench: Bench, client: httpx.Client) -> None:
    pace(bench, plain={"rate": 3000}, drafting={"rate": 9000})
    begun = begin(client)
    result = frames(client.post("/bonsai/lab/watch", json={}))[-1]["found"]
    used = client.post("/bonsai/learned", json={"search": begun, "purpose": "chat"}).json()["learned"]
    advice = result["advice"][1]
    assert (used["purpose"], used["name"], used["why"]) == ("chat", advice["name"], advice["text"])
    assert client.post("/bonsai/learned/undo", json={}).json()["learned"] is None
    for id_, purpose in (("another", "chat"), (begun, "poems"), (1, "chat")):
        wrong = {"search": id_, "purpose": purpose}
        assert client.post("/bonsai/learned", json=wrong).status_code == 400


def test_neither_runs_beside_the_other(bench: Bench, client: httpx.Client) -> None:
    pace(bench, plain={"rate": 60}, drafting={"rate": 60})
    begun = begin(client)
    for path, body in (("find", ENGLISH), ("", ASKED), ("resume", {"lab": "0123456789abcdef"})):
        refused = client.post(f"/bonsai/lab/{path}".rstrip("/"), json=body)
        assert (refused.status_code, refused.json()["error"]) == (400, "A search is running already.")
    assert client.get("/bonsai/lab").json()["running"] == begun
    client.post("/bonsai/lab/stop", json={"now": True})
    wait_until(lambda: client.get("/bonsai/lab").json()["running"] == "", 20, "the search to be over")
    client.post("/bonsai/lab", json=ASKED)
    assert client.post("/bonsai/lab/find", json=ENGLISH).json()["error"] == "A lab is running already."
    client.post("/bonsai/lab/stop", json={"now": True})


@pytest.mark.parametrize("now", [False, True])
def test_stopped_it_says_what_it_knows_by_then(bench: Bench, client: httpx.Client, now: bool) -> None:
    pace(bench, plain={"rate": 100}, drafting={"rate": 100})
    begin(client)
    follower = Follower(bench)
    follower.until("answer", 2)
    assert client.post("/bonsai/lab/stop", json={"now": now}).json() == {"found": True}
    result = follower.end()[-1]["found"]
    answers = 1 if now else 2
    assert result["how"].startswith("The search was stopped: what it says goes as far as")
    assert sum(row["answers"] for row in result["advice"][0]["rows"]) == answers
    assert (result["advice"][0]["sure"], result["missing"]) == ("low", ["chat"])


def test_stopped_before_anything_is_known_there_is_no_advice(bench: Bench, client: httpx.Client) -> None:
    before = client.get("/bonsai/lab").json()["found"]
    pace(bench, plain={"rate": 20})
    begin(client)
    follower = Follower(bench)
    follower.until("answer")
    client.post("/bonsai/lab/stop", json={"now": True})
    assert follower.end()[-1] == {"broken": {"error": "Stopped before anything was known.", "remedy": ""}}
    assert client.get("/bonsai/lab").json()["found"] == before


def test_it_waits_for_the_running_answer_and_outlives_the_tab(bench: Bench, client: httpx.Client) -> None:
    pace(bench, plain={"rate": 40}, drafting={"rate": 1200})
    with (
        bench.page.client(headers=HEADERS) as chat,
        chat.stream("POST", "/bonsai/chat", json={"text": "Hello"}) as answer,
    ):
        lines = answer.iter_lines()
        next(line for line in lines if '"t"' in line)
        begin(client)
        with client.stream("POST", "/bonsai/lab/watch", json={}) as gone:
            next(line for line in gone.iter_lines() if "Waits for the running answer." in line)
        pace(bench, plain={"rate": 800}, drafting={"rate": 1200})
    follower = Follower(bench)
    follower.until("part")
    assert follower.sent[0]["search"]["parts"]
    client.post("/bonsai/lab/stop", json={})
    assert "found" in follower.end()[-1]


def test_a_method_whose_engine_dies_is_left_out_and_plain_decoding_that_dies_ends_it(
    bench: Bench, client: httpx.Client
) -> None:
    pace(bench, drafting={"die_after": 5})
    begin(client)
    sent = frames(client.post("/bonsai/lab/watch", json={}))
    assert any(it.get("note", "").startswith("dspark 4 is left out. ") for it in sent)
    failed = [row["name"] for it in sent if "part" in it for row in it["part"]["rows"] if row["failed"]]
    assert "dspark 4" in failed
    result = sent[-1]["found"]
    assert [one["name"] for one in result["advice"]] == ["plain", "plain"]
    assert any("dspark 1 is left out" in note for note in result["notes"])
    wait_until(lambda: client.get("/bonsai/lab").json()["running"] == "", 20, "the search to be over")
    pace(bench, plain={"die_after": 5})
    begin(client)
    broken = frames(client.post("/bonsai/lab/watch", json={}))[-1]["broken"]
    assert broken["error"]
    assert client.get("/bonsai/lab").json()["found"]["id"] == result["id"]


@pytest.mark.parametrize("body", [{}, {"language": ""}, {"language": "xx"}, {"language": ["en"]}])
def test_a_language_is_needed_that_there_is(client: httpx.Client, body: dict[str, Any]) -> None:
    assert client.post("/bonsai/lab/find", json=body).status_code == 400


# -- without a page --------------------------------------------------------------------------------------------


def test_how_long_it_takes_is_said_beforehand(tmp_path: Path) -> None:
    here = Planner(tmp_path).here()
    unknown = find_view(here, None)
    least, most = unknown["answers"]
    assert 0 < least < most
    assert unknown["seconds"] is None
    assert unknown["texts"] == [["coding", "code", 0.0], ["chat", "chat", 1.0]]
    quick = {"token_s": [0.01, 0.02], "extra_s": [0.5, 1.0], "source": "the last lab here"}
    assert search_s(quick, [10, 20]) == pytest.approx([10 * (3.0 + 0.5), 20 * (6.0 + 1.0)])
    assert find_view(here, quick)["source"] == "the last lab here"


def test_a_search_that_nobody_watches_ends_after_its_answer(tmp_path: Path) -> None:
    async def scene() -> Findings | None:
        with PacedServer(PacedConfig(rate=100, text="one two three four five six")) as server:
            search = Planner(tmp_path).search("en")
            running = RunningSearch(search, FakeLifecycle(server.url), patience_s=0.15)
            running.leave(running.watch())
            await running.run()
        return running.findings

    findings = asyncio.run(scene())
    assert findings is not None
    assert findings.stopped
    assert "chat" in findings.missing
