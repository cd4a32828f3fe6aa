"""Unpacks an engine's archive (tar.gz or zip) without trusting it."""

from __future__ import annotations

from pathlib import Path


def unpack(archive: Path, folder: Path) -> list[Path]:
    """Unpack ``archive`` into ``folder`` (made anew, or added to) and return what was written.

    A single top folder inside the archive is left out. Symlinks stay symlinks and must lead to inside ``folder``; the
    executable bit is kept. Raises ArchiveError for names that escape, devices, bombs and damage; ``folder``
    then holds nothing new.
    """
    raise NotImplementedError
