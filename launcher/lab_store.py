"""Labs on disk: one JSON file each, written whole after every answer, so that a lab can be gone on with.

    <folder>/labs/<id>.json

The same text is written once, however many answers it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from launcher.errors import BadInput
from launcher.json_folder import Form, JsonFolder, Listed, read_plain, write_plain
from launcher.lab_types import Lab, Subject
from launcher.plain_values import UnfitError

FORMAT = "bonsai-lab"
VERSION = 1


@dataclass(frozen=True)
class LabSummary:
    """One line of a list. ``done`` of ``cells`` have a run; ``ended`` as in Lab, empty while it can be gone on with."""

    id: str
    created: float  # seconds since 1970
    model: str
    quick: bool
    cells: int
    done: int
    runs: int
    spent_s: float
    ended: str
    subject: Subject

    @property
    def unfinished(self) -> bool:
        """Whether something is left to measure."""
        return self.ended not in ("sure", "runs")


class LabListing(Listed[LabSummary]):
    """The kept labs, newest first."""

    @property
    def labs(self) -> tuple[LabSummary, ...]:
        """The entries."""
        return self.entries


@dataclass(frozen=True)
class _Kept:
    """A lab as it is written: run number i wrote ``texts[which[i]]``."""

    id: str
    lab: Lab
    texts: tuple[str, ...]
    which: tuple[int, ...]


class LabStore(JsonFolder[Lab, LabSummary]):
    """``folder`` is the data folder; its part of it is made when the first lab is saved."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            folder / "labs",
            Form(
                noun="lab",
                nouns="labs",
                read=_read,
                write=_write,
                summary=summary_of,
                order=lambda summary: (-summary.created, summary.id),
            ),
        )

    def list(self) -> LabListing:
        """All labs, newest first; a broken file is renamed to ``*.broken-<time>`` and reported once."""
        listed = super().list()
        return LabListing(listed.entries, listed.set_aside, listed.unreadable)

    def resumable(self, subject: Subject, lab_id: str | None = None) -> Lab:
        """The lab to go on with: the one of that id, else the latest. Raises BadInput where there is none and for one
        of another target, drafter, engine or machine, StoreError as ``load``."""
        if lab_id is None:
            labs = self.list().labs
            if not labs:
                raise BadInput("There is no lab to go on with.", "Start one without --resume.")
            lab_id = labs[0].id
        lab = self.load(lab_id)
        other = differences(lab.subject, subject)
        if other:
            raise BadInput(
                f"The lab {lab.id} was measured with another {' and another '.join(other)}, so its figures and new ones "
                "cannot be put together.",
                "Start a new lab without --resume.",
            )
        return lab


def differences(one: Subject, other: Subject) -> tuple[str, ...]:
    """What the two subjects do not share: "target", "drafter", "engine", "machine" ..."""
    ours, its = dict(one.marks), dict(other.marks)
    return tuple(what for what in dict.fromkeys([*ours, *its]) if ours.get(what) != its.get(what))


def summary_of(lab: Lab) -> LabSummary:
    """The line that a list shows for ``lab``."""
    return LabSummary(
        id=lab.id,
        created=lab.created,
        model=dict(lab.subject.facts).get("Model", ""),
        quick=lab.plan.quick,
        cells=len(lab.plan.cells),
        done=len({run.cell for run in lab.runs}),
        runs=len(lab.runs),
        spent_s=lab.spent_s,
        ended=lab.ended,
        subject=lab.subject,
    )


def _write(lab: Lab) -> bytes:
    texts: dict[str, int] = {}
    which = tuple(texts.setdefault(run.text, len(texts)) for run in lab.runs)
    bare = replace(lab, runs=tuple(replace(run, text="") for run in lab.runs))
    return write_plain(FORMAT, VERSION, "lab", _Kept(lab.id, bare, tuple(texts), which))


_kept = partial(read_plain, _Kept, FORMAT, VERSION, "lab")


def _read(data: bytes, lab_id: str) -> Lab:
    kept = _kept(data, lab_id)
    lab = kept.lab
    if lab.id != kept.id or len(kept.which) != len(lab.runs):
        raise UnfitError("its parts do not belong together")
    if not all(0 <= at < len(kept.texts) for at in kept.which):
        raise UnfitError("it names a text that is not in it")
    runs = tuple(replace(run, text=kept.texts[at]) for run, at in zip(lab.runs, kept.which, strict=True))
    if any(not run.timings.tokens_per_second or run.block < 1 for run in runs):
        raise UnfitError("it has an answer without a speed")
    return replace(lab, runs=runs)
