"""What is here of a file: ``<name>.part``, beside it a note of what it is a part of, and the lock of who writes it.

Bytes go to the system at once, without a buffer of ours: whatever ends this process, they stay.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from launcher.amounts import size
from launcher.errors import FolderError, NoSpace
from launcher.fetch_hash import Hasher
from launcher.fetch_values import Remote

BLOCK = 1 << 20  # bytes read at once
SPARE = 64 << 20  # bytes that stay free on the disk
LONGEST_WINDOWS_PATH = 250  # characters; Windows' own limit is 259
LONGEST_SUFFIX = ".part.json.new"
FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
REPLACE_TRIES = (0.0, 0.1, 0.3, 1.0, 3.0)  # seconds; a virus scanner on Windows reads what was just written


def beside(target: Path, suffix: str) -> Path:
    """The file of that name with ``suffix`` behind it."""
    return target.with_name(target.name + suffix)


def check_folder(target: Path, *, windows: bool | None = None) -> None:
    """FolderError when nothing can be written beside ``target``: no such folder, not a folder, a path too long for
    Windows (``windows`` None: whether this is one)."""
    if (os.name == "nt" if windows is None else windows) and (
        length := len(str(beside(target, LONGEST_SUFFIX)))
    ) >= LONGEST_WINDOWS_PATH:
        raise FolderError(
            f"The path of {target} is too long for Windows: {length} characters with what is added while fetching, "
            f"{LONGEST_WINDOWS_PATH - 1} at most.",
            "Choose a folder with a shorter path with BONSAI_HOME.",
        )
    if not target.parent.is_dir():
        state = "is not a folder" if target.parent.exists() else "does not exist"
        raise FolderError(
            f"The folder {target.parent} {state}.", "Make it, or choose another with BONSAI_HOME."
        )


@contextmanager
def disk_errors(path: Path, what: str, have: int = 0, total: int | None = None) -> Iterator[None]:
    """What the system says about ``path``, as FolderError or NoSpace."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise no_space(path.parent, what, have, total) from error
        if error.errno == errno.EFBIG:
            raise NoSpace(
                f"The file system of {path.parent} takes no file as large as {what}.",
                "Choose a folder on another disk with BONSAI_HOME; what was fetched stays.",
            ) from error
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise FolderError(
            f"{path} cannot be written: {reason}.",
            "Choose another folder with BONSAI_HOME, or free this one.",
        ) from error


def no_space(folder: Path, what: str, have: int, total: int | None) -> NoSpace:
    """The error for a disk that is too small for the rest of a file."""
    with suppress(OSError):
        free = size(shutil.disk_usage(folder).free, fine=True)
        need = "more than that" if total is None else size(max(0, total - have) + SPARE, fine=True)
        return NoSpace(
            f"There is not enough room for {what} in {folder}: {need} is needed, {free} is free.",
            "Free some space, or choose another disk with BONSAI_HOME; what was fetched stays.",
        )
    return NoSpace(
        f"There is no room left for {what} in {folder}.", "Free some space; what was fetched stays."
    )


def file_sha256(path: Path, tick: Any) -> str:
    """Of a finished file; ``tick(bytes so far)`` is called after every block."""
    digest, have = hashlib.sha256(), 0
    with disk_errors(path, path.name), path.open("rb", buffering=0) as file:
        while block := file.read(BLOCK):
            digest.update(block)
            have += len(block)
            tick(have)
    return digest.hexdigest()


