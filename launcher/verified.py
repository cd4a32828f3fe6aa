"""Remembers which files' contents were read to their end and hashed, so that it is done once.

A file counts as the same as long as its path, size, time of change and inode are.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from launcher import store_files
from launcher.errors import FolderError, NoSpace
from launcher.fetch_lock import only_one

NAME = "verified.json"
_WRITING = (
    threading.Lock()
)  # of all that this process has; another one may cost a note, which costs a reading
_READING = threading.Lock()  # page and fetch may want the same gigabytes at once: one reads them
_FAILED: dict[str, list[int]] = {}  # what could not be read to its end in this process, as it was then
WAIT_S = 0.1
BLOCK = 1 << 20


class Verified:
    """Kept in ``folder`` / verified.json; a note that cannot be read or written only costs another reading."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def check(
        self,
        path: Path,
        sha256: str,
        progress: Callable[[int], None] = lambda have: None,  # noqa: ARG005
    ) -> bool:
        """Whether ``path`` holds the bytes of ``sha256`` (hex). Reads it to its end when nobody has yet, telling
        ``progress`` the bytes read (0 while somebody else reads, in this process or another, whose word then counts);
        what that raises ends the reading. A file that cannot be read, or that changes meanwhile, holds nothing. Changes
        no file but its own note."""
        try:
            return (self.known(path) or self._read(path, progress)) == sha256.lower()
        except OSError:
            with suppress(OSError):
                _FAILED[_key(path)] = _mark(path)
            return False

    def unread(self, path: Path) -> bool:
        """Whether it takes a reading to tell what ``path`` holds; not where it cannot be read. Reads no content."""
        with suppress(OSError):
            mark = _mark(path)
            return os.access(path, os.R_OK) and _FAILED.get(_key(path)) != mark and self.known(path) is None
        return False

    def _read(self, path: Path, progress: Callable[[int], None]) -> str:
        """Its sha256, noted; empty when it changed meanwhile. One file at a time, of all processes with these notes."""
        while not _READING.acquire(timeout=WAIT_S):
            progress(0)
        with ExitStack() as stack:
            stack.callback(_READING.release)
            with suppress(FolderError, NoSpace):  # no note can be written there either
                stack.enter_context(only_one(self._path.with_name(f"{NAME}.lock"), lambda: _wait(progress)))
            if known := self.known(path):
                return known
            mark = _mark(path)
            digest = _digest(path, progress)
            if _mark(path) != mark:
                return ""
            self._note(path, mark, digest)
            return digest

    def known(self, path: Path) -> str | None:
        """The sha256 of ``path`` where it was hashed before and is the same file still; reads no content."""
        note = self._notes().get(_key(path), {})
        with suppress(OSError):
            if note.get("mark") == _mark(path) and isinstance(note.get("sha256"), str):
                return str(note["sha256"])
        return None

    def remember(self, path: Path, sha256: str) -> None:
        """``path`` was just written by us with these bytes, and hashed while it was."""
        with suppress(OSError):
            self._note(path, _mark(path), sha256.lower(), ours=True)

    def ours(self, path: Path) -> bool:
        """Whether ``path`` is, unchanged, what ``remember`` was told of; reads no content."""
        return self.known(path) is not None and self._notes()[_key(path)].get("ours") is True

    def _notes(self) -> dict[str, dict[str, Any]]:
        try:
            notes = json.loads(store_files.read(self._path))
        except (OSError, ValueError):
            return {}
        if not isinstance(notes, dict):
            return {}
        return {key: note for key, note in notes.items() if isinstance(note, dict)}

    def _note(self, path: Path, mark: list[int], digest: str, *, ours: bool = False) -> None:
        with _WRITING:
            # What is gone is forgotten.
            # Path's own exists raises for a name that may not be looked at.
            notes = {key: note for key, note in self._notes().items() if os.path.exists(key)}  # noqa: PTH110
            notes[_key(path)] = {"mark": mark, "sha256": digest} | ({"ours": True} if ours else {})
            with suppress(OSError):
                store_files.write(self._path, json.dumps(notes, indent=1).encode())


def _key(path: Path) -> str:
    return str(path.absolute())


def _mark(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ino]


def _wait(progress: Callable[[int], None]) -> None:
    progress(0)
    time.sleep(WAIT_S)


def _digest(path: Path, progress: Callable[[int], None]) -> str:
    digest, have, block = hashlib.sha256(), 0, bytearray(BLOCK)
    view = memoryview(block)
    with path.open("rb", buffering=0) as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while count := file.readinto(block):
            digest.update(view[:count])
            have += count
            progress(have)
    return digest.hexdigest()
