"""Races on disk: one JSON file each, written whole or not at all, private to their owner.

    <folder>/races/<id>.json

A file that makes no sense is renamed, never deleted, and the rest goes on loading.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from launcher import store_files
from launcher.errors import StoreError
from launcher.plain_values import UnfitError, from_plain, to_plain
from launcher.race_types import Race
from launcher.store_errors import MissingError, is_id, told

FORMAT = "bonsai-race"
VERSION = 1
HEAD_LENGTH = 80  # characters of a prompt in a list


@dataclass(frozen=True)
class RaceSummary:
    """One line of a list. ``prompt`` is its beginning; ``ratio`` and ``word`` are the verdict's."""

    id: str
    created: float  # seconds since 1970
    prompt: str
    kind: str
    language: str
    sides: tuple[str, str]
    model: str
    ratio: float | None
    word: str
    ended: str


@dataclass(frozen=True)
class RaceListing:
    """``set_aside`` names files that made no sense and were kept under another name, each told once.

    ``unreadable`` has a sentence for each file that was left as it is: no permission, or a newer format.
    """

    races: tuple[RaceSummary, ...]
    set_aside: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


class RaceStore:
    """All methods raise StoreError (unreadable, full disk, read-only) and never lose what was there.

    Safe for any number of threads and processes. ``folder`` is the data folder; its part of it is made when
    the first race is saved.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "races"
        self._lock = threading.RLock()
        self._known: dict[str, tuple[tuple[int, int], RaceSummary]] = {}
        self._aside: list[str] = []

    def save(self, race: Race) -> None:
        """Write it under its id."""
        plain = {"format": FORMAT, "version": VERSION, "race": to_plain(race)}
        # ASCII: half a surrogate pair, which a browser may send, can be written in no other way.
        data = json.dumps(plain, allow_nan=False, separators=(",", ":")).encode()
        with self._lock, told(f"The race cannot be saved in {self._folder}"):
            store_files.write(self._path(race.id), data)

    def load(self, race_id: str) -> Race:
        """The whole race. StoreError when there is none, or its file makes no sense (it is set aside)."""
        path = self._path(race_id)
        with self._lock:
            try:
                return self._read(path)
            except UnfitError as error:
                aside = self._set_aside(path)
                raise StoreError(
                    f"The file of this race is broken: {error}.", f"It was kept as {aside}."
                ) from error

    def list(self) -> RaceListing:
        """All races, newest first; a broken file is renamed to ``*.broken-<time>`` and reported once."""
        with self._lock:
            found, unreadable = [], []
            for path in self._files():
                try:
                    found.append(self._summary(path))
                except UnfitError:
                    self._set_aside(path)
                except MissingError:
                    pass
                except StoreError as error:
                    unreadable.append(f"{path.name}: {error.what}")
            found.sort(key=lambda summary: (-summary.created, summary.id))
            aside, self._aside = tuple(self._aside), []
            return RaceListing(tuple(found), aside, tuple(unreadable))

    def delete(self, race_id: str) -> None:
        """Remove it for good; one that is gone already is no error."""
        path = self._path(race_id)
        with self._lock, told(f"The race {race_id} cannot be deleted"):
            path.unlink(missing_ok=True)

    def _files(self) -> Iterator[Path]:
        with told(f"The races in {self._folder} cannot be listed"):
            found = store_files.names(self._folder, ".json") if self._folder.exists() else []
        yield from (path for path in found if is_id(path.stem))

    def _summary(self, path: Path) -> RaceSummary:
        """From memory where the file has not changed."""
        with told("it cannot be read"):
            state = path.stat()
        mark = (state.st_mtime_ns, state.st_size)
        known = self._known.get(path.stem)
        if known is None or known[0] != mark:
            known = (mark, summary_of(self._read(path)))
            self._known[path.stem] = known
        return known[1]

    def _read(self, path: Path) -> Race:
        with told(f"The race {path.stem} cannot be read"):
            data = store_files.read(path)
        try:
            plain = json.loads(data)
        except (ValueError, RecursionError):
            raise UnfitError("it is not JSON, or not all of it") from None
        if not isinstance(plain, dict) or plain.get("format") != FORMAT:
            raise UnfitError("it is no race of this program")
        if isinstance(plain.get("version"), int) and plain["version"] > VERSION:
            raise StoreError(
                f"The race {path.stem} was written by a newer version of the program.",
                "Update the program, or leave the file as it is.",
            )
        race = from_plain(Race, plain.get("race"))
        if race.id != path.stem:
            raise UnfitError("it is the file of another race")
        return race

    def _path(self, race_id: str) -> Path:
        if not is_id(race_id):
            raise StoreError("This is not the id of a race.", "Choose one from the list.")
        return self._folder / f"{race_id}.json"

    def _set_aside(self, path: Path) -> str:
        name = path.name
        with suppress(OSError):  # gone, or not ours to rename: it is left where it is
            name = store_files.set_aside(path).name
            self._aside.append(name)
        return name


def summary_of(race: Race) -> RaceSummary:
    """The line that a list shows for ``race``."""
    head = " ".join(race.prompt.text.split())
    return RaceSummary(
        id=race.id,
        created=race.created,
        prompt=head if len(head) <= HEAD_LENGTH else head[:HEAD_LENGTH].rsplit(" ", 1)[0] + " …",
        kind=race.prompt.kind,
        language=race.prompt.language,
        sides=(race.sides[0].name, race.sides[1].name),
        model=race.sides[0].model,
        ratio=race.verdict.ratio,
        word=race.verdict.word,
        ended=race.ended,
    )
