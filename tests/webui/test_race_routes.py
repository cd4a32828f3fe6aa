"""The routes of the Race tab, over HTTP, as its scripts use them."""

from __future__ import annotations

import json
import statistics
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import httpx
import pytest

from launcher.race_types import Prompt
from tests.conftest import wait_until
from tests.launcher import race_samples as samples
from tests.webui.conftest import TOKEN, frames
from tests.webui.race_pages import Track, run_track
from tests.webui.two_engines import TEXT

HEADERS = {"X-Bonsai-Token": TOKEN}
A, B = {"type": "none", "length": None}, {"type": "draft-dspark", "length": 4}
PLAIN_REQUEST = {"a": A, "b": B, "kind": "code", "rounds": 2, "max_tokens": 40}


@pytest.fixture(scope="module")
def track(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Track]:
    with ExitStack() as stack:
        track = run_track(stack, tmp_path_factory.mktemp("race"), rate=200, drafting={"rate": 800})
        wait_until(lambda: track.page.ready, 60, "the page")
        yield track


@pytest.fixture
def client(track: Track) -> Iterator[httpx.Client]:
    for it in track.races.list().races:
        track.races.delete(it.id)
    with track.page.client(headers=HEADERS) as client:
        yield client


def race(client: httpx.Client, **changes: Any) -> list[dict[str, Any]]:
    return frames(client.post("/bonsai/race", json=PLAIN_REQUEST | changes))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/bonsai/race"),
        ("POST", "/bonsai/race"),
        ("POST", "/bonsai/race/stop"),
        ("GET", "/bonsai/races"),
        ("GET", "/bonsai/races/0123456789abcdef"),
        ("DELETE", "/bonsai/races/0123456789abcdef"),
        ("GET", "/bonsai/races/0123456789abcdef/export"),
    ],
)
@pytest.mark.usefixtures("client")
def test_nothing_without_the_token(track: Track, method: str, path: str) -> None:
    track.races.save(samples.race())
    with track.page.client() as stranger:
        assert stranger.request(method, path, json=PLAIN_REQUEST).status_code == 403
    assert len(track.races.list().races) == 1


def test_what_can_be_raced(client: httpx.Client) -> None:
    found = client.get("/bonsai/race").json()
    names = [offer["name"] for offer in found["offers"]]
    assert [names[at] for at in found["default"]] == ["plain", "dspark 4"]
    assert [offer["name"] for offer in found["offers"] if offer["why_not"]] == ["ngram-mod"]
    assert set(found["prompts"]) == set(found["kinds"])
    assert all(
        set(texts) == {"en", "it", "de"} and all(texts.values()) for texts in found["prompts"].values()
    )


def test_a_race_streams_in_turn_and_ends_with_its_verdict(track: Track, client: httpx.Client) -> None:
    sent = race(client)
    assert [(it["run"]["s"], it["run"]["round"]) for it in sent if "run" in it] == [
        (0, 1),
        (1, 1),
        (1, 2),
        (0, 2),
    ]
    assert [it["ran"]["s"] for it in sent if "ran" in it] == [0, 1, 1, 0]
    start = next(at for at, it in enumerate(sent) if "run" in it)
    end = next(at for at, it in enumerate(sent) if "ran" in it)
    pieces = [it for it in sent[start:end] if "t" in it]
    assert TEXT.startswith("".join(it["t"] for it in pieces))
    assert {it["s"] for it in pieces} == {0}
    second = [it for it in sent[end:] if it.get("s") == 1]
    assert {origin for it in second for _, origin in it.get("r", [])} >= {0, 1}
    result = sent[-1]["result"]
    assert result["word"] == "faster"
    assert result["headline"][:2] == ["dspark 4 is ", "faster"]
    assert result["identical"] is True
    kept = track.races.load(result["id"])
    assert kept.verdict.word == "faster"
    assert client.get(f"/bonsai/races/{kept.id}").json() == result


def test_the_ledger_is_told_once_how_fast_plain_decoding_was_over_all_texts(
    track: Track, client: httpx.Client
) -> None:
    track.memory.plain.clear()
    race(client, set=True, rounds=1, max_tokens=20)
    kept = [track.races.load(it.id) for it in track.races.list().races]
    assert len(kept) > 3
    speeds = [run.timings.tokens_per_second or 0.0 for one in kept for run in one.of(0)]
    ((speed, source),) = track.memory.plain
    assert (speed, source) == (statistics.median(speeds), "a race")
    track.memory.plain.clear()
    race(client, a=B, b={"type": "draft-dspark", "length": 2})
    assert track.memory.plain == []


