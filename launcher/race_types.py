"""What a race is made of and what it tells while it runs, as values. Speeds in tokens a second, times in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from launcher.client.events import Timings
from launcher.hardware.model import Machine
from launcher.methods import Method
from launcher.plan import LaunchPlan

MOST_ROUNDS = 6
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Prompt:
    """``kind`` (code, prose, ...) and ``language`` (en, it, de) are empty for a person's own."""

    text: str
    kind: str = ""
    language: str = ""


@dataclass(frozen=True)
class RaceSpec:
    """Two plans that differ by their method alone, and the one request that both get.

    ``rounds`` is the most of them; ``adaptive`` stops earlier, as soon as the answer is sure. ``thinking``
    None: on for prompts that ask for it by kind, else off. ``confidence`` is that of the spread, 0 to 1.
    """

    plans: tuple[LaunchPlan, LaunchPlan]
    prompt: Prompt
    rounds: int = MOST_ROUNDS
    adaptive: bool = True
    max_tokens: int = 300
    temperature: float = 0.0
    seed: int = 42
    thinking: bool | None = None
    confidence: float = CONFIDENCE
    machine: Machine | None = None

    @property
    def thinks(self) -> bool:
        """Whether the model may think before it answers."""
        return self.prompt.kind == "thinking" if self.thinking is None else self.thinking


@dataclass(frozen=True)
class Side:
    """One contestant as it was started. ``argv`` is its command line, the program included."""

    name: str
    method: Method
    argv: tuple[str, ...] = field(repr=False)
    engine: str  # kind and version
    model: str
    model_path: str
    drafter_path: str | None
    practice: bool
    context: int


class Mark(NamedTuple):
    """One piece of the answer on the time line: ``at_s`` after the first one, ``chars`` of the text (or of
    the thoughts), covering ``tokens``; ``origin`` is "draft", "target" or "" (unknown)."""

    at_s: float
    chars: int
    tokens: int
    origin: str
    thinking: bool


class Step(NamedTuple):
    """One verify block: ``drafted`` tokens proposed, the first ``accepted`` kept, ``at_s`` after the first token."""

    at_s: float
    drafted: int
    accepted: int


@dataclass(frozen=True)
class Run:
    """One measured answer of one side; ``side`` is 0 or 1, ``round`` counts from 1.

    ``ended`` is the engine's finish reason, or "stopped" (by the person) or "failed": such a run is kept to
    be read, but not counted. ``started`` is in seconds since 1970.
    """

    side: int
    round: int
    timings: Timings
    text: str = field(repr=False)
    thinking: str = field(repr=False)
    marks: tuple[Mark, ...] = field(repr=False)
    steps: tuple[Step, ...] = field(repr=False)
    ended: str
    started: float

    @property
    def finished(self) -> bool:
        """Whether it went to its end."""
        return self.ended not in ("stopped", "failed")

    @property
    def counts(self) -> bool:
        """Whether it can be compared: it went to its end, and was long enough to have a speed."""
        return self.finished and bool(self.timings.tokens_per_second)

    @property
    def whole(self) -> str:
        """Everything that the engine wrote, thoughts first: what "identical" compares."""
        return f"{self.thinking}\n\n{self.text}" if self.thinking else self.text


@dataclass(frozen=True)
class Difference:
    """Where two texts part: at character ``char`` of the whole answer, which is in its token number ``token``
    (both from 0); ``a`` and ``b`` are what stands there, with a little before it; ``why`` is a sentence."""

    char: int
    token: int
    a: str
    b: str
    why: str


