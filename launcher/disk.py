"""How much room there is where something is to be written."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from launcher.errors import NoSpace

MARGIN = 1.10  # part files, the file system's own needs, and what else the machine writes meanwhile


def free_bytes(folder: Path) -> int | None:
    """Free bytes for this person where ``folder`` is or will be; None where the system does not tell."""
    try:
        return shutil.disk_usage(existing(folder)).free
    except OSError:
        return None


def existing(folder: Path) -> Path:
    """``folder``, or the nearest folder above it that is there."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def check_space(wanted: Mapping[Path, int | None]) -> None:
    """NoSpace when the files (path to size in bytes; None: unknown) do not fit, with a tenth to spare. What is
    there of them already in a ``.part`` counts as written."""
    needed: dict[int, int] = defaultdict(int)
    place: dict[int, Path] = {}
    for path, size in wanted.items():
        part = path.with_name(path.name + ".part")
        have = part.stat().st_size if part.exists() else 0
        folder = existing(path.parent)
        device = folder.stat().st_dev
        needed[device] += max(0, round((size or 0) * MARGIN) - have)
        place[device] = path.parent
    for device, count in needed.items():
        free = free_bytes(place[device])
        if free is not None and count > free:
            raise NoSpace(
                f"There is too little room in {place[device]}: {count / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB "
                "are free.",
                "Free some, or choose another disk with BONSAI_HOME.",
            )