class Part:
    """The part of one file, opened for writing at its end. Raises FolderError and NoSpace.

    ``have``: bytes that are here and went through the hash; ``total`` and ``etag``: what is known of the whole file.
    ``kept``: bytes of an earlier call that ``recheck`` has not read yet.
    """

    def __init__(self, target: Path, remote: Remote) -> None:
        self.target, self._remote = target, remote
        self._path, self._note = beside(target, ".part"), beside(target, ".part.json")
        self.have = 0
        self.kept = 0
        self.total, self.etag = remote.total, ""
        self._hasher = Hasher()
        self._handle = -1
        try:
            known = self._read_note()
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
            with disk_errors(self._path, remote.what):
                self._handle = os.open(self._path, flags, 0o644)
                self.kept = os.fstat(self._handle).st_size
            total = (known or {}).get("total") if self.total is None else self.total
            if known is None or (total is not None and self.kept > total):
                self.reset()
            else:
                self.total, self.etag = total, known.get("etag", "")
        except BaseException:
            self.close()
            raise

    # --- the note beside the part ---

    def _read_note(self) -> dict[str, Any] | None:
        """The note, where the part goes with ``remote``; None: begin anew."""
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
            if not isinstance(note, dict):
                raise ValueError
        except (OSError, ValueError, RecursionError):
            # Without a note, only a published digest can tell in the end whether the part belongs here.
            return {} if self._remote.sha256 else None
        if self._remote.sha256 and note.get("sha256"):
            same = note["sha256"] == self._remote.sha256.lower()
        else:
            same = note.get("url") == _identity(self._remote.url)
        total = note.get("total")
        if total is not None and self._remote.total is not None and total != self._remote.total:
            same = False
        known = {"total": total if isinstance(total, int) and total >= 0 else None}
        etag = note.get("etag")
        return known | {"etag": etag if isinstance(etag, str) else ""} if same else None

    def learn(self, total: int | None, etag: str) -> None:
        """What an answer says of the whole file is noted, for whoever goes on later."""
        if (total, etag) == (self.total, self.etag) and self._note.exists():
            return
        self.total, self.etag = total, etag
        note = {
            "sha256": (self._remote.sha256 or "").lower() or None,
            "total": total,
            "url": _identity(self._remote.url),
            "etag": etag,
        }
        new = beside(self.target, LONGEST_SUFFIX)
        with disk_errors(self._note, self._remote.what, self.have, total):
            new.write_text(json.dumps(note), encoding="utf-8")
            rename(new, self._note)

    # --- the bytes ---

    def read_kept(self) -> bytes:
        """The next block of what an earlier call left, hashed; empty when all is read."""
        with disk_errors(self._path, self._remote.what):
            block = os.read(self._handle, min(BLOCK, self.kept - self.have))
        if not block:
            self.kept = self.have
        self._took(block)
        return block

    def write(self, data: bytes) -> None:
        """Append ``data``. When the disk is full, what fits of it stays."""
        view = memoryview(data)
        with disk_errors(self._path, self._remote.what, self.have, self.total):
            while view:
                view = view[os.write(self._handle, view) :]
        self._took(data)

    def _took(self, data: bytes) -> None:
        self.have += len(data)
        self.kept = max(self.kept, self.have)
        self._hasher.update(data)

    def reset(self) -> None:
        """Throw away what is here: it is no part of this file."""
        self._hasher.close()
        self._hasher = Hasher()
        with disk_errors(self._path, self._remote.what):
            with suppress(FileNotFoundError):
                self._note.unlink()
            os.ftruncate(self._handle, 0)
            os.lseek(self._handle, 0, os.SEEK_SET)
        self.have = self.kept = 0
        self.total, self.etag = self._remote.total, ""

    def check_space(self) -> None:
        """NoSpace when the disk cannot take the rest; nothing where the size or the disk is not known."""
        try:
            free = shutil.disk_usage(self._path.parent).free
        except OSError:
            return
        if self.total is not None and free < self.total - self.have + SPARE:
            raise no_space(self._path.parent, self._remote.what, self.have, self.total)

    def sha256(self) -> str:
        """Of all that is here; waits for the hash to catch up."""
        return self._hasher.hexdigest()

    def finish(self) -> None:
        """Give the part its target's name, safe on the disk first."""
        with disk_errors(self.target, self._remote.what, self.have, self.total):
            os.fsync(self._handle)
            if os.fstat(self._handle).st_size != self.have:  # somebody else wrote into it
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            os.close(self._handle)
            self._handle = -1
            rename(self._path, self.target)
        self._drop_notes()
        with suppress(OSError):  # not every system opens folders
            folder = os.open(self.target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def close(self) -> None:
        """Leave the part as it is; an empty one goes."""
        self._hasher.close()
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
            if not self.kept:
                with suppress(OSError):
                    self._path.unlink()
                self._drop_notes()

    def _drop_notes(self) -> None:
        for path in (self._note, beside(self.target, LONGEST_SUFFIX)):
            with suppress(OSError):
                path.unlink()


def rename(old: Path, new: Path) -> None:
    """Give ``old`` the name ``new``, in place of a file that has it; on Windows again and again for some seconds while
    somebody else has it open. Raises OSError."""
    for last, seconds in enumerate(REPLACE_TRIES, 1 - len(REPLACE_TRIES)):
        time.sleep(seconds)
        try:
            old.replace(new)
        except PermissionError:
            if os.name != "nt" or not last:
                raise
        else:
            return


def _identity(url: str) -> str:
    """Tells addresses apart without holding one: names of users and the signatures in queries stay out."""
    parts = urlsplit(url)
    bare = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return hashlib.sha256(bare.encode()).hexdigest()[:16]
