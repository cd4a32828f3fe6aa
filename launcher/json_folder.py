"""A folder of JSON files, one thing each, written whole or not at all, private to their owner.

A file that makes no sense is renamed, never deleted, and the rest goes on loading.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from launcher import store_files
from launcher.errors import StoreError
from launcher.plain_values import UnfitError, from_plain, to_plain
from launcher.store_errors import MissingError, is_id, told


class HasId(Protocol):
    """What can be kept: its id names its file."""

    @property
    def id(self) -> str: ...


T = TypeVar("T")
K = TypeVar("K", bound=HasId)
S = TypeVar("S")


@dataclass(frozen=True)
class Form(Generic[K, S]):
    """What a folder holds. ``noun`` is for people ("race", "races").

    ``read(data, id)`` raises one of ``broken`` for a file that makes no sense and StoreError for one that is left as
    it is; ``write`` makes the file's bytes; ``summary`` is the line of a list, ``order`` what sorts it.
    """

    noun: str
    nouns: str
    read: Callable[[bytes, str], K]
    write: Callable[[K], bytes]
    summary: Callable[[K], S]
    order: Callable[[S], Any]
    broken: tuple[type[Exception], ...] = (UnfitError,)


@dataclass(frozen=True)
class Listed(Generic[S]):
    """``set_aside`` names files that made no sense and were kept under another name, each told once.

    ``unreadable`` has a sentence for each file that was left as it is: no permission, or a newer format.
    """

    entries: tuple[S, ...]
    set_aside: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


class JsonFolder(Generic[K, S]):
    """All methods raise StoreError (unreadable, full disk, read-only) and never lose what was there.

    Safe for any number of threads; several processes may share a folder, the last writer of a file wins. The folder
    is made when something is first written.
    """

    def __init__(self, folder: Path, form: Form[K, S]) -> None:
        self.folder = folder
        self._form = form
        self._lock = threading.RLock()
        self._known: dict[str, tuple[tuple[int, int], S]] = {}
        self._aside: list[str] = []

    def save(self, thing: K) -> None:
        """Write it under its id."""
        path, data = self.path(thing.id), self._form.write(thing)
        with self._lock, told(f"The {self._form.noun} cannot be saved in {self.folder}"):
            store_files.write(path, data)

    def load(self, name: str) -> K:
        """The whole thing. StoreError when there is none, or its file makes no sense (it is set aside)."""
        path = self.path(name)
        with self._lock:
            try:
                return self._read(path)
            except self._form.broken as error:
                aside = self.set_aside(path)
                raise StoreError(
                    f"The file of this {self._form.noun} is broken: {str(error).rstrip('.')}.",
                    f"It was kept as {aside}.",
                ) from error

    def list(self) -> Listed[S]:
        """A line for each, in order; a broken file is renamed to ``*.broken-<time>`` and reported once."""
        with self._lock:
            found, unreadable, seen = [], [], {}
            for path in self._files():
                try:
                    found.append(self._summary(path))
                    seen[path.stem] = self._known[path.stem]
                except self._form.broken:
                    self.set_aside(path)
                except MissingError:
                    pass
                except StoreError as error:
                    unreadable.append(f"{path.name}: {error.what}")
            self._known = seen
            found.sort(key=self._form.order)
            aside, self._aside = tuple(self._aside), []
            return Listed(tuple(found), aside, tuple(unreadable))

    def delete(self, name: str) -> None:
        """Remove it for good; one that is gone already is no error."""
        path = self.path(name)
        with self._lock, told(f"The {self._form.noun} {name} cannot be deleted"):
            path.unlink(missing_ok=True)

    def path(self, name: str) -> Path:
        """Where the thing of that id lies."""
        if not is_id(name):
            raise StoreError(f"This is not the id of a {self._form.noun}.", "Choose one from the list.")
        return self.folder / f"{name}.json"

    def set_aside(self, path: Path) -> str:
        """Rename a file that makes no sense; the next ``list`` tells. Returns its name."""
        name = path.name
        with suppress(OSError):  # gone, or not ours to rename: it is left where it is
            name = store_files.set_aside(path).name
            self._aside.append(name)
        return name

    def _files(self) -> Iterator[Path]:
        with told(f"The {self._form.nouns} in {self.folder} cannot be listed"):
            found = store_files.names(self.folder, ".json") if self.folder.exists() else []
        yield from (path for path in found if is_id(path.stem))

    def _summary(self, path: Path) -> S:
        """From memory where the file has not changed."""
        with told("it cannot be read"):
            state = path.stat()
        mark = (state.st_mtime_ns, state.st_size)
        known = self._known.get(path.stem)
        if known is None or known[0] != mark:
            known = (mark, self._form.summary(self._read(path)))
            self._known[path.stem] = known
        return known[1]

    def _read(self, path: Path) -> K:
        with told(f"The {self._form.noun} {path.stem} cannot be read"):
            data = store_files.read(path)
        return self._form.read(data, path.stem)


def write_plain(format_: str, version: int, noun: str, thing: object) -> bytes:
    """A frozen dataclass as a file: its format, version, and the thing itself under ``noun``."""
    plain = {"format": format_, "version": version, noun: to_plain(thing)}
    # ASCII: half a surrogate pair, which a browser may send, can be written in no other way.
    return json.dumps(plain, allow_nan=False, separators=(",", ":")).encode()


def read_plain(kind: type[T], format_: str, version: int, noun: str, data: bytes, name: str) -> T:
    """What write_plain wrote. Raises UnfitError, and StoreError for what a newer program wrote."""
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError):
        raise UnfitError("it is not JSON, or not all of it") from None
    if not isinstance(plain, dict) or plain.get("format") != format_:
        raise UnfitError(f"it is no {noun} of this program")
    if isinstance(plain.get("version"), int) and plain["version"] > version:
        raise StoreError(
            f"The {noun} {name} was written by a newer version of the program.",
            "Update the program, or leave the file as it is.",
        )
    thing = from_plain(kind, plain.get(noun))
    if getattr(thing, "id", name) != name:
        raise UnfitError(f"it is the file of another {noun}")
    return thing
