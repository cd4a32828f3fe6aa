"""Sizes and times in words, the same everywhere. Pure. The page's own scripts word them alike (``first_text.js``)."""

from __future__ import annotations

UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("bytes", 1.0))


def size(count: float, *, fine: bool = False) -> str:
    """Bytes of files and disks, in powers of ten: "7.2 GB", "84 MB", "12 kB", "17 bytes". ``fine``: two digits of a
    gigabyte, where two sizes stand beside one another that may be nearly the same."""
    unit = _unit(count)
    return f"{_figure(count, unit, fine)} {unit[0]}"


def so_far(have: int, total: int | None) -> str:
    """How far a file of ``total`` bytes is: "1.24 of 7.17 GB", both in the larger one's unit; None: "1.2 GB"."""
    if total is None:
        return size(have)
    unit = _unit(total)
    return f"{_figure(have, unit, True)} of {_figure(total, unit, True)} {unit[0]}"


def rate(bytes_per_second: float) -> str:
    """ "84 MB/s"."""
    return f"{size(bytes_per_second)}/s"


def gib(count: int) -> str:
    """Bytes of memory, in powers of two as drivers and engines count it: "23.3 GiB"."""
    return f"{count / 2**30:.1f} GiB"


def seconds(value: float) -> str:
    """The times of one answer: "0.21 s", "3.2 s", "75 s"."""
    return f"{value:.2f} s" if value < 1 else f"{value:.1f} s" if value < 60 else f"{value:.0f} s"


def span(value: float) -> str:
    """``value`` seconds of work that was done or is allowed: "4.2 s", "42 s", "2 min 10 s", "3 min", "3 h 05 min"."""
    whole = round(value)
    if whole < 60:
        return f"{value:.1f} s" if value < 9.95 else f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if minutes else f"{hours} h"


def waiting(value: float) -> str:
    """``value`` seconds that somebody has to wait, as roughly as they are known: "1 second", "40 seconds",
    "12 minutes", "2 hours"; never none."""
    if value < 90:
        whole = max(1, round(value))
        return "1 second" if whole == 1 else f"{whole} seconds"
    return f"{round(value / 60)} minutes" if value < 90 * 60 else f"{round(value / 3600)} hours"


def _unit(count: float) -> tuple[str, float]:
    return next((unit for unit in UNITS if count >= unit[1]), UNITS[-1])


def _figure(count: float, unit: tuple[str, float], fine: bool) -> str:
    name, of = unit
    value = count / of
    digits = 0
    if name == "GB":
        digits = 2 if fine else 1 if value < 100 else 0
    elif name == "MB" and value < 10:
        digits = 1
    return f"{value:,.{digits}f}"
