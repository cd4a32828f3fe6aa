"""The commands as a person runs them, on real engines with the real practice pair."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.ledger import Ledger
from launcher.practice import expected_acceptance, known_text, known_thinking
from tests.conftest import Bonsai, free_port, wait_until
from tests.standins import engine_script

QUICKSORT = "Implement quicksort in Python."


def ask(bonsai: Bonsai, prompt: str, *arguments: str, **env: str) -> dict[str, Any]:
    done = bonsai("ask", "--json", "--temperature", "0", *arguments, prompt, env=env)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_speculation_is_engaged_with_the_acceptance_computed_for_the_pair(
    bonsai: Bonsai, engine_env: dict[str, str]
) -> None:
    answer = ask(bonsai, QUICKSORT, BONSAI_MODEL="practice", BONSAI_SPECULATIVE="1", **engine_env)
    expected = expected_acceptance("code")
    assert answer["text"] == known_text("code")
    assert answer["finish_reason"] == "stop"
    assert answer["speculation"]["requested"] is True
    assert answer["speculation"]["engaged"] is True
    assert answer["timings"]["draft_n"] == expected.draft_n
    assert answer["timings"]["draft_n_accepted"] == expected.draft_n_accepted
    assert answer["timings"]["acceptance"] == pytest.approx(expected.acceptance)
    assert answer["timings"]["tokens_per_second"] > 0
    assert answer["timings"]["time_to_first_token_s"] > 0


def test_without_the_variable_the_same_text_and_nothing_drafted(
    bonsai: Bonsai, engine_env: dict[str, str]
) -> None:
    answer = ask(bonsai, QUICKSORT, **engine_env)
    assert answer["text"] == known_text("code")
    assert answer["speculation"]["engaged"] is False
    assert answer["speculation"]["requested"] is False
    assert answer["timings"]["draft_n"] is None
    assert answer["timings"]["acceptance"] is None


def test_thoughts_come_apart_from_the_answer(bonsai: Bonsai, engine_env: dict[str, str]) -> None:
    answer = ask(bonsai, "Think carefully: which is larger?", BONSAI_SPECULATIVE="1", **engine_env)
    assert answer["thinking"].strip() == known_thinking("thinking").strip()
    assert answer["text"].strip() == known_text("thinking").strip()
    assert "<think>" not in answer["text"]


def test_shorter_drafts_are_honoured(bonsai: Bonsai, engine_env: dict[str, str]) -> None:
    answer = ask(bonsai, QUICKSORT, BONSAI_SPECULATIVE="1", BONSAI_SPEC_NMAX="2", **engine_env)
    assert answer["text"] == known_text("code")
    assert answer["timings"]["draft_n"] == expected_acceptance("code", n_max=2).draft_n


def test_an_answer_with_speculation_is_a_chat_of_one_message_to_the_ledger(
    bonsai: Bonsai, home: Path
) -> None:
    ledger = Ledger(home)
    ask(bonsai, QUICKSORT, "--max-tokens", "20")
    assert ledger.rows() == ()
    ask(bonsai, QUICKSORT, "--max-tokens", "20", BONSAI_SPECULATIVE="1", BONSAI_SPEC_NMAX="2")
    [row] = ledger.rows()
    assert (row.method, row.waiting.answers, row.waiting.tokens) == ("dspark 2", 1, 20)
    assert row.waiting.again_s == 0
    (home / "ledger.json").unlink()
    (home / "ledger.json").mkdir()  # which takes nothing from an answer
    assert ask(bonsai, QUICKSORT, "--max-tokens", "20", BONSAI_SPECULATIVE="1")["text"]


def test_limit_of_tokens_is_told(bonsai: Bonsai) -> None:
    answer = ask(bonsai, QUICKSORT, "--max-tokens", "10")
    assert answer["finish_reason"] == "length"
    assert answer["timings"]["predicted_tokens"] == 10
    assert known_text("code").startswith(answer["text"])


def test_question_comes_from_stdin_and_answer_goes_to_stdout_alone(bonsai: Bonsai) -> None:
    done = bonsai("ask", "--temperature", "0", stdin=QUICKSORT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip("\n") == known_text("code").rstrip("\n")
    assert "tokens/s" in done.stderr
    assert "no language model" in done.stderr


def test_plan_shows_the_flags_of_the_seeds(bonsai: Bonsai) -> None:
    done = bonsai("plan", "--json", env={"BONSAI_MODEL": "practice", "BONSAI_SPECULATIVE": "1"})
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    argv = plan["argv"]
    pairs = dict(itertools.pairwise(argv))
    assert pairs["--spec-type"] == "draft-dspark"
    assert pairs["--spec-draft-n-max"] == "4"
    assert (pairs["-ngl"], pairs["-ngld"], pairs["-np"], pairs["-fa"]) == ("999", "999", "1", "on")
    assert pairs["-c"] == "16384"
    assert pairs["-md"] == plan["drafter"]["path"]
    assert (pairs["--host"], pairs["--port"]) == ("127.0.0.1", "8080")
    assert plan["context"] == 16384
    explained = " ".join(reason["part"] for reason in plan["reasons"])
    program = len(plan["engine"]["program"])
    assert all(word in explained for word in argv[program:]), "every part has its reason"
    assert plan["warnings"] == []


def test_plan_without_speculation_says_why(bonsai: Bonsai) -> None:
    plan = json.loads(bonsai("plan", "--json").stdout)
    assert plan["drafter"] is None
    assert "BONSAI_SPECULATIVE=1" in plan["drafter_reason"]
    assert "-md" not in plan["argv"]
    assert dict(itertools.pairwise(plan["argv"]))["--spec-type"] == "none"


@pytest.fixture
def serving(bonsai: Bonsai) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts ``bonsai serve``; everything started is ended, and the port is free again."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, **env: str) -> subprocess.Popen[str]:
        child = bonsai.popen("serve", *arguments, env=env)
        started.append(child)
        return child

    yield start
    for child in started:
        child.send_signal(signal.SIGTERM)
        child.wait(15)


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def test_serve_answers_the_curl_command_of_the_manual(
    serving: Callable[..., subprocess.Popen[str]], engine_env: dict[str, str]
) -> None:
    port = free_port()
    serving("--port", str(port), BONSAI_SPECULATIVE="1", **engine_env)
    wait_until(lambda: answers(port), 30, "the server to answer")
    body = json.dumps({"messages": [{"role": "user", "content": QUICKSORT}], "max_tokens": 400})
    done = subprocess.run(
        [
            "curl",
            "-s",
            f"http://127.0.0.1:{port}/v1/chat/completions",
            "-H",
            "Content-Type: application/json",
            "-d",
            body,
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout)
    assert answer["choices"][0]["message"]["content"] == known_text("code")
    assert answer["timings"]["draft_n"] == expected_acceptance("code", max_tokens=400).draft_n
    assert answer["timings"]["predicted_per_second"] > 0


def test_serve_passes_arguments_on_and_ends_with_its_terminal(
    serving: Callable[..., subprocess.Popen[str]], engine_env: dict[str, str]
) -> None:
    port = free_port()
    child = serving("--port", str(port), "--", "--alias", "my-alias", **engine_env)
    wait_until(lambda: answers(port), 30, "the server to answer")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models") as reply:
        assert json.load(reply)["data"][0]["id"] == "my-alias"
    child.send_signal(signal.SIGINT)
    child.wait(15)
    assert not answers(port)


def test_serve_never_takes_another_port(
    bonsai: Bonsai, serving: Callable[..., subprocess.Popen[str]]
) -> None:
    port = free_port()
    serving("--port", str(port))
    wait_until(lambda: answers(port), 30, "the server to answer")
    second = bonsai("serve", "--port", str(port))
    assert second.returncode == 2
    assert f"port {port}" in second.stderr
    assert "process" in second.stderr


@pytest.mark.system("posix")
def test_serve_warns_where_an_engine_cannot_keep_other_web_sites_out(bonsai: Bonsai, tmp_path: Path) -> None:
    program = tmp_path / "llama-server"
    program.write_text(engine_script("old"))
    program.chmod(0o755)
    done = bonsai("serve", "--port", str(free_port()), env={"BONSAI_LLAMA_SERVER": str(program)})
    assert "web pages in your browser could read its answers" in done.stderr


def test_serve_opens_to_other_machines_only_when_allowed(bonsai: Bonsai) -> None:
    refused = bonsai("serve", "--port", str(free_port()), "--", "--host", "0.0.0.0")
    assert refused.returncode == 2
    assert "--host asks to listen on 0.0.0.0" in refused.stderr
    assert "BONSAI_ALLOW_REMOTE=1" in refused.stderr


@pytest.mark.system("linux")
def test_everything_works_without_network(bonsai: Bonsai) -> None:
    probe = subprocess.run(["unshare", "-rn", "true"], check=False, capture_output=True)
    if probe.returncode:
        pytest.skip("this system does not let us make a network namespace")
    command = [*bonsai.command, "ask", "--json", "--temperature", "0", QUICKSORT]
    alone = ["unshare", "-rn", sys.executable, "-c", LOOPBACK_UP, *command]
    done = subprocess.run(alone, env=bonsai.env(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["text"] == known_text("code")


# Brings the loopback interface of a fresh namespace up (ioctl SIOCSIFFLAGS), then becomes the command.
LOOPBACK_UP = """
import fcntl, os, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))
os.execvp(sys.argv[1], sys.argv[1:])
"""


def test_ask_leaves_no_process_and_no_key_behind(bonsai: Bonsai, home: Path) -> None:
    ask(bonsai, QUICKSORT)
    assert list((home / "run").iterdir()) == []

    def processes() -> str:
        return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout

    wait_until(lambda: str(home) not in processes(), 5, "every process to be gone")
