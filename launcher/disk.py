"""How much room there is where something is to be written."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from launcher.amounts import size
from launcher.errors import NoSpace

MARGIN = 1.10  # part files, the file system's own needs, and what else the machine writes meanwhile
UNPACKED = 3  # times the size of its archives: what an engine takes


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


@dataclass(frozen=True)
class Need:
    """What files take on one disk, in bytes and with a tenth to spare. ``folder``: where the first of them goes;
    ``known``: as far as sizes are known; ``needed``: with an estimate for the others; ``about``: there are others;
    ``free`` None where the system does not tell."""

    folder: Path
    known: int
    needed: int
    about: bool
    free: int | None

    @property
    def fits(self) -> bool:
        """False where even what is known is too much."""
        return self.free is None or self.known <= self.free

    @property
    def surely(self) -> bool:
        """Whether it fits by the estimate too."""
        return self.free is None or self.needed <= self.free


def needs(wanted: Mapping[Path, int | None], guesses: Mapping[Path, int] | None = None) -> list[Need]:
    """One for each disk that the files (path to size in bytes; None: unknown) go to, in the order in which the disks are
    met. ``guesses``: sizes to expect instead, where they are not wholly known."""
    known: dict[int, int] = defaultdict(int)
    needed: dict[int, int] = defaultdict(int)
    about: dict[int, bool] = defaultdict(bool)
    place: dict[int, Path] = {}
    for path, count in wanted.items():
        device = existing(path.parent).stat().st_dev
        known[device] += needed_bytes(path, count or 0)
        needed[device] += needed_bytes(path, (guesses or {}).get(path, count or 0))
        about[device] |= count is None
        place.setdefault(device, path.parent)
    return [Need(place[it], known[it], needed[it], about[it], free_bytes(place[it])) for it in place]


def check_space(wanted: Mapping[Path, int | None]) -> None:
    """NoSpace when the files (path to size in bytes; None: unknown) do not fit, each with a tenth to spare."""
    for need in needs(wanted):
        if need.free is not None and not need.fits:
            raise no_space(need.folder, need.known, need.free)


def no_space(folder: Path | str, needed: int, free: int, *, about: bool = False) -> NoSpace:
    """The error where ``needed`` bytes do not fit into ``free`` ones; ``about``: they are an estimate."""
    what = f"There is too little room in {folder}: {room_says(needed, free, about=about)}."
    return NoSpace(what, "Free some, or choose another disk with BONSAI_HOME.")


def room_says(needed: int, free: int, *, about: bool = False) -> str:
    """Both in words: "about 4.10 GB are needed (with a tenth to spare), 2.05 GB are free"."""
    amount = f"{'about ' if about else ''}{size(needed, fine=True)}"
    return f"{amount} are needed (with a tenth to spare), {size(free, fine=True)} are free"
