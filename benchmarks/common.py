"""What the benchmarks share: a description of the machine, processor time, and tables."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from launcher.hardware.detect import detect

ROOT = Path(__file__).resolve().parents[1]


def machine() -> str:
    """One line on the machine and the versions that were measured."""
    rows = dict(detect().rows())
    return f"{rows['System']}, {rows['Processor']}, {rows['Cores']}, {rows['Memory']}; Python {platform.python_version()}"


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cpu_seconds(processes: Sequence[psutil.Process]) -> float:
    """Processor time used so far by all ``processes`` that still live."""
    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def processes_with(text: str) -> list[psutil.Process]:
    """Processes whose command line holds ``text``."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if text in " ".join(process.info["cmdline"] or []):
            found.append(process)
    return found


def get(url: str, timeout: float = 5) -> tuple[int, bytes]:
    """Status and body; status 0 when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as reply:
            return reply.status, reply.read()
    except OSError:
        return 0, b""


def get_json(url: str) -> Any:
    """The JSON at ``url``."""
    return json.loads(get(url)[1])


def wait(condition: Any, seconds: float, what: str) -> float:
    """Poll ``condition`` every 5 ms; returns the seconds it took, raises TimeoutError."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > seconds:
            raise TimeoutError(f"waited {seconds} s for {what}")
        time.sleep(0.005)
    return time.monotonic() - begun


@contextlib.contextmanager
def child(argv: Sequence[str], env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own that is ended afterwards; its output is dropped."""
    process = subprocess.Popen(
        argv,
        env={**os.environ, **(env or {})},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(headers) + " |", "|" + "---|" * len(headers)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)
