"""Unpacks an engine's archive (tar.gz or zip) without trusting it.

Everything is written beside the folder first, files only; links are made at the end, when it is known where
each leads. What was there before comes back when anything goes wrong.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from launcher import archive_names as names
from launcher.archive_read import DAMAGE, Entry, Limits, entries
from launcher.errors import ArchiveError, FolderError, NoSpace

AGAIN = "Delete it and fetch it again; if that does not help, take another build with BONSAI_ENGINE."
ANTIVIRUS = (
    "Your antivirus removed it. If you trust the file, allow it there, then fetch the engine again; "
    "or set BONSAI_LLAMA_SERVER to another llama-server."
)
LIMITS = Limits()
ABANDONED_S = 3600.0  # after that, whoever unpacked is gone


@dataclass(frozen=True)
class _Written:
    """A file as it was written: where below the new folder, bytes, sha256."""

    parts: names.Path
    size: int
    sha256: str


def unpack(
    archive: Path,
    folder: Path,
    progress: Callable[[int], None] = lambda written: None,  # noqa: ARG005
    limits: Limits = LIMITS,
) -> list[Path]:
    """Unpack ``archive`` into ``folder`` (made anew, or added to) and return what was written, links included.

    A single top folder inside the archive is left out. Symlinks stay symlinks and must lead to inside ``folder``; the
    executable bit is kept, and given to ``llama-*`` programs of a zip that knows none. ``progress``: bytes written so far.
    Raises ArchiveError for names that escape, devices, bombs, damage and files that vanish as soon as they are written,
    NoSpace and FolderError for the disk; ``folder`` then holds nothing new.
    """
    aside = folder.with_name(f".{folder.name}.unpacking-{secrets.token_hex(4)}")
    with _translated(archive, folder):
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sweep(folder)
        aside.mkdir(mode=0o700)
    try:
        with _translated(archive, folder):
            return _unpack(archive, folder, aside, progress, limits)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _unpack(
    archive: Path, folder: Path, aside: Path, progress: Callable[[int], None], limits: Limits
) -> list[Path]:
    new, old = aside / "new", aside / "old"
    new.mkdir(mode=0o755)
    old.mkdir()
    contents, written = _write_files(archive, new, progress, limits)
    top = contents.top()
    new = new.joinpath(*top)
    links = {parts[len(top) :]: target for parts, target in contents.links.items()}
    _check_links(links, folder)
    for parts in contents.hard:
        with _about(parts):
            origin = contents.origin(parts)
        _hard_link(aside / "new" / Path(*origin), aside / "new" / Path(*parts))
    for parts, target in links.items():
        _symlink(target, new.joinpath(*parts))
    files = [_Written(it.parts[len(top) :], it.size, it.sha256) for it in written]
    _check_still_there(new, files, folder)
    leaves = [parts[len(top) :] for parts, kind in contents.kinds.items() if kind != names.DIRECTORY]
    if not os.path.lexists(folder):
        new.rename(folder)
        undo = [(folder, new)]
    else:
        undo = _merge(new, old, folder, leaves)
    try:
        _check_still_there(folder, files, folder)
    except ArchiveError:
        _undo(undo)
        raise
    return [folder.joinpath(*parts) for parts in leaves]


# --- writing ----------------------------------------------------------------------------------------------------


def _write_files(
    archive: Path, root: Path, progress: Callable[[int], None], limits: Limits
) -> tuple[names.Contents, list[_Written]]:
    """Write the archive's files and folders below ``root``; note its links."""
    contents, written, total = names.Contents(), [], 0
    for entry, chunks in entries(archive, limits):
        with _about(entry.name):
            parts = names.divide(entry.name)
            if not parts and entry.kind != names.DIRECTORY:
                raise ValueError("is no name for a file")
            contents.add(parts, entry.kind)
            if entry.kind == names.HARDLINK:
                contents.hard[parts] = names.divide(entry.target)
        path = root.joinpath(*parts)
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        if entry.kind == names.SYMLINK:
            contents.links[parts] = entry.target
        elif entry.kind == names.DIRECTORY:
            path.mkdir(mode=0o755, exist_ok=True)
        elif entry.kind == names.FILE:
            digest, size = hashlib.sha256(), 0
            mode = 0o755 if _runs(entry) else 0o644
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            with os.fdopen(os.open(path, flags, mode), "wb") as file:
                for chunk in chunks:
                    file.write(chunk)
                    digest.update(chunk)
                    size += len(chunk)
                    total += len(chunk)
                    progress(total)
            written.append(_Written(parts, size, digest.hexdigest()))
    if not contents.kinds:
        raise ValueError("it is empty")
    return contents, written


