"""Nothing of ours survives the launcher, however it ends, and nothing dies that should live."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from launcher.supervise import watched
from launcher.supervise.server import Server
from launcher.supervise.spawner import Spawner
from launcher.supervise.system import tool
from tests.conftest import ROOT, Bonsai, clean_environment, free_port, wait_until
from tests.fakes import rogue_server
from tests.plans import plan_for

pytestmark = pytest.mark.system("posix")
Launch = Callable[..., tuple[subprocess.Popen[str], list[int]]]
LAUNCHER = """
import os, sys, threading, time
from dataclasses import replace
from pathlib import Path
from launcher.supervise import _posix
from launcher.supervise.server import Server
from tests.plans import plan_for
folder, program, port = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
plan = replace(plan_for(program), port=port)
server = Server(plan, folder / "logs", folder / "run", dict(os.environ))
server.start(threading.Event(), lambda _: None)
if "kill-watchman" in sys.argv:
    os.kill(_posix.WATCHMAN.pid, 9)
print(server.pid, _posix.WATCHMAN.pid, flush=True)
time.sleep(600)
"""


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def nothing_lives(pids: list[int]) -> Callable[[], bool]:
    return lambda: not any(map(lives, pids))


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Starts a launcher with an engine; gives it and the numbers of all that it has started."""
    made: list[subprocess.Popen[str]] = []

    def begin(program: Path, *words: str) -> tuple[subprocess.Popen[str], list[int]]:
        command = [sys.executable, "-c", LAUNCHER, str(tmp_path), str(program), str(free_port()), *words]
        launcher = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=clean_environment()
        )
        made.append(launcher)
        assert launcher.stdout is not None
        engine, watchman = map(int, launcher.stdout.readline().split())
        return launcher, [
            engine,
            watchman,
            *(it for s in rogue_server.starts(program.parent) for it in s["children"]),
        ]

    yield begin
    for launcher in made:
        launcher.kill()
        launcher.wait()
        assert launcher.stdout is not None
        launcher.stdout.close()


@pytest.mark.case("D-06")
def test_all_that_was_started_dies_with_the_launcher(tmp_path: Path, launch: Launch) -> None:
    program = rogue_server.install(tmp_path / "bin", fork=2)
    launcher, pids = launch(program)
    assert all(map(lives, pids))
    launcher.kill()
    launcher.wait()
    wait_until(nothing_lives(pids), 5, "everything to be gone")


@pytest.mark.case("D-06")
def test_a_real_server_behind_a_wrapper_script_dies_too(tmp_path: Path, launch: Launch) -> None:
    inner = rogue_server.install(tmp_path / "bin")
    wrapper = tmp_path / "wrapper.sh"
    wrapper.write_text(f'#!/bin/sh\n"{inner}" "$@"\nexit $?\n')
    wrapper.chmod(0o755)
    launcher, pids = launch(wrapper)
    pids += [start["pid"] for start in rogue_server.starts(inner.parent)]
    assert len(set(pids)) == 3
    launcher.kill()
    wait_until(nothing_lives(pids), 5, "everything to be gone")


@pytest.mark.system("linux")
def test_the_engine_dies_even_without_its_watchman(tmp_path: Path, launch: Launch) -> None:
    launcher, pids = launch(rogue_server.install(tmp_path / "bin"), "kill-watchman")
    assert lives(pids[0])
    launcher.kill()
    wait_until(nothing_lives(pids), 5, "the engine to be gone")


