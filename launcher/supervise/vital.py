"""Whether a starting engine still moves: its log, its memory, what it reads, what its port answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import psutil

LOOK_S = 1.0  # the system is asked about its processes no more often than that
CPU_STEP_S = 0.5  # less is what a sleeping program uses by looking at the clock
MEMORY_STEP = 1 << 20  # bytes; less is what answering our own questions takes


@dataclass(frozen=True)
class Patience:
    """Seconds. ``silence``: nothing moves. ``still``: nothing moves, no processor time is used and the port was never
    open. ``stranger``: somebody else answers on the port while the engine lives. ``stop``: from asking to forcing."""

    silence: float = 600.0
    still: float = 120.0
    loopback: float = 15.0  # as still, where this machine's own loopback does not connect
    stranger: float = 3.0
    stop: float = 10.0  # a busy llama-server ends within a second of SIGTERM


class Vital:
    """``look`` is called again and again; ``quiet_s`` and ``idle_s`` tell for how long nothing has changed."""

    def __init__(self, pid: int, clock: Callable[[], float]) -> None:
        self._pid = pid
        self._clock = clock
        self.began = self._moved = self._worked = clock()
        self._looked = float("-inf")
        self._seen: object = None
        self._inside: tuple[int, int] = (0, 0)
        self._cpu = 0
        self.ever_open = False

    @property
    def quiet_s(self) -> float:
        """Since log, memory, reading or the port's answer changed."""
        return self._clock() - self._moved

    @property
    def idle_s(self) -> float:
        """Since any of these changed or the processor worked for it."""
        return self._clock() - max(self._moved, self._worked)

    def look(self, log_bytes: int, answer: str | None) -> None:
        """``log_bytes``: written so far. ``answer``: what the port says; None: it is not open."""
        now = self._clock()
        self.ever_open = self.ever_open or answer is not None
        if now - self._looked >= LOOK_S:
            self._looked = now
            inside, cpu = usage(self._pid)
            if any(abs(new - old) >= MEMORY_STEP for new, old in zip(inside, self._inside, strict=True)):
                self._inside = inside
            if cpu != self._cpu:
                self._cpu, self._worked = cpu, now
        seen = (log_bytes, answer, self._inside)
        if seen != self._seen:
            self._seen, self._moved = seen, now


def usage(pid: int) -> tuple[tuple[int, int], int]:
    """((resident bytes, bytes read), processor time in steps) of a process and its children; 0 for what the system
    does not tell."""
    resident, read, cpu = 0, 0, 0.0
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        for it in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error, OSError):
                times = it.cpu_times()
                cpu += times.user + times.system
                resident += it.memory_info().rss
                if hasattr(it, "io_counters"):
                    io = it.io_counters()
                    read += io.read_bytes + getattr(io, "read_chars", 0)
    return (resident, read), int(cpu / CPU_STEP_S)
