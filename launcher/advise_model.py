"""Pure: from a few measured answers to what every method and draft length would run at.

A verify step of a drafter takes t(n) = a + b n seconds for n drafted tokens (drafting and verifying together), and
yields E(n) = 1 + P1 + ... + Pn tokens, where Pi is the share of steps that keep draft number i: a longer draft changes
neither the places before it nor their shares. So the speed E(n) / t(n) of every length follows from a few measured
ones. Plain decoding has one token a step; n-gram types draft at no cost of their own and as far as the text lets them,
so their speed is taken as it was measured.

Everything is known as a logarithm with a variance: from a method's own answers, and from the line through the other
lengths, whose variance has a share (MISFIT) for what a line does not know, which grows where the measured lengths lie
off it; the two are combined by precision. A steady drift of the machine is estimated from repeats and removed; an
answer far from its fellows counts less (Huber's weights).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from launcher.methods import Method
from launcher.race_types import Run, acceptance_by_position

REFERENCE = 300  # tokens of the answer that deviations are stated for
NOISE = 0.06  # deviation of such an answer, assumed as firmly as NOISE_FREEDOM answers would show it
NOISE_FREEDOM = 4
CALM = 0.02  # the same, where a machine must not be thought noisier than it is
DRIFT = 0.05  # assumed deviation of the drift over the whole search
MISFIT = 0.03  # deviation of a step's time from the line, assumed as firmly as two lengths would show it
GUESS = 0.35  # deviation of a step's time guessed from one other length
HUBER = 2.0  # deviations beyond which an answer counts less
BLOCK = 8.0  # accepted tokens of an n-gram type's block where nothing is told


@dataclass(frozen=True)
class Sample:
    """A measured answer: ``seconds`` of decoding for ``tokens``, of them ``accepted`` from ``drafted`` ones.

    ``accepted_by_position``: for each place in the draft the share of blocks that kept it (None: not told; then
    one share is assumed for all, given that those before were kept). ``overhead_s``: what else the engine did for
    it, in seconds: start, warm-up, prompt.
    """

    seconds: float
    tokens: int
    drafted: int = 0
    accepted: int = 0
    accepted_by_position: tuple[float, ...] | None = None
    overhead_s: float = 0.0

    @property
    def steps(self) -> int:
        """Each step yields what it accepts and one token of the target's own."""
        return max(self.tokens - self.accepted, 1)


def sample_of(run: Run, method: Method, overhead_s: float = 0.0) -> Sample | None:
    """The figures of a race's ``run`` by ``method``; None when it was too short to have a speed."""
    timings = run.timings
    if not run.counts or not timings.tokens_per_second:
        return None
    return Sample(
        seconds=timings.predicted_tokens / timings.tokens_per_second,
        tokens=timings.predicted_tokens,
        drafted=timings.draft_n or 0,
        accepted=timings.draft_n_accepted or 0,
        accepted_by_position=acceptance_by_position(run.steps, method.draft_max),
        overhead_s=overhead_s,
    )


def family(method: Method) -> Method | None:
    """``method`` without its draft length, if it drafts with one model and to a length; None for plain decoding, n-gram
    types and mixes, which are taken as they are measured."""
    if method.drafter_needed and len(method.types) == 1 and method.draft_max is not None:
        return replace(method, draft_max=None)
    return None


class Estimate(NamedTuple):
    """Of a logarithm."""

    mean: float
    variance: float


@dataclass
class Answers:
    """What was measured of one method. ``logs`` are of seconds a step (without a family: a token), ``times`` the engine
    seconds spent before, ``weights`` count an answer of REFERENCE tokens as 1: half of what disturbs an
    answer lasts as long as the answer, half averages out in it."""

    method: Method
    samples: list[Sample] = field(default_factory=list)
    logs: list[float] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def add(self, sample: Sample, at: float) -> None:
        """One more, ``at`` so many engine seconds."""
        units = sample.steps if family(self.method) else sample.tokens
        self.samples.append(sample)
        self.logs.append(math.log(sample.seconds / units))
        self.weights.append(2 / (1 + REFERENCE / sample.tokens))
        self.times.append(at)

    @property
    def luck(self) -> float:
        """Variance of the logarithm of an n-gram type's speed over REFERENCE tokens that comes from the few and
        long drafts which the text happens to allow: that of a sum of so many blocks, over its square. The steps of
        a family are timed and their acceptance is counted apart, so there it is 0."""
        if family(self.method):
            return 0.0
        square = sum(_squares(sample) for sample in self.samples)
        return square / sum(sample.tokens for sample in self.samples) / REFERENCE


