"""Model files that are on this machine already: used where they lie, never moved, changed or deleted."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from launcher.catalog import HubFile
from launcher.hub import Hub
from launcher.hub_cache import digest_of
from launcher.verified import Verified

LEVELS = 2  # folders below one that is looked through


class Folders:
    """Folders of others, looked through once, when the first file is wanted; at most LEVELS folders deep."""

    def __init__(self, *folders: Path) -> None:
        self._folders = folders
        self._found: dict[str, list[Path]] | None = None

    def named(self, name: str) -> list[Path]:
        """The model files of exactly that name, in the folders' order, those further up first."""
        if self._found is None:
            self._found = defaultdict(list)
            for folder in self._folders:
                for path in _files(folder, LEVELS):
                    self._found[path.name].append(path)
        return self._found.get(name, [])


def find(
    file: HubFile,
    folders: Folders,
    hub: Hub,
    verified: Verified | None = None,
    progress: Callable[[int], None] = lambda have: None,  # noqa: ARG005
) -> Path | None:
    """A whole copy of ``file`` in the hub's cache, or in one of ``folders`` or at most two folders below it, as a
    demo checkout has it (``models/ternary-gguf/27B/<name>``); None when there is none. Asks no network.

    The name must be the catalog's and the size the pin. With ``verified``, the content is read once and must have the
    pinned sha256 (``progress`` hears the bytes read); what has not is passed over. A file without a pinned sha256
    is only taken from the hub's cache, where the blob's name is its sha256: elsewhere nothing could prove it.
    """
    for path, digest in _candidates(file, folders, hub):
        if digest is None or verified is None or verified.check(path, digest, progress):
            return path
    return None


def _candidates(file: HubFile, folders: Folders, hub: Hub) -> Iterator[tuple[Path, str | None]]:
    in_cache = hub.cached(file)
    if in_cache is not None:
        yield in_cache, file.sha256 or digest_of(in_cache)
    if file.sha256 is None:
        return
    for path in folders.named(file.name):
        with suppress(OSError):
            if path.is_file() and file.bytes in (None, path.stat().st_size):
                yield path, file.sha256


def _files(folder: Path, levels: int) -> Iterator[Path]:
    """Everything that is called a model file."""
    below = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda it: it.name):
            if entry.name.endswith(".gguf"):
                yield Path(entry.path)
            elif levels and entry.is_dir():
                below.append(Path(entry.path))
    for inner in below:
        yield from _files(inner, levels - 1)
