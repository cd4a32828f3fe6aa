"""Pure: the figures of a race in rows and sentences, the same for terminal, page and export."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from launcher.amounts import seconds
from launcher.client.events import Timings
from launcher.methods import PLAIN
from launcher.race_stats import spread, word
from launcher.race_types import (
    CONFIDENCE,
    Race,
    Run,
    Verdict,
    acceptance_by_position,
    tokens_per_step,
)


def plain_speed(races: Sequence[Race]) -> float | None:
    """Tokens a second of plain decoding: the median of all rounds of ``races``; None where no side decoded plainly."""
    rates = [
        run.timings.tokens_per_second or 0.0
        for race in races
        for side, one in enumerate(race.sides)
        if one.method == PLAIN
        for run in race.of(side)
    ]
    return statistics.median(rates) if rates else None


@dataclass(frozen=True)
class SideFigures:
    """Medians over the rounds of one side; decoding, reading the prompt and waiting stated apart.

    Speeds in tokens a second, times in seconds, shares 0 to 1; None where there is nothing to state.
    """

    name: str
    rounds: int
    tokens_per_second: float | None
    prompt_tokens_per_second: float | None
    time_to_first_token_s: float | None
    total_s: float | None
    predicted_tokens: int | None
    acceptance: float | None
    acceptance_by_position: tuple[float, ...] | None
    tokens_per_step: float | None


def side_figures(race: Race, side: int) -> SideFigures:
    """What one side did."""
    runs = race.of(side)
    steps = [step for run in runs for step in run.steps]

    def middle(value: Callable[[Timings], float | None]) -> float | None:
        known = [found for run in runs if (found := value(run.timings)) is not None]
        return statistics.median(known) if known else None

    tokens = middle(lambda timings: timings.predicted_tokens)
    return SideFigures(
        name=race.sides[side].name,
        rounds=len(runs),
        tokens_per_second=middle(lambda timings: timings.tokens_per_second),
        prompt_tokens_per_second=middle(lambda timings: timings.prompt_tokens_per_second),
        time_to_first_token_s=middle(lambda timings: timings.time_to_first_token_s),
        total_s=middle(lambda timings: timings.total_s),
        predicted_tokens=None if tokens is None else round(tokens),
        acceptance=acceptance(runs),
        acceptance_by_position=acceptance_by_position(steps, race.sides[side].method.draft_max),
        tokens_per_step=tokens_per_step(steps),
    )


def acceptance(runs: Iterable[Run]) -> float | None:
    """Accepted over drafted tokens of all ``runs`` together; None when nothing was drafted."""
    timings = [run.timings for run in runs]
    drafted = sum(one.draft_n or 0 for one in timings)
    return sum(one.draft_n_accepted or 0 for one in timings) / drafted if drafted else None


def sentence(race: Race) -> str:
    """The verdict in words and figures, as plain for a loss as for a gain."""
    verdict, (a, b) = race.verdict, race.sides
    if verdict.ratio is None or verdict.spread is None:
        return "No round was finished on both sides, so there is no verdict."
    low, high = verdict.spread
    says = {
        "faster": f"{b.name} is faster than {a.name}",
        "slower": f"{b.name} is slower than {a.name}",
        "no difference": f"No difference between {b.name} and {a.name}",
    }[verdict.word]
    rounds = "1 round" if verdict.rounds == 1 else f"{verdict.rounds} rounds"
    return f"{says}: {verdict.ratio:.2f}x (spread {low:.2f} to {high:.2f}, {rounds})."


def saved(verdict: Verdict) -> str:
    """The time saved for this answer, in words; empty without one."""
    if verdict.time_saved_s is None:
        return ""
    what = "saved" if verdict.time_saved_s >= 0 else "lost"
    return f"{seconds(abs(verdict.time_saved_s))} {what} for this answer."


def texts(race: Race) -> str:
    """Whether both sides wrote the same, in a sentence."""
    verdict = race.verdict
    if verdict.ratio is None:
        return ""
    if verdict.identical is None:
        return "Texts are not compared above temperature 0: each answer is another throw of the dice."
    if verdict.identical:
        return "Both texts are identical."
    difference = verdict.first_difference
    where = f" at token {difference.token}" if difference else ""
    return f"The texts part{where}. {difference.why if difference else ''}".strip()


@dataclass(frozen=True)
class KindRow:
    """All races of one kind of text. ``rates`` are the medians of both sides' decode speeds."""

    kind: str
    races: int
    rates: tuple[float | None, float | None]
    ratio: float | None
    spread: tuple[float, float] | None
    word: str
    acceptance: float | None


def by_kind(races: Sequence[Race], confidence: float = CONFIDENCE) -> tuple[KindRow, ...]:
    """One row for each kind of text, in the order in which they first ran; the rounds of a kind are pooled."""
    kinds = list(dict.fromkeys(race.prompt.kind for race in races))
    return tuple(
        _row(kind, [race for race in races if race.prompt.kind == kind], confidence) for kind in kinds
    )


def _row(kind: str, races: Sequence[Race], confidence: float) -> KindRow:
    rates: list[list[float]] = [[], []]
    ratios: list[float] = []
    for race in races:
        both = [{run.round: run.timings.tokens_per_second or 1 for run in race.of(side)} for side in (0, 1)]
        for at in (0, 1):
            rates[at] += both[at].values()
        ratios += [both[1][number] / rate for number, rate in both[0].items() if number in both[1]]
    interval = spread(ratios, confidence) if ratios else None
    return KindRow(
        kind=kind or "own prompt",
        races=len(races),
        rates=(_median(rates[0]), _median(rates[1])),
        ratio=_median(ratios),
        spread=interval,
        word=word(interval) if interval else "",
        acceptance=acceptance(run for race in races for run in race.of(1)),
    )


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None
