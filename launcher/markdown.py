"""Pieces of Markdown that others' texts cannot break. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[int] = ()) -> str:
    """A table without a line feed at its end. The columns numbered in ``right``, from 0, stand to the right."""
    marks = "".join("---:|" if at in right else "---|" for at in range(len(headers)))
    return "\n".join([_row(headers), f"|{marks}", *map(_row, rows)])


def fenced(text: str) -> str:
    """``text`` in a code fence that nothing in it can close: thoughts may hold any markup."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def closed(text: str) -> str:
    """``text`` with a code fence closed that it left open: an answer cut in its code must not swallow the next."""
    fence = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if match is None:
            continue
        marks, rest = match.groups()
        if fence:
            if marks[0] == fence[0] and len(marks) >= len(fence) and not rest.strip():
                fence = ""
        elif marks[0] == "~" or "`" not in rest:
            fence = marks
    return f"{text}\n{fence}" if fence else text


def _row(cells: Sequence[str]) -> str:
    """A vertical bar in a cell would end it."""
    bare = (cell.replace("|", "\\|") for cell in cells)
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in bare)
