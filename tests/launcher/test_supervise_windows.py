"""The Windows way to start and end a child, on a stand-in for kernel32."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from launcher.supervise import _windows
from launcher.supervise._windows import BasicLimits, ExtendedLimits, IoCounters, Process


class Kernel:
    """Notes what is called, and answers as Windows does when all is well but for ``failing``."""

    def __init__(self, *, console: bool = True, failing: tuple[str, ...] = ()) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._console, self._failing = console, failing

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append((name, *arguments))
            if name == "GetConsoleCP":
                return 65001 if self._console else 0
            return 0 if name in self._failing else 77

        return call

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [call for call in self.calls if call[0] == name]


class System(_windows.System):
    """Starts a real child here; what only Windows has is noted. ``fault``: what becomes of waking it."""

    def __init__(self, kernel: Kernel, fault: Exception | None = None) -> None:
        self.kernel = kernel
        self.flags = 0
        self.fault = fault
        self.started: list[subprocess.Popen[bytes]] = []

    def popen(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        self.flags = options.pop("creationflags")
        self.started.append(subprocess.Popen(list(argv), **options))
        return self.started[-1]

    def handle_of(self, popen: subprocess.Popen[bytes]) -> int:
        return popen.pid

    def resume(self, pid: int) -> None:
        self.kernel.calls.append(("resume", pid))
        if self.fault is not None:
            raise self.fault


def start(system: System, *argv: str) -> Process:
    code = "import time; time.sleep(600)"
    command = argv or (sys.executable, "-c", code)
    return Process(command, cwd=Path.cwd(), env=dict(os.environ), output=subprocess.DEVNULL, system=system)


def end(process: Process) -> None:
    process._popen.kill()
    process.reap()


def test_structures_are_laid_out_as_windows_reads_them() -> None:
    """Sizes and offsets of 64-bit Windows (winnt.h), which has the same sizes of these types as here."""
    assert ctypes.sizeof(ctypes.c_size_t) == 8
    assert (ctypes.sizeof(BasicLimits), ctypes.sizeof(IoCounters), ctypes.sizeof(ExtendedLimits)) == (
        64,
        48,
        144,
    )
    offsets = {name: getattr(BasicLimits, name).offset for name, _ in BasicLimits._fields_}
    assert offsets == {
        "PerProcessUserTimeLimit": 0,
        "PerJobUserTimeLimit": 8,
        "LimitFlags": 16,
        "MinimumWorkingSetSize": 24,
        "MaximumWorkingSetSize": 32,
        "ActiveProcessLimit": 40,
        "Affinity": 48,
        "PriorityClass": 56,
        "SchedulingClass": 60,
    }
    assert ExtendedLimits.IoInfo.offset == 64
    assert ExtendedLimits.ProcessMemoryLimit.offset == 112


def test_the_child_is_in_a_job_that_ends_with_us_before_it_runs() -> None:
    system = System(Kernel())
    process = start(system)
    names = [call[0] for call in system.kernel.calls]
    assert names.index("AssignProcessToJobObject") < names.index("resume")
    assert system.flags & _windows.CREATE_SUSPENDED
    assert system.flags & _windows.CREATE_NEW_PROCESS_GROUP
    assert system.kernel.named("AssignProcessToJobObject") == [("AssignProcessToJobObject", 77, process.pid)]
    ((_, job, kind, limits, size),) = system.kernel.named("SetInformationJobObject")
    assert (job, kind, size) == (77, 9, 144)
    assert cast("Any", limits)._obj.Basic.LimitFlags == 0x2000
    assert not system.kernel.named("CloseHandle"), "closing the job would end the child"
    end(process)
    process.release()
    assert system.kernel.named("CloseHandle") == [("CloseHandle", 77)]


def test_force_ends_the_whole_job() -> None:
    system = System(Kernel())
    process = start(system)
    process.force()
    assert system.kernel.named("TerminateJobObject") == [("TerminateJobObject", 77, 1)]
    end(process)


@pytest.mark.case("D-13")
def test_a_child_that_shares_the_console_is_asked_alone() -> None:
    system = System(Kernel(console=True))
    process = start(system)
    assert not system.flags & _windows.CREATE_NO_WINDOW
    assert process.ask()
    process.wait()
    assert process.reap() == -signal.SIGTERM  # the stand-in for CTRL_BREAK


@pytest.mark.case("D-13")
def test_a_child_without_a_console_cannot_be_asked_and_gets_no_window() -> None:
    system = System(Kernel(console=False))
    process = start(system)
    assert system.flags & _windows.CREATE_NO_WINDOW
    assert not process.ask()
    end(process)


@pytest.mark.parametrize(
    "failing", ["CreateJobObjectW", "SetInformationJobObject", "AssignProcessToJobObject"]
)
def test_without_a_job_the_child_runs_and_can_be_ended(failing: str) -> None:
    system = System(Kernel(failing=(failing,)))
    process = start(system)
    assert system.kernel.named("resume")
    assert "may stay behind" in process.unguarded
    assert _windows.guard(system) == process.unguarded
    process.force()
    process.wait()
    assert process.reap() != 0
    assert len(system.kernel.named("CloseHandle")) == (0 if failing == "CreateJobObjectW" else 2)


def test_whether_children_end_with_us_is_tried_with_a_program_that_never_runs() -> None:
    system = System(Kernel())
    assert _windows.guard(system) == ""
    assert system.flags & _windows.CREATE_SUSPENDED
    assert not system.kernel.named("resume")
    assert [child.returncode for child in system.started] == [-signal.SIGKILL]
    assert len(system.kernel.named("CloseHandle")) == 1
    process = start(system)
    assert process.unguarded == ""
    end(process)


def test_a_program_that_cannot_start_leaves_no_job() -> None:
    system = System(Kernel())
    with pytest.raises(OSError, match="nothing-here"):
        start(system, "/nothing-here")
    assert system.kernel.named("CloseHandle")


@pytest.mark.parametrize("failing", [(), ("AssignProcessToJobObject",)])
def test_a_child_that_cannot_be_woken_does_not_stand_there_for_ever(failing: tuple[str, ...]) -> None:
    system = System(Kernel(failing=failing), psutil.AccessDenied(1))
    with pytest.raises(OSError, match="does not begin to run"):
        start(system)
    (child,) = system.started
    assert child.returncode is not None
    assert len(system.kernel.named("CloseHandle")) == 1


@pytest.mark.case("D-10")
def test_a_missing_library_shows_no_dialog_that_waits_for_a_click() -> None:
    system = System(Kernel())
    end(start(system))
    assert system.kernel.named("SetErrorMode") == [("SetErrorMode", 0x8003)]


@pytest.mark.parametrize("frozen", [True, False])
def test_a_packaged_apps_libraries_are_not_offered_to_engines(
    monkeypatch: pytest.MonkeyPatch, frozen: bool
) -> None:
    if frozen:
        monkeypatch.setattr(sys, "frozen", True, raising=False)
        monkeypatch.setattr(sys, "_MEIPASS", "the app's folder", raising=False)
    system = System(Kernel())
    end(start(system))
    calls = [("SetDllDirectoryW", None), ("SetDllDirectoryW", "the app's folder")]
    assert system.kernel.named("SetDllDirectoryW") == (calls if frozen else []), "and we have them again"


@pytest.mark.parametrize("failing", [(), ("CreateJobObjectW",)])
def test_a_program_in_the_foreground_shares_our_console_and_ends_with_us(failing: tuple[str, ...]) -> None:
    system = System(Kernel(failing=failing))
    command = [sys.executable, "-c", "import os; raise SystemExit(int(os.environ['HOW']))"]
    assert _windows.foreground(command, env={**os.environ, "HOW": "7"}, system=system) == 7
    assert system.flags == 0
    assert len(system.kernel.named("AssignProcessToJobObject")) == (0 if failing else 1)
    assert len(system.kernel.named("CloseHandle")) == (0 if failing else 1)


def test_tools_are_in_a_job_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_windows, "_tools", [])
    system = System(Kernel())
    for _ in range(2):
        with _windows.tool([sys.executable, "-c", "pass"], system=system) as it:
            pass
        assert it.returncode == 0
        assert system.flags & _windows.CREATE_NO_WINDOW
    assert len(system.kernel.named("CreateJobObjectW")) == 1
    assert len(system.kernel.named("AssignProcessToJobObject")) == 2
    assert not system.kernel.named("CloseHandle")
