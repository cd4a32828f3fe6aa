"""The routes of the Lab tab, over HTTP, as its scripts use them."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import httpx
import pytest

from launcher.lab_types import Cell, Costs
from launcher.learned_page import TimeLedger
from launcher.methods import PLAIN, Method
from tests.conftest import wait_until
from tests.launcher import lab_samples as samples
from tests.webui.conftest import TOKEN, frames
from tests.webui.lab_pages import ASKED, DSPARK, Bench, run_bench
from tests.webui.two_engines import pace

HEADERS = {"X-Bonsai-Token": TOKEN}
CODE = Cell("code", PLAIN, 0.0)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with ExitStack() as stack:
        bench = run_bench(stack, tmp_path_factory.mktemp("lab"))
        wait_until(lambda: bench.page.ready, 60, "the page")
        yield bench


@pytest.fixture
def bench(shared: Bench) -> Bench:
    for it in shared.labs.list().labs:
        shared.labs.delete(it.id)
    shared.memory.taken = shared.memory.saved = None
    shared.memory.plain.clear()
    shared.memory.counted.clear()
    pace(shared)
    return shared


@pytest.fixture
def client(bench: Bench) -> Iterator[httpx.Client]:
    with bench.page.client(headers=HEADERS) as client:
        yield client


def run_one(client: httpx.Client, **changes: Any) -> list[dict[str, Any]]:
    begun = client.post("/bonsai/lab", json=ASKED | changes)
    assert begun.status_code == 200, begun.text
    return frames(client.post("/bonsai/lab/watch", json={}))


class Follower:
    """Watches on a thread of its own."""

    def __init__(self, bench: Bench) -> None:
        self.sent: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._follow, args=(bench,))
        self._thread.start()

    def _follow(self, bench: Bench) -> None:
        with (
            bench.page.client(headers=HEADERS) as own,
            own.stream("POST", "/bonsai/lab/watch", json={}) as answer,
        ):
            for line in answer.iter_lines():
                if line:
                    self.sent.append(json.loads(line[6:]))

    def has(self, name: str, count: int = 1) -> bool:
        return sum(name in frame for frame in self.sent) >= count

    def until(self, name: str, count: int = 1) -> None:
        wait_until(lambda: self.has(name, count), 20, f"{count} frames with {name}")

    def end(self) -> list[dict[str, Any]]:
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.sent


ONE = "/bonsai/labs/0123456789abcdef"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/bonsai/lab"),
        ("POST", "/bonsai/lab"),
        ("POST", "/bonsai/lab/resume"),
        ("POST", "/bonsai/lab/find"),
        ("POST", "/bonsai/lab/watch"),
        ("POST", "/bonsai/lab/stop"),
        ("GET", "/bonsai/labs"),
        ("GET", ONE),
        ("DELETE", ONE),
        ("GET", ONE + "/export"),
        ("GET", "/bonsai/learned"),
        ("POST", "/bonsai/learned"),
        ("POST", "/bonsai/learned/undo"),
    ],
)
def test_nothing_without_the_token(bench: Bench, method: str, path: str) -> None:
    bench.labs.save(samples.measured({("code", PLAIN, 0.0): [100.0]}))
    with bench.page.client() as stranger:
        assert stranger.request(method, path, json=ASKED).status_code == 403
    assert len(bench.labs.list().labs) == 1


def test_what_can_be_measured_and_what_not(client: httpx.Client) -> None:
    found = client.get("/bonsai/lab").json()
    usable = [offer["name"] for offer in found["offers"] if not offer["why_not"]]
    assert usable == ["plain", "dspark 1", "dspark 2", "dspark 3", "dspark 4", "ngram-simple"]
    reasons = {offer["name"]: offer["why_not"] for offer in found["offers"] if offer["why_not"]}
    assert "needs a whole model" in reasons["draft-simple 2"]
    assert "cannot do draft-mtp" in reasons["mtp 1"]
    assert "-devd" in reasons["dspark 4, draft on CPU"]
    assert [it["name"] for it in found["quick"]["methods"]] == usable
    assert found["quick"]["kinds"] == ["code", "prose"]
    assert set(found["whole"]["kinds"]) == set(found["kinds"])
    assert (found["running"], found["pace"]) == ("", None)


def test_a_lab_streams_its_cells_and_ends_with_its_result(bench: Bench, client: httpx.Client) -> None:
    bench.page.engine.chats.clear()
    sent = run_one(client, methods=[DSPARK], kinds=["code", "prose"], temperatures=[0, 1])
    first = sent[0]["lab"]
    assert [(row["kind"], row["name"], row["temperature"], row["runs"]) for row in first["rows"][:2]] == [
        ("code", "plain", 0, 0),
        ("code", "dspark 4", 0, 0),
    ]
    done = [it["done"] for it in sent if "done" in it]
    assert sorted(it["row"]["key"] for it in done) == list(range(8))
    assert [it["measured"] for it in done] == list(range(1, 9))
    assert done[-1]["share"] == 1
    started = [it["cell"]["key"] for it in sent if "cell" in it]
    assert started == [it["row"]["key"] for it in done]
    assert sent[-1]["kept"] is True
    result = sent[-1]["over"]
    assert [row["runs"] for row in result["rows"]] == [1] * 8
    assert {row["identical"] for row in result["rows"]} == {True, None}
    assert [one["purpose"] for one in result["advice"]] == ["coding", "chat"]
    assert len(result["temperatures"]) == 4
    kept = bench.labs.load(result["id"])
    assert client.get(f"/bonsai/labs/{kept.id}").json() == result
    wait_until(lambda: bench.memory.plain, 5, "the plain speed in the ledger")
    assert [source for _, source in bench.memory.plain] == ["a lab"]
    assert kept.ended in ("sure", "runs")
    body = bench.page.engine.chats[-1].body
    assert (body["max_tokens"], body["cache_prompt"], body["seed"]) == (12, False, 42)
    assert "LRUCache" in "".join(str(chat.body["messages"]) for chat in bench.page.engine.chats)


def test_a_sweep_has_its_best_length_and_what_it_would_need(bench: Bench, client: httpx.Client) -> None:
    methods = [Method("draft-dspark", length) for length in (1, 2, 4)]
    costs = Costs(plain_s=0.010, fixed_s=0.011, each_s=0.001)
    runs = [samples.costly(CODE, block, costs, accept=0) for block in (1, 2, 3)]
    for accept, method in zip((1, 2, 2), methods, strict=True):
        runs += [
            samples.costly(Cell("code", method, 0.0), block, costs, accept=accept) for block in (1, 2, 3)
        ]
    bench.labs.save(samples.lab([CODE, *(Cell("code", method, 0.0) for method in methods)], runs))
    [sweep] = client.get(ONE).json()["sweeps"]
    assert (sweep["name"], sweep["best"], sweep["plain"]) == ("dspark", 2, pytest.approx(102.5))
    assert [point["n_max"] for point in sweep["points"]] == [1, 2, 4]
    assert sweep["points"][1]["break_even"] == pytest.approx((13 / 10 - 1) / 2)
    assert sweep["points"][2]["acceptance"] == pytest.approx(0.5)


@pytest.mark.parametrize("now", [False, True])
def test_a_stopped_lab_is_kept_and_gone_on_with(bench: Bench, client: httpx.Client, now: bool) -> None:
    pace(bench, plain={"rate": 60}, drafting={"rate": 60})
    begun = client.post("/bonsai/lab", json=ASKED | {"runs": 2}).json()["id"]
    follower = Follower(bench)
    follower.until("cell", 2)
    assert client.post("/bonsai/lab/stop", json={"now": now}).json() == {"found": True}
    over = follower.end()[-1]["over"]
    assert (over["ended"], over["resumable"]) == ("stopped", True)
    before = bench.labs.load(begun).runs
    assert len(before) == (1 if now else 2)
    [listed] = client.get("/bonsai/labs").json()["labs"]
    assert (listed["unfinished"], listed["done"], listed["cells"]) == (True, len(before), 3)
    pace(bench)
    assert client.post("/bonsai/lab/resume", json={"lab": begun}).json() == {"id": begun}
    sent = frames(client.post("/bonsai/lab/watch", json={}))
    assert sent[0]["lab"]["measured"] == len(before)
    kept = bench.labs.load(begun)
    assert kept.runs[: len(before)] == before
    assert sorted((run.block, run.cell.method.name) for run in kept.runs) == [
        (block, name) for block in (1, 2) for name in ("dspark 4", "ngram-simple", "plain")
    ]
    over = {"found": False}
    wait_until(lambda: client.post("/bonsai/lab/stop", json={}).json() == over, 5, "the lab to be over")


def test_a_tab_that_comes_later_sees_how_it_stands(bench: Bench, client: httpx.Client) -> None:
    pace(bench, plain={"rate": 60}, drafting={"rate": 60})
    begun = client.post("/bonsai/lab", json=ASKED).json()["id"]
    with client.stream("POST", "/bonsai/lab/watch", json={}) as answer:
        next(line for line in answer.iter_lines() if '"done"' in line)
    assert client.get("/bonsai/lab").json()["running"] == begun
    assert [it["running"] for it in client.get("/bonsai/labs").json()["labs"]] == [True]
    again = client.post("/bonsai/lab", json=ASKED)
    assert (again.status_code, again.json()["error"]) == (400, "A lab is running already.")
    assert client.delete(f"/bonsai/labs/{begun}").json()["error"] == "This lab is running."
    sent = frames(client.post("/bonsai/lab/watch", json={}))
    assert sum(row["runs"] for row in sent[0]["lab"]["rows"]) >= 1
    assert sent[-1]["over"]["id"] == begun
    assert client.post("/bonsai/lab/watch", json={}).json()["error"] == "Nothing is being measured."


def test_a_lab_waits_for_the_running_answer_and_can_be_called_off(bench: Bench, client: httpx.Client) -> None:
    pace(bench, plain={"rate": 20})
    with (
        bench.page.client(headers=HEADERS) as chat,
        chat.stream("POST", "/bonsai/chat", json={"text": "Hello"}) as answer,
    ):
        lines = answer.iter_lines()  # held: a dropped one would end the answer
        next(line for line in lines if '"t"' in line)
        client.post("/bonsai/lab", json=ASKED)
        follower = Follower(bench)
        # The sentence comes as news, or with how it stands where it was said before.
        wait_until(lambda: "Waits for the running answer." in str(follower.sent), 20, "the sentence")
        client.post("/bonsai/lab/stop", json={})
        sent = follower.end()
    assert sent[-1]["broken"]["error"] == "Stopped before the lab began."
    assert not bench.labs.list().labs


def test_a_method_whose_engine_dies_is_left_out_and_named(bench: Bench, client: httpx.Client) -> None:
    pace(bench, drafting={"die_after": 5})
    sent = run_one(client, methods=[DSPARK])
    assert any("dspark 4 is left out" in it.get("note", "") for it in sent)
    result = sent[-1]["over"]
    assert [name for name, _ in result["failures"]] == ["dspark 4"]
    assert [row["failed"] for row in result["rows"]] == [False, True]


def test_a_lab_that_cannot_be_kept_says_so_and_shows_its_result(bench: Bench, client: httpx.Client) -> None:
    folder = bench.planner._paths.data / "labs"
    if folder.exists():
        folder.rmdir()
    folder.write_text("in the way")
    try:
        sent = run_one(client)
    finally:
        folder.unlink()
    assert any(it.get("note", "").startswith("This lab is not kept.") for it in sent)
    assert (sent[-1]["kept"], len(sent[-1]["over"]["rows"])) == (False, 3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kinds": []}, "at least one kind"),
        ({"kinds": ["poem"]}, "no kind of text"),
        ({"language": "xx"}, "no prompt in language"),
        ({"methods": None}, "ways to run"),
        ({"methods": [{"type": "draft-dspark", "length": 9}]}, "that there is not"),
        ({"methods": [DSPARK | {"draft_on": "cpu"}]}, "cannot be measured here"),
        ({"methods": [DSPARK | {"p_min": 0.5}]}, "cannot be measured here"),
        ({"temperatures": []}, "at least one temperature"),
        ({"temperatures": [3]}, "Temperature is a number from 0 to 2"),
        ({"tokens": 1}, "answer limit"),
        ({"tokens": True}, "answer limit"),
        ({"runs": 0}, "number of answers"),
        ({"minutes": 0}, "budget of time"),
        ({"minutes": "long"}, "budget of time"),
    ],
)
def test_what_cannot_be_asked_for_is_named(client: httpx.Client, changes: dict[str, Any], said: str) -> None:
    answer = client.post("/bonsai/lab", json=ASKED | changes)
    assert answer.status_code in (400, 409)
    assert said in answer.json()["error"]


def test_list_delete_and_export(bench: Bench, client: httpx.Client) -> None:
    lab = samples.measured(
        {("code", PLAIN, 0.0): [100.0, 101.0], ("code", samples.DSPARK, 0.0): [150.0, 152.0]}
    )
    bench.labs.save(lab)
    client.get("/bonsai/lab")
    [listed] = client.get("/bonsai/labs").json()["labs"]
    assert (listed["cells"], listed["runs"], listed["model"]) == (2, 4, "a target")
    assert listed["other"] == ["target", "drafter", "engine", "machine", "setting"]
    refused = client.post("/bonsai/lab/resume", json={"lab": lab.id})
    assert refused.status_code == 400
    assert "another target" in refused.json()["error"]
    for form, kind, ending in (
        ("json", "application/json", "json"),
        ("markdown", "text/markdown", "md"),
        ("csv", "text/csv", "csv"),
    ):
        answer = client.get(f"{ONE}/export", params={"form": form})
        assert answer.headers["content-type"].startswith(kind)
        assert f"lab-a-target-2023-11-14.{ending}" in answer.headers["content-disposition"]
        if form == "json":
            assert [cell["method"] for cell in answer.json()["cells"]] == ["none", "draft-dspark"]
        elif form == "csv":
            assert [row["method"] for row in csv.DictReader(io.StringIO(answer.text))] == [
                "none",
                "draft-dspark",
            ]
        else:
            assert "| code | dspark 4 | 0 |" in answer.text
    assert client.get(f"{ONE}/export?form=exe").status_code == 400
    assert client.delete(ONE).status_code == 200
    assert client.get("/bonsai/labs").json()["labs"] == []
    assert client.get(ONE).status_code == 409
    assert client.get("/bonsai/labs/..%2f..%2fsecrets").status_code in (404, 409)


def test_a_lab_that_broke_off_is_named_so(bench: Bench, client: httpx.Client) -> None:
    lab = samples.lab([CODE, Cell("code", samples.DSPARK, 0.0)], [samples.run(CODE, 1, 100.0)])
    bench.labs.save(replace(lab, ended=""))
    found = client.get(ONE).json()
    assert found["resumable"] is True
    assert "broke off" in found["how"]
    assert [row["runs"] for row in found["rows"]] == [1, 0]
    assert all("/home/person" not in line for _, line in found["commands"])


def test_advice_is_taken_over_shown_and_undone(bench: Bench, client: httpx.Client) -> None:
    bench.labs.save(
        samples.measured({("code", PLAIN, 0.0): [100.0] * 3, ("code", samples.DSPARK, 0.0): [150.0] * 3})
    )
    assert client.get("/bonsai/learned").json() == {"can": True, "learned": None, "ledger": None}
    used = client.post("/bonsai/learned", json={"lab": "0123456789abcdef", "purpose": "coding"}).json()[
        "learned"
    ]
    assert (used["name"], used["purpose"], used["stale"], used["runs"]) == (
        "dspark 4",
        "coding",
        [],
        True,
    )
    assert "dspark 4" in used["why"]
    assert bench.memory.taken is not None
    bench.memory.taken = replace(bench.memory.taken, stale=("engine",))
    bench.memory.saved = TimeLedger("Saved 2 s.", (("Net", "2 s"),))
    found = client.get("/bonsai/learned").json()
    assert (found["learned"]["stale"], found["ledger"]["rows"]) == (["engine"], [["Net", "2 s"]])
    assert client.post("/bonsai/learned/undo", json={}).json()["learned"] is None
    for wrong in (
        {"lab": "0123456789abcdef", "purpose": "poems"},
        {"purpose": "chat"},
        {"lab": "gone", "purpose": "chat"},
    ):
        assert client.post("/bonsai/learned", json=wrong).status_code in (400, 409)


def test_answers_of_chats_are_counted_with_what_was_known_before(bench: Bench, client: httpx.Client) -> None:
    first = frames(client.post("/bonsai/chat", json={"text": "Hello"}))
    conversation = first[0]["begin"]["id"]
    client.post("/bonsai/chat", json={"text": "And now?", "conversation": conversation})
    (kind, tokens, before), (_, _, then) = bench.memory.counted
    assert (kind, before) == ("draft-dspark", 0)
    [answer, _] = [turn for turn in bench.page.store.load(conversation).turns if turn.role == "assistant"]
    assert answer.timings is not None
    assert tokens == answer.timings.predicted_tokens > 0
    assert then == tokens + (answer.timings.prompt_tokens or 0)
