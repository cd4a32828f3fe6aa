"""One engine from start to end, with real children that misbehave on order."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from launcher.errors import EngineDied, PortTaken
from launcher.supervise import child as children
from launcher.supervise.server import Server, State
from launcher.supervise.system import guard
from launcher.supervise.vital import Patience, Vital
from tests.conftest import Bonsai, clean_environment, free_port, wait_until
from tests.fakes import rogue_server
from tests.plans import plan_for

Make = Callable[..., Server]


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes a Server on a rogue; at the end nothing of it is left, neither process nor file."""
    made: list[Server] = []

    def server(
        *,
        port: int | None = None,
        asked: bool = False,
        patience: Patience | None = None,
        env: Any = None,
        **orders: Any,
    ) -> Server:
        program = rogue_server.install(tmp_path / "bin", **orders)
        plan = replace(plan_for(program), port=port or free_port(), port_asked=asked)
        made.append(
            Server(
                plan,
                tmp_path / "logs",
                tmp_path / "run",
                {**clean_environment(), **(env or {})},
                patience=patience,
            )
        )
        return made[-1]

    yield server
    for one in made:
        one.stop()
        assert one.state in (State.NEW, State.DEAD)
    for start in rogue_server.starts(tmp_path / "bin"):
        assert all(map(gone, [start["pid"], *start["children"]]))
    assert list((tmp_path / "run").glob("*")) == []


def begin(server: Server) -> None:
    server.start(threading.Event(), lambda _: None)


def notes(tmp_path: Path) -> list[dict[str, Any]]:
    return rogue_server.starts(tmp_path / "bin")


def test_states_follow_one_another(make: Make) -> None:
    server = make(loading=0.3)
    seen = [server.state]
    server.start(threading.Event(), lambda _: seen.append(server.state))
    seen.append(server.state)
    server.stop()
    seen.append(server.state)
    assert list(dict.fromkeys(seen)) == [State.NEW, State.STARTING, State.READY, State.DEAD]
    assert not server.alive


def test_a_ready_engine_that_dies_is_dead_at_once_and_says_how(make: Make) -> None:
    server = make(say="all is well\n")
    begin(server)
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: server.state is State.DEAD, 5, "the death to be seen")
    death = server.death()
    assert death.returncode == -9
    assert "all is well" in death.log_tail


@pytest.mark.case("D-05")
@pytest.mark.parametrize("how", [1, -9, -6])
def test_death_while_loading_is_told_at_once_with_status_and_log(make: Make, how: int) -> None:
    began = time.monotonic()
    with pytest.raises(
        EngineDied, match=rf"ended while loading \(exit code {how}\): error: no such thing"
    ) as caught:
        begin(make(die=how, say="error: no such thing\n"))
    assert caught.value.returncode == how
    assert caught.value.log_tail == "error: no such thing"
    assert time.monotonic() - began < 10


@pytest.mark.case("D-05")
def test_loading_is_waited_for_while_the_answer_moves(make: Make) -> None:
    begin(make(loading=2.0, loading_moves=True, patience=Patience(silence=0.5, still=0.5)))


@pytest.mark.case("D-05")
def test_a_server_that_says_loading_for_ever_and_does_nothing_is_told(make: Make) -> None:
    with pytest.raises(EngineDied, match="no sign of life for 1 s") as caught:
        begin(make(loading=600, patience=Patience(silence=1.2)))
    assert caught.value.returncode is None


@pytest.mark.case("D-05")
def test_a_port_that_never_opens_is_told_earlier_than_mere_silence(make: Make) -> None:
    with pytest.raises(EngineDied, match="not opened its port and has done nothing for 1 s"):
        begin(make(hang=True, patience=Patience(still=1.2)))


def test_cancelling_ends_the_child_and_returns(make: Make, tmp_path: Path) -> None:
    server, cancel = make(hang=True), threading.Event()
    starting = threading.Thread(target=server.start, args=(cancel, lambda _: None))
    starting.start()
    wait_until(lambda: notes(tmp_path), 10, "the child")
    cancel.set()
    starting.join(10)
    assert not starting.is_alive()
    assert server.state is State.DEAD


def test_a_stopped_engine_is_ended_too(make: Make) -> None:
    server = make()
    begin(server)
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    server.stop()
    assert gone(server.pid)