@dataclass(frozen=True)
class Known:
    """``speeds``: the logarithm of each method's tokens a second, where anything can be said.

    ``noise``: deviation of an answer of REFERENCE tokens; ``calm``: the same, rather too small than too large;
    ``freedom``: how many degrees they rest on, for Student's quantiles.
    """

    speeds: Mapping[Method, Estimate]
    noise: float
    calm: float
    freedom: int


def known(methods: Iterable[Method], answers: Sequence[Answers]) -> Known:
    """What ``answers`` (of some methods, one or more each) say of all ``methods``."""
    times, noise, calm, freedom = _times(answers)
    speeds = {
        method: Estimate(-time.mean, time.variance)
        for method, time in times.items()
        if family(method) is None
    }
    families: dict[Method, list[Method]] = {}
    for method in methods:
        if own := family(method):
            families.setdefault(own, []).append(method)
    for own, lengths in families.items():
        places = _places([one for one in answers if family(one.method) == own])
        line = {method.draft_max or 1: times[method] for method in lengths if method in times}
        for method in lengths:
            time = _time(method.draft_max or 1, line)
            if time is not None:
                tokens = _tokens(places[: method.draft_max])
                speeds[method] = Estimate(tokens.mean - time.mean, tokens.variance + time.variance)
    return Known(speeds, noise, calm, freedom)


# -- seconds ---------------------------------------------------------------------------------------------------


def _times(answers: Sequence[Answers]) -> tuple[dict[Method, Estimate], float, float, int]:
    """The logarithm of the seconds a step (without a family: a token), without drift and disturbances; and the
    ``noise``, ``calm`` and ``freedom`` of Known."""
    slope = _drift(answers)
    noise, calm, freedom = NOISE, CALM, NOISE_FREEDOM
    means: dict[Method, tuple[float, float, float]] = {}
    for _ in range(2):  # the weights follow from the noise, which follows from the weights
        freedom = NOISE_FREEDOM
        spread, repeats = freedom * NOISE**2, list[float]()
        for one in answers:
            values = [log - slope * at for log, at in zip(one.logs, one.times, strict=True)]
            middle, luck = statistics.median(values), one.luck
            weights = []
            for value, weight in zip(values, one.weights, strict=True):
                off = abs(value - middle) * math.sqrt(weight / (noise**2 + luck))
                weights.append(weight * min(1.0, HUBER / off) if off else weight)
            mean = _mean(weights, values)
            means[one.method] = (mean, sum(weights), luck)
            if not luck:
                squares = [w * (v - mean) ** 2 for w, v in zip(weights, values, strict=True)]
                spread += sum(squares)
                freedom += len(values) - 1
                if len(values) > 1:
                    repeats += [square * len(values) / (len(values) - 1) for square in squares]
        # The median square of a normal deviate is 0.455 of the mean one, and minds no disturbed answer.
        usual = (freedom - NOISE_FREEDOM) * statistics.median(repeats) / 0.455 if repeats else 0.0
        noise, calm = math.sqrt(spread / freedom), math.sqrt((NOISE_FREEDOM * CALM**2 + usual) / freedom)
    found = {
        method: Estimate(mean, (noise**2 + luck) / total) for method, (mean, total, luck) in means.items()
    }
    return found, noise, calm, freedom


def _drift(answers: Sequence[Answers]) -> float:
    """Change of the logarithm a second of engine time: least squares within each method, held back by DRIFT."""
    end = max((one.times[-1] for one in answers), default=0.0)
    if end <= 0:
        return 0.0
    above, below = 0.0, (NOISE / DRIFT * end) ** 2
    for one in answers:
        middle, mean = _mean(one.weights, one.times), _mean(one.weights, one.logs)
        for weight, at, log in zip(one.weights, one.times, one.logs, strict=True):
            above += weight * (at - middle) * (log - mean)
            below += weight * (at - middle) ** 2
    return above / below


