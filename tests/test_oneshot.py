"""``bonsai oneshot`` on the real program: the text that is known, the counts that can be computed."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from launcher.practice import known_text
from launcher.practice_recipe import BLOCK_SIZE, make_recipe
from tests.conftest import Bonsai, wait_until


def walked(kind: str, length: int, limit: int) -> tuple[int, int, int]:
    """(predicted, drafted, accepted) as its loop counts (examples/speculative-simple): every token comes out of a
    verify step, the first one too; the last step may go beyond ``limit``."""
    recipe = make_recipe()
    last = next(token for token in recipe.successor if recipe.tokens[token].text == f"<|{kind}|>")
    predicted = drafted = accepted = 0
    while predicted <= limit and last != recipe.eos:
        left = limit - predicted - 1
        room = min(length, BLOCK_SIZE, left) if left > 0 else length  # no room is taken for no limit
        kept = 0
        while kept < room and recipe.guess[last] == recipe.successor[last]:
            last, kept = recipe.guess[last], kept + 1
        last = recipe.successor[last]
        predicted, drafted, accepted = predicted + kept + 1, drafted + room, accepted + kept
    return predicted, drafted, accepted


@pytest.mark.engine
@pytest.mark.parametrize(
    ("kind", "question"), [("code", "Implement quicksort."), ("prose", "Tell me a story.")]
)
def test_text_and_counts(bonsai: Bonsai, built_engine: Path, home: Path, kind: str, question: str) -> None:
    engine = {"BONSAI_LLAMA_SERVER": str(built_engine)}
    done = bonsai("oneshot", question, "--json", "--max-tokens", "80", "--method", "dspark:3", env=engine)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert known_text(kind).startswith(made["text"])
    assert len(made["text"]) > 100
    assert made["prompt"] == f"<|user|>{question}<|turn_end|><|assistant|><|{kind}|>"
    timings = made["timings"]
    counts = (timings["predicted_tokens"], timings["draft_n"], timings["draft_n_accepted"])
    assert counts == walked(kind, 3, 80)
    assert timings["acceptance"] == pytest.approx(counts[2] / counts[1])
    assert timings["tokens_per_second"] > 0
    assert made["finish_reason"] == "length"
    speculation = made["speculation"]
    assert (speculation["method"], speculation["n_max"], speculation["engaged"]) == ("draft-dspark", 3, True)
    assert list((home / "run").iterdir()) == [], "neither key nor prompt is left behind"


@pytest.mark.engine
def test_on_the_terminal_and_with_odd_questions(bonsai: Bonsai, built_engine: Path) -> None:
    engine = {"BONSAI_LLAMA_SERVER": str(built_engine)}
    asked = "Write code: \\n stays, and so do ' \" $HOME 🌊\nand a second line.\n"
    done = bonsai("oneshot", "-", "--max-tokens", "30", stdin=asked, env=engine)
    assert done.returncode == 0, done.stderr
    assert known_text("code").startswith(done.stdout.rstrip("\n"))
    assert "tokens/s" in done.stderr
    assert "accepted" in done.stderr


@pytest.mark.engine
@pytest.mark.system("posix")
def test_ctrl_c_leaves_nothing(bonsai: Bonsai, built_engine: Path, home: Path) -> None:
    engine = {"BONSAI_LLAMA_SERVER": str(built_engine), "BONSAI_MODEL": "practice-large"}
    child = bonsai.popen("oneshot", "Give me a long answer.", "--max-tokens", "4000", env=engine)
    wait_until(lambda: len(bonsai.output("stdout")) > 20, 60, "the first words")
    child.send_signal(signal.SIGINT)
    assert child.wait(20) == 130
    assert list((home / "run").iterdir()) == []


@pytest.mark.engine
def test_what_goes_wrong_is_one_message(bonsai: Bonsai, built_engine: Path, tmp_path: Path) -> None:
    engine = {"BONSAI_LLAMA_SERVER": str(built_engine)}
    plain = bonsai("oneshot", "hello", "--method", "plain", env=engine)
    assert (plain.returncode, "always speculates" in plain.stderr) == (2, True)
    small = bonsai("oneshot", "hello " * 3000, env={**engine, "BONSAI_CTX": "512"})
    assert small.returncode == 5
    assert "but the context holds 512" in small.stderr
    lonely = tmp_path / "bin"
    shutil.copytree(built_engine.parent, lonely, symlinks=True)
    (lonely / "llama-speculative-simple").unlink(missing_ok=True)
    alone = bonsai("oneshot", "hello", env={"BONSAI_LLAMA_SERVER": str(lonely / built_engine.name)})
    assert (alone.returncode, "There is no llama-speculative-simple" in alone.stderr) == (4, True)


def test_the_embedded_engine_has_none(bonsai: Bonsai) -> None:
    pytest.importorskip("xllamacpp", reason="no embedded engine on this platform")
    done = bonsai("oneshot", "hello", env={"BONSAI_ENGINE": "embedded"})
    assert done.returncode == 4
    assert "The embedded engine has no llama-speculative-simple." in done.stderr
    assert "bonsai engines build" in done.stderr
    assert bonsai("oneshot", " ").returncode == 2
