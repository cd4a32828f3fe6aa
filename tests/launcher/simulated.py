"""Machines that exist as numbers alone: costs and acceptance drawn around figures that others have published.

A machine draws its own step costs and acceptance from one of ANCHORS (what plain and drafted decoding ran at there),
so that drafts of the published length run at the published ratio; other lengths, the split into drafting and
verifying, the n-gram types and the noise are drawn freely. Each seed is one machine, the same for ever.
"""

from __future__ import annotations

import math
import random
import statistics
from collections import OrderedDict
from dataclasses import dataclass, field

from launcher.advise import Advice, Advisor, Sample, Trial
from launcher.lab_types import LabPlan
from launcher.methods import LENGTHS, PLAIN, Method
from launcher.race_stats import spread

NGRAM = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
PLAN = LabPlan((), ())  # what the lab does when nothing else is asked for
TOKENS = PLAN.max_tokens
WARM_UP = 32  # tokens of the answer that is thrown away after each start
DISTURBED = 0.03  # share of answers during which something else is at work


@dataclass(frozen=True)
class Anchor:
    """Published: plain tokens/s, the ratio of drafts of ``length`` to plain, and the share of accepted tokens."""

    name: str
    spec_type: str
    plain: tuple[float, float]
    ratio: tuple[float, float]
    acceptance: tuple[float, float]
    length: int = 4
    block: tuple[int, ...] = (4,)


ANCHORS = (
    Anchor("datacenter CUDA, 27B, code", "draft-dspark", (68, 72), (1.85, 2.0), (0.85, 0.9)),
    Anchor("L40S, 27B", "draft-dspark", (71, 74), (1.8, 2.4), (0.55, 0.9)),
    Anchor("L40S, 1-bit 27B", "draft-dspark", (105, 109), (1.5, 1.7), (0.5, 0.85)),
    Anchor("RTX 5060 Ti", "draft-dspark", (43, 45), (1.7, 1.85), (0.5, 0.85)),
    Anchor("GB10, new line", "draft-dspark", (28, 29), (2.2, 2.45), (0.6, 0.9)),
    Anchor("GB10, old line", "draft-dspark", (28, 29), (0.8, 1.05), (0.4, 0.9)),
    Anchor("M5 Max, code", "draft-dspark", (24, 40), (1.1, 1.3), (0.6, 0.9)),
    Anchor("M5 Max, chat", "draft-dspark", (24, 40), (0.7, 0.97), (0.2, 0.5)),
    Anchor("M4 Pro", "draft-dspark", (12, 15), (0.17, 0.6), (0.5, 0.7)),
    Anchor("M1 Pro", "draft-dspark", (8, 12), (0.4, 0.9), (0.3, 0.7)),
    Anchor("7B + 0.5B, code", "draft-simple", (50, 90), (1.5, 2.5), (0.6, 0.9), 3),
    Anchor("7B + 0.5B, prose", "draft-simple", (50, 90), (1.2, 1.6), (0.4, 0.7), 3),
    Anchor("community drafter, block of 7", "draft-dspark", (40, 75), (1.2, 2.3), (0.3, 0.7), 5, (7,)),
    Anchor("two CPU cores, code", "draft-dspark", (57, 105), (1.2, 1.6), (0.8, 0.9)),
    Anchor("two CPU cores, prose", "draft-dspark", (53, 100), (0.6, 0.75), (0.2, 0.3)),
)


@dataclass(frozen=True)
class Drafting:
    """One kind of drafter here. Costs in plain steps: a step with n drafts takes 1 + fixed + slope n, and
    ``jump`` more where its block outgrows what the kernels take at once (``jump_at`` drafts).

    ``positions[i]`` is the share of steps whose draft number i + 1 is kept.
    """

    fixed: float
    slope: float
    jump: float
    jump_at: int
    positions: tuple[float, ...]

    def cost(self, length: int) -> float:
        return 1 + self.fixed + self.slope * length + (self.jump if length >= self.jump_at else 0.0)

    def yields(self, length: int) -> float:
        return 1 + sum(self.positions[:length])


@dataclass(frozen=True)
class Lookup:
    """An n-gram type here: a share ``found`` of the steps drafts ``length`` tokens, each kept with ``kept`` as
    long as those before it were; verifying them costs ``slope`` plain steps each, drafting nothing."""

    found: float
    length: int
    kept: float
    slope: float

    @property
    def cost(self) -> float:
        return 1 + self.found * self.slope * self.length

    @property
    def yields(self) -> float:
        return 1 + self.found * sum(self.kept**place for place in range(1, self.length + 1))