def _time(length: int, line: Mapping[int, Estimate]) -> Estimate | None:
    """The logarithm of the seconds of a step with ``length`` drafts: measured, and as the other lengths say."""
    own = line.get(length)
    others = {at: it for at, it in line.items() if at != length}
    foreseen = _foreseen(length, others)
    if own is None or foreseen is None or len(others) < 2:
        return own or foreseen
    weights = 1 / own.variance, 1 / foreseen.variance
    return Estimate(_mean(weights, (own.mean, foreseen.mean)), 1 / sum(weights))


def _foreseen(length: int, others: Mapping[int, Estimate]) -> Estimate | None:
    """What the line t = a + b n through ``others`` says: weighted least squares with neither a nor b below zero.
    From a single length little can be said, from none nothing."""
    if not others:
        return None
    if len(others) == 1:
        (only,) = others.values()
        return Estimate(only.mean, only.variance + GUESS**2)
    at = sorted(others)
    seconds = [math.exp(others[n].mean) for n in at]
    weights = [1 / ((others[n].variance + MISFIT**2) * t**2) for n, t in zip(at, seconds, strict=True)]
    middle, height = _mean(weights, at), _mean(weights, seconds)
    across = sum(w * (n - middle) ** 2 for w, n in zip(weights, at, strict=True))
    tilt = sum(w * (n - middle) * (t - height) for w, n, t in zip(weights, at, seconds, strict=True))
    slope = min(max(tilt / across, 0.0), height / middle)
    found = height + slope * (length - middle)
    sampling = (1 / sum(weights) + (length - middle) ** 2 / across) / found**2
    misfit = 2 * MISFIT**2
    for n, t in zip(at, seconds, strict=True):
        misfit += max(math.log(t / (height + slope * (n - middle))) ** 2 - others[n].variance, 0.0)
    outside = max(at[0] - length, length - at[-1], 0) / (at[-1] - at[0])
    return Estimate(math.log(found), sampling + misfit / len(at) * (1 + 2 * outside) ** 2)


def _mean(weights: Sequence[float], values: Sequence[float]) -> float:
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)


# -- tokens ----------------------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """The share of steps that keep the draft in this place, seen in so many ``steps``."""

    share: float
    steps: int


def _places(answers: Sequence[Answers]) -> list[_Place]:
    """Acceptance by place in the draft, of all answers that drafted so far, whatever their draft length."""
    kept: dict[int, float] = {}
    steps: dict[int, int] = {}
    for one in answers:
        length = one.method.draft_max or 1
        for sample in one.samples:
            shares = (sample.accepted_by_position or _even(sample, length))[:length]
            scale = sample.accepted / sum(shares) if sum(shares) else 0.0  # to steps that drafted less, too
            for place in range(length):
                kept[place] = kept.get(place, 0.0) + (shares[place] * scale if place < len(shares) else 0.0)
                steps[place] = steps.get(place, 0) + sample.steps
    return [_Place(min(kept[place] / steps[place], 1.0), steps[place]) for place in sorted(kept)]


def _even(sample: Sample, length: int) -> tuple[float, ...]:
    """q, q^2, ... with the sum that ``sample`` shows: each draft is kept with q, given that those before were."""
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        if sum(middle**place for place in range(1, length + 1)) < sample.accepted / sample.steps:
            low = middle
        else:
            high = middle
    return tuple(high**place for place in range(1, length + 1))


def _tokens(places: Sequence[_Place]) -> Estimate:
    """The logarithm of E = 1 + P1 + ... + Pn, the tokens of a step. Its variance is that of the accepted drafts A, a
    whole number of which Pi is the chance to be i or more: E[A^2] is the sum of (2i - 1) Pi."""
    if not places:
        return Estimate(0.0, 0.0)
    mean = sum(place.share for place in places)
    square = sum((2 * number - 1) * place.share for number, place in enumerate(places, 1))
    # An answer that kept all or nothing is no proof that the next one will.
    variance = max(square - mean**2, 0.05) / places[-1].steps
    return Estimate(math.log(1 + mean), variance / (1 + mean) ** 2)


def _squares(sample: Sample) -> float:
    """The sum over blocks of the square of their accepted tokens; BLOCK each where nothing is told."""
    shares = sample.accepted_by_position
    if not shares or not sum(shares):
        return BLOCK * sample.accepted
    return sample.accepted / sum(shares) * sum((2 * at - 1) * share for at, share in enumerate(shares, 1))
