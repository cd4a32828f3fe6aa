"""Looks at this machine: system, processor and memory."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil

from launcher.hardware.model import Machine

T = TypeVar("T")


def detect() -> Machine:
    """What this machine is; never raises, unknown values are None."""
    memory = _quiet(psutil.virtual_memory)
    return Machine(
        system=platform.system(),
        arch={"AMD64": "x86_64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
        cpu=_cpu_name(),
        cores=_quiet(lambda: psutil.cpu_count(logical=False)),
        threads=_quiet(psutil.cpu_count),
        ram_bytes=memory.total if memory else None,
        ram_free_bytes=memory.available if memory else None,
    )


def _quiet(probe: Callable[[], T]) -> T | None:
    """The probe's answer, or None when the system does not give it: a probe never ends the launcher."""
    try:
        return probe()
    except (OSError, RuntimeError, NotImplementedError, psutil.Error):
        return None


def _cpu_name() -> str | None:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in (_quiet(cpuinfo.read_text) or "").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or None
