"""Markdown of a running answer, a block at a time, so that the work for a piece does not grow with the answer.

The text since the last finished block is the *tail*. Operations for the page, applied in order:

- ``["b", n, html]``: the first ``n`` characters of the tail are a finished block and look like this;
- ``["c", n, language]``: the tail is a code block, whose text begins after ``n`` characters;
- ``["p", n, html]``: so far, the first ``n`` characters of the tail look like this.

What follows the characters named is shown as plain text. Characters are counted in UTF-16 units, as JavaScript does.
"""

from __future__ import annotations

import re

from webui.render import markdown, running

Op = list[object]

SLOWER = 12_000  # characters of a tail that are drawn again in a second: a long one less often

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)$")
_INNER_FENCE = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])?\s+(`{3,}|~{3,})")
_LIST = re.compile(r" {0,3}([-*+]|\d{1,9}[.)])(\s|$)")
_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")
# A last line of nothing but these may become a list, a heading, a rule, a table, a fence, …
_UNDECIDED = re.compile(r"[\s\-=*_#>`~|:+.$\\\d)(\[]*$")


def utf16(text: str) -> int:
    """Length in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


class Blocks:
    """``feed`` text, ask for ``ops`` whenever the page is told something."""

    def __init__(self) -> None:
        self._tail = ""
        self._seen = 0  # whole lines of the tail that were looked at, in characters
        self._blank = False  # the last of them was blank
        self._fence = ""  # the marker of the code block that the tail is
        self._inner = ""  # the marker of a code block inside a list
        self._list = False  # the tail is a list
        self._ops: list[Op] = []
        self._drawn = ""
        self._drawn_at = float("-inf")

    def feed(self, piece: str) -> None:
        """More of the answer."""
        self._tail += piece

    def ops(self, now: float) -> list[Op]:
        """What the page has to do, ``now`` in seconds on any clock."""
        self._scan()
        if not self._fence and now - self._drawn_at >= len(self._tail) / SLOWER:
            self._draw(now)
        made, self._ops = self._ops, []
        return made

    def finish(self) -> list[Op]:
        """The answer is complete: the rest as a last block."""
        self._scan()
        if self._tail:
            self._cut(len(self._tail))
        made, self._ops = self._ops, []
        return made

    def _draw(self, now: float) -> None:
        line = self._tail.rfind("\n") + 1
        sure = line if _UNDECIDED.match(self._tail, line) else len(self._tail)
        text = self._tail[:sure]
        if text and text != self._drawn:
            # An undecided end is covered, too: it is not shown before it is decided.
            self._ops.append(["p", utf16(self._tail), running(text)])
            self._drawn, self._drawn_at = text, now

    def _scan(self) -> None:
        while (end := self._tail.find("\n", self._seen)) >= 0:
            line = self._tail[self._seen : end]
            if not self._line(line, end + 1):
                continue
            self._seen = end + 1
        partial = self._tail[self._seen :]
        if len(partial) >= 6 and self._ends_before(partial):
            self._cut(self._seen)

    def _line(self, line: str, end: int) -> bool:
        """Look at one whole line; False when the tail before it was cut off and it has to be looked at again."""
        start = end - len(line) - 1
        if self._fence:
            closing = line.strip()
            if closing.startswith(self._fence) and not closing.strip(self._fence[0]):
                self._cut(end)
                return False
            return True
        if not line.strip():
            self._blank = True
            return True
        before = bool(self._tail[:start].strip())
        fence = None if self._inner else _FENCE.match(line)
        if before and not self._inner and (self._ends_before(line) or (fence and not line.startswith(" "))):
            self._cut(start)
            return False
        self._blank = False
        if not before:
            self._list = bool(_LIST.match(line))
        if fence and not before:
            self._open(fence, end)
        elif self._list:
            self._nested(line)
        elif not before and _HEADING.match(line):
            self._cut(end)
            return False
        return True

    def _open(self, fence: re.Match[str], end: int) -> None:
        self._fence = fence[1]
        self._ops.append(["c", utf16(self._tail[:end]), (fence[2].split() or [""])[0]])

    def _nested(self, line: str) -> None:
        """Code inside a list: blank lines in it end nothing."""
        if self._inner:
            if line.strip().startswith(self._inner):
                self._inner = ""
        elif inner := _INNER_FENCE.match(line):
            self._inner = inner[1]

    def _ends_before(self, line: str) -> bool:
        """Whether ``line``, or what came of it, cannot belong to the block before the blank line above it."""
        if not self._blank or self._fence or self._inner or not self._tail[: self._seen].strip():
            return False
        return not line[0].isspace() and not (self._list and _LIST.match(line))

    def _cut(self, length: int) -> None:
        block, self._tail = self._tail[:length], self._tail[length:]
        self._ops = [op for op in self._ops if op[0] != "p"]
        self._ops.append(["b", utf16(block), markdown(block)])
        self._seen = max(0, self._seen - length)
        self._blank = self._list = False
        self._fence = self._inner = self._drawn = ""
