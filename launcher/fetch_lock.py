"""One process at a time: a lock of the operating system's, gone with whoever held it, however it ended."""

from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from launcher.fetch_part import disk_errors

BUSY = {errno.EACCES, errno.EAGAIN, errno.EDEADLK}


@contextmanager
def only_one(path: Path, wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file ``path``; while another process or thread holds it, ``wait`` is called again and again
    (it returns after a moment, or raises to give up). Raises FolderError when the file cannot be made.

    On a file system without locks there is none: two launchers there are the person's to avoid.
    """
    handle = _open(path)
    while not _lock(handle) or not _still_there(handle, path):
        os.close(handle)
        wait()
        handle = _open(path)
    try:
        yield
    finally:
        # Removed while locked: whoever has opened it already sees that its name leads elsewhere, and opens anew.
        # Windows removes no open file; there it goes right after, unless somebody else has opened it.
        with suppress(OSError):
            path.unlink()
        os.close(handle)
        if os.name == "nt":
            with suppress(OSError):
                path.unlink()


def _open(path: Path) -> int:
    with disk_errors(path, path.name):
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)


def _still_there(handle: int, path: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(handle), path.stat())
    return False


def _lock(handle: int) -> bool:
    """Take the lock without waiting; False when it is taken."""
    module = importlib.import_module("msvcrt" if os.name == "nt" else "fcntl")
    try:
        if os.name == "nt":
            module.locking(handle, module.LK_NBLCK, 1)
        else:
            module.flock(handle, module.LOCK_EX | module.LOCK_NB)
    except OSError as error:
        return error.errno not in BUSY
    return True
