"""Pure: from a lab's figures to what to run for coding and for chat, in plain words, saying how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from launcher.lab_stats import all_figures
from launcher.lab_types import Advice, CellFigures, Lab
from launcher.methods import PLAIN, Method
from launcher.race_stats import student

# Kinds of text that stand for a purpose, the first that were measured; and whether its temperature is low.
CODING, CHAT = ("code",), ("chat", "prose")
TELLS_NOTHING = 25.0  # the upper end of an interval over the lower one
WORTH = 0.05  # a difference in speed that nobody would change a setting for


@dataclass(frozen=True)
class _Candidate:
    """A method over all texts of a purpose. ``ratio`` and ``spread`` are geometric means over the kinds: an interval of
    the mean is taken as wide as the mean of the intervals, which is never too narrow."""

    method: Method
    ratio: float
    spread: tuple[float, float]
    acceptance: float | None
    identical: bool | None
    runs: int


def advise(lab: Lab) -> tuple[Advice, Advice]:
    """For a coding assistant and for a general chat. Where nothing was measured for one: plain, and not sure."""
    figures = all_figures(lab)
    return (
        _advice("coding", "a coding assistant", _candidates(figures, CODING, low=True), lab),
        _advice("chat", "a general chat", _candidates(figures, CHAT, low=False), lab),
    )


def between(spread: tuple[float, float]) -> str:
    """An interval of a ratio for people: "1.55 to 1.70"; one that spans all that could be is none."""
    low, high = spread
    return f"{low:.2f} to {high:.2f}" if high / low < TELLS_NOTHING else "not known"


def _candidates(figures: Sequence[CellFigures], kinds: Sequence[str], *, low: bool) -> list[_Candidate]:
    """The methods that were measured on every one of ``kinds`` that was measured at all, the fastest first.

    Coding goes by the lowest temperature, chat by the highest.
    """
    known = [one for one in figures if one.cell.kind in kinds and one.spread is not None]
    if not known:
        return []
    pick = min if low else max
    temperature = pick(one.cell.temperature for one in known)
    known = [one for one in known if one.cell.temperature == temperature]
    present = {one.cell.kind for one in known}
    found = []
    for method in dict.fromkeys(one.cell.method for one in known):
        own = [one for one in known if one.cell.method == method]
        if {one.cell.kind for one in own} == present and method != PLAIN:
            found.append(_candidate(method, own))
    return sorted(found, key=lambda one: -one.ratio)


def _candidate(method: Method, own: Sequence[CellFigures]) -> _Candidate:
    shares = [one.acceptance for one in own if one.acceptance is not None]
    same = [one.identical for one in own if one.identical is not None]
    return _Candidate(
        method,
        _mean([one.ratio or 1.0 for one in own]),
        (
            _mean([one.spread[0] for one in own if one.spread]),
            _mean([one.spread[1] for one in own if one.spread]),
        ),
        sum(shares) / len(shares) if shares else None,
        all(same) if same else None,
        min(one.runs for one in own),
    )


def _mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


def _advice(purpose: str, whom: str, candidates: Sequence[_Candidate], lab: Lab) -> Advice:
    if not candidates:
        nothing = f"For {whom} nothing was measured that would speak against plain decoding."
        return Advice(purpose, PLAIN, None, None, nothing, sure=False)
    best = candidates[0]
    share = f"{lab.plan.confidence:.0%}"
    if best.spread[0] <= 1:
        return _plain(purpose, whom, candidates, share)
    rivals = [other for other in candidates[1:] if other.spread[1] >= best.spread[0]]
    lucky = _may_be_luck(best, len(candidates), lab.plan.confidence)
    sure = best.runs > 1 and not lucky and all(it.spread[1] <= best.ratio * (1 + WORTH) for it in rivals)
    text = [
        f"For {whom} use {best.method.name}: it writes at {best.ratio:.2f} times the speed of plain decoding "
        f"({between(best.spread)} at {share} confidence)."
    ]
    if best.acceptance is not None:
        text.append(f"{best.acceptance:.0%} of what it drafts is accepted.")
    if rivals:
        text.append(f"{_names(rivals)} may be as fast: their intervals overlap with its own.")
    text.append(_sure(sure, best, len(candidates) if lucky else 1))
    return Advice(purpose, best.method, best.ratio, best.spread, " ".join(text), sure)


def _may_be_luck(best: _Candidate, compared: int, confidence: float) -> bool:
    """Whether ``best``, picked because it came out ahead of so many, may be no faster than plain: of twenty that are not,
    one has an interval of 95 % above 1. Bonferroni's interval is taken, that of 1 - (1 - confidence) / compared."""
    if best.runs < 2:
        return False  # nothing is sure by one answer anyway
    freedom = best.runs - 1
    wider = student(1 - (1 - confidence) / compared, freedom) / student(confidence, freedom)
    return math.log(best.ratio) <= wider * math.log(best.ratio / best.spread[0])


def _plain(purpose: str, whom: str, candidates: Sequence[_Candidate], share: str) -> Advice:
    best = candidates[0]
    highest = max(candidates, key=lambda one: one.spread[1])
    sure = highest.spread[1] <= 1 + WORTH and all(one.runs > 1 for one in candidates)
    text = [f"For {whom} use plain decoding, without speculation."]
    if best.spread[1] < 1:
        text.append(
            f"Everything that was tried is slower; {best.method.name} comes nearest, at {best.ratio:.2f} times the "
            f"speed of plain decoding ({between(best.spread)} at {share} confidence)."
        )
    else:
        text.append(
            f"Nothing that was tried is faster beyond doubt; {best.method.name} comes nearest, at {best.ratio:.2f} times "
            f"the speed of plain decoding ({between(best.spread)} at {share} confidence)."
        )
    text.append(_sure_of_plain(sure, highest))
    return Advice(purpose, PLAIN, 1.0, (1.0, 1.0), " ".join(text), sure)


def _sure_of_plain(sure: bool, highest: _Candidate) -> str:
    gain = highest.spread[1] - 1
    if sure:
        return "That is sure."
    if gain <= WORTH:
        return "That rests on one answer each; a longer lab would make it sure."
    how = f"up to {gain:.0%} faster" if gain <= 1 else "faster by far"
    return (
        f"That is not sure: by these answers {highest.method.name} could be {how}. Close what else is at work on this "
        "machine, or let the lab run longer."
    )


def _sure(sure: bool, best: _Candidate, compared: int) -> str:
    """``compared``: of how many it may have come out ahead by chance; 1: of none."""
    if sure:
        return "That is sure."
    if best.runs < 2:
        return "That rests on one answer each, so it is a first look; a longer lab would make it sure."
    if compared > 1:
        return f"Of {compared} that were compared, one may come out ahead by chance; a longer lab would tell."
    return "That it is faster than plain is sure, which of them is fastest is not; a longer lab would tell."


def _names(candidates: Sequence[_Candidate]) -> str:
    names = [one.method.name for one in candidates[:3]]
    more = f" and {len(candidates) - 3} more" if len(candidates) > 3 else ""
    return (" and ".join(names) if not more and len(names) < 3 else ", ".join(names)) + more
