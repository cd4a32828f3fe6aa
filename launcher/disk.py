"""How much room there is where something is to be written."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from launcher.amounts import size
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
    while not os.path.exists(folder) and folder != folder.parent:  # noqa: PTH110 - Path's raises without a permission
        folder = folder.parent
    return folder


def part_bytes(target: Path) -> int:
    """Bytes of ``target`` that an unfinished fetch has left."""
    try:
        return target.with_name(target.name + ".part").stat().st_size
    except OSError:
        return 0


def needed_bytes(target: Path, size: int) -> int:
    """Bytes that must be free for ``target``, of ``size`` in the end: with a tenth to spare, and without what is there
    of it already."""
    return max(0, round(size * MARGIN) - part_bytes(target))


def check_space(wanted: Mapping[Path, int | None]) -> None:
    """NoSpace when the files (path to size in bytes; None: unknown) do not fit, each with a tenth to spare."""
    needed: dict[int, int] = defaultdict(int)
    place: dict[int, Path] = {}
    for path, count in wanted.items():
        device = existing(path.parent).stat().st_dev
        needed[device] += needed_bytes(path, count or 0)
        place.setdefault(device, path.parent)
    for device, least in needed.items():
        free = free_bytes(place[device])
        if free is not None and least > free:
            raise NoSpace(
                f"There is too little room in {place[device]}: {size(least, fine=True)} are needed (with a tenth to "
                f"spare), {size(free, fine=True)} are free.",
                "Free some, or choose another disk with BONSAI_HOME.",
            )
