"""Races on disk: one JSON file each, written whole or not at all, private to their owner.

    <folder>/races/<id>.json

A file that makes no sense is renamed, never deleted, and the rest goes on loading.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from launcher.json_folder import Form, JsonFolder, Listed, read_plain, write_plain
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


class RaceListing(Listed[RaceSummary]):
    """The kept races, newest first."""

    @property
    def races(self) -> tuple[RaceSummary, ...]:
        """The entries."""
        return self.entries


class RaceStore(JsonFolder[Race, RaceSummary]):
    """``folder`` is the data folder; its part of it is made when the first race is saved."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
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

    def list(self) -> RaceListing:
        """All races, newest first; a broken file is renamed to ``*.broken-<time>`` and reported once."""
        listed = super().list()
        return RaceListing(listed.entries, listed.set_aside, listed.unreadable)


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
