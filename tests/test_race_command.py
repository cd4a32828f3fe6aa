"""``bonsai race`` as a person runs it, on the real practice pair: known texts, known acceptance, known shape."""

from __future__ import annotations

import json
import signal
import statistics
from pathlib import Path
from typing import Any

import pytest

from launcher.ledger import Book
from launcher.practice import expected_acceptance, known_text
from launcher.race_store import RaceStore
from launcher.store_shared import SharedFile
from tests.conftest import Bonsai, wait_until
from tests.fakes import paced_engine

TOKENS = 80


def race(bonsai: Bonsai, *arguments: str, **env: str) -> dict[str, Any]:
    done = bonsai("race", "--json", "--max-tokens", str(TOKENS), *arguments, env=env)
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def by_position(blocks: tuple[tuple[int, int], ...]) -> list[float]:
    return [
        sum(accepted > place for drafted, accepted in blocks if drafted > place)
        / sum(drafted > place for drafted, _ in blocks)
        for place in range(4)
    ]


def test_acceptance_is_as_computed_and_texts_are_identical(
    bonsai: Bonsai, engine_env: dict[str, str]
) -> None:
    made = race(bonsai, "--kind", "prose", "--rounds", "2", **engine_env)
    plain, dspark = made["sides"]
    assert made["order"] == ["plain", "dspark 4", "dspark 4", "plain"]
    assert (plain["method"], dspark["method"]) == ("none", "draft-dspark")
    expected = expected_acceptance("prose", max_tokens=TOKENS)
    for entry in dspark["rounds"]:
        assert (entry["draft_n"], entry["draft_n_accepted"]) == (expected.draft_n, expected.draft_n_accepted)
        assert entry["acceptance"] == pytest.approx(expected.acceptance)
        assert entry["acceptance_by_position"] == pytest.approx(by_position(expected.blocks))
    for entry in plain["rounds"]:
        assert (entry["draft_n"], entry["acceptance"], entry["acceptance_by_position"]) == (None, None, None)
    for entry in plain["rounds"] + dspark["rounds"]:
        assert entry["predicted_tokens"] == TOKENS
        assert entry["cached_tokens"] == 0
        assert known_text("prose").startswith(entry["text"])
        assert all(entry[name] > 0 for name in ("tokens_per_second", "time_to_first_token_s", "total_s"))
    assert made["verdict"]["identical"] is True
    assert made["verdict"]["word"] in ("faster", "no difference", "slower")
    assert made["practice"] is True


@pytest.mark.usefixtures("embedded")
def test_phrase_tables_race_without_a_drafter(bonsai: Bonsai) -> None:
    made = race(bonsai, "--kind", "rewrite", "--rounds", "1", "--b", "ngram-simple")
    table = made["sides"][1]
    assert (table["name"], table["method"]) == ("ngram-simple", "ngram-simple")
    assert table["rounds"][0]["draft_n"] > 0
    assert "drafter" not in " ".join(table["argv"])
    assert made["verdict"]["identical"] is True


@pytest.mark.usefixtures("embedded")
def test_two_draft_lengths_race_against_each_other(bonsai: Bonsai) -> None:
    made = race(bonsai, "--rounds", "1", "--a", "dspark:2", "--b", "dspark", "--temperature", "0.6")
    assert [side["name"] for side in made["sides"]] == ["dspark 2", "dspark 4"]
    assert [side["draft_max"] for side in made["sides"]] == [2, 4]
    assert len(made["sides"][0]["rounds"][0]["acceptance_by_position"]) == 2
    assert made["verdict"]["identical"] is None


@pytest.mark.usefixtures("embedded")
def test_every_race_is_kept(bonsai: Bonsai, home: Path) -> None:
    made = race(bonsai, "--rounds", "1", "--prompt", "Implement quicksort in Python.")
    kept = RaceStore(home).load(made["id"])
    assert kept.prompt.text == "Implement quicksort in Python."
    assert [run.text for run in kept.runs] == [side["rounds"][0]["text"] for side in made["sides"]]
    assert kept.runs[1].steps