@pytest.mark.case("D-06")
def test_what_was_left_all_the_same_is_swept_by_the_next_start(tmp_path: Path) -> None:
    """As on a system that has neither a death signal nor a watchman: an engine in a session of its own."""
    program = rogue_server.install(tmp_path / "bin")
    code = f"""
    import os, subprocess
    from pathlib import Path
    from launcher.supervise import records
    run = Path({str(tmp_path / "run")!r})
    record = records.begin(run, "bonsai-00ff00ff00ff", key=run / "bonsai-00ff00ff00ff.key")
    argv = [{str(program)!r}, "--port", "{free_port()}", "--alias", "bonsai-00ff00ff00ff"]
    child = subprocess.Popen(argv, start_new_session=True, stderr=subprocess.DEVNULL)
    records.started(run, record, child.pid, argv)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, cwd=ROOT)
    wait_until(lambda: rogue_server.starts(program.parent), 5, "the engine")
    orphan = rogue_server.starts(program.parent)[0]["pid"]
    assert lives(orphan)
    server = Server(plan_for(program), tmp_path / "logs", tmp_path / "run", clean_environment())
    server.start(threading.Event(), lambda _: None)
    assert not lives(orphan)
    server.stop()
    assert list((tmp_path / "run").iterdir()) == []


def test_the_child_does_not_depend_on_the_thread_that_started_it(tmp_path: Path) -> None:
    server = Server(
        plan_for(rogue_server.install(tmp_path / "bin")), tmp_path, tmp_path / "run", clean_environment()
    )
    starting = threading.Thread(target=server.start, args=(threading.Event(), lambda _: None))
    starting.start()
    starting.join()
    assert server.pid is not None
    # A death signal would have been sent before join returned, and taken within moments.
    for _ in range(20):
        assert lives(server.pid)
        time.sleep(0.01)
    server.stop()


def test_the_spawner_goes_on_after_what_cannot_be_started() -> None:
    spawner = Spawner()
    with pytest.raises(ZeroDivisionError):
        spawner.do(lambda: 1 / 0)
    threads = {spawner.do(threading.get_ident) for _ in range(3)}
    assert len(threads) == 1
    assert threads != {threading.get_ident()}


TOOL = """
import sys
from launcher.supervise.system import tool
code = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid, flush=True); sys.stdin.read()"
with tool([sys.executable, "-c", code], stdin=-1) as it:
    print(it.pid, flush=True)
    it.wait()
"""


def test_a_tool_and_what_it_has_started_do_not_survive_either() -> None:
    launcher = subprocess.Popen([sys.executable, "-c", TOOL], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert launcher.stdout is not None
    pids = [int(launcher.stdout.readline()) for _ in range(2)]
    assert all(map(lives, pids))
    launcher.kill()
    launcher.wait()
    launcher.stdout.close()
    wait_until(nothing_lives(pids), 5, "the tool and its child to be gone")


def test_a_tool_is_used_as_any_other_process() -> None:
    with tool(["sh", "-c", "cat; exit 3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as it:
        assert it.communicate("hello")[0] == "hello"
    assert it.returncode == 3
    with pytest.raises(FileNotFoundError), tool(["/nothing-here"]):
        pass


# -- the watchman by itself -----------------------------------------------------------------------------------


def test_the_watchman_reads_its_pipe_cut_anywhere() -> None:
    text = b"+1 4711\n+2 4712\nrubbish\n+3 x\n+4 1\n+5 -9\n-1\n-77\n+6 4713\n"
    for cut in range(len(text)):
        care = watched.Care()
        care.feed(text[:cut])
        care.feed(text[cut:])
        assert care.groups == {b"2": 4712, b"6": 4713}


def watchman(*command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT)


@pytest.mark.parametrize("how", ["as a file", "as a command"])
def test_the_watchman_ends_what_it_has_in_care_and_nothing_else(how: str) -> None:
    stubborn = "trap '' TERM; while :; do sleep 60; done"
    left, forgotten = (subprocess.Popen(["sh", "-c", stubborn], start_new_session=True) for _ in range(2))
    command = ["-I", "-S", watched.__file__] if how == "as a file" else ["-m", "launcher", watched.SUBCOMMAND]
    guard = watchman(sys.executable, *command)
    assert guard.stdin is not None
    guard.stdin.write(f"+1 {left.pid}\n+2 {forgotten.pid}\n-2\n".encode())
    guard.stdin.flush()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if how == "as a file":  # it goes when the launcher goes, not before
            wait_until(lambda: not ignores_nothing(guard.pid), 5, "the watchman to be ready")
            guard.send_signal(number)
    assert guard.poll() is None
    guard.stdin.close()
    assert guard.wait(10) == 0
    assert left.wait(5) == -signal.SIGKILL
    assert forgotten.poll() is None
    forgotten.kill()
    forgotten.wait()


def ignores_nothing(pid: int) -> bool:
    """Linux tells the ignored signals; elsewhere its being asleep has to do."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return psutil.Process(pid).status() != psutil.STATUS_SLEEPING
    ignored = int(
        next(line for line in status.read_text().splitlines() if line.startswith("SigIgn")).split()[1], 16
    )
    return not ignored & 1 << (signal.SIGQUIT - 1)


# -- the command ----------------------------------------------------------------------------------------------


