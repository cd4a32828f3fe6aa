"""Starting and ending a child on Linux and macOS."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def popen_options() -> dict[str, Any]:
    """A group of its own, so that Ctrl+C reaches the launcher alone; on Linux it dies with the thread
    that starts it, which therefore must live as long as the launcher."""
    return {"start_new_session": True, "preexec_fn": _die_with_parent()}


def ask_to_end(child: subprocess.Popen[bytes]) -> None:
    """SIGTERM to the child's group."""
    _signal(child, signal.SIGTERM)


def force_to_end(child: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the child's group."""
    _signal(child, signal.SIGKILL)


def _signal(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)


def _die_with_parent() -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork: a forked child may not load libraries
    parent = os.getpid()

    def set_death_signal() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the launcher died between fork and prctl
            os._exit(1)

    return set_death_signal
