"""What one row of the table of causes is."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass


@functools.cache
def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@dataclass(frozen=True)
class Cause:
    """One way for an engine to fail. All conditions that are given must hold; the first row that holds wins.

    ``sentence`` and ``remedy`` may use the named groups of ``lines`` and ``{file}`` (the model or drafter file that
    was being loaded), ``{part}`` ("model" or "drafter"), ``{exit}`` (the exit status) and ``{status}`` (with what it
    means). A group ``bytes`` is shown in MiB.
    """

    name: str
    sentence: str
    remedy: str
    lines: tuple[str, ...] = ()  # regular expressions: one of them is found in a line
    also: tuple[str, ...] = ()  # and one of these anywhere in the log
    exits: frozenset[str] = frozenset()  # names of exits.exit_name; empty: any
    systems: frozenset[str] = frozenset()  # empty: any
    part: str = ""  # "model" or "drafter": only where that file was being loaded
    with_drafter: bool | None = None
    silent: bool = False  # only where the engine wrote nothing
    dead: bool = False  # only where the engine has ended
    drafter: bool = False  # it is the drafter that fails: the engine may well start without it
    again: bool = False  # the same start, unchanged, can succeed
