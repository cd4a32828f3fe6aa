"""Private files that are written whole or not at all. Raises OSError as the system does."""

from __future__ import annotations

import errno
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

LARGEST = 64 * 1024 * 1024  # bytes of a file that is read
TEMPORARY = ".tmp"
ABANDONED_S = 3600.0  # after that, a temporary file's writer is gone

# Windows refuses to replace a file while somebody reads it: it is tried again for a moment.
_TRIES = 40
_WAIT_S = 0.025


def write(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path``: readers see the old file or the new one, and after a crash one of them is there.

    The file is the owner's alone (0600), and so is its folder if it has to be made (0700).
    """
    folder = path.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = folder / f".{path.name}.{secrets.token_hex(6)}{TEMPORARY}"
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(folder)


def read(path: Path) -> bytes:
    """The whole file; OSError EFBIG when it is larger than any of ours."""
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return data


def set_aside(path: Path) -> Path:
    """Rename a file that makes no sense to ``<name>.broken-<time>``; returns the new path."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    aside = path.with_name(f"{path.name}.broken-{stamp}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.broken-{stamp}-{number}")
    path.rename(aside)
    return aside


def names(folder: Path, suffix: str) -> list[Path]:
    """The files of ``folder`` with that suffix, in order; what writers that died left behind is removed."""
    entries = sorted(folder.iterdir())
    for left in entries:
        if left.suffix == TEMPORARY and left.name.startswith("."):
            with suppress(OSError):
                if time.time() - left.stat().st_mtime > ABANDONED_S:
                    left.unlink()
    return [path for path in entries if path.suffix == suffix]


def replace(temporary: Path, path: Path) -> None:
    """Put a file in the place of another in one step, also while somebody reads that one."""
    for left in range(_TRIES, -1, -1):
        try:
            temporary.replace(path)
        except PermissionError:
            if os.name != "nt" or not left:
                raise
            time.sleep(_WAIT_S)
        else:
            return


def _sync_folder(folder: Path) -> None:
    """Make the new name itself durable, where a folder can be opened for that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
