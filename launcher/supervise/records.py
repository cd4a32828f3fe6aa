"""What a launcher notes about its children, so that the next one can end what a crash has left, and nothing else.

One file a child, ``<alias>.child.json`` in the folder of running processes, beside its key. It is written before the
child is started (without its number) and again after, and goes when the child goes. ``sweep`` looks at those whose
launcher is gone. The proof that a process is ours is the alias: twelve random hexadecimal digits of one run, which
stand in its command line; a process with the noted number but another start time or command line is somebody else.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from launcher import store_files
from launcher.errors import FolderError
from launcher.paths import make_folder, write_private

VERSION = 2
SUFFIX = ".child.json"
SAME_START_S = 2.0
GRACE_S = 2.0
OLD_S = 3600.0  # a key or a prompt is read when its engine starts, not later
# Keys, prompts of single answers, half-written files.
PRIVATE = ("*.key", "oneshot-*.txt", "*.part", ".*.tmp")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_swept: set[Path] = set()
_sweeping = threading.Lock()


@dataclass(frozen=True)
class Record:
    """``launcher`` and ``process`` are (number, start time as _start_of tells it). ``serves``: the process is one
    that a person runs in the foreground; it is never ended by us, only its key goes when it has gone."""

    alias: str
    launcher: tuple[int, float]
    boot: str
    process: tuple[int, float] | None = None
    executable: str = ""
    argv: tuple[str, ...] = ()
    key: str = ""
    log: str = ""
    serves: bool = False
    version: int = VERSION


def begin(run: Path, alias: str, *, key: Path, log: Path | None = None) -> Record:
    """Note that a child with this alias is about to be started. Raises FolderError."""
    record = Record(alias, _me(), _boot(), key=key.name, log=str(log or ""))
    _write(run, record)
    return record


def started(run: Path, record: Record, pid: int, argv: list[str]) -> None:
    """Note which process it became. Raises FolderError."""
    try:
        process = psutil.Process(pid)
        identity, executable = (pid, _start_of(process)), process.exe()
    except (psutil.Error, OSError):
        return  # it has ended already, or the system does not tell: its alias still names it
    _write(run, replace(record, process=identity, executable=executable, argv=tuple(argv[:2])))


def ended(run: Path, alias: str, key: Path) -> None:
    """The child is gone: its key and record go."""
    for path in (key, _path(run, alias)):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def before_exec(run: Path, key: Path) -> None:
    """Note that this process becomes a server which reads ``key``: a later sweep deletes the key when the process
    has gone. Raises FolderError."""
    alias = f"serve-{os.getpid()}"
    _write(run, Record(alias, _me(), _boot(), process=_me(), key=key.name, serves=True))


def sweep_once(run: Path) -> None:
    """``sweep``, unless this process has done so already."""
    with _sweeping:
        if run not in _swept:
            _swept.add(run)
            sweep(run)


def sweep(run: Path) -> list[int]:
    """End what a launcher that is gone has left running, and delete the keys and records of what is gone. Returns
    the numbers of the processes that were ended. Children of a launcher that lives are left alone, and so is every
    process that is not provably ours. A damaged record is set aside. Never raises."""
    done: list[int] = []
    with contextlib.suppress(OSError):
        for path in sorted(run.glob(f"*{SUFFIX}")):
            record = _read(path)
            if record is not None and not _belongs_to_somebody(record):
                done += [number for process in _left_of(record) for number in _end(process)]
                if not any(_left_of(record)):
                    _forget(run, path, record)
        _old_files(run)
    return done


def logs_in_use(run: Path) -> set[Path]:
    """The logs of children whose launcher lives."""
    records = [_read(path) for path in run.glob(f"*{SUFFIX}")]
    return {Path(it.log) for it in records if it is not None and it.log and _belongs_to_somebody(it)}


def _me() -> tuple[int, float]:
    return _identity(os.getpid())


@functools.cache
def _identity(number: int) -> tuple[int, float]:
    return number, _start_of(psutil.Process(number))


def _start_of(process: psutil.Process) -> float:
    """When it was started, in seconds: on Linux since the machine's own start, elsewhere since 1970 as it was then. That
    does not change when the clock is set, by the network or after the host of a virtual machine slept; Linux itself
    counts the time since 1970 anew then. Raises psutil.Error, OSError."""
    try:
        told = Path(f"/proc/{process.pid}/stat").read_bytes()
    except FileNotFoundError:
        return process.create_time()
    # starttime, the 22nd field of proc(5)
    return int(told.rpartition(b")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")


def _boot() -> str:
    """Tells one start of this machine from another; empty where the system has no such name."""
    with contextlib.suppress(OSError):
        return BOOT_ID.read_text().strip()
    return ""


def _path(run: Path, alias: str) -> Path:
    return run / f"{alias}{SUFFIX}"


def _write(run: Path, record: Record) -> None:
    path = _path(make_folder(run), record.alias)
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        write_private(part, json.dumps(asdict(record)))
        store_files.replace(part, path)
    except OSError as error:
        raise FolderError(
            f"The file {path} cannot be written: {error.strerror}.", "Choose another BONSAI_HOME."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _read(path: Path) -> Record | None:
    """None for one that has just gone or comes from another version. What is damaged is renamed."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values["version"] != VERSION:
            return None
        record = _record(values)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        with contextlib.suppress(OSError):
            path.replace(path.with_suffix(".damaged"))
        return None
    return record if path.name == f"{record.alias}{SUFFIX}" else None


