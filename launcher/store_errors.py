"""What stores of any kind share: ids that are file names, and the system's errors in words."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from launcher.errors import StoreError

_ID = re.compile(r"[a-z0-9-]{1,64}")
_DEVICES = re.compile(r"con|prn|aux|nul|com\d|lpt\d")  # names that are no files on Windows
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


class MissingError(StoreError):
    """There is no such file."""


def is_id(text: str) -> bool:
    """Whether ``text`` can name a file of ours on every system, and leads nowhere else."""
    return bool(_ID.fullmatch(text)) and not _DEVICES.fullmatch(text)


@contextmanager
def told(what: str) -> Iterator[None]:
    """The one seam where the system's errors become StoreError; ``what`` begins the sentence."""
    try:
        yield
    except FileNotFoundError as error:
        raise MissingError(
            f"{what}: it is not there.", "Reload the list: it may have been deleted."
        ) from error
    except OSError as error:
        raise StoreError(f"{what}: {_reason(error)}.", _remedy(error)) from error


def _reason(error: OSError) -> str:
    if error.errno in _FULL:
        return "the disk is full, or the file is too large for it"
    if error.errno == errno.EROFS:
        return "the disk is read-only"
    if error.errno in _FORBIDDEN:
        return "this user may not"
    if error.errno in {errno.ENOTDIR, errno.EEXIST}:
        return "a file is in the place of a folder"
    return (error.strerror or str(error)).lower()


def _remedy(error: OSError) -> str:
    if error.errno in _FULL:
        return "Free some space, then try again; what was saved before is still there."
    if error.errno in _FORBIDDEN:
        return "Give yourself the right to write there, or set BONSAI_HOME to a folder of yours."
    return "Set BONSAI_HOME to a folder that can be written, or repair this one."
