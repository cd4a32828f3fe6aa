"""Runs the advisor on engines: what it asks for is measured as in a race and a lab, one purpose after the other. No page
in it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from launcher.advise import Advice, Advisor, Sample, Trial, sample_of
from launcher.errors import BadInput, LauncherError
from launcher.lab_types import Subject
from launcher.measure import Bench, Engines, Stop, StoppedError, measured_request
from launcher.methods import PLAIN, Method
from launcher.plan import LaunchPlan
from launcher.race_record import Recorder
from launcher.race_types import Prompt

EMPTY = Sample(0.0, 0)  # an answer that had no speed
WHOM = {"coding": "a coding assistant", "chat": "a general chat"}


@dataclass(frozen=True)
class AdviseSpec:
    """What to choose from (a launch plan for each method, plain decoding among them), and the text it is chosen for.

    ``thinking`` None: on for prompts that ask for it by kind. ``prior``: what was learned before.
    """

    launches: Mapping[Method, LaunchPlan] = field(hash=False, repr=False)
    prompt: Prompt
    temperature: float = 0.0
    seed: int = 42
    thinking: bool | None = None
    prior: Method | None = None


@dataclass(frozen=True)
class Search:
    """What to find: for each purpose ("coding", "chat") what to choose from. ``subject``: what the figures are about."""

    subject: Subject
    specs: Mapping[str, AdviseSpec] = field(hash=False, repr=False)


@dataclass(frozen=True)
class Found:
    """What the advisor came to for one purpose, on one kind of text at one temperature."""

    purpose: str
    kind: str
    temperature: float
    advice: Advice

    @property
    def text(self) -> str:
        """For people."""
        return f"For {WHOM[self.purpose]}: {self.advice.text}"


@dataclass(frozen=True)
class Findings:
    """What a search came to. ``stopped``: a person ended it, so that an advice goes as far as the answers that there
    were. ``missing``: purposes that nothing is known for. ``problem`` ended it early, after something was found."""

    subject: Subject
    found: tuple[Found, ...]
    missing: tuple[str, ...] = ()
    stopped: bool = False
    problem: LauncherError | None = None

    @property
    def plain_speed(self) -> float | None:
        """Tokens a second of plain decoding, the median over the purposes."""
        speeds = [it.tokens_per_second for one in self.found for it in one.advice.tried if it.method == PLAIN]
        return statistics.median(speeds) if speeds else None

    def of(self, purpose: str) -> Found:
        """Raises BadInput where nothing is known for it."""
        for one in self.found:
            if one.purpose == purpose:
                return one
        raise BadInput(f"Nothing is known for {purpose}, so there is no advice to use.", "Search again.")


# --- told while it runs; a Trial says what is measured next -----------------------------------


@dataclass(frozen=True)
class Began:
    """The search for one purpose."""

    purpose: str
    spec: AdviseSpec


@dataclass(frozen=True)
class Preparing:
    """An engine is being loaded, or warmed up by an answer that does not count; a sentence."""

    message: str


@dataclass(frozen=True)
class Answering:
    """The measured answer begins."""

    trial: Trial


@dataclass(frozen=True)
class Known:
    """The advice as far as the answers go, and the engine seconds that the search keeps to (Advisor.limit_s)."""

    advice: Advice
    limit_s: float | None


@dataclass(frozen=True)
class LeftOut:
    """The engine of ``method`` failed; ``why`` is a sentence."""

    method: Method
    why: str


@dataclass(frozen=True)
class Ended:
    """One purpose is done."""

    found: Found


AdviseEvent = Began | Trial | Preparing | Answering | Known | LeftOut | Ended
OnEvent = Callable[[AdviseEvent], None]


async def find(
    engines: Engines, search: Search, on_event: OnEvent = lambda _: None, stop: Stop | None = None
) -> Findings:
    """Advice for each purpose, one after the other; everything is told to ``on_event``, which must be quick.

    ``stop`` ends it with what there is by then. Raises LauncherError when plain decoding fails before anything was
    found.
    """
    stop, found, problem = stop or Stop(), list[Found](), None
    for purpose, spec in search.specs.items():
        if stop.between_rounds:
            break
        on_event(Began(purpose, spec))
        try:
            advice = await run_advisor(engines, spec, on_event, stop)
        except LauncherError as error:
            if isinstance(error, BadInput) and stop.between_rounds:
                break  # before there was anything to compare with
            if not found:
                raise
            problem = error
            break
        found.append(Found(purpose, spec.prompt.kind, spec.temperature, advice))
        on_event(Ended(found[-1]))
    known = {one.purpose for one in found}
    missing = tuple(purpose for purpose in search.specs if purpose not in known)
    return Findings(search.subject, tuple(found), missing, stop.between_rounds, problem)


async def run_advisor(
    engines: Engines, spec: AdviseSpec, on_event: OnEvent = lambda _: None, stop: Stop | None = None
) -> Advice:
    """Measure until the advisor knows enough; ``on_event`` hears of each answer before it begins, and what is known
    after it.

    A method whose engine fails is left out. ``stop`` ends it with the advice so far. Raises LauncherError when plain
    decoding fails, and when it was not measured before the stop.
    """
    stop = stop or Stop()
    bench = Bench(engines, stop)
    advisor = Advisor(tuple(spec.launches), spec.prior)
    while not stop.between_rounds and (trial := advisor.next()) is not None:
        on_event(trial)
        try:
            advisor.tell(trial, await _measure(bench, spec, trial, on_event))
        except StoppedError:
            break
        except LauncherError as problem:
            if trial.method == PLAIN:
                raise
            advisor.drop(trial.method)
            on_event(LeftOut(trial.method, str(problem)))
        with suppress(BadInput):  # plain decoding has no speed yet
            on_event(Known(advisor.verdict(), advisor.limit_s))
    return advisor.verdict()


async def _measure(bench: Bench, spec: AdviseSpec, trial: Trial, on_event: OnEvent) -> Sample:
    request = measured_request(
        spec.prompt.text,
        max_tokens=trial.tokens,
        temperature=spec.temperature,
        seed=spec.seed,
        thinking=spec.prompt.kind == "thinking" if spec.thinking is None else spec.thinking,
    )
    begun = time.perf_counter()
    lease, started = await bench.ready(
        spec.launches[trial.method],
        request,
        trial.method.name,
        lambda message: on_event(Preparing(message)),
    )
    overhead = time.perf_counter() - begun if started else 0.0
    on_event(Answering(trial))
    recorder = Recorder(0, 1, time.time())
    await bench.answer(lease, request, recorder)
    return sample_of(recorder.run(), trial.method, overhead) or EMPTY