def test_an_engine_that_ignores_sigterm_is_killed(make: Make) -> None:
    server = make(ignore_term=True, patience=Patience(stop=0.3))
    begin(server)
    server.stop()
    assert server.death().returncode == -signal.SIGKILL


def test_one_that_hangs_is_given_no_time_to_end(make: Make) -> None:
    server = make(ignore_term=True, patience=Patience(stop=100))
    begin(server)
    server.stop(at_once=True)
    assert server.death().returncode == -signal.SIGKILL


class Recorded:
    """A process that notes what it is told, and ends when it is forced, or asked if it ``hears``."""

    pid, unguarded = 1, ""

    def __init__(self, *, hears: bool) -> None:
        self.told: list[str] = []
        self._hears, self._ended = hears, threading.Event()

    def ask(self) -> bool:
        self.told.append("ask")
        if self._hears:
            self._ended.set()
        return True

    def force(self) -> None:
        self.told.append("force")
        self._ended.set()

    def wait(self) -> None:
        self._ended.wait()

    def reap(self) -> int:
        return 0

    def remains(self) -> bool:
        return not self._ended.is_set()

    def release(self) -> None:
        pass


@pytest.mark.parametrize(
    ("grace_s", "hears", "told"),
    [(0.0, True, ["force"]), (20.0, True, ["ask"]), (0.05, False, ["ask", "force"])],
)
def test_who_has_no_time_to_end_is_not_asked_to(grace_s: float, hears: bool, told: list[str]) -> None:
    """Its last words to that would be taken for the cause: "cleaning up before exit"."""
    process = Recorded(hears=hears)
    assert children.Child(process, lambda: None).stop(grace_s)
    assert list(dict.fromkeys(process.told)) == told


def test_one_that_does_nothing_while_loading_is_ended_at_once(make: Make) -> None:
    server = make(hang=True, ignore_term=True, patience=Patience(still=0.3, stop=100))
    with pytest.raises(EngineDied, match="has done nothing"):
        begin(server)
    assert server.state is State.DEAD


def test_what_an_engine_has_started_ends_with_it(make: Make, tmp_path: Path) -> None:
    server = make(fork=3, patience=Patience(stop=0.3))
    begin(server)
    server.stop()
    assert all(map(gone, notes(tmp_path)[0]["children"]))


def test_what_a_crashed_engine_has_started_ends_without_being_asked(make: Make, tmp_path: Path) -> None:
    server = make(fork=2)
    begin(server)
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSEGV)
    wait_until(lambda: server.state is State.DEAD, 5, "the death")
    assert all(map(gone, notes(tmp_path)[0]["children"]))
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.case("D-14")
def test_the_next_engine_starts_when_the_last_has_closed(make: Make, tmp_path: Path) -> None:
    lock = tmp_path / "memory"
    first = make(lock=str(lock), close=0.5)
    begin(first)
    first.stop()
    begin(make(lock=str(lock)))


def test_ending_everything_at_once_waits_for_nobody(make: Make) -> None:
    server = make(ignore_term=True, fork=1)
    begin(server)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    wait_until(lambda: server.state is State.STOPPING, 5, "the stop")
    children.kill_all()
    assert server.state is State.DEAD
    stopping.join(5)
    assert not stopping.is_alive()


# -- whose port it is -----------------------------------------------------------------------------------------


@pytest.mark.case("D-01")
def test_a_port_that_was_lost_is_exchanged(make: Make, tmp_path: Path) -> None:
    server = make(no_bind=2)
    begin(server)
    ports = [it["argv"][it["argv"].index("--port") + 1] for it in notes(tmp_path)]
    assert len(set(ports)) == 3
    assert server.port == int(ports[-1])


@pytest.mark.case("D-01")
def test_a_port_is_exchanged_three_times_at_most(make: Make, tmp_path: Path) -> None:
    with pytest.raises(EngineDied, match=r"ended: port \d+ was taken.*couldn't bind"):
        begin(make(no_bind=9))
    assert len(notes(tmp_path)) == 3


@pytest.mark.case("D-01")
def test_a_port_asked_for_is_never_exchanged(make: Make, tmp_path: Path) -> None:
    port = free_port()
    with pytest.raises(PortTaken, match=f"BONSAI_PORT asks for port {port}"):
        begin(make(no_bind=9, port=port, asked=True))
    assert len(notes(tmp_path)) == 1


