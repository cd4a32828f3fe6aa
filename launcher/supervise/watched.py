"""The watchman: a small process that ends the engines when the launcher is gone, however it went.

It holds the read end of a pipe (its stdin) whose write end only the launcher has. A line ``+<name> <group>`` puts a
process group in its care, ``-<name>`` takes it out. At the end of the pipe the launcher no longer exists: what is
left in its care gets SIGTERM and, two seconds later, SIGKILL. On Linux the engine itself dies with the launcher
anyway; what the engine started does not, and on macOS nothing does.

Only the standard library, and little of it: the file also runs by itself, without this package.
"""

from __future__ import annotations

import os
import signal
import sys
import time

GRACE_S = 2.0
LOOK_S = 0.02
SUBCOMMAND = "watched"


class Care:
    """The groups in care, from the pipe's bytes. What is no such line is passed over."""

    def __init__(self) -> None:
        self.groups: dict[bytes, int] = {}
        self._rest = b""

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            name, _, group = line[1:].partition(b" ")
            if line[:1] == b"+" and group.isdigit() and int(group) > 1:
                self.groups[name] = int(group)
            elif line[:1] == b"-":
                self.groups.pop(name, None)


def main() -> int:
    """Wait for the launcher's end, then end what it left. Returns the exit status."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"):  # it goes when the launcher goes, not before
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    care = Care()
    while data := os.read(0, 4096):
        care.feed(data)
    end_groups(set(care.groups.values()))
    return 0


def end_groups(groups: set[int], grace_s: float = GRACE_S) -> None:
    """SIGTERM to ``groups``, SIGKILL to those that are still there ``grace_s`` seconds later."""
    for number in (signal.SIGTERM, signal.SIGCONT, signal.SIGKILL):
        groups = {group for group in groups if send(group, number)}
        end = time.monotonic() + (grace_s if number == signal.SIGCONT else 0.0)
        while time.monotonic() < end and (groups := {group for group in groups if send(group, 0)}):
            time.sleep(LOOK_S)


def send(group: int, number: int) -> bool:
    """Whether there was somebody to receive it."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # macOS says the latter of a group of zombies
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
