"""What the lab is made of and what it tells while it runs, as values. Speeds in tokens a second, times in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from launcher.client.events import Timings
from launcher.methods import Method
from launcher.plan import LaunchPlan
from launcher.race_types import CONFIDENCE, Prompt, Side

MAX_TOKENS = 300
SEED = 42
TEMPERATURES = (0.0, 1.0)
P_MIN = 0.5
PRECISION = 0.05  # half the width of a ratio's interval that is narrow enough, as a share of the ratio
MOST_RUNS = 12  # of one cell; who differs more than that from itself is not measured better by more


@dataclass(frozen=True)
class Cell:
    """One thing to measure: a kind of text (code, prose, ...), a method, a temperature. Equal cells are the same."""

    kind: str
    method: Method
    temperature: float

    @property
    def baseline(self) -> Cell:
        """The plain cell that it is compared with."""
        return Cell(self.kind, Method(), self.temperature)


class Place(NamedTuple):
    """One place in a draft, over an answer: verify blocks whose draft reached it, and those that kept it."""

    reached: int
    kept: int


@dataclass(frozen=True)
class CellRun:
    """One measured answer. ``block`` counts from 1: in each block every cell is measured at most once, its baseline
    among them.

    ``text`` is all that was written, thoughts first. ``places``: acceptance by place in the draft (first place
    first); empty when nothing was drafted or the stream told several blocks as one. ``started`` is in seconds
    since 1970.
    """

    cell: Cell
    block: int
    timings: Timings
    text: str = field(repr=False)
    places: tuple[Place, ...] = field(default=(), repr=False)
    ended: str = "length"
    started: float = 0.0

    @property
    def rate(self) -> float:
        """Decode speed, tokens a second; runs without one are never kept."""
        return self.timings.tokens_per_second or 0.0

    @property
    def drafted(self) -> int:
        """Tokens that were proposed."""
        return self.timings.draft_n or 0

    @property
    def accepted(self) -> int:
        """Proposed tokens that were kept."""
        return self.timings.draft_n_accepted or 0

    @property
    def steps(self) -> int:
        """Times that the target ran after the prompt: each time it adds one token of its own to those accepted, and
        the first token comes with the prompt."""
        return max(self.timings.predicted_tokens - 1 - self.accepted, 0)

    @property
    def step_s(self) -> float | None:
        """Seconds of one step, drafting and verifying together: all decoding over ``steps``."""
        if not self.steps or not self.rate:
            return None
        return self.timings.predicted_tokens / self.rate / self.steps

    @property
    def draft_length(self) -> float:
        """Tokens that a step drafted on average."""
        return self.drafted / self.steps if self.steps else 0.0


@dataclass(frozen=True)
class Refused:
    """A method that cannot be measured here, with the reason as a sentence."""

    method: Method
    why: str


@dataclass(frozen=True)
class Subject:
    """What the figures are about: another target, drafter, engine or machine makes others.

    ``facts`` are (what, value) lines for people; ``marks`` (what, value) what has to be equal for two labs to be
    about the same: what is "target", "drafter", "engine" or "machine".
    """

    practice: bool
    facts: tuple[tuple[str, str], ...] = field(repr=False)
    marks: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(frozen=True)
class LabPlan:
    """What to measure and how long. ``prompts`` has one of each kind.

    ``least`` and ``most`` runs of a cell: repeated until the interval of its ratio at ``confidence`` is within
    ``precision`` of the ratio (0.05: ±5 %). ``budget_s``: no answer begins after so many seconds of measuring, all
    parts of the lab together; None: no limit. ``part_s``: what each going-on adds to it; None: the same again.
    ``seed`` is the request's and that of the order.
    """

    cells: tuple[Cell, ...]
    prompts: tuple[Prompt, ...]
    max_tokens: int = MAX_TOKENS
    seed: int = SEED
    thinking: bool | None = None
    least: int = 3
    most: int = MOST_RUNS
    precision: float = PRECISION
    confidence: float = CONFIDENCE
    budget_s: float | None = None
    quick: bool = False
    part_s: float | None = None

    def prompt(self, kind: str) -> Prompt:
        """The prompt of that kind; KeyError when there is none."""
        found = {prompt.kind: prompt for prompt in self.prompts}
        return found[kind]


@dataclass(frozen=True)
class Lab:
    """A lab, running or over, as it is kept on disk.

    ``runs`` are in the order in which they were made. ``ended``: "" while it is not over, "sure" (every interval is
    narrow enough), "runs" (as many as were asked for), "budget", "stopped" (by the person) or "failed", with
    ``problem`` and ``remedy``. ``spent_s`` is the time measured so far, over all its parts. ``failures``: methods that
    the engine gave up on while it was measured, with what it said; their cells are left out from then on.
    ``refused``: what the matrix cannot hold here. ``sides``: how each method was started.
    """

    id: str
    created: float  # seconds since 1970
    subject: Subject
    plan: LabPlan
    runs: tuple[CellRun, ...] = field(default=(), repr=False)
    refused: tuple[Refused, ...] = field(default=(), repr=False)
    failures: tuple[Refused, ...] = ()
    sides: tuple[Side, ...] = field(default=(), repr=False)
    ended: str = ""
    problem: str = ""
    remedy: str = ""
    spent_s: float = 0.0

    def of(self, cell: Cell) -> tuple[CellRun, ...]:
        """The runs of one cell."""
        return self._by_cell.get(cell, ())

    @cached_property
    def _by_cell(self) -> Mapping[Cell, tuple[CellRun, ...]]:
        """A large lab asks for each of its cells at every answer."""
        found: dict[Cell, list[CellRun]] = {}
        for run in self.runs:
            found.setdefault(run.cell, []).append(run)
        return {cell: tuple(runs) for cell, runs in found.items()}


@dataclass(frozen=True)
class CellFigures:
    """What is known of one cell. ``tokens_per_second`` is the median of its runs and ``speed_spread`` its interval.

    ``ratio`` is its speed over that of its baseline, block by block, the median; ``spread`` the ratio's interval (see
    race_stats); both None without a block that has both. ``identical``: whether it wrote what the baseline wrote; None
    above temperature 0 or without a baseline. ``narrow``: the interval is as narrow as was asked for.
    """

    cell: Cell
    runs: int
    tokens_per_second: float | None = None
    speed_spread: tuple[float, float] | None = None
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    acceptance: float | None = None
    acceptance_by_place: tuple[float, ...] | None = None
    tokens_per_step: float | None = None
    step_s: float | None = None
    identical: bool | None = None
    narrow: bool = False

    @property
    def word(self) -> str:
        """ "faster", "slower" or "no difference" than plain, by the interval; empty without one."""
        if self.spread is None:
            return ""
        low, high = self.spread
        return "faster" if low > 1 else "slower" if high < 1 else "no difference"


@dataclass(frozen=True)
class SweepPoint:
    """One draft length. ``break_even`` is the acceptance at which it would be as fast as plain decoding."""

    n_max: int
    tokens_per_second: float
    ratio: float
    spread: tuple[float, float]
    acceptance: float | None
    break_even: float | None


@dataclass(frozen=True)
class Costs:
    """Seconds of the target's plain step, and of a step that drafts k tokens and verifies them: fixed_s + k * each_s."""

    plain_s: float
    fixed_s: float
    each_s: float

    def step_s(self, drafted: float) -> float:
        """Seconds of one step with so many drafted tokens."""
        return self.fixed_s + drafted * self.each_s

    def break_even(self, drafted: float) -> float | None:
        """The share of ``drafted`` tokens that has to be accepted for the speed of plain decoding; above 1 there is
        no such share. None for no draft."""
        return (self.step_s(drafted) / self.plain_s - 1) / drafted if drafted > 0 else None


