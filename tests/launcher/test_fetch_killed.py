"""What survives the end of a process, a full disk, a second process, and any row of faults."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.errors import Cancelled, FetchProblem, FolderError, NoSpace
from launcher.fetch import Control
from launcher.fetch_lock import only_one
from tests.conftest import ROOT, clean_environment, wait_until
from tests.fakes.file_server import Fault, FileServer, sha256
from tests.launcher.fetching_samples import DATA, NAME, Room, background

SIZE = len(DATA)


class Fetchers:
    """Fetches in processes of their own."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.fakes.fetch_child"],
            cwd=ROOT, env=clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip

    def start(self, room: Room, data: bytes = DATA, **more: Any) -> int:
        """Begin; returns the process id."""
        order = {"url": room.server.url_of(NAME), "target": str(room.target), "total": len(data),
                 "sha256": sha256(data)} | more  # fmt: skip
        assert self._parent.stdin is not None
        self._parent.stdin.write(json.dumps(order) + "\n")
        self._parent.stdin.flush()
        return int(self._read())

    def _read(self) -> str:
        assert self._parent.stdout is not None
        return self._parent.stdout.readline().strip()

    def end(self) -> str:
        """How it ended: the sha256, the error, or "killed"."""
        return self._read()

    def close(self) -> None:
        self._parent.communicate(timeout=20)


@pytest.fixture
def fetchers() -> Iterator[Fetchers]:
    them = Fetchers()
    yield them
    them.close()


@pytest.mark.system("posix")
@pytest.mark.case("C-03")
def test_killed_at_twenty_moments_it_ends_with_the_right_bytes_and_fetches_hardly_any_twice(
    tmp_path: Path, fetchers: Fetchers
) -> None:
    pick = random.Random(20)
    data = pick.randbytes(8_000_000)
    until = 0  # as far as the server goes before the next kill
    stopped = threading.Event()

    with FileServer({NAME: data}) as server:
        room = Room(tmp_path, server)

        def gate(at: int) -> bool:
            # However fast this machine is: the server is never further than 8 KiB ahead of the disk.
            while not stopped.is_set():
                size = room.part.stat().st_size if room.part.exists() else 0
                if at >= until:
                    stopped.wait(0.002)
                elif at - size < 8192:
                    return True
                else:
                    stopped.wait(0.0005)
            return False

        server.always[NAME] = Fault(gate=gate)
        reached = []
        for number in range(20):
            stopped.clear()
            until = min(len(data) - 10_000, (number + 1) * 400_000 + pick.randrange(-150_000, 150_000))
            pid = fetchers.start(room, data)
            if number % 7 != 3:  # every now and then it is killed before it gets anywhere
                wait_until(lambda: server.sent[NAME] >= until, 20, "bytes")  # noqa: B023 - waited for at once
            os.kill(pid, signal.SIGKILL)
            assert fetchers.end() == "killed"
            stopped.set()
            reached.append(room.part.stat().st_size if room.part.exists() else 0)
            wait_until(lambda: server.open_connections == 0, 10, "the server to notice")
            assert not room.target.exists()
        server.always.clear()
        assert reached == sorted(reached)
        assert reached[-1] > 7_000_000
        fetchers.start(room, data)
        assert fetchers.end() == sha256(data)
        assert room.target.read_bytes() == data
        assert room.names() == [NAME]
        assert server.sent[NAME] <= 1.05 * len(data)


@pytest.mark.system("posix")
@pytest.mark.parametrize("same_process", [False, True])
def test_two_at_once_fetch_once(room: Room, fetchers: Fetchers, same_process: bool) -> None:
    room.server.fault(NAME, Fault(stall_after=300_000))
    control = Control()
    if same_process:
        first, _ = background(lambda: room.fetch(stall_s=30, control=control))
    else:
        pid = fetchers.start(room, stall_s=30)
    wait_until(lambda: room.part.exists() and room.part.stat().st_size == 300_000, 10, "bytes of the first")
    seen: list[str] = []
    second, raised = background(lambda: room.fetch(progress=lambda told: seen.append(told.note)))
    wait_until(lambda: "another Bonsai is fetching this file" in seen, 10, "word of the other")
    assert len(room.server.requests) == 1
    if same_process:
        control.cancel()
        first.join(10)
    else:
        os.kill(pid, signal.SIGKILL)
        assert fetchers.end() == "killed"
    second.join(20)
    assert raised == []
    assert room.target.read_bytes() == DATA
    assert room.server.sent[NAME] == SIZE
    assert room.names() == [NAME]


def test_who_waits_for_another_takes_what_the_other_brought(room: Room) -> None:
    room.server.always[NAME] = Fault(rate=2e6)
    threads = [background(lambda: room.fetch(stall_s=20)) for _ in range(3)]
    for thread, raised in threads:
        thread.join(30)
        assert raised == []
    assert room.server.sent[NAME] == SIZE
    assert room.names() == [NAME]


def test_waiting_for_another_can_be_cancelled(room: Room) -> None:
    control = Control()
    with only_one(room.folder / f"{NAME}.part.lock", lambda: None):
        thread, raised = background(lambda: room.fetch(control=control))
        wait_until(lambda: room.told, 10, "word of the other")
        control.cancel()
        thread.join(10)
    assert [type(error) for error in raised] == [Cancelled]
    assert room.fetch() == sha256(DATA)


