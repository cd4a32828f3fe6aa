"""The only printer: data goes to stdout, talk to stderr, both work without a terminal."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from launcher.errors import LauncherError

if TYPE_CHECKING:  # the owner of the engine is slow to load, and most commands need none
    from launcher.lifecycle import Status


def data(text: str, *, end: str = "\n") -> None:
    """Text for stdout, untouched."""
    sys.stdout.write(text + end)
    sys.stdout.flush()


def data_json(value: object) -> None:
    """One JSON document for stdout; dataclasses become objects."""
    data(json.dumps(value, indent=2, ensure_ascii=False, default=_plain))


def _plain(value: object) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, frozenset | set | tuple):
        return sorted(value)
    return str(value)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table for stdout; without a terminal it is as wide as its longest row."""
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 500)
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        grid.add_column(header, overflow="fold")
    for row in rows:
        grid.add_row(*(escape(cell) for cell in row))
    console.print(grid)


def say(text: str, style: str = "") -> None:
    """A line of talk for stderr."""
    console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
    console.print(escape(text), style=style or None)


def dim(text: str, *, end: str = "") -> None:
    """A piece of talk for stderr that stays in the line, such as thoughts or progress."""
    console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
    console.print(escape(text), style="dim", end=end)


def status_line(text: str) -> None:
    """Replace the terminal's last line on stderr; empty text clears it."""
    sys.stderr.write(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}")
    sys.stderr.flush()


class Progress:
    """Called with each Status of a lifecycle: on a terminal, says what a slow start is doing, in one line."""

    def __init__(self, after_s: float = 1.0) -> None:
        self._begun = time.monotonic()
        self._after = after_s
        self._shown = False

    def __call__(self, status: Status) -> None:
        if status.phase in ("preparing", "starting", "stopping") and sys.stderr.isatty():
            if time.monotonic() - self._begun > self._after:
                self._shown = True
                status_line(status.message)
        elif self._shown:
            self._shown = False
            status_line("")


def warn(text: str) -> None:
    """A warning for stderr."""
    say(f"Note: {text}", "yellow")


def fail(error: LauncherError) -> None:
    """What went wrong and what to try, for stderr."""
    say(f"Error: {error.what}", "bold red")
    if error.remedy:
        say(error.remedy)


def agreed(question: str) -> bool:
    """Whether the person answers yes; the default is no."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