@dataclass(frozen=True)
class Verdict:
    """``ratio`` is side 1's decode speed over side 0's, the median of the rounds; None before a whole round.

    ``spread`` is its interval at ``confidence`` (see race_stats), ``word`` "faster", "no difference" or "slower",
    read from the spread; empty without a ratio. ``sure``: more rounds would hardly change the word.
    ``time_saved_s`` is for this answer, negative when time was lost. ``identical`` is None above temperature 0.
    """

    rounds: int = 0
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    confidence: float = CONFIDENCE
    word: str = ""
    sure: bool = False
    time_saved_s: float | None = None
    identical: bool | None = None
    first_difference: Difference | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Race:
    """A race that is over, whole or not.

    ``runs`` are in the order in which they were made. ``ended`` is "sure", "rounds" (all that were asked for),
    "stopped" (by the person) or "failed", with ``problem`` and ``remedy``. ``swapped``: the engines did not fit
    into memory together. ``machine`` has (what, value) lines for people, ``created`` is in seconds since 1970.
    """

    id: str
    created: float
    prompt: Prompt
    sides: tuple[Side, Side]
    runs: tuple[Run, ...] = field(repr=False)
    verdict: Verdict
    ended: str
    problem: str = ""
    remedy: str = ""
    swapped: bool = False
    max_tokens: int = 300
    temperature: float = 0.0
    seed: int = 42
    thinking: bool = False
    rounds_asked: int = MOST_ROUNDS
    machine: tuple[tuple[str, str], ...] = ()

    @property
    def order(self) -> tuple[str, ...]:
        """The names of the sides as they ran, without answers that were cut."""
        return tuple(self.sides[run.side].name for run in self.runs if run.finished)

    def of(self, side: int) -> tuple[Run, ...]:
        """The runs of one side that count."""
        return tuple(run for run in self.runs if run.side == side and run.counts)


# --- told while it runs ---------------------------------------------------------------------


@dataclass(frozen=True)
class RaceStarted:
    """``number`` of ``total`` races (of a set); a single race is 1 of 1."""

    number: int
    total: int
    prompt: Prompt
    sides: tuple[Side, Side]
    rounds: int


@dataclass(frozen=True)
class Preparing:
    """The engine of ``side`` is being loaded, or warmed up by an answer that does not count."""

    side: int
    message: str


@dataclass(frozen=True)
class RunStarted:
    """A measured answer begins: clear the pane of ``side``."""

    side: int
    round: int


@dataclass(frozen=True)
class Reading:
    """Prompt processing: ``processed`` of ``total`` tokens."""

    side: int
    processed: int
    total: int


@dataclass(frozen=True)
class Piece:
    """More text. ``at_s`` after the answer's first piece, as it arrived; ``origin`` as in Mark."""

    side: int
    text: str
    thinking: bool
    origin: str
    tokens: int
    at_s: float


@dataclass(frozen=True)
class Block:
    """A verify block; its pieces follow."""

    side: int
    drafted: int
    accepted: int
    at_s: float


@dataclass(frozen=True)
class Live:
    """Running figures, some ten times a second."""

    side: int
    timings: Timings


@dataclass(frozen=True)
class RunDone:
    """The figures and the corrected time line of a measured answer."""

    run: Run


@dataclass(frozen=True)
class RoundDone:
    """Both sides have run; ``verdict`` is that of the rounds so far."""

    round: int
    verdict: Verdict


@dataclass(frozen=True)
class Note:
    """A sentence that the person should see now."""

    text: str


@dataclass(frozen=True)
class Ended:
    """The race is over; nothing follows (of this race)."""

    race: Race


RaceEvent = (
    RaceStarted | Preparing | RunStarted | Reading | Piece | Block | Live | RunDone | RoundDone | Note | Ended
)


def acceptance_by_position(steps: Sequence[Step], longest: int | None = None) -> tuple[float, ...] | None:
    """For each place in the draft the share of blocks that kept it, among those that reached so far.

    None when nothing was drafted. ``longest`` is the draft length: blocks beyond it are several that the
    stream told as one, and tell nothing about places.
    """
    told = [step for step in steps if step.drafted and (longest is None or step.drafted <= longest)]
    length = max((step.drafted for step in told), default=0)
    shares = []
    for place in range(length):
        reached = [step for step in told if step.drafted > place]
        shares.append(sum(step.accepted > place for step in reached) / len(reached))
    return tuple(shares) or None


def tokens_per_step(steps: Sequence[Step]) -> float | None:
    """Tokens that one verify step yields on average: what was accepted and the target's own; None: no steps."""
    told = [step for step in steps if step.drafted]
    return 1 + sum(step.accepted for step in told) / len(told) if told else None