def _record(values: dict[str, Any]) -> Record:
    def identity(value: Any) -> tuple[int, float]:
        number, start = value
        return int(number), float(start)

    return Record(
        alias=str(values["alias"]),
        launcher=identity(values["launcher"]),
        boot=str(values["boot"]),
        process=identity(values["process"]) if values["process"] is not None else None,
        executable=str(values["executable"]),
        argv=tuple(map(str, values["argv"])),
        key=Path(str(values["key"])).name,  # a key lies beside its record, nowhere else
        log=str(values["log"]),
        serves=bool(values["serves"]),
    )


def _belongs_to_somebody(record: Record) -> bool:
    if record.boot and record.boot != _boot():
        return False
    return _running(record.launcher) is not None


def _running(identity: tuple[int, float]) -> psutil.Process | None:
    """The process with this number, if it is the one that was meant."""
    number, start = identity
    try:
        process = psutil.Process(number)
        alive = process.status() != psutil.STATUS_ZOMBIE
        return process if alive and abs(_start_of(process) - start) <= SAME_START_S else None
    except (psutil.Error, OSError, ValueError, OverflowError):
        return None


def _left_of(record: Record) -> Iterator[psutil.Process]:
    """What still runs of a child of a launcher that is gone, itself and what it started under its alias."""
    if record.serves or (record.boot and record.boot != _boot()):
        return
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if _is_left(process, record):
                yield process


def _is_left(process: psutil.Process, record: Record) -> bool:
    try:
        cmdline = process.cmdline()
    except psutil.AccessDenied:
        cmdline = []
    return _has_alias(cmdline, record.alias) if cmdline else _is_noted(process, record)


def _has_alias(cmdline: list[str], alias: str) -> bool:
    return any(pair == ("--alias", alias) for pair in itertools.pairwise(cmdline))


def _is_noted(process: psutil.Process, record: Record) -> bool:
    """Where the command line cannot be read: number, start time and executable all as noted."""
    if record.process is None or process.pid != record.process[0]:
        return False
    same_start = abs(_start_of(process) - record.process[1]) <= SAME_START_S
    return same_start and bool(record.executable) and process.exe() == record.executable


def _end(process: psutil.Process) -> Iterator[int]:
    """Politely, then by force; psutil signals no other process that has got the same number meanwhile."""
    with contextlib.suppress(psutil.Error, OSError):
        family = [process, *process.children(recursive=True)]
        for it in family:
            with contextlib.suppress(psutil.Error, OSError):
                it.terminate()
        _, left = psutil.wait_procs(family, timeout=GRACE_S)
        for it in left:
            with contextlib.suppress(psutil.Error, OSError):
                it.kill()
        psutil.wait_procs(left, timeout=GRACE_S)
        yield process.pid


def _forget(run: Path, path: Path, record: Record) -> None:
    if record.key.endswith(".key"):
        with contextlib.suppress(OSError):
            (run / record.key).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _old_files(run: Path) -> None:
    """Private files that nobody reads any more: a sudden end has left them, or an older version."""
    noted = {record.key for record in map(_read, run.glob(f"*{SUFFIX}")) if record is not None}
    for pattern in PRIVATE:
        for path in run.glob(pattern):
            with contextlib.suppress(OSError):
                if path.name not in noted and time.time() - path.stat().st_mtime > OLD_S:
                    path.unlink()
