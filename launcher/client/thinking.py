"""Splits inline ``<think>…</think>`` from an answer, for servers that do not do it themselves."""

from __future__ import annotations

OPEN = "<think>"
CLOSE = "</think>"


class ThinkSplitter:
    """Content deltas in, (is_thinking, text) pieces out; tags may be cut anywhere.

    An opening tag counts only where an answer (or its rest after earlier thoughts) begins: an answer
    that talks about the tag in its middle keeps it. Blank space around the tags is dropped.
    """

    def __init__(self) -> None:
        self._held = ""
        self._thinking = False
        self._begun = False  # something of the answer itself was given out
        self._trim = False  # a tag just ended: blank space after it is no text
        self.unclosed = ""  # thoughts since a tag that has not been closed

    def feed(self, text: str) -> list[tuple[bool, str]]:
        """Take in the next piece of content; return what is certain by now."""
        if self._begun:
            return [(False, text)] if text else []
        self._held += text
        pieces: list[tuple[bool, str]] = []
        while self._step(pieces):
            pass
        return pieces

    def flush(self) -> list[tuple[bool, str]]:
        """The content is over: return what was held back."""
        rest, self._held = self._held, ""
        if not rest or (self._trim and not rest.strip()):
            return []
        if self._thinking:
            self.unclosed += rest
        else:
            self._begun = True
        return [(self._thinking, rest)]

    def _step(self, pieces: list[tuple[bool, str]]) -> bool:
        """Give out what can be told from the held text; True when it is worth another look."""
        if self._trim:
            self._held = self._held.lstrip()
            self._trim = not self._held
        if not self._held:
            return False
        return self._inside(pieces) if self._thinking else self._before(pieces)

    def _before(self, pieces: list[tuple[bool, str]]) -> bool:
        start = self._held.lstrip()
        if start.startswith(OPEN):
            self._held = start[len(OPEN) :]
            self._thinking = self._trim = True
            self.unclosed = ""
            return True
        if OPEN.startswith(start):  # blank so far, or the beginning of a tag
            return False
        self._begun = True
        pieces.append((False, self._held))
        self._held = ""
        return False

    def _inside(self, pieces: list[tuple[bool, str]]) -> bool:
        thought, tag, rest = self._held.partition(CLOSE)
        if tag:
            self._held = rest
            self._thinking = False
            self._trim = True
            self.unclosed = ""
        else:
            keep = _overlap(thought, CLOSE)
            self._held = thought[len(thought) - keep :]
            thought = thought[: len(thought) - keep]
            self.unclosed += thought
        if thought:
            pieces.append((True, thought))
        return bool(tag)


def _overlap(text: str, tag: str) -> int:
    """How many of ``text``'s last characters may be the beginning of ``tag``."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if tag.startswith(text[-size:]):
            return size
    return 0