@dataclass
class SimulatedMachine:
    """``noise`` is the deviation of an answer of 300 tokens (shorter ones deviate more), ``drift`` the change of
    speed over 60 plain answers, both as logarithms; ``room`` is how many engines stay loaded."""

    name: str
    kind: str
    plain_s: float
    drafting: dict[str, Drafting]
    lookup: dict[str, Lookup]
    candidates: tuple[Method, ...]
    noise: float
    drift: float
    start_s: float
    room: int
    rng: random.Random = field(repr=False)
    spent_s: float = 0.0
    _loaded: OrderedDict[Method, None] = field(default_factory=OrderedDict, repr=False)

    def speed(self, method: Method) -> float:
        """The true decode speed, tokens a second."""
        if method == PLAIN:
            return 1 / self.plain_s
        if method.spec_type in self.lookup:
            found = self.lookup[method.spec_type]
            return found.yields / (found.cost * self.plain_s)
        length = method.draft_max or 0
        drafting = self.drafting[method.spec_type]
        return drafting.yields(length) / (drafting.cost(length) * self.plain_s)

    @property
    def best(self) -> Method:
        return max(self.candidates, key=self.speed)

    def exhaustive(self) -> Exhaustive:
        """The whole matrix: each round has plain decoding and every method whose ratio is not known well enough
        yet, in random order; each answer needs a start where not all engines stay loaded."""
        rng = random.Random(repr(self))
        cells: dict[Method, list[float]] = {method: [] for method in self.candidates if method != PLAIN}
        seconds = 0.0
        for number in range(1, PLAN.most + 1):
            left = [method for method, ratios in cells.items() if not _narrow(ratios)]
            if not left:
                break
            starts = self.room < len(self.candidates) or number == 1
            seconds += sum(
                TOKENS / self.speed(method) + starts * self._start(method) for method in (PLAIN, *left)
            )
            plain = self._off(rng, TOKENS)
            for method in left:
                off = self._off(rng, TOKENS) - plain
                cells[method].append(self.speed(method) / self.speed(PLAIN) * math.exp(-off))
        ratios = {method: statistics.median(found) for method, found in cells.items()}
        best = max(ratios, key=ratios.__getitem__)
        answers = statistics.fmean(map(len, cells.values()))
        return Exhaustive(seconds, answers, best if ratios[best] > 1 else PLAIN)

    def run(self, trial: Trial) -> Sample:
        """One answer, with all that disturbs it."""
        overhead = 0.0
        if trial.method not in self._loaded:
            overhead = self._start(trial.method)
            while len(self._loaded) >= self.room:
                self._loaded.popitem(last=False)
            self._loaded[trial.method] = None
        self._loaded.move_to_end(trial.method)
        steps = self._steps(trial)
        tokens = sum(accepted + 1 for _, accepted in steps)
        costs = sum(self._cost(trial.method, drafted) for drafted, _ in steps)
        drift = self.drift * self.spent_s / (60 * TOKENS * self.plain_s)
        seconds = costs * self.plain_s * math.exp(self._off(self.rng, tokens) + drift)
        self.spent_s += seconds + overhead
        drafts = [step for step in steps if step[0]]
        longest = max((drafted for drafted, _ in steps), default=0)
        shares = tuple(sum(kept > place for _, kept in drafts) / len(drafts) for place in range(longest))
        return Sample(
            seconds=seconds,
            tokens=tokens,
            drafted=sum(drafted for drafted, _ in steps),
            accepted=sum(accepted for _, accepted in steps),
            accepted_by_position=shares or None,
            overhead_s=overhead,
        )

    def _off(self, rng: random.Random, tokens: int) -> float:
        """How far an answer is off its time: half of it lasts as long as an answer, half averages out in it."""
        disturbed = 0.25 if rng.random() < DISTURBED else 0.0
        return rng.gauss(0, self.noise * math.sqrt((1 + TOKENS / tokens) / 2)) + disturbed

    def _start(self, method: Method) -> float:
        return self.start_s + WARM_UP / self.speed(method)

    def _cost(self, method: Method, drafted: int) -> float:
        if not drafted:
            return 1.0
        if method.spec_type in self.lookup:
            return 1 + self.lookup[method.spec_type].slope * drafted
        return self.drafting[method.spec_type].cost(drafted)

    def _steps(self, trial: Trial) -> list[tuple[int, int]]:
        """(drafted, accepted) of each step."""
        steps: list[tuple[int, int]] = []
        tokens, method, rng = 0, trial.method, self.rng
        while tokens < trial.tokens:
            drafted = accepted = 0
            if method.spec_type in self.lookup:
                found = self.lookup[method.spec_type]
                if rng.random() < found.found:
                    drafted = found.length
                    while accepted < drafted and rng.random() < found.kept:
                        accepted += 1
            elif method != PLAIN:
                drafted = method.draft_max or 0
                dice = rng.random()
                positions = self.drafting[method.spec_type].positions
                while accepted < drafted and dice < positions[accepted]:
                    accepted += 1
            steps.append((drafted, accepted))
            tokens += accepted + 1
        return steps


def _narrow(ratios: list[float]) -> bool:
    """The lab's own rule."""
    if len(ratios) < PLAN.least:
        return False
    low, high = spread(ratios, PLAN.confidence)
    return high / low <= (1 + PLAN.precision) ** 2