def _runs(entry: Entry) -> bool:
    if entry.executable is not None:
        return entry.executable
    name = PurePosixPath(entry.name).name
    return name.startswith("llama-") and PurePosixPath(name).suffix in ("", ".exe")


def _hard_link(origin: Path, path: Path) -> None:
    try:
        path.hardlink_to(origin)
    except OSError:  # not every file system can
        shutil.copy2(origin, path)


def _symlink(target: str, path: Path) -> None:
    try:
        path.symlink_to(target)
    except OSError as error:
        # Windows lets only some people make links.
        meant = path.parent / target
        if getattr(error, "winerror", None) != 1314 or not meant.is_file():
            raise
        shutil.copy2(meant, path)


# --- checking ---------------------------------------------------------------------------------------------------


def _check_links(links: dict[names.Path, str], folder: Path) -> None:
    """Every link must stay inside, those of an earlier archive too: the new names may change where they lead."""
    every = {parts: target for parts, target in _links_in(folder) if parts not in links} | links
    for parts, target in every.items():
        with _about(parts, f" -> {target}"):
            names.leads_to(parts, target, every)


def _links_in(folder: Path) -> Iterator[tuple[names.Path, str]]:
    for at, folders, files in os.walk(folder):
        for path in (Path(at, name) for name in (*folders, *files)):
            if path.is_symlink():
                yield path.relative_to(folder).parts, path.readlink().as_posix()


def _check_still_there(root: Path, files: list[_Written], folder: Path) -> None:
    for it in files:
        path = root.joinpath(*it.parts)
        if not path.is_file() or path.stat().st_size != it.size:
            raise ArchiveError(
                f"{folder.joinpath(*it.parts)} was removed right after unpacking, probably by an antivirus "
                f"(sha256 {it.sha256}).",
                ANTIVIRUS,
            )


# --- moving -----------------------------------------------------------------------------------------------------


def _merge(new: Path, old: Path, folder: Path, leaves: list[names.Path]) -> list[tuple[Path, Path]]:
    """Move ``leaves`` from ``new`` into ``folder``, what they replace into ``old``. Returns the moves that undo it."""
    undo: list[tuple[Path, Path]] = []
    try:
        for number, parts in enumerate(leaves):
            path = folder.joinpath(*parts)
            with _about(parts):
                _make_folders(folder, parts[:-1])
                if path.is_dir() and not path.is_symlink():
                    raise ValueError("is a folder in what was unpacked before")
            if os.path.lexists(path):
                kept = old / str(number)
                path.rename(kept)
                undo.append((kept, path))
            new.joinpath(*parts).rename(path)
            undo.append((path, new.joinpath(*parts)))
    except BaseException:
        _undo(undo)
        raise
    return undo


def _make_folders(folder: Path, parts: names.Path) -> None:
    at = folder
    for part in ("", *parts):
        at = at / part
        if at.is_symlink() or (at.exists() and not at.is_dir()):
            raise ValueError("leads through something that is no folder")
        at.mkdir(mode=0o755, exist_ok=True)


def _undo(moves: list[tuple[Path, Path]]) -> None:
    for now, before in reversed(moves):
        with contextlib.suppress(OSError):
            now.rename(before)


def _sweep(folder: Path) -> None:
    """Remove what an unpacking that was killed left beside ``folder``."""
    for left in folder.parent.glob(f".{folder.name}.unpacking-*"):
        with contextlib.suppress(OSError):
            if time.time() - left.lstat().st_mtime > ABANDONED_S:
                shutil.rmtree(left, ignore_errors=True)


# --- errors -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _about(name: str | names.Path, more: str = "") -> Iterator[None]:
    """Say of which entry a ValueError speaks."""
    try:
        yield
    except ValueError as error:
        shown = name if isinstance(name, str) else "/".join(name)
        raise ValueError(f"its entry {(shown + more)[:200]!r} {error}") from None


@contextlib.contextmanager
def _translated(archive: Path, folder: Path) -> Iterator[None]:
    try:
        yield
    except DAMAGE as error:
        reason = str(error) or "it is damaged"
        raise ArchiveError(f"The archive {archive} cannot be unpacked: {reason}.", AGAIN) from error
    except OSError as error:
        if error.errno is None:  # a decoder's word, not the system's
            raise ArchiveError(f"The archive {archive} cannot be unpacked: {error}.", AGAIN) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpace(
                f"The disk became full while unpacking {archive.name} into {folder}.",
                "Free some space there, or choose another place with BONSAI_HOME.",
            ) from error
        raise FolderError(
            f"{error.filename or folder} cannot be used while unpacking {archive.name}: "
            f"{os.strerror(error.errno)}.",
            "Check its permissions, or choose another place with BONSAI_HOME.",
        ) from error
