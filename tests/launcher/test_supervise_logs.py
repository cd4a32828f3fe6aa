"""What engines write is always drained, never fills the disk, and is kept for the last runs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from launcher.supervise import logs
from launcher.supervise.logs import EngineLog
from launcher.supervise.server import LOG_NAMES, Server
from tests.conftest import clean_environment, free_port, wait_until
from tests.fakes import rogue_server
from tests.plans import plan_for

FLOOD = """
import os, sys
os.write(2, b"first line\\n")
for at in range(2000):
    os.write(2, (b"%09d " % at * 10 + b"\\n") * 1000)
os.write(2, b"last line\\n")
"""


@pytest.mark.case("D-08")
def test_two_hundred_megabytes_neither_block_nor_fill_the_disk(tmp_path: Path) -> None:
    log = EngineLog(tmp_path / "log")
    output = log.pipe()
    with subprocess.Popen([sys.executable, "-c", FLOOD], stderr=output) as child:
        os.close(output)
        biggest = 0
        while child.poll() is None:
            biggest = max(biggest, log.path.stat().st_size)
        child.wait()
    log.finish(10)
    log.close()
    assert biggest <= logs.MOST_BYTES
    assert log.told > 200_000_000
    text = log.path.read_bytes()
    assert text.startswith(b"first line\n")
    assert text.endswith(b"last line\n")
    assert text.count(b"left out here") == 1
    assert len(text) > logs.HEAD_BYTES + logs.TAIL_BYTES / 2


def test_the_middle_is_left_out_at_line_ends(tmp_path: Path) -> None:
    log = EngineLog(tmp_path / "log", most=2000, head=500, tail=800)
    output = log.pipe()
    for at in range(100):
        os.write(output, b"line %05d of the log\n" % at * 3)
    os.close(output)
    log.finish(10)
    lines = log.path.read_text().splitlines()
    log.close()
    assert lines[0] == "line 00000 of the log"
    assert lines[-1] == "line 00099 of the log"
    notes = [line for line in lines if not line.startswith("line 0")]
    assert len(notes) == 1
    assert "bytes left out here" in notes[0]
    assert all(len(line) == len(lines[0]) for line in lines if line not in notes)
    assert log.path.stat().st_size <= 2000


def test_the_tail_is_there_when_the_child_has_ended(tmp_path: Path) -> None:
    log = EngineLog(tmp_path / "log")
    output = log.pipe()
    os.write(output, "erste Zeile\nlètzte 模型 \n".encode() + b"\xff")
    os.close(output)
    log.finish(10)
    assert log.tail(2) == "lètzte 模型 \n\ufffd"
    log.close()
    assert log.tail(9).startswith("erste")


def test_a_stranger_that_holds_the_pipe_is_not_waited_for(tmp_path: Path) -> None:
    log = EngineLog(tmp_path / "log")
    output = log.pipe()
    log.finish(0.05)
    log.close()
    os.write(output, b"too late")  # drained all the same
    os.close(output)
    log.finish(10)
    assert log.path.read_bytes() == b""


@pytest.mark.system("linux")
def test_a_full_disk_does_not_stop_the_engine() -> None:
    log = EngineLog(Path("/dev/full"))
    output = log.pipe()
    os.write(output, b"x" * 65536)
    os.write(output, b"y" * 65536)  # would block, were the first not taken away
    os.close(output)
    log.finish(10)
    log.close()
    assert log.told == 2 * 65536


def test_questions_of_ours_in_the_log_are_no_sign_of_life(tmp_path: Path) -> None:
    log = EngineLog(tmp_path / "log")
    output = log.pipe()
    os.write(output, b"srv  log_server_r: done request: GET /health 127.0.0.1 503\n")
    os.close(output)
    log.finish(10)
    log.close()
    assert log.told == 0
    assert "GET /health" in log.tail(1)


def test_only_the_last_runs_are_kept(tmp_path: Path) -> None:
    for at in range(15):
        path = tmp_path / f"llama-server-{at}.log"
        path.touch()
        os.utime(path, (at, at))
    (tmp_path / "notes.txt").touch()
    in_use = tmp_path / "llama-server-0.log"
    logs.prune(tmp_path, LOG_NAMES, keep=10, spare={in_use})
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {"notes.txt", in_use.name, *(f"llama-server-{at}.log" for at in range(5, 15))}


@pytest.mark.case("D-08")
@pytest.mark.system("posix")
def test_an_engine_that_floods_its_log_starts_and_answers(tmp_path: Path) -> None:
    program = rogue_server.install(tmp_path / "bin", flood=5_000_000, flood_on=True)
    plan = plan_for(program, env={"BONSAI_PORT": str(free_port())})
    server = Server(plan, tmp_path / "logs", tmp_path / "run", clean_environment())
    server.start(threading.Event(), lambda _: None)
    wait_until(lambda: server.log_path.stat().st_size > 6_000_000, 10, "the flood to go on")
    server.stop()
    assert server.log_path.stat().st_size <= logs.MOST_BYTES


@pytest.mark.system("posix")
def test_starts_in_the_same_second_have_a_log_each(tmp_path: Path) -> None:
    servers = [Server(plan_for("x"), tmp_path, tmp_path / "run", {}) for _ in range(3)]
    assert len({server.log_path for server in servers}) == 3