@pytest.mark.case("G-03")
def test_both_engines_get_the_same_request(track: Track, client: httpx.Client) -> None:
    track.page.engine.chats.clear()
    track.drafting.chats.clear()
    race(client, rounds=1)
    measured = [engine.chats[-1].body for engine in (track.page.engine, track.drafting)]
    assert measured[0] == measured[1]
    assert measured[0]["cache_prompt"] is False
    assert measured[0]["temperature"] == 0


def test_the_replay_has_the_text_the_times_and_the_blocks(track: Track, client: httpx.Client) -> None:
    result = race(client, rounds=1)[-1]["result"]
    run = track.races.load(result["id"]).of(1)[0]
    shown = result["rounds"][0]["runs"][1]
    assert sum(shown["chars"]) == len(shown["text"]) == len(run.text)
    assert sum(shown["tokens"]) == run.timings.predicted_tokens
    assert sum(shown["at"]) == round(run.marks[-1].at_s * 1000)
    assert [step[1:] for step in shown["steps"]] == [list(step[1:]) for step in run.steps]
    assert result["median"] == 1


def test_thoughts_keep_their_own_text_and_other_alphabets_their_length(
    client: httpx.Client, track: Track
) -> None:
    kept = samples.race([samples.run(0, 1, 50, text="ein 🙂 Wort", thinking="Hm 🙂."), samples.run(1, 1, 60)])
    track.races.save(kept)
    shown = client.get(f"/bonsai/races/{kept.id}").json()["rounds"][0]["runs"][0]
    assert shown["chars"] == [6, 4, 3, 4]
    assert shown["origin"] == [10, 0, 0, 0]


def test_stop_between_rounds_and_at_once(track: Track, client: httpx.Client) -> None:
    for now, wanted in ((False, [0, 1]), (True, [])):
        begun = threading.Event()
        sent: list[dict[str, Any]] = []

        def follow(sent: list[dict[str, Any]] = sent, begun: threading.Event = begun) -> None:
            with (
                track.page.client(headers=HEADERS) as own,
                own.stream(
                    "POST", "/bonsai/race", json=PLAIN_REQUEST | {"rounds": 6, "max_tokens": 60}
                ) as answer,
            ):
                for line in answer.iter_lines():
                    if line:
                        sent.append(json.loads(line[6:]))
                    if sent and "t" in sent[-1]:
                        begun.set()

        thread = threading.Thread(target=follow)
        thread.start()
        assert begun.wait(20)
        stopped = client.post("/bonsai/race/stop", json={"race": sent[0]["begin"]["id"], "now": now})
        assert stopped.json() == {"found": True}
        thread.join(20)
        assert sent[-1]["result"]["ended"] == "stopped"
        assert [it["ran"]["s"] for it in sent if "ran" in it] == wanted
        assert track.page.engine.working == 0
    gone = client.post("/bonsai/race/stop", json={"race": sent[0]["begin"]["id"]})
    assert gone.json() == {"found": False}


def test_a_closed_tab_stops_the_race_and_frees_the_engine(track: Track, client: httpx.Client) -> None:
    with client.stream(
        "POST", "/bonsai/race", json=PLAIN_REQUEST | {"rounds": 20, "max_tokens": 60}
    ) as answer:
        for line in answer.iter_lines():
            if '"t"' in line:
                break
    wait_until(lambda: not track.page.lifecycle.status().busy_with, 3, "the race to let go of the engines")
    assert (track.page.engine.working, track.drafting.working) == (0, 0)
    kept = track.races.list().races
    assert [it.ended for it in kept] == ["stopped"]


def test_a_race_waits_for_the_running_answer(track: Track, client: httpx.Client) -> None:
    said = []
    usual = track.page.engine.config
    track.page.engine.config = replace(usual, rate=20)
    try:
        with (
            track.page.client(headers=HEADERS) as chat,
            chat.stream("POST", "/bonsai/chat", json={"text": "Hello"}) as answer,
        ):
            lines = answer.iter_lines()
            next(line for line in lines if '"t"' in line)
            with client.stream("POST", "/bonsai/race", json=PLAIN_REQUEST | {"rounds": 1}) as racing:
                for line in racing.iter_lines():
                    if '"wait"' in line:
                        said.append(json.loads(line[6:])["wait"])
                        break
    finally:
        track.page.engine.config = usual
    assert said == ["Waits for the running answer."]
    assert not track.races.list().races


