"""The next start ends what a crash has left, provably ours, and touches nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from launcher import store_files
from launcher.errors import FolderError
from launcher.supervise import records
from launcher.supervise.records import Record
from tests.conftest import wait_until

SLEEP = "import time; print(flush=True); time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
)
ALIAS = "bonsai-0123456789ab"
DEAD = (2**22 + 5, 1.0)  # beyond the largest process number


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


@pytest.fixture
def start() -> Iterator[Any]:
    """Starts a process with these words in its command line; it runs when this returns."""
    made: list[subprocess.Popen[bytes]] = []

    def begin(*words: str, code: str = SLEEP) -> subprocess.Popen[bytes]:
        child = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE)
        made.append(child)
        assert child.stdout is not None
        child.stdout.readline()
        return child

    yield begin
    for child in made:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def identity(child: subprocess.Popen[bytes]) -> tuple[int, float]:
    return child.pid, records._start_of(psutil.Process(child.pid))


def note(run: Path, child: subprocess.Popen[bytes] | None, **changes: Any) -> Path:
    """A record of ``child`` as a launcher that is gone has left it, with its key."""
    record = Record(
        ALIAS,
        DEAD,
        records._boot(),
        process=identity(child) if child else None,
        executable=psutil.Process(child.pid).exe() if child else "",
        key=f"{ALIAS}.key",
    )
    record = replace(record, **changes)
    (run / record.key).write_text("secret")
    path = run / f"{record.alias}{records.SUFFIX}"
    path.write_text(json.dumps(asdict(record)))
    return path


def ended(child: subprocess.Popen[bytes]) -> bool:
    return child.poll() is not None


@pytest.mark.case("D-06")
@pytest.mark.parametrize("code", [SLEEP, STUBBORN])
def test_an_orphan_is_ended_and_its_files_go(
    run: Path, start: Any, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "GRACE_S", 0.3)
    child = start("--port", "1", "--alias", ALIAS, code=code)
    note(run, child)
    assert records.sweep(run) == [child.pid]
    wait_until(lambda: ended(child), 5, "the orphan's end")
    assert list(run.iterdir()) == []


@pytest.mark.case("D-06")
def test_an_orphan_is_found_though_its_launcher_had_no_time_to_note_its_number(run: Path, start: Any) -> None:
    child = start("--alias", ALIAS)
    note(run, None)
    assert records.sweep(run) == [child.pid]


@pytest.mark.case("D-06")
def test_a_number_that_another_program_has_got_is_not_touched(run: Path, start: Any) -> None:
    child = start("--alias", "bonsai-somebodyelse")
    note(run, child)
    assert records.sweep(run) == []
    assert not ended(child)
    assert list(run.iterdir()) == []


@pytest.mark.parametrize("words", [(ALIAS,), ("--alias", f"{ALIAS}0"), ("grep", f"--alias {ALIAS}")])
def test_merely_naming_the_alias_is_no_proof(run: Path, start: Any, words: tuple[str, ...]) -> None:
    child = start(*words)
    note(run, None)
    assert records.sweep(run) == []
    assert not ended(child)


def test_where_no_command_line_may_be_read_the_noted_process_is_known_by_the_rest(
    run: Path, start: Any
) -> None:
    class Closed(psutil.Process):
        def cmdline(self) -> list[str]:
            raise psutil.AccessDenied(self.pid)

    child = start("--alias", ALIAS)
    record = records._read(note(run, child))
    assert record is not None
    assert records._is_left(Closed(child.pid), record)
    assert not records._is_left(Closed(child.pid), replace(record, process=(child.pid, 1.0)))
    assert not records._is_left(Closed(os.getpid()), record)


def test_a_launcher_that_lives_keeps_its_engines(run: Path, start: Any) -> None:
    launcher, child = start(), start("--alias", ALIAS)
    path = note(run, child, launcher=identity(launcher), log="/some/log")
    assert records.sweep(run) == []
    assert path.exists()
    assert records.logs_in_use(run) == {Path("/some/log")}
    launcher.kill()
    launcher.wait()
    assert records.logs_in_use(run) == set()
    assert records.sweep(run) == [child.pid]


@pytest.mark.system("linux")
def test_a_clock_that_is_set_meanwhile_makes_no_launcher_gone(
    run: Path, start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher, child = start(), start("--alias", ALIAS)
    path = note(run, child, launcher=identity(launcher))
    booted = psutil.boot_time()
    # As Linux tells it after the clock was set forward by an hour.
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: booted + 3600)
    assert records.sweep(run) == []
    assert path.exists()
    assert not ended(child)


def test_a_launchers_number_that_another_has_got_counts_as_gone(run: Path, start: Any) -> None:
    other = start()
    note(run, None, launcher=(other.pid, identity(other)[1] - 100))
    records.sweep(run)
    assert list(run.iterdir()) == []
    assert not ended(other)


def test_what_was_noted_before_the_machine_started_anew_is_only_deleted(run: Path, start: Any) -> None:
    child = start("--alias", ALIAS)
    note(run, child, boot="another")
    assert records.sweep(run) == ([] if records._boot() else [child.pid])
    assert list(run.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"version": 2}',
        '{"version": 2, "alias": 7, "launcher": 3}',
        '{"version": 2, "alias": "x", "launcher": [Infinity, 1]}',
        "[" * 100_000,
        "\x00\xff",
    ],
)
def test_a_damaged_record_is_set_aside(run: Path, text: str) -> None:
    path = run / f"x{records.SUFFIX}"
    path.write_text(text)
    assert records.sweep(run) == []
    assert [it.name for it in run.iterdir()] == ["x.child.damaged"]


def test_a_record_of_another_version_is_left_alone(run: Path, start: Any) -> None:
    child = start("--alias", ALIAS)
    path = note(run, child, version=records.VERSION + 1)
    assert records.sweep(run) == []
    assert path.exists()
    assert not ended(child)


def test_a_record_names_no_file_outside_its_folder(run: Path, tmp_path: Path) -> None:
    outside = tmp_path / "precious.key"
    outside.write_text("mine")
    path = note(run, None)
    path.write_text(path.read_text().replace(f"{ALIAS}.key", "../precious.key"))
    records.sweep(run)
    assert outside.exists()


@pytest.mark.case("D-13")
def test_the_key_of_a_server_in_the_foreground_goes_after_it(run: Path, start: Any) -> None:
    key = run / "serve.key"
    code = (
        "import os, sys, time; from pathlib import Path; from launcher.supervise import records\n"
        f"records.before_exec(Path({str(run)!r}), Path({str(key)!r})); print(flush=True)\n"
        "os.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(600)'])"
    )
    key.write_text("secret")
    child = start(code=code)
    assert records.sweep(run) == []
    assert key.exists()
    assert not ended(child)
    child.send_signal(signal.SIGTERM)
    child.wait()
    assert records.sweep(run) == []
    assert list(run.iterdir()) == []


def test_only_old_private_files_without_a_record_are_deleted(run: Path) -> None:
    ours = ("X.key", "X.child.1.part", "oneshot-X.txt", ".oneshot-X.txt.0b.tmp")
    for name in (*ours, "X.txt"):
        for age in ("old", "new"):
            at = run / name.replace("X", age)
            at.touch()
            os.utime(at, (time.time() - (2 * records.OLD_S if age == "old" else 0),) * 2)
    records.sweep(run)
    kept = {it.name for it in run.iterdir()}
    assert kept == {"old.txt", "new.txt", *(name.replace("X", "new") for name in ours)}


def test_no_folder_no_trouble(tmp_path: Path) -> None:
    assert records.sweep(tmp_path / "nowhere") == []


def test_records_are_private_and_say_who(run: Path, start: Any) -> None:
    child = start("--alias", ALIAS)
    record = records.begin(run, ALIAS, key=run / "k.key")
    records.started(run, record, child.pid, ["llama-server", "-m", "x"])
    (path,) = run.iterdir()
    if os.name == "posix":
        assert path.stat().st_mode & 0o077 == 0
    noted = records._read(path)
    assert noted is not None
    assert noted.process == identity(child)
    assert noted.launcher == (os.getpid(), records._start_of(psutil.Process()))
    assert noted.argv == ("llama-server", "-m")


def test_a_record_that_cannot_be_put_in_its_place_leaves_nothing(run: Path) -> None:
    (run / f"{ALIAS}{records.SUFFIX}" / "in the way").mkdir(parents=True)
    with pytest.raises(FolderError, match="cannot be written"):
        records.begin(run, ALIAS, key=run / "k.key")
    assert [it.name for it in run.iterdir()] == [f"{ALIAS}{records.SUFFIX}"]


def test_on_windows_a_file_that_somebody_reads_is_replaced_a_moment_later(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Busy:
        refusals = 3

        def replace(self, _: Path) -> None:
            if self.refusals:
                self.refusals -= 1
                raise PermissionError("somebody reads it")

    monkeypatch.setattr(store_files, "os", SimpleNamespace(name="nt"))
    busy = Busy()
    store_files.replace(cast("Path", busy), run)
    assert busy.refusals == 0
