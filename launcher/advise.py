"""Pure: which method and draft length to use here, found with far fewer answers than the whole matrix.

Every n-gram type and mix, and the shortest and the longest draft of every drafter, answer once. What all lengths
would run at follows from the model in advise_model.py. Then the method that looks best and the one that could still
beat it answer in turn (the search is that of LUCB: Kalyanakrishnan et al., 2012), until no other could win by more than
TOLERANCE, or until the engine time is used up; other lengths are measured when that could matter.

Every answer has the lab's length: along an answer both the time of a step (with the context) and what is accepted (with
the text) change, so a shorter one would measure something else.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from launcher.advise_model import (
    NOISE_FREEDOM,
    REFERENCE,
    Answers,
    Estimate,
    Known,
    Sample,
    family,
    known,
    sample_of,
)
from launcher.errors import BadInput
from launcher.methods import PLAIN, Method
from launcher.race_stats import FLOOR, student

__all__ = ["Advice", "Advisor", "Sample", "Trial", "Tried", "answers_needed", "sample_of"]

WORTH_IT = 1.03  # a method has to beat plain decoding by so much
TOLERANCE = math.log(1.04)
CONFIDENCE = 0.90  # two-sided, of the search's bounds and of the stated interval
SURPRISE = 0.1  # how much better a method may be than its only answer says: something may have disturbed it
REPEATS = 4  # fewer do not show how noisy a machine is
# Deviations of an answer: up to QUIET the few answers of a search can make sure, beyond WILD they say little at all.
QUIET, WILD = 0.10, 0.15
# The whole matrix repeats a cell until its ratio is known to PRECISION, with so many answers at least and at most.
LEAST, MOST, PRECISION = 5, 12, 0.05
MODEST = 0.7  # of the calm noise that shows: the whole matrix must not be thought longer than it is
_MEDIAN_ERROR = math.sqrt(math.pi / 2)


@dataclass(frozen=True)
class Trial:
    """An answer to be measured: ``tokens`` of it, by ``method``."""

    method: Method
    tokens: int


@dataclass(frozen=True)
class Tried:
    """What was learned of one method: measured ``answers`` (0: foreseen by the model alone), its speed in tokens
    a second and as a ratio to plain decoding."""

    method: Method
    answers: int
    tokens_per_second: float
    ratio: float


@dataclass(frozen=True)
class Advice:
    """Use ``method``: ``expected_ratio`` times plain decoding, from ``low`` to ``high`` at CONFIDENCE.

    ``sure`` is "high", "medium" or "low"; ``text`` says it all in words. ``engine_seconds`` is what the search
    took, ``tried`` every method that something is known of, fastest first.
    """

    method: Method
    expected_ratio: float
    low: float
    high: float
    sure: str
    text: str
    engine_seconds: float
    tried: tuple[Tried, ...]


def answers_needed(noise: float) -> int:
    """How often a cell is repeated whose answers deviate by ``noise`` (a logarithm), until the interval of its ratio
    to plain decoding (race_stats.spread, 95 %) is within PRECISION: LEAST to MOST."""
    deviation = max(noise * math.sqrt(2), FLOOR) * _MEDIAN_ERROR
    for count in range(LEAST, MOST):
        if student(0.95, count - 1) * deviation / math.sqrt(count) <= math.log(1 + PRECISION):
            return count
    return MOST


def answers_foreseen(candidates: Sequence[Method]) -> tuple[int, int]:
    """How many answers a search among ``candidates`` usually takes: on four of five of the machines that the benchmark
    draws it was between these (a few noisy ones take twice as many)."""
    count = len({PLAIN, *candidates})
    return math.ceil(1.3 * count), 4 * count


class Advisor:
    """Ask ``next`` for what to measure, ``tell`` it the outcome, until there is no next; then read ``verdict``.

    The same answers always lead to the same questions. ``candidates``: what can be run here; PLAIN is always among
    them. ``prior``: what an earlier advice came to, measured early. ``share``: of the engine time of the whole matrix
    (answers_needed answers of REFERENCE tokens for each candidate), which the search after the first look keeps to.
    """

    def __init__(
        self, candidates: Sequence[Method], prior: Method | None = None, *, share: float = 0.3
    ) -> None:
        self._arms = {method: Answers(method) for method in dict.fromkeys((PLAIN, *candidates))}
        self._share = share
        self._spent = 0.0
        self._overheads: list[float] = []
        self._restarted: set[Method] = set()  # those that were started again for another answer
        self._failed: dict[Method, int] = {}
        self._queue = [PLAIN, *_first_look(self._arms, prior), PLAIN]
        self._flip = False
        self._over = False

    def next(self) -> Trial | None:
        """What to measure now; None when the search is over."""
        self._queue = [method for method in self._queue if method in self._arms]
        if not self._queue and not self._over:
            self._queue = self._more()
            self._over = not self._queue
        return Trial(self._queue[0], REFERENCE) if self._queue else None

    def tell(self, trial: Trial, sample: Sample) -> None:
        """What came of ``trial``. An answer too short to have a speed is asked for once more, then its method is
        left out."""
        if self._queue and self._queue[0] == trial.method:
            self._queue.pop(0)
        if trial.method not in self._arms:
            return
        arm = self._arms[trial.method]
        if sample.overhead_s > 0:
            self._overheads.append(sample.overhead_s)
            if arm.samples:
                self._restarted.add(trial.method)
        if sample.tokens < 2 or sample.seconds <= 0:
            self._failed[trial.method] = self._failed.get(trial.method, 0) + 1
            self._queue.insert(0, trial.method)
            if self._failed[trial.method] > 1:
                self.drop(trial.method)
        else:
            arm.add(sample, self._spent + sample.overhead_s + sample.seconds / 2)
        self._spent += max(sample.seconds, 0.0) + sample.overhead_s

    def drop(self, method: Method) -> None:
        """``method`` cannot be run here after all: it is asked for no more. Without plain decoding nothing is left
        to compare with, and the search is over."""
        self._arms.pop(method, None)
        if method == PLAIN:
            self._arms.clear()

    @property
    def limit_s(self) -> float | None:
        """The engine seconds that the search keeps to after its first look, as far as can be told; None before plain
        decoding was measured. What nothing is known of yet is taken to be as fast as that."""
        what = self._known()
        if PLAIN not in what.speeds:
            return None
        speeds = dict.fromkeys(self._arms, what.speeds[PLAIN]) | dict(what.speeds)
        return self._share * self._whole(replace(what, speeds=speeds))

    def verdict(self) -> Advice:
        """The advice as far as the answers go. Raises BadInput before plain decoding was measured."""
        what = self._known()
        speeds = what.speeds
        if PLAIN not in speeds:
            raise BadInput(
                "Plain decoding was not measured, so there is nothing to compare with.",
                "Ask for an answer that is long enough to have a speed.",
            )
        best = max(
            (method for method in speeds if self._arms[method].logs),
            key=lambda method: _worth(method, speeds),
        )
        sure, ratio = self._certainty(best, what)
        if sure == "low" and ratio[1] < 1 and best != PLAIN:  # nobody should change anything for that
            best, ratio = PLAIN, (1.0, 1.0, 1.0)
        plain = speeds[PLAIN].mean
        tried = [
            Tried(method, len(self._arms[method].logs), math.exp(it.mean), math.exp(it.mean - plain))
            for method, it in speeds.items()
        ]
        tried.sort(key=lambda one: -one.ratio)
        unseen = len(self._arms) - len(speeds)
        return Advice(best, *ratio, sure, _text(best, ratio, sure, tried, unseen), self._spent, tuple(tried))

    def _certainty(self, best: Method, what: Known) -> tuple[str, tuple[float, float, float]]:
        """How sure ``best`` is the best; and its ratio to plain decoding with the interval of that."""
        speeds = what.speeds
        plain, chosen = speeds[PLAIN], speeds[best]
        gain, width = chosen.mean - plain.mean, 0.0
        if best != PLAIN:
            width = student(CONFIDENCE, what.freedom) * math.sqrt(plain.variance + chosen.variance)
        others = [method for method in speeds if method != best]
        rival = max((self._gap(method, best, what) + _margin(method) for method in others), default=-1.0)
        rival -= _margin(best)
        if len(speeds) < len(self._arms):  # stopped early: any of the others may be the best
            rival = math.inf
        return _sureness(rival, width, what.noise), (
            math.exp(gain),
            math.exp(gain - width),
            math.exp(gain + width),
        )

    # -- the search ------------------------------------------------------------------------------------------

    def _known(self) -> Known:
        return known(self._arms, [arm for arm in self._arms.values() if arm.logs])

    def _more(self) -> list[Method]:
        """The next one or two answers once every method was looked at; empty when it is enough."""
        what = self._known()
        if PLAIN not in what.speeds:
            return []
        speeds = what.speeds
        best = max(speeds, key=lambda method: _worth(method, speeds))
        others = [method for method in speeds if method != best]
        rival = max(others, key=lambda method: self._gap(method, best, what), default=best)
        unsure = self._gap(rival, best, what) > TOLERANCE or what.freedom < NOISE_FREEDOM + REPEATS
        wanted = [best, rival] if others and unsure else []
        second = max(others, key=lambda method: _worth(method, speeds), default=PLAIN)
        wanted += [method for method in (best, second, PLAIN) if len(self._arms[method].logs) < 2]
        # What is known much better than the others already has nothing to tell.
        most = max((speeds[method].variance for method in wanted), default=0.0)
        wanted = [method for method in dict.fromkeys(wanted) if speeds[method].variance > most / 4]
        self._flip = not self._flip  # A B B A
        return self._affordable(wanted if self._flip else wanted[::-1], what)

    def _affordable(self, wanted: Iterable[Method], what: Known) -> list[Method]:
        """Those of ``wanted`` that the engine time still allows."""
        left = self._share * self._whole(what) - self._spent
        found = []
        for method in wanted:
            start = statistics.fmean(self._overheads) if self._starts_again(method) else 0.0
            left -= REFERENCE / math.exp(what.speeds[method].mean) + start
            if left >= 0:
                found.append(method)
        return found

    def _whole(self, what: Known) -> float:
        """The engine time of the whole matrix, in seconds."""
        repeats = answers_needed(what.calm * MODEST)
        seconds = sum(repeats * REFERENCE / math.exp(it.mean) for it in what.speeds.values())
        if not self._overheads:
            return seconds
        starts = sum(repeats if self._starts_again(method) else 1 for method in what.speeds)
        return seconds + statistics.fmean(self._overheads) * starts

    def _starts_again(self, method: Method) -> bool:
        """Whether each answer of ``method`` needs a start: where plain decoding does, engines make room for each
        other; otherwise it is one that would remember its last answer."""
        return PLAIN in self._restarted or method in self._restarted

    def _gap(self, rival: Method, best: Method, what: Known) -> float:
        """By how much, as a logarithm, ``rival`` may at most be worth more than ``best``."""
        speeds = what.speeds
        deviation = math.sqrt(speeds[rival].variance + speeds[best].variance)
        gap = _worth(rival, speeds) - _worth(best, speeds) + student(CONFIDENCE, what.freedom) * deviation
        return gap + (SURPRISE if len(self._arms[rival].logs) == 1 else 0.0)


def _first_look(methods: Iterable[Method], prior: Method | None) -> list[Method]:
    """Of each drafter the longest and the shortest draft, then all without lengths; what ``prior`` says first."""
    families: dict[Method, list[Method]] = {}
    for method in methods:
        if method != PLAIN:
            families.setdefault(family(method) or method, []).append(method)
    found = [prior] if prior is not None and any(prior in lengths for lengths in families.values()) else []
    for lengths in sorted(families.values(), key=lambda lengths: family(lengths[0]) is None):
        by_length = sorted(lengths, key=lambda method: method.draft_max or 0)
        found += [by_length[-1], by_length[0]]
    return list(dict.fromkeys(found))


def _worth(method: Method, speeds: Mapping[Method, Estimate]) -> float:
    return speeds[method].mean - _margin(method)


def _margin(method: Method) -> float:
    """By how much, as a logarithm, ``method`` has to beat plain decoding to be worth a change."""
    return 0.0 if method == PLAIN else math.log(WORTH_IT)


def _sureness(rival: float, width: float, noise: float) -> str:
    """``rival``: by how much (a logarithm) another method may at most be faster; ``width``: half the interval of the
    ratio; ``noise``: the deviation of a single answer."""
    if noise > WILD:
        return "low"
    if rival <= TOLERANCE and width <= 0.10 and noise <= QUIET:
        return "high"
    return "medium" if rival <= 3 * TOLERANCE else "low"


def _text(
    best: Method, ratio: tuple[float, float, float], sure: str, tried: Sequence[Tried], unseen: int
) -> str:
    """The advice in words; ``unseen`` methods are not known at all."""
    answers = sum(one.answers for one in tried)
    others = [one for one in tried if one.method not in (best, PLAIN) and one.answers]
    if best == PLAIN:
        nearest = f" (the nearest, {others[0].method.name}, ran at {others[0].ratio:.2f}x)" if others else ""
        says = f"Decode plainly: nothing that was measured is clearly faster{nearest}."
    else:
        says = f"Use {best.name}: {ratio[0]:.2f}x plain decoding ({ratio[1]:.2f} to {ratio[2]:.2f})."
        if others:
            says += f" Next is {others[0].method.name} at {others[0].ratio:.2f}x."
    sureness = {
        "high": "The answers leave little room for another choice.",
        "medium": "Another choice might be a few per cent faster.",
        "low": "The answers differ too much from each other to be sure: measure again when this machine is quieter.",
    }[sure]
    if unseen:
        count = "1 method was" if unseen == 1 else f"{unseen} methods were"
        sureness = f"{count} not measured, so a better one may be missing."
    return f"{says} {sureness} Measured with {answers} {'answer' if answers == 1 else 'answers'}."