def ours(home: Path) -> list[psutil.Process]:
    """What has this home, or a watchman of ours, in its command line or environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(home) in [*process.cmdline(), *process.environ().values()]:
                found.append(process)
        except psutil.Error:
            continue
    return found


def ask_for_ever(bonsai: Bonsai) -> subprocess.Popen[str]:
    pytest.importorskip("xllamacpp", reason="no embedded engine on this platform")
    env = {"BONSAI_MODEL": "practice", "BONSAI_ENGINE": "embedded"}
    return bonsai.popen("ask", "Tell me a long story.", env=env)


MOMENTS: dict[str, Callable[[Bonsai], bool]] = {
    "at once": lambda _: True,
    "as the engine is spawned": lambda bonsai: bool(list((bonsai.home / "run").glob("*.json"))),
    "as it loads": lambda bonsai: any(path.stat().st_size for path in (bonsai.home / "logs").glob("*.log")),
    "in mid-answer": lambda bonsai: bool(bonsai.output("stdout")),
}


@pytest.mark.case("D-06")
@pytest.mark.parametrize("moment", MOMENTS)
def test_kill_9_of_the_command_leaves_no_process(bonsai: Bonsai, home: Path, moment: str) -> None:
    launcher = ask_for_ever(bonsai)
    wait_until(lambda: MOMENTS[moment](bonsai) or launcher.poll() is not None, 30, moment)
    left = ours(home)
    launcher.kill()
    launcher.wait()
    wait_until(
        lambda: not ours(home) and nothing_lives([it.pid for it in left])(), 5, "every process to be gone"
    )


@pytest.mark.case("D-13")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_in_order(bonsai: Bonsai, home: Path, number: signal.Signals) -> None:
    launcher = ask_for_ever(bonsai)
    wait_until(lambda: list((home / "run").glob("*.json")), 30, "the engine to be spawned")
    launcher.send_signal(number)
    assert launcher.wait(15) == 128 + number
    assert "Traceback" not in bonsai.output()
    assert list((home / "run").iterdir()) == []
    wait_until(lambda: not ours(home), 5, "every process to be gone")


@pytest.mark.case("D-13")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_first_moment_prints_no_traceback(
    bonsai: Bonsai, tmp_path: Path, number: signal.Signals
) -> None:
    """While the command's own parts are still being loaded, which takes seconds on a slow disk."""
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "typer.py").write_text("import sys, time; print('loading', flush=True); time.sleep(60)")
    launcher = bonsai.popen("doctor", env={"PYTHONPATH": f"{slow}{os.pathsep}{ROOT}"})
    wait_until(lambda: bonsai.output("stdout"), 30, "the loading to begin")
    launcher.send_signal(number)
    assert launcher.wait(15) == 128 + number
    assert "Traceback" not in bonsai.output()


@pytest.mark.case("D-13")
def test_a_second_ctrl_c_during_the_stop_ends_all_at_once(bonsai: Bonsai, home: Path, tmp_path: Path) -> None:
    program = rogue_server.install(tmp_path / "bin", hang=True, ignore_term=True)
    launcher = bonsai.popen(
        "ask", "hello", env={"BONSAI_LLAMA_SERVER": str(program), "BONSAI_MODEL": "practice"}
    )
    wait_until(lambda: rogue_server.starts(program.parent), 30, "the engine")
    began = time.monotonic()
    launcher.send_signal(signal.SIGINT)
    wait_until((program.parent / "asked-to-end").exists, 10, "the stop to begin")
    launcher.send_signal(signal.SIGINT)
    assert launcher.wait(5) == 130
    assert time.monotonic() - began < 8, "it was not waited for the engine that ignores SIGTERM"
    assert "Traceback" not in bonsai.output()
    assert list((home / "run").iterdir()) == []
    wait_until(lambda: not ours(home), 5, "every process to be gone")


def test_what_a_parent_ignores_stays_ignored(bonsai: Bonsai, home: Path) -> None:
    """As nohup does."""
    code = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", code, *bonsai.command, "ask", "--max-tokens", "9", "hello"]
    launcher = subprocess.Popen(
        command, env=bonsai.env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    wait_until(lambda: list((home / "run").glob("*.json")), 30, "the engine to be spawned")
    os.kill(launcher.pid, signal.SIGHUP)
    out, _ = launcher.communicate(timeout=60)
    assert launcher.returncode == 0
    assert out
