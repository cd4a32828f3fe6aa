"""Starting and ending a child and all that it starts, on Linux and macOS."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from launcher.supervise import watched
from launcher.supervise.spawner import spawn
from launcher.supervise.watched import send

PR_SET_PDEATHSIG = 1  # linux/prctl.h
_names = itertools.count(1)


UNGUARDED = (
    "The watchman could not be started: if the launcher is killed, its engine may leave something behind."
)


def guard() -> str:
    """What stands against ending all that we start together with us, as a sentence; empty: nothing does."""
    WATCHMAN.on_duty()
    return "" if WATCHMAN.pid is not None else UNGUARDED


class Process:
    """A child that leads a session and group of its own, so that Ctrl+C reaches the launcher alone.

    Made on the spawner's thread. ``ask``, ``force`` and ``remains`` reach the whole group. ``unguarded``: why it or what
    it starts may outlive us; empty: nothing does. Raises OSError.
    """

    def __init__(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], output: int) -> None:
        self._name = next(_names)
        pipe = WATCHMAN.on_duty()
        try:
            self._popen = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=cwd,
                env=dict(env),
                start_new_session=True,
                # It calls nothing that takes a lock of Python's or the loader's.
                preexec_fn=_before_exec(pipe, self._name),  # noqa: PLW1509
            )
        except BaseException:
            WATCHMAN.forget(self._name)
            raise
        self.pid = self._popen.pid
        self.unguarded = "" if WATCHMAN.pid is not None else UNGUARDED
        WATCHMAN.remember(self._name, self.pid)

    def ask(self) -> bool:
        """SIGTERM to the group, also where it was stopped. True: it can hear that."""
        send(self.pid, signal.SIGTERM)
        send(self.pid, signal.SIGCONT)
        return True

    def force(self) -> None:
        """SIGKILL to the group."""
        send(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        """Block until the child has ended. It stays a zombie where the system can tell without reaping it: as
        long as it is one, its number is nobody else's."""
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:  # macOS before Python 3.13
            self._popen.wait()

    def reap(self) -> int:
        """Its return code, negative for a signal. Blocks until it has ended."""
        return self._popen.wait()

    def remains(self) -> bool:
        """Whether anybody of its group still lives. Zombies, which some containers never reap, hold nothing."""
        return send(self.pid, 0) and any(map(self._is_member, psutil.process_iter()))

    def _is_member(self, process: psutil.Process) -> bool:
        try:
            return os.getpgid(process.pid) == self.pid and process.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, OSError):
            return False

    def release(self) -> None:
        """Nothing of it is left: its number may be another's from now on."""
        WATCHMAN.forget(self._name)


@contextlib.contextmanager
def tool(
    argv: Sequence[str], *, at_death: int = signal.SIGKILL, **options: Any
) -> Iterator[subprocess.Popen[Any]]:
    """See ``system``. ``options`` are those of Popen. Raises OSError."""
    name, pipe = next(_names), WATCHMAN.on_duty()
    prepare = _before_exec(pipe, name, at_death)

    def start() -> subprocess.Popen[Any]:
        return subprocess.Popen(list(argv), start_new_session=True, preexec_fn=prepare, **options)  # noqa: PLW1509

    try:
        with spawn(start) as popen:
            WATCHMAN.remember(name, popen.pid)
            yield popen
    finally:
        WATCHMAN.forget(name)


class Watchman:
    """The process that outlives us for a moment; see ``watched``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._read = self._write = -1
        self._care: dict[int, int] = {}

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def on_duty(self) -> int:
        """The pipe to it; it is started when there is none. Without one the engine runs all the same."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._close()
                # We keep the read end too: a write never fails, even when the watchman has been killed.
                self._read, self._write = os.pipe()
                os.set_blocking(self._write, False)
                for name, group in self._care.items():
                    self._tell(f"+{name} {group}")
                with contextlib.suppress(OSError):
                    self._process = subprocess.Popen(
                        _program(),
                        stdin=self._read,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        cwd="/",
                        start_new_session=True,
                    )
            return self._write

    def remember(self, name: int, group: int) -> None:
        """The child has told the watchman itself; this is for the next one, should that one be killed."""
        with self._lock:
            self._care[name] = group

    def forget(self, name: int) -> None:
        with self._lock:
            self._care.pop(name, None)
            self._tell(f"-{name}")

    def _tell(self, line: str) -> None:
        with contextlib.suppress(OSError):
            os.write(self._write, f"{line}\n".encode())

    def _close(self) -> None:
        for end in (self._read, self._write):
            if end >= 0:
                os.close(end)
        self._process = None


WATCHMAN = Watchman()


def _program() -> list[str]:
    if getattr(sys, "frozen", False):
        return [sys.executable, watched.SUBCOMMAND]
    return [sys.executable, "-I", "-S", str(Path(watched.__file__).absolute())]


def _before_exec(pipe: int, name: int, at_death: int = signal.SIGKILL) -> Callable[[], None]:
    """What the child does between fork and exec: there is no moment in which the launcher could die and leave it."""
    prctl: Any = None
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl  # looked up before the fork: a forked child may not load libraries
    parent = os.getpid()

    def prepare() -> None:
        if prctl is not None:
            prctl(PR_SET_PDEATHSIG, at_death)
        with contextlib.suppress(OSError):
            os.write(pipe, f"+{name} {os.getpid()}\n".encode())
        if os.getppid() != parent:  # the launcher died between fork and here
            os._exit(1)

    return prepare
