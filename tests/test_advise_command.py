"""``bonsai lab --advise``, ``--use`` and ``--undo`` as a person runs them, on an engine of known speeds."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from launcher.advise_setup import wanted_for
from launcher.errors import BadInput
from launcher.lab_setup import LabOptions
from launcher.ledger import Book
from launcher.store_shared import SharedFile
from tests.conftest import Bonsai, wait_until
from tests.fakes import paced_engine

METHODS = ("--methods", "none,dspark:2,dspark:4")


@pytest.fixture
def engine(home: Path) -> dict[str, str]:
    program = paced_engine.install(
        home / "bin", rate=400, tokens=400, blocks=((4, 3), (4, 1)), drafting={"rate": 1200}
    )
    return {"BONSAI_LLAMA_SERVER": str(program)}


def planned(bonsai: Bonsai, env: dict[str, str]) -> dict[str, Any]:
    done = bonsai("plan", "--json", env=env)
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def spec_type(plan: dict[str, Any]) -> str:
    argv: list[str] = plan["argv"]
    return argv[argv.index("--spec-type") + 1]


@pytest.mark.system("posix")
def test_advice_is_found_used_and_undone(bonsai: Bonsai, engine: dict[str, str]) -> None:
    before = planned(bonsai, engine)
    done = bonsai("lab", "--advise", "--json", "--use", "coding", *METHODS, env=engine, timeout=100)
    assert done.returncode == 0, done.stderr
    advice = json.loads(done.stdout)["advice"]
    assert list(advice) == ["coding", "chat"]
    coding, chat = advice["coding"], advice["chat"]
    assert (coding["kind"], coding["temperature"]) == ("code", 0.0)
    assert (chat["kind"], chat["temperature"]) == ("chat", 1.0)
    assert coding["method"] == "draft-dspark"
    assert coding["ratio"] == pytest.approx(3, rel=0.3)
    assert coding["spread"][0] <= coding["ratio"] <= coding["spread"][1]
    assert coding["text"].startswith("For a coding assistant: Use dspark")
    assert isinstance(coding["sure"], bool)
    assert {one["method"] for one in coding["tried"]} == {"none", "draft-dspark"}
    assert "is used from now on" in done.stderr
    [speed] = SharedFile(bonsai.home / "ledger.json", Book, "the ledger", "bonsai-ledger").read().speeds
    assert speed.source == "the advisor"
    assert speed.tokens_per_second == pytest.approx(400, rel=0.3)
    used = planned(bonsai, engine)["argv"]
    assert used[used.index("--spec-draft-n-max") + 1] == str(coding["n_max"])
    undone = bonsai("lab", "--undo", env=engine)
    assert "advised for coding, is forgotten" in undone.stderr
    assert planned(bonsai, engine)["argv"] == before["argv"]
    assert "nothing to undo" in bonsai("lab", "--undo", env=engine).stderr


@pytest.mark.system("posix")
def test_a_labs_advice_is_used_too_and_a_setting_comes_first(bonsai: Bonsai, engine: dict[str, str]) -> None:
    asked = engine | {"BONSAI_SPECULATIVE": "0"}
    arguments = ("--kinds", "code", "--temperature", "0", "--max-tokens", "60", "--runs", "3")
    done = bonsai("lab", "--json", *METHODS, *arguments, "--use", "coding", env=asked, timeout=100)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["advice"]["coding"]["method"] == "draft-dspark"
    assert "BONSAI_SPECULATIVE says whether to speculate, and comes first" in done.stderr
    speeds = SharedFile(bonsai.home / "ledger.json", Book, "the ledger", "bonsai-ledger").read().speeds
    [speed] = speeds
    assert speed.source == "a lab"
    assert speed.tokens_per_second == pytest.approx(400, rel=0.3)
    assert spec_type(planned(bonsai, asked)) == "none"
    assert spec_type(planned(bonsai, engine)) == "draft-dspark"
    other = bonsai("lab", "--resume", "--json", "--use", "chat", env=engine, timeout=100)
    assert other.returncode == 2
    assert "Nothing was measured for chat" in other.stderr


@pytest.mark.system("posix")
def test_ctrl_c_before_anything_is_known_says_so(bonsai: Bonsai, home: Path) -> None:
    program = paced_engine.install(home / "bin", rate=5, tokens=400)
    child = bonsai.popen("lab", "--advise", "--json", *METHODS, env={"BONSAI_LLAMA_SERVER": str(program)})
    wait_until(lambda: "plain, 300 tokens" in bonsai.output(), 30, "the first question")
    child.send_signal(signal.SIGINT)
    wait_until(lambda: "Finishing this answer" in bonsai.output(), 10, "the word that it ends")
    child.send_signal(signal.SIGINT)
    assert child.wait(30) == 0
    assert "before anything was known for coding" in bonsai.output()
    assert json.loads(bonsai.output("stdout"))["advice"] == {}


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (LabOptions(), {"coding": ("code", 0.0), "chat": ("chat", 1.0)}),
        (LabOptions(kinds="prose"), {"chat": ("prose", 1.0)}),
        (LabOptions(kinds="prose,code,chat", temperatures=(0.7,)), {"coding": ("code", 0.7), "chat": ("prose", 0.7)}),
    ],
)  # fmt: skip
def test_texts_stand_for_purposes(options: LabOptions, wanted: dict[str, tuple[str, float]]) -> None:
    assert wanted_for(options) == wanted


def test_a_text_that_stands_for_none_is_refused() -> None:
    with pytest.raises(BadInput, match="code, chat or prose"):
        wanted_for(LabOptions(kinds="maths"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--use", "both"), "--use is one of coding, chat"),
        (("--advise", "--resume"), "--advise goes with neither"),
        (("--advise", "--kinds", "code", "--use", "chat"), "Nothing is measured for chat"),
    ],
)
def test_bad_input_is_one_message(bonsai: Bonsai, arguments: tuple[str, ...], words: str) -> None:
    done = bonsai("lab", *arguments)
    assert done.returncode == 2
    assert words in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
