"""Reads what was found on this machine to its end, before it is used, and tells how far that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from launcher.catalog import HubFile
from launcher.errors import Cancelled, DigestMismatch
from launcher.fetch_meter import Meter
from launcher.fetch_values import Control, Progress
from launcher.shelf import Shelf
from launcher.wants import Wants

ELSEWHERE = "another start is reading it"


@dataclass(frozen=True)
class Reading:
    """``right``: the parts that turned out to be what they are called; ``problems``: an error for each other one."""

    right: tuple[str, ...] = ()
    problems: tuple[DigestMismatch, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything had to be read."""
        return bool(self.right or self.problems)


def go_on(control: Control) -> None:
    """Cancelled when the person has given up."""
    if control.cancelled.is_set():
        raise Cancelled("Fetching was cancelled.", "What was fetched stays; start again to go on.")


def read_found(wants: Wants, shelf: Shelf, change: Callable[..., None], control: Control) -> Reading:
    """Read each file of ``wants`` that lies here unread. ``change(part, ...)`` hears how far it is, with an Item's fields.
    Raises Cancelled within a moment when ``control`` says so; what was read to its end by then is noted."""
    right, problems = [], []
    for part, file, _ in wants.files:
        if part not in wants.unread:
            continue
        change(part, state="checking")
        path = shelf.check(file, _Teller(part, change, control).progress)
        if path is not None:
            right.append(part)
            size = path.stat().st_size
            ended = {"state": "done", "have": size, "in_place": True, "where": str(path)}
        else:
            problems.append(_not_it(file, wants.unread[part], shelf))
            ended = {"state": "failed", "have": 0}
        change(part, rate=None, left_s=None, note="", **ended)
    return Reading(tuple(right), tuple(problems))


def _not_it(file: HubFile, path: Path, shelf: Shelf) -> DigestMismatch:
    if shelf.unread(file):
        return DigestMismatch(f"{path} changed while it was read.", "Try again when nothing writes to it.")
    return DigestMismatch(
        f"{path} is not used: it cannot be read, or is not the {file.name} that was published.",
        "Try again to have that one fetched.",
    )


class _Teller:
    """Tells how far the reading of a part is as a fetch tells it."""

    def __init__(self, part: str, change: Callable[..., None], control: Control) -> None:
        self._part, self._change, self._control = part, change, control
        self._path, self._total = Path(), 0
        self._meter = Meter(self._tell)

    def progress(self, path: Path, have: int) -> None:
        """``have`` bytes of ``path`` were read; 0: somebody else reads it."""
        go_on(self._control)
        if path != self._path:
            self._path, self._total = path, path.stat().st_size
        self._meter.tell(have, self._total, *(("checking", "") if have else ("waiting", ELSEWHERE)))

    def _tell(self, news: Progress) -> None:
        left = (self._total - news.have) / news.rate if news.rate else None
        of_file = {"total": self._total, "where": str(self._path), "state": "checking"}
        self._change(
            self._part, quiet=True, have=news.have, rate=news.rate, left_s=left, note=news.note, **of_file
        )
