"""A program of ours run to its end, its output handed on while it comes; it does not survive the launcher."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from launcher.supervise.system import tool

PIECE = 1 << 16
MOST_BYTES = 8_000_000  # of each stream; what comes after is dropped


@dataclass(frozen=True)
class Streamed:
    """How it ended. ``output`` and ``errors`` are what it wrote to stdout and stderr."""

    returncode: int
    output: bytes
    errors: bytes


def run_streamed(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], on_output: Callable[[bytes], None]
) -> Streamed:
    """Run ``argv``; ``on_output`` gets each piece of stdout. Whatever is raised meanwhile, Ctrl+C too, kills it.
    Raises OSError when it cannot be started."""
    out, err = bytearray(), bytearray()
    with tool(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=dict(env),
    ) as process:
        assert process.stdout is not None  # noqa: S101 -- it was asked for
        reader = threading.Thread(target=_keep, args=(process.stderr, err), name="tool-log", daemon=True)
        reader.start()
        try:
            while piece := os.read(process.stdout.fileno(), PIECE):
                if len(out) < MOST_BYTES:
                    out += piece
                    on_output(piece)
            returncode = process.wait()
        except BaseException:
            process.kill()
            raise
        reader.join()
    return Streamed(returncode, bytes(out), bytes(err))


def _keep(pipe: IO[bytes], kept: bytearray) -> None:
    while piece := os.read(pipe.fileno(), PIECE):
        if len(kept) < MOST_BYTES:
            kept += piece