def paced(home: Path, rate: float = 400.0) -> dict[str, str]:
    """A stand-in for an engine with known speeds, which every model runs on."""
    program = paced_engine.install(
        home / "bin", rate=rate, tokens=100, blocks=((4, 3),), drafting={"rate": 2 * rate}
    )
    return {"BONSAI_LLAMA_SERVER": str(program)}


def test_a_table_by_kind(bonsai: Bonsai, home: Path) -> None:
    arguments = ("race", "--set", "--rounds", "1", "--max-tokens", "40", "--language", "de")
    done = bonsai(*arguments, env=paced(home))
    assert done.returncode == 0, done.stderr
    rows = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    assert rows == ["code", "prose", "maths", "chat", "rewrite", "thinking"]
    # One round each: beside other work a verdict may come out blurred, but every row has one.
    rest = done.stdout.splitlines()[1:]
    assert all(any(word in line for word in ("faster", "no difference", "slower")) for line in rest)
    assert done.stdout.count("faster") >= 4
    assert len(RaceStore(home).list().races) == 6
    made = bonsai(*arguments, "--json", "--no-texts", env=paced(home))
    assert [row["kind"] for row in json.loads(made.stdout)["kinds"]] == rows
    assert "Ringpuffer" not in made.stdout


def test_words_and_figures_for_people(bonsai: Bonsai, home: Path) -> None:
    done = bonsai("race", "--rounds", "2", "--max-tokens", "60", env=paced(home))
    assert done.returncode == 0, done.stderr
    [speed] = SharedFile(home / "ledger.json", Book, "the ledger", "bonsai-ledger").read().speeds
    [kept] = RaceStore(home).list().races
    rates = [run.timings.tokens_per_second or 0 for run in RaceStore(home).load(kept.id).of(0)]
    assert speed.source == "a race"
    assert speed.tokens_per_second == pytest.approx(statistics.median(rates))
    (home / "ledger.json").unlink()
    (home / "ledger.json").mkdir()  # which takes nothing from a race
    assert "dspark 4" in done.stdout.splitlines()[0]
    assert "decode speed" in done.stdout
    assert "round 2: plain" in done.stderr
    assert "Both engines stay loaded" in done.stderr or "take turns" in done.stderr
    shown = bonsai("race", "--rounds", "1", "--max-tokens", "60", "--markdown", env=paced(home))
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("# Race: plain against dspark 4\n")


@pytest.mark.system("posix")
def test_ctrl_c_ends_after_the_round_with_the_verdict_so_far(bonsai: Bonsai, home: Path) -> None:
    child = bonsai.popen("race", "--json", "--rounds", "50", "--max-tokens", "100", env=paced(home, 100))
    wait_until(lambda: "round 1: plain" in bonsai.output(), 30, "the first answer")
    child.send_signal(signal.SIGINT)
    assert child.wait(30) == 0
    made = json.loads(bonsai.output("stdout"))
    assert (made["ended"], made["verdict"]["rounds"]) == ("stopped", 1)
    assert made["order"] == ["plain", "dspark 4"]
    assert list((home / "run").iterdir()) == []


def test_an_engine_that_breaks_off_is_told_after_what_was_measured(bonsai: Bonsai, home: Path) -> None:
    program = paced_engine.install(home / "bin", rate=400, tokens=60, drafting={"cut_after": 40})
    done = bonsai("race", "--json", "--max-tokens", "60", env={"BONSAI_LLAMA_SERVER": str(program)})
    assert done.returncode == 5
    made = json.loads(done.stdout)
    assert made["ended"] == "failed"
    assert made["problem"].startswith("dspark 4, round 1: The answer broke off")
    assert made["broken"][0]["text"]
    assert "ended early" in done.stderr


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--b", "turbo"), "no method"),
        (("--b", "dspark:9"), "block holds 4"),
        (("--kind", "sonnet"), "no prompt of kind"),
        (("--language", "xx"), "language"),
        (("--prompt", " "), "empty"),
        (("--prompt", "x", "--set"), "--set"),
        (("--json", "--markdown"), "--markdown"),
        (("--rounds", "0"), "--rounds"),
    ],
)
def test_bad_input_is_one_message(bonsai: Bonsai, arguments: tuple[str, ...], words: str) -> None:
    done = bonsai("race", *arguments)
    assert done.returncode == 2
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
