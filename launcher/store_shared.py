"""One small JSON file that several processes read and change: whole or not at all, private, none's change lost."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from launcher import store_files
from launcher.errors import StoreError
from launcher.fetch_lock import only_one
from launcher.paths import make_folder
from launcher.plain_values import UnfitError, from_plain, to_plain
from launcher.store_errors import MissingError, told

PATIENCE_S = 10.0  # nobody holds such a file longer than it takes to write it
_WAIT_S = 0.01

T = TypeVar("T")


class SharedFile(Generic[T]):
    """``path`` holds an object with ``format``, ``version`` and a ``kind`` (a dataclass) as "content". ``what`` names
    it in errors: "what was learned for this machine".

    Methods raise StoreError (unreadable, full disk, written by a newer version) and FolderError. A file that makes
    no sense is renamed, never deleted, and counts as none.
    """

    def __init__(self, path: Path, kind: type[T], what: str, format_: str, version: int = 1) -> None:
        self._path, self._kind, self._what = path, kind, what
        self._format, self._version = format_, version

    def read(self) -> T:
        """The content; an empty ``kind`` when there is none."""
        try:
            with told(f"The file of {self._what}, {self._path}, cannot be read"):
                data = store_files.read(self._path)
        except MissingError:
            return self._kind()
        try:
            whole = json.loads(data)
        except (ValueError, RecursionError):
            whole = None
        if not isinstance(whole, dict) or whole.get("format") != self._format:
            return self._nothing()
        if isinstance(whole.get("version"), int) and whole["version"] > self._version:
            raise StoreError(
                f"The file of {self._what}, {self._path}, was written by a newer version of the program.",
                "Update the program, or move the file away.",
            )
        try:
            return from_plain(self._kind, whole.get("content"))
        except (UnfitError, RecursionError):
            return self._nothing()

    def change(self, change: Callable[[T], T]) -> None:
        """Write what ``change`` makes of the content; other processes wait meanwhile."""
        make_folder(self._path.parent)
        deadline = time.monotonic() + PATIENCE_S

        def wait() -> None:
            if time.monotonic() > deadline:
                raise StoreError(
                    f"The file of {self._what}, {self._path}, is held by another process.",
                    "Close other windows of the program, then try again.",
                )
            time.sleep(_WAIT_S)

        with only_one(self._path.with_name(f".{self._path.name}.lock"), wait):
            whole = {
                "format": self._format,
                "version": self._version,
                "content": to_plain(change(self.read())),
            }
            with told(f"The file of {self._what}, {self._path}, cannot be written"):
                store_files.write(self._path, json.dumps(whole, allow_nan=False, indent=1).encode())

    def _nothing(self) -> T:
        """It makes no sense: keep it under another name, and go on without."""
        with suppress(OSError):  # gone, or not ours to rename: the next write replaces it
            store_files.set_aside(self._path)
        return self._kind()
