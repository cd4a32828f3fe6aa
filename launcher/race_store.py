"""Races on disk: one JSON file each, written whole or not at all, private to their owner.

    <folder>/races/<id>.json

A file that makes no sense is renamed, never deleted, and the rest goes on loading.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from launcher.json_folder import Form, JsonFolder, read_plain, write_plain
from launcher.race_types import Race

FORMAT = "bonsai-race"
VERSION = 1
HEAD_LENGTH = 80  # characters of a prompt in a list


@dataclass(frozen=True)
class RaceSummary:
    """One line of a list. ``prompt`` is its beginning; ``ratio`` and ``word`` are the verdict's."""

    id: str
    created: float  # seconds since 1970
    prompt: str
    kind: str
    language: str
    sides: tuple[str, str]
    model: str
    ratio: float | None
    word: str
    ended: str


@dataclass(frozen=True)
class RaceListing:
    """``set_aside`` names files that made no sense and were kept under another name, each told once.

    ``unreadable`` has a sentence for each file that was left as it is: no permission, or a newer format.
    """

    races: tuple[RaceSummary, ...]
    set_aside: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


class RaceStore:
    """All methods raise StoreError (unreadable, full disk, read-only) and never lose what was there.

    Safe for any number of threads and processes. ``folder`` is the data folder; its part of it is made when
    the first race is saved.
    """

    def __init__(self, folder: Path) -> None:
        self._files = JsonFolder(
            folder / "races",
            Form(
                noun="race",
                nouns="races",
                read=partial(read_plain, Race, FORMAT, VERSION, "race"),
                write=partial(write_plain, FORMAT, VERSION, "race"),
                summary=summary_of,
                order=lambda summary: (-summary.created, summary.id),
            ),
        )

    def save(self, race: Race) -> None:
        """Write it under its id."""
        self._files.save(race.id, race)

    def load(self, race_id: str) -> Race:
        """The whole race. StoreError when there is none, or its file makes no sense (it is set aside)."""
        return self._files.load(race_id)

    def list(self) -> RaceListing:
        """All races, newest first; a broken file is renamed to ``*.broken-<time>`` and reported once."""
        listed = self._files.list()
        return RaceListing(listed.entries, listed.set_aside, listed.unreadable)

    def delete(self, race_id: str) -> None:
        """Remove it for good; one that is gone already is no error."""
        self._files.delete(race_id)


def summary_of(race: Race) -> RaceSummary:
    """The line that a list shows for ``race``."""
    head = " ".join(race.prompt.text.split())
    return RaceSummary(
        id=race.id,
        created=race.created,
        prompt=head if len(head) <= HEAD_LENGTH else head[:HEAD_LENGTH].rsplit(" ", 1)[0] + " …",
        kind=race.prompt.kind,
        language=race.prompt.language,
        sides=(race.sides[0].name, race.sides[1].name),
        model=race.sides[0].model,
        ratio=race.verdict.ratio,
        word=race.verdict.word,
        ended=race.ended,
    )
