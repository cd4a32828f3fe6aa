"""Starting and ending a child and all that it starts, on Windows: a job object that is closed with the launcher.

Everything that is called there goes through a ``System``, so that tests elsewhere can stand in for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

# winnt.h, winbase.h, errhandlingapi.h
JOB_OBJECT_EXTENDED_LIMIT_INFORMATION = 9
JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE = 0x2000
CREATE_SUSPENDED = 0x4
CREATE_NEW_PROCESS_GROUP = 0x200
CREATE_NO_WINDOW = 0x08000000
# No dialog ("cudart64_12.dll was not found") that waits for a click nobody makes: the child ends instead.
SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX, SEM_NOOPENFILEERRORBOX = 0x1, 0x2, 0x8000
QUIET = SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX
KILLED = 1  # the exit code of what TerminateJobObject ends


class BasicLimits(ctypes.Structure):
    """JOBOBJECT_BASIC_LIMIT_INFORMATION."""

    _fields_ = (
        ("PerProcessUserTimeLimit", ctypes.c_int64),
        ("PerJobUserTimeLimit", ctypes.c_int64),
        ("LimitFlags", ctypes.c_uint32),
        ("MinimumWorkingSetSize", ctypes.c_size_t),
        ("MaximumWorkingSetSize", ctypes.c_size_t),
        ("ActiveProcessLimit", ctypes.c_uint32),
        ("Affinity", ctypes.c_size_t),
        ("PriorityClass", ctypes.c_uint32),
        ("SchedulingClass", ctypes.c_uint32),
    )


class IoCounters(ctypes.Structure):
    """IO_COUNTERS."""

    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("ReadOps", "WriteOps", "OtherOps", "ReadBytes", "WriteBytes", "OtherBytes")
    )


class ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = (
        ("Basic", BasicLimits),
        ("IoInfo", IoCounters),
        ("ProcessMemoryLimit", ctypes.c_size_t),
        ("JobMemoryLimit", ctypes.c_size_t),
        ("PeakProcessMemoryUsed", ctypes.c_size_t),
        ("PeakJobMemoryUsed", ctypes.c_size_t),
    )


class System:
    """What of Windows is used. ``kernel``: kernel32."""

    def __init__(self) -> None:
        self.kernel: Any = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined,unused-ignore]
        handle, number = ctypes.c_void_p, ctypes.c_uint32
        self.kernel.CreateJobObjectW.argtypes = (handle, ctypes.c_wchar_p)
        self.kernel.CreateJobObjectW.restype = handle
        self.kernel.SetInformationJobObject.argtypes = (handle, ctypes.c_int, handle, number)
        self.kernel.AssignProcessToJobObject.argtypes = (handle, handle)
        self.kernel.TerminateJobObject.argtypes = (handle, ctypes.c_uint)
        self.kernel.CloseHandle.argtypes = (handle,)
        self.kernel.SetDllDirectoryW.argtypes = (ctypes.c_wchar_p,)

    def popen(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(list(argv), **options)

    def handle_of(self, popen: subprocess.Popen[bytes]) -> int:
        return int(popen._handle)  # type: ignore[attr-defined,unused-ignore]

    def resume(self, pid: int) -> None:
        psutil.Process(pid).resume()


class Job:
    """A job object whose processes end with the last handle to it, which is ours and closed with us."""

    def __init__(self, system: System) -> None:
        """Raises OSError when Windows makes none."""
        self._kernel = system.kernel
        self._handle = self._kernel.CreateJobObjectW(None, None)
        limits = ExtendedLimits()
        limits.Basic.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
        if not self._handle or not self._kernel.SetInformationJobObject(
            self._handle, JOB_OBJECT_EXTENDED_LIMIT_INFORMATION, ctypes.byref(limits), ctypes.sizeof(limits)
        ):
            self.close()
            raise OSError("no job object can be made")

    def take(self, process: int) -> None:
        """Put the process with this handle in. Raises OSError."""
        if not self._kernel.AssignProcessToJobObject(self._handle, process):
            raise OSError("the process cannot be put into a job object")

    def end(self) -> None:
        """End all that is in it."""
        if self._handle:
            self._kernel.TerminateJobObject(self._handle, KILLED)

    def close(self) -> None:
        """Safe to call twice."""
        handle, self._handle = self._handle, None
        if handle:
            self._kernel.CloseHandle(handle)


UNGUARDED = "Windows allows no job object for engines: if the launcher is killed, its engine may stay behind."


def guard(system: System | None = None) -> str:
    """What stands against ending all that we start together with us, as a sentence; empty: nothing does. Tries it with
    a program that never runs."""
    system = system or System()
    job: Job | None = None
    try:
        job = Job(system)
        flags = CREATE_SUSPENDED | CREATE_NO_WINDOW
        with system.popen([sys.executable], creationflags=flags, stdin=subprocess.DEVNULL) as trial:
            try:
                job.take(system.handle_of(trial))
            finally:
                trial.kill()
    except OSError:
        return UNGUARDED
    finally:
        if job is not None:
            job.close()
    return ""


@contextlib.contextmanager
def _without_our_libraries(kernel: Any) -> Iterator[None]:
    """A packaged app's bootloader names its folder for DLLs, and children inherit that; its libraries do not fit other
    programs. We ourselves need it again afterwards."""
    ours = getattr(sys, "_MEIPASS", None) if getattr(sys, "frozen", False) else None
    if ours is None:
        yield
        return
    kernel.SetDllDirectoryW(None)
    try:
        yield
    finally:
        kernel.SetDllDirectoryW(ours)


class Process:
    """A child in a process group and a job of its own. ``unguarded``: why it may outlive us; empty: it does not. Raises
    OSError."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        output: int,
        system: System | None = None,
    ) -> None:
        system = system or System()
        kernel = system.kernel
        kernel.SetErrorMode(QUIET)  # children inherit it
        # Only a child that shares our console can be sent CTRL_BREAK; without one, none may pop up.
        self._hears = bool(kernel.GetConsoleCP())
        flags = CREATE_NEW_PROCESS_GROUP | CREATE_SUSPENDED | (0 if self._hears else CREATE_NO_WINDOW)
        self._job: Job | None = None
        with contextlib.suppress(OSError):
            self._job = Job(system)
        try:
            with _without_our_libraries(kernel):
                self._popen = system.popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=cwd,
                    env=dict(env),
                    creationflags=flags,
                )
        except BaseException:
            self.release()
            raise
        self.pid = self._popen.pid
        # Suspended until it is in the job: what it starts will be in it as well.
        try:
            if self._job:
                self._job.take(system.handle_of(self._popen))
        except OSError:  # a surrounding job that forbids it
            self.release()
        self.unguarded = "" if self._job else UNGUARDED
        try:
            system.resume(self.pid)
        except BaseException as error:  # it would stand there for ever
            self._popen.kill()
            self._popen.wait()
            self.release()
            if isinstance(error, psutil.Error):
                raise OSError(errno.EIO, "it does not begin to run", argv[0]) from error
            raise

    def ask(self) -> bool:
        """CTRL_BREAK, the only console event that can be sent to one group. False: it cannot be heard."""
        if self._hears:
            try:
                self._popen.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM))
            except OSError:
                return False
        return self._hears

    def force(self) -> None:
        """End all that is in the job."""
        if self._job:
            self._job.end()
        else:
            with contextlib.suppress(OSError):
                self._popen.kill()

    def wait(self) -> None:
        """Block until the child has ended."""
        self._popen.wait()

    def reap(self) -> int:
        """Its exit code. Blocks until it has ended."""
        return self._popen.wait()

    def remains(self) -> bool:
        """Nobody is left behind in the job once it is told to end."""
        return False

    def release(self) -> None:
        """Close the job, and with it end what is still in it."""
        if self._job:
            self._job.close()
        self._job = None