@dataclass(frozen=True)
class Sweep:
    """Speed and acceptance against draft length, for one kind of text, temperature and type of speculation.

    ``best`` is the fastest length; ``ties`` are lengths that the intervals do not tell from it. ``break_even`` is that
    of the best length; ``costs`` None when no step could be timed.
    """

    kind: str
    spec_type: str
    temperature: float
    points: tuple[SweepPoint, ...]
    best: int
    ties: tuple[int, ...]
    break_even: float | None
    costs: Costs | None


@dataclass(frozen=True)
class Advice:
    """What to run for one purpose ("coding" or "chat"). ``sure``: the intervals leave no doubt about plain or not,
    and none that matters about the choice; ``text`` says it in words, with figures and with what is not known."""

    purpose: str
    method: Method
    ratio: float | None
    spread: tuple[float, float] | None
    text: str
    sure: bool


@dataclass(frozen=True)
class LabSpec:
    """A lab that can run: its plan, about what, and the launch plan of each method."""

    plan: LabPlan
    subject: Subject
    launches: Mapping[Method, LaunchPlan] = field(hash=False, repr=False)
    refused: tuple[Refused, ...] = ()


# --- told while it runs ---------------------------------------------------------------------


@dataclass(frozen=True)
class LabStarted:
    """``lab`` may hold runs of an earlier part that it goes on from; ``left``: cells that wait for a first run."""

    lab: Lab
    left: int


@dataclass(frozen=True)
class BlockStarted:
    """``cells`` will be measured in block ``number``."""

    number: int
    cells: int


@dataclass(frozen=True)
class EnginePreparing:
    """The engine of ``method`` is being loaded, or warmed up by an answer that does not count."""

    method: Method
    message: str


@dataclass(frozen=True)
class CellStarted:
    """A measured answer begins: number ``at`` of ``of`` in this block."""

    cell: Cell
    block: int
    at: int
    of: int


@dataclass(frozen=True)
class CellDone:
    """It is over and kept; ``figures`` are those of the cell so far."""

    run: CellRun
    figures: CellFigures


@dataclass(frozen=True)
class LabNote:
    """A sentence that the person should see now."""

    text: str


@dataclass(frozen=True)
class LabEnded:
    """Nothing follows."""

    lab: Lab


LabEvent = LabStarted | BlockStarted | EnginePreparing | CellStarted | CellDone | LabNote | LabEnded
