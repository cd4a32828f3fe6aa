"""How fast this machine was when it was last measured with the same parts: what a lab or a search would take follows."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from launcher.advise_model import REFERENCE
from launcher.errors import LauncherError
from launcher.lab_store import LabStore, differences
from launcher.lab_types import Lab, Subject
from launcher.race_store import RaceStore

UNKNOWN_EXTRA_S = (0.2, 3.0)  # seconds beside decoding, where only a race is known: prompt, start, warm-up


def pace(labs: LabStore, races: RaceStore | None, subject: Subject) -> dict[str, Any] | None:
    """Seconds a token and other seconds an answer as [low, high], and ``source`` in words; None when nothing is known.
    Slow: reads what was kept."""
    for one in labs.list().labs:
        if one.runs and not differences(one.subject, subject):
            try:
                return _of_lab(labs.load(one.id))
            except LauncherError:
                continue  # somebody took it away meanwhile
    return _of_races(races, dict(subject.facts).get("Model", "")) if races is not None else None


def search_s(pace: Mapping[str, Any], answers: Sequence[int]) -> list[float]:
    """The seconds of so many answers of a search, [least, most], at that pace."""

    def takes(at: int) -> float:
        return float(answers[at] * (REFERENCE * pace["token_s"][at] + pace["extra_s"][at]))

    return [takes(0), takes(1)]


def _of_lab(lab: Lab) -> dict[str, Any] | None:
    decoding = sum(run.timings.predicted_tokens / run.rate for run in lab.runs)
    extra = max(lab.spent_s - decoding, 0.0) / len(lab.runs)
    return _pace([1 / run.rate for run in lab.runs], (extra, extra), "the last lab here")


def _of_races(races: RaceStore, model: str) -> dict[str, Any] | None:
    for one in races.list().races:
        if one.model != model or one.ratio is None:
            continue
        try:
            runs = races.load(one.id).runs
        except LauncherError:
            continue
        return _pace(
            [
                1 / run.timings.tokens_per_second
                for run in runs
                if run.counts and run.timings.tokens_per_second
            ],
            UNKNOWN_EXTRA_S,
            "the last race here",
        )
    return None


def _pace(token_s: Sequence[float], extra_s: tuple[float, float], source: str) -> dict[str, Any] | None:
    if not token_s:
        return None
    low, high = min(token_s), max(token_s)
    if len(token_s) > 3:  # without the odd one out
        low, _, high = statistics.quantiles(token_s, n=4)
    return {"token_s": [low, high], "extra_s": list(extra_s), "source": source}