def foreground(argv: Sequence[str], *, env: Mapping[str, str], system: System | None = None) -> int:
    """Run a program in our console to its end; its exit code. It does not outlive us. Raises OSError."""
    system = system or System()
    job: Job | None = None
    with contextlib.suppress(OSError):
        job = Job(system)
    try:
        with system.popen(argv, env=dict(env), creationflags=0) as popen:
            with contextlib.suppress(OSError):
                if job is not None:
                    job.take(system.handle_of(popen))
            return popen.wait()
    finally:
        if job is not None:
            job.close()


_tools: list[Job] = []  # one for all tools, made when first needed and never closed


@contextlib.contextmanager
def tool(
    argv: Sequence[str],
    *,
    at_death: int = 0,  # noqa: ARG001 -- a job ends all that is in it
    system: System | None = None,
    **options: Any,
) -> Iterator[subprocess.Popen[Any]]:
    """See ``system``. ``options`` are those of Popen. Raises OSError. What it starts before it is in the job, within
    a moment, is not ended with us."""
    system = system or System()
    options["creationflags"] = CREATE_NO_WINDOW | options.get("creationflags", 0)
    with system.popen(argv, **options) as popen:
        with contextlib.suppress(OSError):
            if not _tools:
                _tools.append(Job(system))
            _tools[0].take(system.handle_of(popen))
        yield popen
