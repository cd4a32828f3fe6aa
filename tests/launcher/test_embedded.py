"""The embedded engine as a process: it answers, fails and ends as llama-server does."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from launcher import embedded
from launcher.practice import PracticePair, ensure_pair
from tests.conftest import ROOT, free_port, wait_until

CHILD = [sys.executable, "-m", "launcher.embedded"]
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}
WAIT_S = 60
needs_wheel = pytest.mark.skipif(
    embedded.available() is not None, reason="no embedded engine on this platform"
)
posix = pytest.mark.system("posix")

Start = Callable[..., "Child"]


class Child:
    """A running engine with its log in a file. One thread: two of them wait for each other on a busy machine."""

    def __init__(self, program: list[str], argv: list[str], port: int, log: Path) -> None:
        self.port, self.log = port, log
        with log.open("wb") as stream:
            self.process = subprocess.Popen(
                [*program, *argv, "-t", "1", "--port", str(port)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env=ENV,
            )

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return connection.getresponse()

    def status(self) -> int | None:
        try:
            return self.ask("GET", "/health").status
        except OSError:
            return None

    def ready(self) -> list[int]:
        """Waits for /health to be 200; returns every status seen before."""
        seen: list[int] = []
        deadline = time.monotonic() + WAIT_S
        while (status := self.status()) != 200:
            assert self.process.poll() is None, self.text()
            assert time.monotonic() < deadline, self.text()
            seen += [status] if status else []
            time.sleep(0.005)
        return seen


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> PracticePair:
    return ensure_pair(tmp_path_factory.mktemp("tést 模型 dir"))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    children: list[Child] = []

    def run(*argv: str, port: int | None = None, program: list[str] = CHILD) -> Child:
        children.append(Child(program, list(argv), port or free_port(), tmp_path / f"log{len(children)}.txt"))
        return children[-1]

    yield run
    for child in children:
        child.process.kill()
        child.process.wait()


def body(prompt: str, **more: object) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": prompt}], "temperature": 0, **more}


# --- as a library ---------------------------------------------------------------------------


def test_asking_about_it_does_not_load_it() -> None:
    code = (
        "import sys; from launcher import embedded, engine_probe\n"
        "embedded.available(), embedded.version(), embedded.supported_flags()\n"
        "assert 'xllamacpp' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], env=ENV, check=True)


def test_without_the_wheel_it_says_so() -> None:
    # -S leaves out the folder with installed packages.
    code = "from launcher import embedded; print(embedded.available()); print(embedded.version())"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=ENV, check=True, capture_output=True, text=True
    )
    reason, version = done.stdout.splitlines()
    assert reason.startswith("The embedded engine")
    assert reason.endswith(".")
    assert "unknown" in version


@needs_wheel
def test_program_starts_it() -> None:
    done = subprocess.run(
        [*embedded.program(), "--version"], env=ENV, check=True, capture_output=True, text=True
    )
    assert done.stdout == f"version: {embedded.version()}\n"


# --- what goes wrong ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--foo"], "error: invalid argument: --foo\n"),
        (["-m", "x.gguf", "-c", "many"], 'error while handling argument "-c": invalid value\n'),
        (["-m"], 'error while handling argument "-m": expected value for argument\n'),
        ([], "error: --model is required\n"),
    ],
)
def test_bad_command_line(argv: list[str], message: str) -> None:
    done = subprocess.run([*CHILD, *argv], env=ENV, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(message)
    assert done.stdout == ""


@needs_wheel
def test_file_that_is_no_model(start: Start, tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_text("root:x:0:0")
    child = start("-m", str(tmp_path / "x.gguf"))
    assert child.process.wait(WAIT_S) == 1
    assert "invalid magic characters: 'root', expected 'GGUF'" in child.text()
    assert "Traceback" not in child.text()


@needs_wheel
def test_taken_port(start: Start, pair: PracticePair) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = int(holder.getsockname()[1])
        child = start("-m", str(pair.target), port=port)
        assert child.process.wait(WAIT_S) == 1
    assert f"couldn't bind HTTP server socket, hostname: 127.0.0.1, port: {port}" in child.text()


@needs_wheel
def test_device_that_is_none(start: Start, pair: PracticePair) -> None:
    child = start("-m", str(pair.target), "-devd", "NPU9")
    assert child.process.wait(WAIT_S) == 1
    assert child.text() == "invalid device: NPU9\n"


# --- a server -------------------------------------------------------------------------------


@needs_wheel
def test_the_seeds_command_line_speculates(start: Start, pair: PracticePair) -> None:
    drafter = [
        "-md",
        str(pair.drafter),
        "--spec-type",
        "draft-dspark",
        "--spec-draft-n-max",
        "4",
        "-ngld",
        "999",
    ]
    child = start(
        "-m",
        str(pair.target),
        *drafter,
        "-ngl",
        "999",
        "-fa",
        "on",
        "-c",
        "4096",
        "-np",
        "1",
        "-a",
        "practice",
    )
    assert set(child.ready()) <= {503}
    models = json.load(child.ask("GET", "/v1/models"))
    assert [model["id"] for model in models["data"]] == ["practice"]
    answer = json.load(child.ask("POST", "/v1/chat/completions", body("Implement quicksort.", max_tokens=64)))
    assert answer["usage"]["completion_tokens"] == 64
    assert answer["timings"]["draft_n_accepted"] > 0
    assert "adding speculative implementation 'draft-dspark'" in child.text()


@needs_wheel
def test_defaults_keys_and_origins(start: Start, pair: PracticePair, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    child = start(
        "-m",
        str(pair.target),
        "-c",
        "2048",
        "--api-key-file",
        str(keys),
        "--cors-origins",
        "localhost",
        "--temp",
        "0.5",
    )
    child.ready()
    assert child.ask("GET", "/props").status == 401
    props = child.ask("GET", "/props", Authorization="Bearer secret", Origin="https://other.example")
    assert props.getheader("Access-Control-Allow-Origin") is None
    value = json.load(props)
    assert value["total_slots"] == 4
    assert value["default_generation_settings"]["params"]["temperature"] == 0.5
    assert child.ask("GET", "/metrics", Authorization="Bearer secret").status == 501


@needs_wheel
@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_ends_it_at_once_in_mid_answer(
    start: Start, pair: PracticePair, number: signal.Signals
) -> None:
    child = start("-m", str(pair.target), "-c", "8192", "-np", "1")
    child.ready()
    stream = child.ask(
        "POST", "/v1/chat/completions", body("long", stream=True, max_tokens=8000, ignore_eos=True)
    )
    assert stream.readline().startswith(b"data: ")
    began = time.monotonic()
    child.process.send_signal(number)
    assert child.process.wait(WAIT_S) == 0
    assert time.monotonic() - began < 2
    assert f"stopping ({number.name})" in child.text()


@needs_wheel
@posix
def test_a_stop_signal_while_loading_ends_it(start: Start, pair: PracticePair) -> None:
    child = start("-m", str(pair.target), "-c", "32768")
    wait_until(lambda: "loading model" in child.text(), WAIT_S, "the load to begin")
    child.process.send_signal(signal.SIGTERM)
    # As llama-server: the signal itself while loading, 0 afterwards.
    assert child.process.wait(WAIT_S) in (-signal.SIGTERM, 0)


@needs_wheel
@posix
def test_it_ends_when_the_process_that_started_it_is_killed(pair: PracticePair, tmp_path: Path) -> None:
    argv = [*CHILD, "-m", str(pair.target), "-c", "512", "--port", str(free_port()), embedded.WITH_PARENT]
    log = tmp_path / "log.txt"
    code = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen({argv!r}, stderr=open({str(log)!r}, 'wb'))\n"
        "print(child.pid, flush=True)\ntime.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], env=ENV, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        wait_until(
            lambda: log.exists() and "listening on" in log.read_text(errors="replace"), WAIT_S, "the engine"
        )
        parent.kill()
        parent.wait()
        wait_until(lambda: gone(pid), 10, "the engine to follow the launcher")
    assert "the launcher is gone" in log.read_text()


@needs_wheel
@pytest.mark.parametrize("options", ["-np 1 -ngl 999", "--temp 0.7 --top-k 20 --reasoning-format none"])
def test_same_settings_and_text_as_the_built_server(
    start: Start, pair: PracticePair, built_engine: Path, options: str
) -> None:
    argv = ["-m", str(pair.target), "-c", "2048", *options.split(" ")]
    told = []
    for program in (CHILD, [str(built_engine)]):
        child = start(*argv, program=program)
        child.ready()
        props = json.load(child.ask("GET", "/props"))
        answer = json.load(child.ask("POST", "/v1/chat/completions", body("Think: why?", max_tokens=120)))
        # What differs by nature: the build's name, a random marker, whether llama-server's page is inside.
        told.append(
            {
                "settings": props["default_generation_settings"],
                "template": props["chat_template"],
                "slots": props["total_slots"],
                "alias": props["model_alias"],
                "message": answer["choices"][0]["message"],
                "usage": answer["usage"],
            }
        )
    assert told[0] == told[1]
