"""Output where nobody can read it: an app that is started by a double-click has no console, on Windows no streams.

``ensure`` comes before everything else that might write. What is written then goes to a log file of its own.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from launcher.errors import LauncherError
from launcher.paths import locate, make_folder

PATTERN = "launcher-*.log"
KEPT_RUNS = 5
MOST_BYTES = 5_000_000
# Libraries that draw progress bars into a stream without asking whether it is a terminal.
NO_BARS = {"TQDM_DISABLE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}


@dataclass(frozen=True)
class Output:
    """``unread``: nobody reads what is written; ``log``: the file that it goes to then, if one can be made."""

    unread: bool
    log: Path | None = None


def ensure(*, keep: bool = True) -> Output:
    """Replace streams that lead nowhere by ones that lead to a log.

    ``keep`` False: for a helper process, whose words are not kept. Never raises.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123 - stays open
    if not unread(sys.stderr):
        if sys.stdout is None:
            sys.stdout = _nowhere()
        return Output(unread=False)
    os.environ.update({name: value for name, value in NO_BARS.items() if name not in os.environ})
    made = new_log(folder()) if keep else None
    stream = _nowhere() if made is None else made[1]
    sys.stderr = stream
    if unread(sys.stdout):
        sys.stdout = stream
    return Output(unread=True, log=None if made is None else made[0])


def unread(stream: TextIO | None) -> bool:
    """Whether nobody can read it: there is none, it is closed or, in the packaged app, it goes to the null device, as
    desktops arrange it."""
    if stream is None or stream.closed:
        return True
    if not getattr(sys, "frozen", False):
        return False
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return is_null_device(os.fstat(stream.fileno()), Path(os.devnull).stat())
    return False


def is_null_device(stream: os.stat_result, null: os.stat_result) -> bool:
    """Whether both are the same device. Windows has no numbers for devices and pipes, only zeros: there a console would
    pass for the null device, and programs without a console have no streams anyway."""
    return stream.st_ino != 0 and os.path.samestat(stream, null)


def by_double_click(output: Output) -> bool:
    """Whether a person at a desktop started us, as far as can be told: nobody reads or types."""
    if output.unread:
        return True
    return bool(getattr(sys, "frozen", False)) and not any(map(_is_terminal, (sys.stdin, sys.stderr)))


def _is_terminal(stream: TextIO) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return stream.isatty()
    return False


def folder() -> Path:
    """Where logs lie, by what can be known before the command line is read."""
    return locate(os.environ.get("BONSAI_HOME") or None).logs


def new_log(folder: Path) -> tuple[Path, TextIO] | None:
    """A new private log, of which the last few are kept; None when none can be made."""
    try:
        path = make_folder(folder) / f"launcher-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        _prune(folder, path)
    except (OSError, LauncherError):
        return None
    file = io.BufferedWriter(Capped(io.FileIO(handle, "wb"), MOST_BYTES))
    return path, io.TextIOWrapper(file, encoding="utf-8", errors="replace", line_buffering=True)


def _prune(folder: Path, newest: Path) -> None:
    """By name: the time in it is the order in which they were made, unless the clock was set."""
    old = [path for path in folder.glob(PATTERN) if path != newest]
    for path in sorted(old, reverse=True)[KEPT_RUNS - 1 :]:
        with contextlib.suppress(OSError):  # Windows keeps what another run has open
            path.unlink()


class Capped(io.RawIOBase):
    """Writes ``most`` bytes at most and drops the rest; a full disk ends nothing."""

    def __init__(self, file: io.FileIO, most: int) -> None:
        self._file = file
        self._left = most

    def writable(self) -> bool:
        """Yes: that is what it is for."""
        return True

    def fileno(self) -> int:
        """The number of the file below, for what writes past Python."""
        return self._file.fileno()

    def write(self, data: Any) -> int:
        """Returns the length of ``data``, written or not."""
        data = bytes(data)
        size = len(data)
        if self._left > 0:
            with contextlib.suppress(OSError):
                self._file.write(data if size <= self._left else b"\n... the rest is not kept\n")
            self._left -= size
        return size


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - stays open
