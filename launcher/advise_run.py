"""Runs the advisor on engines: what it asks for is measured as in a race and a lab. No page in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from launcher.advise import Advice, Advisor, Sample, Trial, sample_of
from launcher.errors import LauncherError
from launcher.measure import Bench, Engines, Stop, StoppedError, measured_request
from launcher.methods import PLAIN, Method
from launcher.plan import LaunchPlan
from launcher.race_record import Recorder
from launcher.race_types import Prompt

EMPTY = Sample(0.0, 0)  # an answer that had no speed


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


async def run_advisor(
    engines: Engines,
    spec: AdviseSpec,
    on_trial: Callable[[Trial], None] = lambda _: None,
    stop: Stop | None = None,
) -> Advice:
    """Measure until the advisor knows enough; ``on_trial`` hears of each answer before it begins.

    A method whose engine fails is left out. ``stop`` ends it with the advice so far. Raises LauncherError when plain
    decoding fails, and when it was not measured before the stop.
    """
    stop = stop or Stop()
    bench = Bench(engines, stop)
    advisor = Advisor(tuple(spec.launches), spec.prior)
    while not stop.between_rounds and (trial := advisor.next()) is not None:
        on_trial(trial)
        try:
            advisor.tell(trial, await _measure(bench, spec, trial))
        except StoppedError:
            break
        except LauncherError:
            if trial.method == PLAIN:
                raise
            advisor.drop(trial.method)
    return advisor.verdict()


async def _measure(bench: Bench, spec: AdviseSpec, trial: Trial) -> Sample:
    request = measured_request(
        spec.prompt.text,
        max_tokens=trial.tokens,
        temperature=spec.temperature,
        seed=spec.seed,
        thinking=spec.prompt.kind == "thinking" if spec.thinking is None else spec.thinking,
    )
    begun = time.perf_counter()
    lease, started = await bench.ready(
        spec.launches[trial.method], request, trial.method.name, lambda _: None
    )
    overhead = time.perf_counter() - begun if started else 0.0
    recorder = Recorder(0, 1, time.time())
    await bench.answer(lease, request, recorder)
    return sample_of(recorder.run(), trial.method, overhead) or EMPTY
