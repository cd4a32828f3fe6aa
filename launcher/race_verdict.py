"""Pure: the runs of a race -> its verdict, with everything that should keep a reader from misjudging it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from launcher.race_stats import is_sure, is_tight, spread, word
from launcher.race_types import CONFIDENCE, Difference, Run, Side, Verdict, tokens_per_step

DRIFT = 0.08  # first round against last
# A verify step costs at least what a plain step costs, so the tokens that it yields bound the gain. Under 1.25
# even a drafter that cost nothing, checked for nothing, could not gain a quarter: fewer than one draft in four
# has so much as one right token. Drafters trained for their target yield 2 and more on the hardest text.
HARDLY_FITS = 1.25
FEW_BLOCKS = 10  # fewer say nothing about a drafter
BEFORE, AFTER = 24, 40  # characters shown around a difference
WHY_TEXTS_DIFFER = (
    "A verify step computes several tokens at once, and sums them in another order than one token alone; where two "
    "candidates are almost tied, the last digits decide, and from there the texts go their own ways. Neither is wrong."
)


def judge(
    runs: Sequence[Run], sides: tuple[Side, Side], temperature: float, confidence: float = CONFIDENCE
) -> Verdict:
    """The verdict of the rounds in which both sides went to their end; the ratio is side 1 over side 0."""
    pairs = _pairs(runs)
    counted = [run for pair in pairs for run in pair]
    warnings = tuple(_warnings(counted, pairs, sides))
    if any(run.finished and not run.counts for run in runs):
        warnings += ("An answer was too short to have a speed. Ask for something longer.",)
    if not pairs:
        return Verdict(confidence=confidence, warnings=warnings)
    ratios = [(b.timings.tokens_per_second or 0) / (a.timings.tokens_per_second or 1) for a, b in pairs]
    interval = spread(ratios, confidence)
    difference = _first_difference(pairs) if temperature == 0 else None
    if word(interval) == "no difference" and not is_tight(interval) and len(pairs) > 1:
        warnings += (
            "The rounds differ too much from each other for an answer: there may be a difference that they hide. "
            "Close what else is at work on this machine, or run more rounds.",
        )
    return Verdict(
        rounds=len(pairs),
        ratio=statistics.median(ratios),
        spread=interval,
        confidence=confidence,
        word=word(interval),
        sure=is_sure(interval, len(pairs)),
        time_saved_s=_time_saved(pairs),
        identical=None if temperature > 0 else difference is None,
        first_difference=difference,
        warnings=warnings,
    )


def _pairs(runs: Sequence[Run]) -> list[tuple[Run, Run]]:
    """(side 0, side 1) of each round that is whole."""
    by_round: dict[int, dict[int, Run]] = {}
    for run in runs:
        if run.counts:
            by_round.setdefault(run.round, {})[run.side] = run
    return [(found[0], found[1]) for _, found in sorted(by_round.items()) if len(found) == 2]


def _time_saved(pairs: Sequence[tuple[Run, Run]]) -> float | None:
    """Seconds by which side 1 had this answer earlier, the median of the rounds, from request to last token.

    Where the lengths differ, times do not compare: then what its rate saves while writing side 0's length.
    """
    saved = []
    for a, b in pairs:
        same = a.timings.predicted_tokens == b.timings.predicted_tokens
        if same and a.timings.total_s is not None and b.timings.total_s is not None:
            saved.append(a.timings.total_s - b.timings.total_s)
        else:
            rates = a.timings.tokens_per_second or 1, b.timings.tokens_per_second or 1
            saved.append(a.timings.predicted_tokens * (1 / rates[0] - 1 / rates[1]))
    return statistics.median(saved) if saved else None


def _first_difference(pairs: Sequence[tuple[Run, Run]]) -> Difference | None:
    for a, b in pairs:
        at = difference_at(a.whole, b.whole)
        if at is not None:
            start = max(0, at - BEFORE)
            return Difference(
                char=at,
                token=_token_at(a, at),
                a=a.whole[start : at + AFTER],
                b=b.whole[start : at + AFTER],
                why=WHY_TEXTS_DIFFER,
            )
    return None


def difference_at(a: str, b: str) -> int | None:
    """The first character (from 0) in which the texts differ, one that ends earlier included; None: equal."""
    if a == b:
        return None
    pairs = enumerate(zip(a, b, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(a), len(b)))


def _token_at(run: Run, char: int) -> int:
    """The number (from 0) of the token that holds ``char`` of the whole answer."""
    at, token = 0, 0
    before_text = len(run.whole) - len(run.text)
    for mark in run.marks:
        if not mark.thinking:
            at = max(at, before_text)
        at += mark.chars
        if at > char:
            break
        token += mark.tokens
    return token


def _warnings(
    counted: Sequence[Run], pairs: Sequence[tuple[Run, Run]], sides: tuple[Side, Side]
) -> list[str]:
    out = []
    for number, side in enumerate(sides):
        own = [run for run in counted if run.side == number]
        out += _about_side(side, own)
    if any(run.timings.cached_tokens for run in counted):
        out.append(
            "Part of the prompt came from the engine's cache although it was told not to use it: the prompt's speed "
            "and the times to the first token cannot be compared."
        )
    if any(a.timings.predicted_tokens != b.timings.predicted_tokens for a, b in pairs):
        out.append(
            "The answers differ in length: compare the rates per token, not the times. The time saved is reckoned "
            f"from the rates, for the length of {sides[0].name}'s answer."
        )
    if len(pairs) == 1:
        out.append("One round only: its spread is assumed (5 % a round), not measured.")
    return out


def _about_side(side: Side, own: Sequence[Run]) -> list[str]:
    out: list[str] = []
    if not own:
        return out
    steps = [step for run in own for step in run.steps if step.drafted]
    drafted = any(run.timings.draft_n for run in own)
    if side.method.spec_type != "none" and not drafted:
        if side.method.drafter_needed:
            out.append(f"{side.name} was requested, but is not active: the engine drafted nothing.")
        else:
            out.append(f"{side.name} drafted nothing: it found nothing in this text that came before.")
    per_step = tokens_per_step(steps)
    if side.method.drafter_needed and per_step and per_step < HARDLY_FITS and len(steps) >= FEW_BLOCKS:
        share = sum(step.accepted for step in steps) / sum(step.drafted for step in steps)
        out.append(
            f"The drafter hardly fits: {share:.1%} of what {side.name} drafted was accepted, {per_step:.2f} tokens a "
            f"verify step. Even a drafter that cost nothing could not gain more than {per_step - 1:.0%} with that."
        )
    if any(run.timings.measured_by == "client" for run in own):
        out.append(
            f"The engine of {side.name} gave no timings of its own: its speed was measured from outside."
        )
    first, last = own[0].timings.tokens_per_second or 1, own[-1].timings.tokens_per_second or 1
    change = last / first - 1
    if len(own) > 1 and abs(change) > DRIFT:
        out.append(
            f"{side.name} was {abs(change):.0%} {'faster' if change > 0 else 'slower'} in the last round than in the "
            "first: heat, or other work on this machine. The order A B B A evens out a steady drift."
        )
    texts = {run.whole for run in own}
    if len(texts) > 1:
        out.append(f"{side.name} did not write the same text in every round.")
    return out
