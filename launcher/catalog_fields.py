"""Reads one table of the catalog, key by key: types, ranges, names; what is left over is an error. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from typing import TypeVar

from launcher.errors import CatalogError

T = TypeVar("T")

_DIGEST = re.compile(r"[0-9a-f]{64}")
_REVISION = re.compile(r"[0-9a-f]{40}")
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
# Neither a path nor a pattern: no slash, no asterisk, no leading dot.
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)


class Fields:
    """The keys of one table. Each is asked for once, then ``done`` complains about the others.

    ``where`` names the entry in messages: "catalog.toml: model ternary 27B".
    """

    def __init__(self, table: object, where: str) -> None:
        self.where = where
        if not isinstance(table, dict):
            raise self.wrong("is no table of keys and values")
        self._left: dict[str, object] = dict(table)
        self._known: list[str] = []

    def wrong(self, what: str) -> CatalogError:
        """The error that says ``what`` is wrong with this entry, to be raised."""
        return wrong(self.where, what)

    def text(self, key: str, default: str | None = None) -> str:
        """A sentence or name, not empty; ``default`` None: the key must be there."""
        found = self._take(key, str, "a text", required=default is None)
        if found is None:
            return default or ""
        if not found.strip() or any(ord(letter) < 32 for letter in found):
            raise self.wrong(f"{key} is empty or holds control characters")
        return found

    def one_of(self, key: str, allowed: Collection[str]) -> str:
        """A text that must be there and among ``allowed``."""
        found = self.text(key)
        if found not in allowed:
            raise self.wrong(f"{key} is {found!r}, but must be one of {', '.join(allowed)}")
        return found

    def whole(self, key: str) -> int | None:
        """A whole number above zero, or None."""
        found = self._take(key, int, "a whole number", required=False)
        if found is not None and found < 1:
            raise self.wrong(f"{key} is {found}, but must be above zero")
        return found

    def texts(self, key: str, allowed: Collection[str] | None = None) -> tuple[str, ...]:
        """A list of different texts, all of ``allowed`` when given; empty when the key is missing."""
        found = self._take(key, list, "a list", required=False) or []
        for item in found:
            if not isinstance(item, str) or not item:
                raise self.wrong(f"{key} holds {item!r}, which is no text")
            if allowed is not None and item not in allowed:
                raise self.wrong(f"{key} holds {item!r}, but only {', '.join(allowed)} are known")
            if found.count(item) > 1:
                raise self.wrong(f"{key} holds {item!r} twice")
        return tuple(found)

    def wholes(self, key: str) -> tuple[int, ...]:
        """A list of different whole numbers from zero, in order; empty when the key is missing."""
        found = self._take(key, list, "a list", required=False) or []
        if any(type(item) is not int or item < 0 for item in found) or found != sorted(set(found)):
            raise self.wrong(f"{key} must hold different whole numbers in rising order")
        return tuple(found)

    def tables(self, key: str, *, required: bool = False) -> list[object]:
        """A list of tables, unread; empty when the key is missing and not ``required``."""
        return self._take(key, list, "a list of tables", required=required) or []

    def table(self, key: str, where: str) -> Fields:
        """The table of that key, which must be there; ``where`` names it in messages."""
        return Fields(self._take(key, dict, "a table", required=True), where)

    def name(self, key: str, endings: tuple[str, ...]) -> str:
        """The exact name of one file."""
        found = self.text(key)
        if not _NAME.fullmatch(found) or ".." in found or not found.endswith(endings):
            raise self.wrong(
                f"{key} is {found!r}, but must be one file's exact name ({' or '.join(endings)})"
            )
        return found

    def repo(self, key: str, default: str | None = None) -> str:
        """An owner and a name with a slash between them; ``default`` None: the key must be there."""
        found = self.text(key, default)
        if found and not _REPO.fullmatch(found):
            raise self.wrong(f"{key} is {found!r}, but must be an owner and a name with a slash between them")
        return found

    def digest(self, key: str) -> str | None:
        """A sha256 in lower-case hexadecimal, or None."""
        return self._hex(key, _DIGEST, "64")

    def revision(self, key: str) -> str | None:
        """A whole commit in lower-case hexadecimal, or None."""
        return self._hex(key, _REVISION, "40")

    def done(self) -> None:
        """CatalogError when a key is left that nobody has asked for."""
        for key in self._left:
            close = difflib.get_close_matches(key, self._known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise self.wrong(f"{key} is not a known key{hint}")

    def _hex(self, key: str, pattern: re.Pattern[str], digits: str) -> str | None:
        found = self.text(key, "")
        if found and not pattern.fullmatch(found):
            raise self.wrong(
                f"{key} must be {digits} lower-case hexadecimal digits, but has {len(found)} letters"
            )
        return found or None

    def _take(self, key: str, kind: type[T], called: str, *, required: bool) -> T | None:
        self._known.append(key)
        if key not in self._left:
            if required:
                raise self.wrong(f"{key} is missing")
            return None
        found = self._left.pop(key)
        if not isinstance(found, kind) or isinstance(found, bool):
            raise self.wrong(f"{key} must be {called}")
        return found


def wrong(where: str, what: str) -> CatalogError:
    """One sentence about one entry."""
    sentence = f"{where}: {what.rstrip('.')}"
    end = "" if sentence.endswith("?") else "."
    return CatalogError(sentence + end, "Correct that entry, or install the launcher again.")


def unique(names: Collection[str], where: str, what: str) -> None:
    """CatalogError when two of ``names`` are the same."""
    counts: Mapping[str, int] = {name: list(names).count(name) for name in names}
    for name, count in counts.items():
        if count > 1:
            raise wrong(where, f"{what} {name} is there {count} times")
