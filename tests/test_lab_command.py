"""``bonsai lab`` as a person runs it: known acceptance, the documented shape, killed and gone on with."""

from __future__ import annotations

import csv
import io
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from launcher.lab_store import LabStore
from launcher.lab_types import Lab
from launcher.practice import expected_acceptance
from tests.conftest import Bonsai, wait_until
from tests.fakes import paced_engine

TOKENS = 40
SMALL = ("--max-tokens", str(TOKENS), "--runs", "1")


def run(bonsai: Bonsai, *arguments: str, **env: str) -> dict[str, Any]:
    done = bonsai("lab", "--json", *arguments, env=env, timeout=110)
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def paced(home: Path, rate: float = 800.0, **drafting: Any) -> dict[str, str]:
    """A stand-in for an engine with known speeds."""
    program = paced_engine.install(
        home / "bin", rate=rate, tokens=200, blocks=((4, 3),), drafting={"rate": 2 * rate, **drafting}
    )
    return {"BONSAI_LLAMA_SERVER": str(program)}


def kept(home: Path) -> Lab:
    store = LabStore(home)
    return store.load(store.list().labs[0].id)


def test_acceptance_is_as_computed_and_texts_are_identical(
    bonsai: Bonsai, engine_env: dict[str, str]
) -> None:
    methods = "none,dspark:2,dspark:4,ngram-mod"
    made = run(bonsai, "--kinds", "code,prose", "--methods", methods, *SMALL, **engine_env)
    assert len(made["cells"]) == 2 * 4 * 2
    for cell in made["cells"]:
        assert cell["runs"] == 1
        assert cell["tokens_per_second"] > 0
        assert cell["spread"][0] <= cell["ratio"] <= cell["spread"][1]
        assert cell["identical"] is (True if cell["temperature"] == 0 else None)
        if cell["method"] == "draft-dspark":
            expected = expected_acceptance(cell["kind"], n_max=cell["n_max"], max_tokens=TOKENS)
            assert cell["acceptance"] == pytest.approx(expected.acceptance), cell
            assert len(cell["acceptance_by_position"]) == cell["n_max"]
        else:
            # ngram-mod, too: nothing in these texts repeats, and no earlier answer is remembered
            assert (cell["acceptance"], cell["n_max"]) == (None, None)
    assert {(sweep["kind"], sweep["temperature"]) for sweep in made["sweep"]} == {
        (kind, temperature) for kind in ("code", "prose") for temperature in (0.0, 1.0)
    }
    assert [point["n_max"] for point in made["sweep"][0]["points"]] == [2, 4]
    assert set(made["advice"]) == {"coding", "chat"}
    assert made["practice"] is True
    assert "no confidence head" in json.dumps(made["refused"])


@pytest.mark.usefixtures("embedded")
@pytest.mark.system("posix")
def test_after_sigkill_no_finished_cell_is_measured_again(bonsai: Bonsai, home: Path) -> None:
    env = {"BONSAI_ENGINE": "embedded"}
    arguments = ("--quick", "--kinds", "code", "--methods", "none,dspark:2,dspark:3", *SMALL)
    child = bonsai.popen("lab", "--json", *arguments, env=env)
    wait_until(lambda: bonsai.output().count("tokens/s") >= 3, 60, "three answers")
    child.kill()
    child.wait()
    before = kept(home)
    assert 3 <= len(before.runs) < 6
    assert before.ended == ""
    made = run(bonsai, "--resume", **env)
    after = kept(home)
    assert (made["id"], after.ended) == (before.id, "runs")
    assert after.runs[: len(before.runs)] == before.runs
    assert sorted(repr(one.cell) for one in after.runs) == sorted(repr(cell) for cell in after.plan.cells)
    assert made["request"]["max_tokens"] == TOKENS
    assert all(cell["runs"] == 1 for cell in made["cells"])
    again = run(bonsai, "--resume", "--record", before.id, **env)
    assert again["cells"] == made["cells"]
    other = bonsai("lab", "--resume", env={**env, "BONSAI_MODEL": "practice-medium"})
    assert other.returncode == 2
    assert "measured with another target and another drafter" in other.stderr
    assert "Start a new lab" in other.stderr


