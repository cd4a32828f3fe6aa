"""Which names and links of an archive may be unpacked, and where they lead. Pure; reasons are raised as ValueError."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field

Path = tuple[str, ...]  # a name inside the archive, divided at its slashes

LONGEST_NAME = 255  # bytes of one part, as most file systems have it
DEEPEST = 40
MOST_LINKS = 40  # that one name may lead through, as in Linux
DIRECTORY, FILE, SYMLINK, HARDLINK = "directory", "file", "symlink", "hardlink"

# Windows takes these for devices, whatever follows a dot.
_DEVICES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])\s*(\..*)?", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:")
_UNFIT = re.compile(r'[<>:"|?*\x00-\x1f]')


def divide(name: str) -> Path:
    """The parts of an entry's name, ``.`` left out; empty for the archive's root. ValueError says why not.

    The rules of all systems hold everywhere: an archive that is fit for one is fit for all.
    """
    _plain(name)
    if name.startswith("/"):
        raise ValueError("is an absolute path")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if len(parts) > DEEPEST:
        raise ValueError("lies too many folders deep")
    for part in parts:
        if part == "..":
            raise ValueError("leads out of the folder")
        if _UNFIT.search(part) or part.endswith((" ", ".")):
            raise ValueError("is no name for a file on every system")
        if _DEVICES.fullmatch(part):
            raise ValueError("is the name of a device on Windows")
        if len(part.encode()) > LONGEST_NAME:
            raise ValueError("is too long")
    return parts


def _plain(name: str) -> None:
    if not name:
        raise ValueError("is an empty name")
    if "\x00" in name:
        raise ValueError("holds a NUL character")
    if "\\" in name:
        raise ValueError("holds a backslash")
    if _DRIVE.match(name):
        raise ValueError("names a drive")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError("is not UTF-8") from None


def leads_to(link: Path, target: str, links: Mapping[Path, str]) -> Path:
    """Where the symlink ``link`` with ``target`` ends, every link of ``links`` on the way followed.

    Both are relative to the one folder that nothing may leave. ValueError when it leaves it, even to come back.
    """
    at, left, followed = list(link[:-1]), _steps(target), 1
    while left:
        part = left.pop(0)
        if part == "..":
            if not at:
                raise ValueError("leads out of the folder")
            at.pop()
            continue
        at.append(part)
        if (further := links.get(tuple(at))) is not None:
            followed += 1
            if followed > MOST_LINKS:
                raise ValueError("leads in a circle")
            at.pop()
            left[:0] = _steps(further)
    return tuple(at)


def _steps(target: str) -> list[str]:
    _plain(target)
    if target.startswith("/"):
        raise ValueError("leads to an absolute path")
    return [part for part in target.split("/") if part not in ("", ".")]


@dataclass
class Contents:
    """What an archive holds, by name. ``links``: target of each symlink, ``hard``: name that each hard link repeats."""

    kinds: dict[Path, str] = field(default_factory=dict)
    links: dict[Path, str] = field(default_factory=dict)
    hard: dict[Path, Path] = field(default_factory=dict)
    _spelled: dict[Path, Path] = field(default_factory=dict)
    _implied: set[Path] = field(default_factory=set)

    def add(self, parts: Path, kind: str) -> None:
        """Note an entry. ValueError when it clashes with an earlier one, also where upper and lower case are one."""
        for end in range(1, len(parts)):
            self._note(parts[:end], DIRECTORY)
            self._implied.add(parts[:end])
        if parts:
            if kind != DIRECTORY and (parts in self.kinds or parts in self._implied):
                raise ValueError("is there twice")
            self._note(parts, kind)

    def _note(self, parts: Path, kind: str) -> None:
        folded = tuple(unicodedata.normalize("NFC", part).casefold() for part in parts)
        spelled = self._spelled.setdefault(folded, parts)
        if spelled != parts:
            raise ValueError(f"is {'/'.join(spelled)} in another spelling")
        known = self.kinds.setdefault(parts, kind)
        if known != kind:
            raise ValueError(f"is both a {known} and a {kind}")

    def top(self) -> Path:
        """The single folder that holds everything, as a name of one part; empty when there is none."""
        tops = {parts[0] for parts in self.kinds}
        if len(tops) != 1:
            return ()
        top = (tops.pop(),)
        return top if self.kinds[top] == DIRECTORY and len(self.kinds) > 1 else ()

    def origin(self, parts: Path) -> Path:
        """The file whose bytes the hard link ``parts`` shares. ValueError when that is no file of the archive."""
        for _ in range(MOST_LINKS):
            parts = self.hard[parts]
            if parts not in self.hard:
                break
        if self.kinds.get(parts) != FILE:
            raise ValueError("is a hard link to nothing in the archive")
        return parts