@pytest.mark.case("D-01")
def test_a_server_with_another_name_is_not_ours(make: Make, tmp_path: Path) -> None:
    with pytest.raises(
        EngineDied, match=r"shares port \d+ with another server \(it calls itself somebody\)"
    ) as caught:
        begin(make(alias="somebody", key=False, patience=Patience(stranger=0.2)))
    assert caught.value.cause == "port", "the log of an engine that lives does not tell"
    assert len(notes(tmp_path)) == 3


@pytest.mark.case("D-01")
@pytest.mark.system("linux")
def test_an_older_server_that_shares_ports_is_not_joined(make: Make) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(PortTaken, match=rf"port {port}, but .*process {os.getpid()}"):
            begin(make(port=port, asked=True))


@pytest.mark.case("D-03")
def test_a_proxy_does_not_come_between_us_and_this_machine(make: Make, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        url = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        begin(make(env={"HTTP_PROXY": url, "http_proxy": url, "ALL_PROXY": url, "NO_PROXY": "example.org"}))
        proxy.setblocking(False)
        with pytest.raises(BlockingIOError):
            proxy.accept()
    env = notes(tmp_path)[0]["env"]
    assert env["NO_PROXY"] == "example.org,localhost,127.0.0.1,::1"
    assert env["HTTP_PROXY"] == url


@pytest.mark.case("D-09")
def test_argv_arrives_whole_and_the_folder_is_ours(tmp_path: Path) -> None:
    here = tmp_path / "tést 模型 dir"
    program = rogue_server.install(here / "bin")
    server = Server(plan_for(program), here / "logs", here / "run", clean_environment())
    begin(server)
    server.stop()
    start = rogue_server.starts(here / "bin")[0]
    assert start["argv"][start["argv"].index("--api-key-file") + 1] == str(
        here / "run" / f"{server.alias}.key"
    )
    assert Path(start["cwd"]) == here / "run"
    assert server.log_path.parent == here / "logs"


@pytest.mark.case("D-09")
def test_a_real_engine_loads_from_a_folder_with_foreign_letters(bonsai: Bonsai, tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="no embedded engine on this platform")
    here = tmp_path / "tést 模型 dir"
    env = {"BONSAI_HOME": str(here), "BONSAI_SPECULATIVE": "1", "BONSAI_ENGINE": "embedded"}
    done = bonsai("ask", "--max-tokens", "9", "hello", env={"BONSAI_MODEL": "practice", **env})
    assert done.returncode == 0, done.stderr
    assert list((here / "run").iterdir()) == []


def test_memory_that_jitters_by_a_few_pages_is_no_sign_of_life() -> None:
    """An engine that hangs while it loads still answers our questions, and takes a little memory for that."""
    now, kept = [0.0], []
    vital = Vital(os.getpid(), lambda: now[0])
    for _ in range(20):
        vital.look(0, "Loading model")
        kept.append(os.urandom(20_000))
        now[0] += 1.1
    assert vital.quiet_s > 15


def test_signs_of_life_are_memory_reading_log_and_answer() -> None:
    now = [0.0]
    vital = Vital(os.getpid(), lambda: now[0])
    vital.look(0, None)
    for log, answer in ((1, None), (1, "a"), (1, "b")):
        now[0] += 0.9  # the system is asked once a second: these are seen without it
        vital.look(log, answer)
        assert vital.quiet_s == 0
    grown = bytearray(os.urandom(30_000_000))
    now[0] += 1
    vital.look(1, "b")
    assert vital.quiet_s == 0
    assert vital.ever_open
    del grown


@pytest.mark.system("posix")
def test_a_child_that_may_outlive_us_is_told_in_the_log(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from launcher.supervise import _posix  # not to be had on Windows

    monkeypatch.setattr(_posix, "_program", lambda: ["/no/watchman"])
    monkeypatch.setattr(_posix, "WATCHMAN", _posix.Watchman())
    assert "could not be started" in guard()
    server = make()
    server.start(threading.Event(), lambda _: None)
    server.stop()
    assert f"bonsai: {_posix.UNGUARDED}" in server.log_path.read_text()
