"""An engine's output: always drained, on disk, capped in size, and kept for the last runs."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO

MOST_BYTES = 20_000_000
HEAD_BYTES = 2_000_000  # what was loaded and how stands at the beginning
TAIL_BYTES = 8_000_000  # kept at the end when the middle is left out
KEPT_RUNS = 10
PIECE = 1 << 16
OUR_QUESTION = b"/health"  # older builds log each time that they are asked whether they are ready
LINE_BYTES = 200  # a generous length of a line, for finding the last ones


class EngineLog:
    """The file behind a child's stdout and stderr. Nobody but us writes to it; ``tail`` may be asked at any time."""

    def __init__(
        self, path: Path, *, most: int = MOST_BYTES, head: int = HEAD_BYTES, tail: int = TAIL_BYTES
    ) -> None:
        """Makes the file. Raises OSError."""
        self.path = path
        self.told = 0  # bytes that came from the child, but for its notes of our own questions
        self._most, self._head, self._tail = most, head, tail
        self._piece = min(PIECE, (most - head - tail) // 2)  # so that one fits after the middle was left out
        self._lock = threading.Lock()
        self._file: BinaryIO = path.open("w+b", buffering=0)
        self._size = 0
        self._head_end: int | None = None
        self._left_out = 0
        self._drains: list[threading.Thread] = []

    def pipe(self) -> int:
        """The descriptor for a child to write to; close it once the child has it. Drained until its last holder ends."""
        read, write = os.pipe()
        drain = threading.Thread(target=self._drain, args=(read,), name="engine-log", daemon=True)
        self._drains.append(drain)
        drain.start()
        return write

    def note(self, text: str) -> None:
        """A line of our own."""
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._write(f"bonsai: {text}\n".encode())

    def finish(self, timeout_s: float) -> None:
        """Wait until all that the children wrote is in the file, at most so long: a stranger may hold the pipe."""
        for drain in self._drains:
            drain.join(timeout_s)

    def close(self) -> None:
        """Nothing more is written; what still comes is dropped."""
        with self._lock:
            self._file.close()

    def tail(self, lines: int) -> str:
        """The last ``lines`` lines."""
        with self._lock:
            return tail(self.path, lines)

    def _drain(self, read: int) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(read, PIECE):
                with self._lock:
                    if any(line and OUR_QUESTION not in line for line in data.splitlines()):
                        self.told += len(data)
                    # A full disk must not stop the engine: what cannot be written is lost.
                    with contextlib.suppress(OSError, ValueError):
                        for at in range(0, len(data), self._piece):
                            self._write(data[at : at + self._piece])
        os.close(read)

    def _write(self, data: bytes) -> None:
        if self._size + len(data) > self._most:
            self._leave_middle_out()
        self._file.write(data)
        self._size += len(data)

    def _leave_middle_out(self) -> None:
        if self._head_end is None:
            self._file.seek(0)
            start = self._file.read(self._head)
            self._head_end = start.rfind(b"\n") + 1 or len(start)
        self._file.seek(max(self._head_end, self._size - self._tail))
        end = self._file.read()
        end = end[end.find(b"\n") + 1 :]
        self._left_out += self._size - self._head_end - len(end)
        note = f"... about {self._left_out:,} bytes left out here ...\n".encode()
        self._file.seek(self._head_end)
        self._file.truncate()
        self._file.write(note + end)
        self._size = self._head_end + len(note) + len(end)


def tail(path: Path, lines: int) -> str:
    """The last ``lines`` lines of a log, empty when there is none."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - LINE_BYTES * lines))
            text = log.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def prune(folder: Path, pattern: str, *, keep: int = KEPT_RUNS, spare: Collection[Path] = ()) -> None:
    """Delete all but the newest ``keep`` logs; ``spare`` are in use."""
    aged: list[tuple[float, Path]] = []
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):
            if path.is_file():
                aged.append((path.stat().st_mtime, path))
    for _, path in sorted(aged, reverse=True)[keep:]:
        if path not in spare:
            with contextlib.suppress(OSError):
                path.unlink()
