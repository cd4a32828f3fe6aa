"""Starting and ending a child on Windows."""

from __future__ import annotations

import signal
import subprocess
from typing import Any


def popen_options() -> dict[str, Any]:
    """A group of its own, so that Ctrl+C reaches the launcher alone, and no console window."""
    new_group = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
    return {"creationflags": new_group | getattr(subprocess, "CREATE_NO_WINDOW", 0)}


def ask_to_end(child: subprocess.Popen[bytes]) -> None:
    """CTRL_BREAK, the only console event that can be sent to one group."""
    if child.poll() is None:
        child.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM))


def force_to_end(child: subprocess.Popen[bytes]) -> None:
    """TerminateProcess."""
    child.kill()
