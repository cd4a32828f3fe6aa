"""Bad input through the real command: one clear sentence, a non-zero exit code, nothing lost, no traceback."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

from launcher.practice import ensure_pair
from tests.conftest import Bonsai
from tests.fakes import paced_engine


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """The run failed with one sentence that holds ``words``, without a traceback and without data."""
    assert done.returncode not in (0, 1), done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    said = " ".join(done.stderr.split())
    assert said.count("Error: ") == 1, said
    assert all(word in said for word in words), said
    assert done.stdout == ""


@pytest.fixture(scope="module")
def pair_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pair")


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"BONSAI_SPECULATVE": "1"}, ["BONSAI_SPECULATVE", "Did you mean BONSAI_SPECULATIVE?"]),
        ({"BONSAI_CTX": "lots"}, ["BONSAI_CTX", "'lots'", "whole number"]),
        ({"BONSAI_SPECULATIVE": "perhaps"}, ["BONSAI_SPECULATIVE", "'perhaps'"]),
        ({"BONSAI_CTX": "99999999"}, ["BONSAI_CTX", "99999999", "32768"]),
        ({"BONSAI_MODEL": "/no/such/model.gguf"}, ["/no/such/model.gguf"]),
        ({"BONSAI_LLAMA_SERVER": "/no/such/server"}, ["/no/such/server"]),
        ({"BONSAI_MODEL": "28B"}, ["28B", "27B", "practice"]),
        ({"BONSAI_ENGINE": "mainline"}, ["mainline", "bonsai engines build"]),
        ({"BONSAI_HOST": "0.0.0.0"}, ["0.0.0.0", "BONSAI_ALLOW_REMOTE"]),
        ({"BONSAI_SPECULATIVE": "1", "BONSAI_SPEC_NMAX": "9"}, ["BONSAI_SPEC_NMAX", "9", "4"]),
    ],
)
def test_environment(bonsai: Bonsai, env: dict[str, str], words: list[str]) -> None:
    refused(bonsai("plan", env=env), *words)


def test_flag_with_a_wrong_value(bonsai: Bonsai) -> None:
    refused(bonsai("plan", "--ctx", "many"), "--ctx", "'many'")


def test_config_file_names_line_and_key(bonsai: Bonsai, home: Path) -> None:
    (home / "config.toml").write_text("ctx = 4096\nspeculativ = true\n")
    refused(bonsai("plan"), "config.toml", "line 2", "speculativ", "Did you mean speculative?")


def test_files_that_are_no_model(bonsai: Bonsai, tmp_path: Path, pair_folder: Path) -> None:
    whole = ensure_pair(pair_folder).target
    foreign, page, cut = tmp_path / "foreign.gguf", tmp_path / "page.gguf", tmp_path / "cut.gguf"
    foreign.write_bytes(b"root of all files" * 99)
    page.write_text("<!DOCTYPE html><html><body>Sign in</body></html>")
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    for file in (foreign, page, cut):
        refused(bonsai("plan", env={"BONSAI_MODEL": str(file)}), str(file))
    assert cut.stat().st_size == whole.stat().st_size // 2, "a person's file is left as it was"


def test_drafter_of_another_model(bonsai: Bonsai, tmp_path: Path) -> None:
    other = ensure_pair(tmp_path, "medium").drafter
    done = bonsai("plan", env={"BONSAI_SPECULATIVE": "1", "BONSAI_DRAFTER": str(other)})
    refused(done, str(other), "768", "512")


def test_target_and_drafter_exchanged(bonsai: Bonsai, pair_folder: Path) -> None:
    pair = ensure_pair(pair_folder)
    refused(bonsai("plan", env={"BONSAI_MODEL": str(pair.drafter)}), "is a drafter", "BONSAI_DRAFTER")


def test_programs_that_are_no_engine(bonsai: Bonsai, tmp_path: Path) -> None:
    script = tmp_path / "hello"
    script.write_text("#!/bin/sh\necho hello\n")
    refused(bonsai("plan", env={"BONSAI_LLAMA_SERVER": str(script)}), str(script))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    refused(bonsai("plan", env={"BONSAI_LLAMA_SERVER": str(script)}), str(script), "not a llama-server")
    refused(bonsai("plan", env={"BONSAI_LLAMA_SERVER": str(tmp_path)}), str(tmp_path))


def test_engine_that_dies_while_loading(bonsai: Bonsai, tmp_path: Path) -> None:
    program = paced_engine.install(tmp_path)
    text = program.read_text()
    dying = "import sys\nif '-m' in sys.argv: sys.exit('error: failed to load model: out of memory')\n"
    program.write_text(text.replace("import sys\n", dying, 1))
    done = bonsai("ask", "hello", env={"BONSAI_LLAMA_SERVER": str(program)})
    refused(done, "The engine ended with exit code 1", "failed to load model: out of memory")
    assert re.search(
        r"The whole log is in \S.*bonsai home.logs.llama-server-[\w-]+\.log\.$", " ".join(done.stderr.split())
    )


def test_home_that_is_a_file(bonsai: Bonsai, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("keep me")
    refused(bonsai("ask", "hello", env={"BONSAI_HOME": str(file)}), str(file))
    assert file.read_text() == "keep me"


@pytest.mark.system("posix")
def test_home_that_is_full(bonsai: Bonsai, home: Path) -> None:
    """A limit on the size of files stands for a full disk: writing fails in the middle of a model."""
    import resource
    import signal

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    done = subprocess.run(
        [*bonsai.command, "ask", "hello"],
        env=bonsai.env(),
        preexec_fn=limit,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    refused(done, "practice")
    assert [file.name for file in (home / "practice").iterdir() if file.suffix in (".gguf", ".part")] == []


@pytest.mark.system("posix")
def test_home_that_is_read_only(bonsai: Bonsai, home: Path) -> None:
    if os.geteuid() == 0:
        base = Path("/proc/bonsai")  # root may write anywhere but here
    else:
        base = home / "locked"
        base.mkdir(mode=0o500)
    refused(bonsai("ask", "hello", env={"BONSAI_HOME": str(base)}), str(base))


def test_port_of_the_page_that_is_taken(bonsai: Bonsai) -> None:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        done = bonsai("--no-browser", env={"BONSAI_UI_PORT": str(port)})
    refused(done, f"port {port}", "process")


def test_question_beyond_the_context(bonsai: Bonsai) -> None:
    done = bonsai("ask", "word " * 3000, env={"BONSAI_CTX": "512"}, timeout=120)
    refused(done, "context", "512")


def test_piped_nothing(bonsai: Bonsai) -> None:
    done = bonsai("ask", stdin="  \n")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