def test_a_lock_file_that_somebody_left_blocks_nobody(room: Room) -> None:
    (room.folder / f"{NAME}.part.lock").write_bytes(b"12345")
    assert room.fetch() == sha256(DATA)
    assert room.names() == [NAME]


def test_many_threads_hold_the_lock_one_at_a_time(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(30):
            with only_one(tmp_path / "lock", lambda: time.sleep(0.0002)):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [background(work) for _ in range(4)]
    for thread, raised in threads:
        thread.join(30)
        assert raised == []
    assert len(most) == 120
    assert set(most) == {1}
    assert list(tmp_path.iterdir()) == []


# --- full disks ---


@pytest.mark.system("posix")
@pytest.mark.case("C-03")
def test_a_file_system_that_takes_no_more_keeps_what_fits(room: Room, fetchers: Fetchers) -> None:
    fetchers.start(room, limit=300_000)
    said = fetchers.end()
    assert said.startswith("NoSpace: The file system of ")
    assert room.part.stat().st_size == 300_000
    fetchers.start(room)
    assert fetchers.end() == sha256(DATA)
    assert room.server.asked(NAME)[-1].headers["range"] == "bytes=300000-"


@pytest.mark.system("linux")
@pytest.mark.case("C-03")
def test_a_disk_that_fills_up_meanwhile(room: Room) -> None:
    room.part.symlink_to("/dev/full")
    with pytest.raises(NoSpace) as error:
        room.fetch()
    assert f"not enough room for {NAME} in {room.folder}" in error.value.what
    assert "what was fetched stays" in error.value.remedy


@pytest.mark.system("posix")
def test_a_folder_that_may_not_be_written(room: Room, fetchers: Fetchers) -> None:
    if os.geteuid() == 0:  # root may write anywhere, but not into /proc
        room.folder = Path("/proc/self")
    else:
        room.folder.chmod(0o500)
    fetchers.start(room)
    assert "FolderError" in fetchers.end()


# --- any row of faults ---


def _faults(server: FileServer) -> st.SearchStrategy[Fault]:
    places = st.integers(0, 40_000)
    return st.one_of(
        st.builds(lambda at: Fault(cut_after=at), places),
        st.builds(lambda at: Fault(cut_after=at, no_length=True), places),
        st.builds(lambda at: Fault(cut_after=at, ignore_range=True), places),
        st.builds(lambda at: Fault(wrong_at=at), places),
        st.builds(lambda by: Fault(range_shift=by), st.integers(-9, 9)),
        st.builds(lambda status: Fault(status=status), st.sampled_from([200, 204, 206, 301, 416, 429, 500, 503])),
        st.builds(lambda etag: Fault(headers={"ETag": etag}), st.sampled_from(['"x"', 'W/"x"', "", "x"])),
        st.builds(lambda size: Fault(headers={"Content-Length": str(size)}, cut_after=size), places),
        st.builds(lambda text: Fault(headers={"Content-Range": text}),
                  st.sampled_from(["", "bytes */*", "bytes 0-1/2", "bytes 9999999999-0/1", "pages 1-2/3"])),
        st.sampled_from([
            Fault(html=True), Fault(hang_up=True), Fault(ignore_range=True), Fault(extra=b"and more"),
            Fault(redirect=server.other_url + "/" + NAME), Fault(redirect="/" + NAME), Fault(status=403),
            Fault(headers={"Content-Encoding": "gzip"}), Fault(headers={"Content-Type": "text/html"}),
            Fault(headers={"Transfer-Encoding": "chunked"}), Fault(headers={"Content-Length": "-5"}),
        ]),
    )  # fmt: skip


@pytest.mark.case("C-01")
@pytest.mark.parametrize("known", [True, False])
def test_any_row_of_faults_ends_with_the_right_bytes_or_a_clear_error(
    tmp_path_factory: pytest.TempPathFactory, known: bool
) -> None:
    data = DATA[:40_000]
    with FileServer({NAME: data}) as server:
        rows = st.lists(st.lists(_faults(server), max_size=4), max_size=3)

        @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
        @given(rows)
        def check(calls: list[list[Fault]]) -> None:
            room = Room(tmp_path_factory.mktemp("row"), server)
            for faults in [*calls, []]:
                server.forget(NAME)
                server.fault(NAME, *faults)
                try:
                    digest = _fetch(room, data, known)
                except FetchProblem as error:
                    said = error.what
                    assert not room.target.exists()
                    assert said.endswith((".", "?"))
                    assert faults, "without a fault it must come"
                else:
                    assert digest == sha256(room.target.read_bytes())
                    if known:
                        assert digest == sha256(data)
                        assert room.names() == [NAME]
                    room.target.unlink()

        check()


def _fetch(room: Room, data: bytes, known: bool) -> str:
    room.told.clear()
    return room.fetch(data=data, stall_s=5, backoff_s=0.0) if known else room.fetch(
        data=data, digest=None, stall_s=5, backoff_s=0.0)  # fmt: skip


def test_somebody_else_who_writes_into_the_part_spoils_no_finished_name(room: Room) -> None:
    room.server.fault(NAME, Fault(stall_after=300_000))
    thread, raised = background(lambda: room.fetch(stall_s=1.0))
    wait_until(lambda: room.part.exists() and room.part.stat().st_size == 300_000, 10, "bytes")
    os.truncate(room.part, 0)
    with room.part.open("ab") as file:
        file.write(bytes(SIZE + 1))
    thread.join(20)
    assert [type(error) for error in raised] == [FolderError]
    assert not room.target.exists()