def machine(seed: int) -> SimulatedMachine:
    """The machine of ``seed``; the anchors take turns."""
    rng = random.Random(f"simulated machine {seed}")
    anchor = ANCHORS[seed % len(ANCHORS)]
    block = anchor.block[0]
    lengths = tuple(range(1, block + 1)) if anchor.spec_type == "draft-dspark" else LENGTHS["draft-simple"]
    drafting = {anchor.spec_type: _drafting(rng, anchor, max(lengths))}
    candidates = [PLAIN, *(Method(anchor.spec_type, length) for length in lengths)]
    if rng.random() < 0.35:
        other = Anchor("", "draft-mtp", (0, 0), (0.9, 1.7), (0.4, 0.9), 2)
        drafting["draft-mtp"] = _drafting(rng, other, 3)
        candidates += [Method("draft-mtp", length) for length in LENGTHS["draft-mtp"]]
    kind = rng.choice(("code", "prose", "chat", "rewrite"))
    types = rng.sample(NGRAM, rng.randint(3, 5))
    # What it costs to verify one more token: little where a GPU has arithmetic to spare.
    verify = rng.uniform(0.01, 0.06) if anchor.ratio[1] > 1.5 else rng.uniform(0.06, 0.3)
    lookup = {name: _lookup(rng, kind, verify) for name in types}
    start_s, room = rng.choice(((0.3, 0), (1.5, 2), (1.5, 1), (4.0, 2), (4.0, 1)))
    candidates += [Method(name) for name in types]
    return SimulatedMachine(
        name=anchor.name,
        kind=kind,
        plain_s=1 / rng.uniform(*anchor.plain),
        drafting=drafting,
        lookup=lookup,
        candidates=tuple(candidates),
        noise=rng.uniform(0.02, 0.08),
        drift=rng.uniform(-0.03, 0.08),
        start_s=start_s,
        room=room or len(candidates),
        rng=rng,
    )


def _drafting(rng: random.Random, anchor: Anchor, longest: int) -> Drafting:
    decay = rng.uniform(0.75, 1.0)
    positions = _positions(rng.uniform(*anchor.acceptance), anchor.length, decay, longest)
    ratio = math.exp(rng.uniform(*map(math.log, anchor.ratio)))
    above = max((1 + sum(positions[: anchor.length])) / ratio - 1, 0.04)  # plain steps above one
    jump = rng.choice((0.0, 0.0, rng.uniform(0.05, 0.2) * above))
    jump_at = rng.choice((2, 4, 8))
    if jump_at <= anchor.length:
        above -= jump
    fixed = rng.uniform(0.0, 0.8 if anchor.spec_type == "draft-dspark" else 0.3) * above
    return Drafting(fixed, (above - fixed) / anchor.length, jump, jump_at, positions)


def _positions(share: float, length: int, decay: float, longest: int) -> tuple[float, ...]:
    """Places of which the first ``length`` are kept to ``share`` on average; each place is kept, given the one
    before it, ``decay`` times as often as that one."""

    def kept(first: float) -> list[float]:
        found, here, alive = [], first, 1.0
        for _ in range(longest):
            alive *= here
            found.append(alive)
            here *= decay
        return found

    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if sum(kept(middle)[:length]) / length < share:
            low = middle
        else:
            high = middle
    return tuple(kept(high))


def _lookup(rng: random.Random, kind: str, verify: float) -> Lookup:
    """Rewriting repeats the prompt; code repeats itself a little, prose and chat hardly."""
    found, kept = {
        "rewrite": (rng.uniform(0.15, 0.6), rng.uniform(0.6, 0.95)),
        "code": (rng.uniform(0.02, 0.2), rng.uniform(0.4, 0.8)),
    }.get(kind, (rng.uniform(0.0, 0.06), rng.uniform(0.1, 0.5)))
    return Lookup(found, rng.choice((4, 8, 12)), kept, verify)


@dataclass(frozen=True)
class Exhaustive:
    """Engine time of the whole matrix, answers of each cell on average, and what it finds the fastest."""

    seconds: float
    answers: float
    pick: Method


@dataclass(frozen=True)
class Score:
    """How the advisor did on one machine. Losses: the share of the best true speed that a pick lacks; ``share``: the
    engine time of the search over that of the whole matrix."""

    machine: SimulatedMachine
    advice: Advice
    exhaustive: Exhaustive
    best: Method
    loss: float
    exhaustive_loss: float
    share: float


def score(seed: int) -> Score:
    """Run the advisor, and the whole matrix, on the machine of ``seed``."""
    room = machine(seed)
    whole = room.exhaustive()
    advisor = Advisor(room.candidates)
    while (trial := advisor.next()) is not None:
        advisor.tell(trial, room.run(trial))
    advice = advisor.verdict()

    def loss(pick: Method) -> float:
        return 1 - room.speed(pick) / room.speed(room.best)

    return Score(
        machine=room,
        advice=advice,
        exhaustive=whole,
        best=room.best,
        loss=loss(advice.method),
        exhaustive_loss=loss(whole.pick),
        share=room.spent_s / whole.seconds,
    )
