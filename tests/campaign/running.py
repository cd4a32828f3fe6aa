"""Which faults a campaign has, running them one after the other, and what came of each."""

from __future__ import annotations

import shutil
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from tests.campaign.leftovers import ours
from tests.campaign.trial import Broken, Kind, Trial


@dataclass(frozen=True)
class Result:
    """Of one fault. ``problems`` is empty when all was as it should be."""

    kind: Kind
    number: int
    way: str
    problems: tuple[str, ...]
    looked: dict[str, int]
    recovery_s: float | None
    seconds: float

    @property
    def label(self) -> str:
        return f"{self.kind.name}:{self.number}"


def chosen(kinds: Sequence[Kind], faults: int) -> list[tuple[Kind, int]]:
    """So many faults, the kinds in their usual proportion, at least one of each, all kinds spread over the run."""
    counts = {kind.name: 1 for kind in kinds}
    while sum(counts.values()) < faults:
        least = min(kinds, key=lambda kind: counts[kind.name] / kind.share)
        counts[least.name] += 1
    every = [
        ((number + 0.5) / counts[kind.name], kind, number)
        for kind in kinds
        for number in range(counts[kind.name])
    ]
    return [(kind, number) for _, kind, number in sorted(every, key=lambda it: (it[0], it[1].name))]


def run_one(
    kind: Kind,
    number: int,
    *,
    seed: int,
    folder: Path,
    built: Path,
    practice: Path,
    bounded: bool = True,
) -> Result:
    """Make one fault and look at what it leaves. ``folder`` is new and goes afterwards, unless something was wrong.
    ``bounded`` False: on a machine that may be busy with anything, the stated bounds are five times as long."""
    folder.mkdir(parents=True)
    trial = Trial(
        kind if bounded else replace(kind, bound_s=5 * kind.bound_s), seed, number, folder, built, practice
    )
    began = time.monotonic()
    try:
        with trial.stack:
            kind.run(trial, trial.way)
    except Broken as problem:
        trial.problems.append(str(problem))
    except Exception as problem:
        trial.problems.append(f"the campaign itself failed: {''.join(traceback.format_exception(problem))}")
    if trial.recovery_s is None and not trial.problems:
        trial.problems.append("nobody has looked whether all is well again")
    for process in _left(folder):
        process.kill()
    if not trial.problems:
        shutil.rmtree(folder, ignore_errors=True)
    return Result(
        kind,
        number,
        str(trial.way),
        tuple(trial.problems),
        trial.looked,
        trial.recovery_s,
        time.monotonic() - began,
    )


def _left(folder: Path) -> Iterator[psutil.Process]:
    """What a trial that went wrong leaves may not disturb the next one."""
    yield from ours(folder)