@pytest.mark.system("posix")
def test_ctrl_c_ends_after_the_answer_with_what_there_is(bonsai: Bonsai, home: Path) -> None:
    env = paced(home, 100)
    child = bonsai.popen("lab", "--json", "--kinds", "code", "--methods", "none,dspark:4", env=env)
    wait_until(lambda: "plain" in bonsai.output() and "tokens/s" in bonsai.output(), 30, "an answer")
    child.send_signal(signal.SIGINT)
    assert child.wait(30) == 0
    made = json.loads(bonsai.output("stdout"))
    assert made["ended"] == "stopped"
    assert 1 <= len(made["order"]) <= 2
    assert "Go on with it by" in bonsai.output()
    assert kept(home).ended == "stopped"
    assert list((home / "run").iterdir()) == []


def test_quick_on_known_speeds_advises_what_is_faster(bonsai: Bonsai, home: Path) -> None:
    made = run(bonsai, "--quick", "--precision", "0.2", "--max-tokens", "60", **paced(home, 200))
    assert made["ended"] in ("sure", "runs")
    assert {cell["method"] for cell in made["cells"]} >= {"none", "draft-dspark", "ngram-mod"}
    coding = made["advice"]["coding"]
    assert coding["method"] != "none"
    assert coding["ratio"] == pytest.approx(2, rel=0.3)
    assert "For a coding assistant use" in coding["text"]
    assert isinstance(coding["sure"], bool)
    assert made["spent_s"] < 180


def test_words_tables_and_csv(bonsai: Bonsai, home: Path) -> None:
    arguments = ("lab", "--kinds", "code,prose", "--methods", "none,dspark", "--temperature", "0", *SMALL)
    done = bonsai(*arguments, "--language", "it", env=paced(home))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split()[:2] == ["text", "method"]
    assert "draft length" in done.stdout
    assert "For a coding assistant" in done.stdout
    assert "Each is measured once" in done.stderr
    resumed = bonsai("lab", "--resume", "--markdown", env=paced(home))
    assert resumed.stdout.startswith("# Lab")
    assert "faro abbandonato" in resumed.stdout
    assert "classe LRUCache" in resumed.stdout
    table = bonsai("lab", "--resume", "--csv", env=paced(home))
    rows = list(csv.DictReader(io.StringIO(table.stdout)))
    assert [(row["kind"], row["method"], row["n_max"]) for row in rows[:3]] == [
        ("code", "none", ""),
        ("code", "draft-dspark", "1"),
        ("code", "draft-dspark", "2"),
    ]
    assert len(LabStore(home).list().labs) == 1


def test_where_plain_decoding_breaks_off_the_rest_is_told(bonsai: Bonsai, home: Path) -> None:
    program = paced_engine.install(home / "bin", rate=800, tokens=60, cut_after=40)
    done = bonsai("lab", "--json", "--kinds", "code", env={"BONSAI_LLAMA_SERVER": str(program)})
    assert done.returncode == 5
    made = json.loads(done.stdout)
    assert (made["ended"], made["cells"]) == ("failed", [])
    assert made["problem"].startswith("plain, code")
    assert "ended early" in done.stderr


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--methods", "turbo"), "no method"),
        (("--methods", "dspark:9"), "block holds 4"),
        (("--kinds", "sonnet"), "no kind of text"),
        (("--language", "xx"), "language"),
        (("--json", "--csv"), "choose one"),
        (("--draft-on", "moon"), "cpu, ngld0"),
        (("--record", "x"), "needs --resume"),
        (("--resume",), "no lab to go on with"),
        (("--temperature", "9"), "temperature"),
    ],
)
def test_bad_input_is_one_message(bonsai: Bonsai, arguments: tuple[str, ...], words: str) -> None:
    done = bonsai("lab", *arguments)
    assert done.returncode == 2
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
