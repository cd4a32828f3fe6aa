"""Which programs run on this machine, by where they lie: what runs may load more from its folder at any time.

All processes are asked, not our records alone: a server that a person runs in the foreground, or one that a launcher
with another home was given by name, stands in none of ours.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil


def runs_from(folder: Path) -> bool:
    """Whether a process of this machine runs a program that lies below ``folder``. Processes that may not be asked,
    such as those of other people, count as none of ours. Never raises."""
    with contextlib.suppress(OSError, psutil.Error):
        places = {folder.absolute(), folder.resolve()}
        return any(not places.isdisjoint(program.parents) for program in _programs())
    return False


def _programs() -> Iterator[Path]:
    """Of each process its program; of a script's also the script, which stands behind its interpreter."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            with contextlib.suppress(psutil.AccessDenied):
                yield Path(process.exe())
            yield from map(Path, process.cmdline()[:2])