def test_a_whole_set_runs_every_kind(track: Track, client: httpx.Client) -> None:
    sent = race(client, set=True, language="it", rounds=1, max_tokens=10)
    rows = [it["ended"] for it in sent if "ended" in it]
    assert [row["kind"] for row in rows] == ["code", "prose", "maths", "chat", "rewrite", "thinking"]
    assert {row["language"] for row in rows} == {"it"}
    assert all(row["ratio"] and row["acceptance"] is not None for row in rows)
    assert sent[-1] == {"over": {"ended": "rounds", "races": 6}}
    assert len(track.races.list().races) == 6


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"a": None}, "two ways"),
        ({"b": {"type": "draft-dspark", "length": 9}}, "two ways"),
        ({"b": {"type": "ngram-mod", "length": None}}, "cannot do ngram-mod"),
        ({"kind": "", "text": "  "}, "needs some text"),
        ({"kind": "poem"}, "no prompt of kind"),
        ({"language": "xx"}, "no prompt in language"),
        ({"rounds": 0}, "number of rounds"),
        ({"max_tokens": 1}, "answer limit"),
        ({"max_tokens": True}, "answer limit"),
        ({"temperature": 3}, "from 0 to 2"),
        ({"temperature": "warm"}, "from 0 to 2"),
    ],
)
def test_what_cannot_be_raced_is_named(client: httpx.Client, changes: dict[str, Any], said: str) -> None:
    answer = client.post("/bonsai/race", json=PLAIN_REQUEST | changes)
    assert answer.status_code in (400, 409)
    assert said in answer.json()["error"]


def test_half_a_character_does_no_harm(client: httpx.Client) -> None:
    body = json.dumps(PLAIN_REQUEST | {"text": "a \ud800 b", "rounds": 1, "max_tokens": 5})
    sent = frames(client.post("/bonsai/race", content=body))
    assert sent[-1]["result"]["prompt"] == "a ? b"


def test_a_kept_race_with_half_a_character_can_be_seen(track: Track, client: httpx.Client) -> None:
    kept = samples.race(prompt=Prompt("a \ud800 b"))
    track.races.save(kept)
    assert client.get("/bonsai/races").json()["races"][0]["prompt"] == "a ? b"
    assert client.get(f"/bonsai/races/{kept.id}").json()["prompt"] == "a ? b"
    assert "a ? b" in client.get(f"/bonsai/races/{kept.id}/export?form=markdown").text
    assert client.get(f"/bonsai/races/{kept.id}/export?form=html").status_code == 200


def test_list_delete_and_export(track: Track, client: httpx.Client) -> None:
    track.races.save(samples.race())
    listed = client.get("/bonsai/races").json()["races"]
    assert [(it["sides"], it["word"]) for it in listed] == [(["plain", "dspark 4"], "faster")]
    at = f"/bonsai/races/{listed[0]['id']}"
    for form, kind, name in (("json", "application/json", ".json"), ("markdown", "text/markdown", ".md")):
        for texts in (0, 1):
            answer = client.get(f"{at}/export", params={"form": form, "texts": texts})
            assert answer.headers["content-type"].startswith(kind)
            assert f"race-dspark-4-against-plain-code{name}" in answer.headers["content-disposition"]
            assert ("one two three four" in answer.text) == bool(texts)
    assert json.loads(client.get(f"{at}/export?form=json").text)["verdict"]["word"] == "faster"
    assert client.get(f"{at}/export?form=exe").status_code == 400
    assert client.delete(at).status_code == 200
    assert client.get("/bonsai/races").json()["races"] == []
    assert client.get(at).status_code == 409
    assert client.get("/bonsai/races/..%2f..%2fsecrets").status_code in (404, 409)


def test_an_engine_that_dies_leaves_what_was_measured(tmp_path: Any) -> None:
    with ExitStack() as stack:
        track = run_track(stack, tmp_path, rate=800, drafting={"die_after": 20, "alias": "mortal"})
        wait_until(lambda: track.page.ready, 60, "the page")
        with track.page.client(headers=HEADERS) as client:
            result = race(client, max_tokens=30)[-1]["result"]
            assert result["ended"] == "failed"
            assert "dspark 4" in result["problem"]
            assert result["headline"][1] == "No verdict"
            assert client.get("/bonsai/races").json()["races"][0]["ended"] == "failed"
