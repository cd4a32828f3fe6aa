"""Model files that are on this machine already: used where they lie, never moved, changed or deleted."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
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


# A file that may be the wanted one, and the sha256 that proves it. None: it needs no proof.
Candidate = tuple[Path, str | None]


def candidates(file: HubFile, folders: Folders, hub: Hub) -> Iterator[Candidate]:
    """What may be ``file`` by its name and size: a copy in the hub's cache, then those in ``folders`` or at most two
    folders below them, as a demo checkout has it (``models/ternary-gguf/27B/<name>``). Asks no network.

    The name must be the catalog's and the size the pin. A file without a pinned sha256 is only taken from the hub's
    cache, where the blob's name is its sha256: elsewhere nothing could prove it.
    """
    in_cache = hub.cached(file)
    if in_cache is not None:
        yield in_cache, file.sha256 or digest_of(in_cache)
    if file.sha256 is None:
        return
    for path in folders.named(file.name):
        if sized(path, file):
            yield path, file.sha256


def sized(path: Path, file: HubFile) -> bool:
    """Whether ``path`` is a file with the bytes that ``file`` has."""
    with suppress(OSError):
        return path.is_file() and file.bytes in (None, path.stat().st_size)
    return False


def proved(found: Iterable[Candidate], verified: Verified) -> Path | None:
    """The first whose content is known to be right, read before or in no need of it. Reads nothing."""
    return next((path for path, digest in found if digest is None or verified.known(path) == digest), None)


def unread(found: Iterable[Candidate], verified: Verified) -> list[Path]:
    """Those that only a reading can tell from the wanted file."""
    return [path for path, digest in found if digest and verified.unread(path)]


def wrong(found: Iterable[Candidate], verified: Verified) -> list[Path]:
    """Those that were read and hold something else."""
    return [path for path, digest in found if digest and verified.known(path) not in (None, digest)]


def check(
    found: Iterable[Candidate],
    verified: Verified,
    progress: Callable[[Path, int], None] = lambda path, have: None,  # noqa: ARG005
) -> Path | None:
    """The first whose content has the right sha256, each being read to its end where nobody has yet. ``progress`` hears
    of the file and its bytes that were read; what it raises ends that."""
    for path, digest in found:
        if digest is None or verified.check(path, digest, partial(progress, path)):
            return path
    return None


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
