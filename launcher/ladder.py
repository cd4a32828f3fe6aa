"""Pure: what to try next when an engine cannot start or dies. Each rung once, said aloud; explicit choices stay."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from launcher.errors import EngineDied, LauncherError
from launcher.plan import LaunchPlan, Reason
from launcher.settings import Settings, Value
from launcher.supervise.diagnose import Diagnosis, diagnose, diagnose_start

LEAST_CONTEXT = 2048  # tokens; below that a thinking model has no room to answer
METAL_SWITCH = "GGML_METAL_TENSOR_DISABLE"  # ggml's own; it keeps the GPU and leaves out its newest code path
EMBEDDED_READS = frozenset({"q2_0-g64", "q1_0", "common"})  # what every current llama.cpp reads

WITHOUT_DRAFTER = "without the drafter"
AGAIN = "again"
_ON_GPU = " on the GPU"
METAL = "without Metal's tensor code"
EMBEDDED = "the embedded engine"
OUR_NEXT = "the launcher (another engine failed)"  # names the engine of a rung

# What may help against each cause, in this order; before all that, the same once more where the diagnosis says so.
_MEMORY = ("drafter", "context")
_CRASH = ("drafter", "engine", "embedded")
_CANNOT_RUN_HERE = ("engine", "embedded")
_BY_CAUSE: Mapping[str, tuple[str, ...]] = {
    "gpu-memory": ("drafter", "context", "layers"),
    "metal-oom": ("metal", "drafter", "context"),
    "metal-shader": ("metal",),
    "ram": _MEMORY,
    "context": _MEMORY,
    "stood-still": ("drafter",),
    "ended": ("drafter",),
    "assert": _CRASH,
    "segfault": _CRASH,
    "unknown": _CRASH,
    "gpu-lost": _CRASH,
    "missing-library": _CANNOT_RUN_HERE,
    "missing-program": _CANNOT_RUN_HERE,
    "not-startable": _CANNOT_RUN_HERE,
    "wrong-machine": _CANNOT_RUN_HERE,
    "blocked": _CANNOT_RUN_HERE,
    "no-backend": _CANNOT_RUN_HERE,
    "old-driver": _CANNOT_RUN_HERE,
    "old-gpu": _CANNOT_RUN_HERE,
    "old-cpu": _CANNOT_RUN_HERE,
    "old-system": _CANNOT_RUN_HERE,
    "unknown-architecture": ("engine",),
}  # all others need another file, or one engine of exactly one kind, which stands in the remedy


@dataclass(frozen=True)
class Rung:
    """One thing to try. ``says``: the clause for people while it is tried. ``warning``: what the plan then says, empty
    when nothing is changed. ``change``: settings' fields; ``env``: additions to the engine's environment."""

    name: str
    says: str
    warning: str = ""
    change: Mapping[str, Value[Any]] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OtherEngine:
    """Another engine on this machine that reads the weights: its name for people, its line, and its program."""

    name: str
    line: str
    program: str


@dataclass(frozen=True)
class Rescue:
    """Diagnosis and ladder for the settings of now; without settings only what the error itself says, and no rung.

    ``system``: the machine's, as platform.system() calls it; asked only when something failed. ``lenient``: a drafter
    that is refused before a start is left out, as one that fails later is; otherwise the refusal stands. ``others``: the
    engines on this machine that could run a plan, best first; asked only when something failed.
    """

    settings: Callable[[], Settings] | None = None
    system: Callable[[], str] = lambda: ""
    lenient: bool = False
    others: Callable[[LaunchPlan], Sequence[OtherEngine]] = lambda plan: ()  # noqa: ARG005

    def judge(self, error: LauncherError, log: str, plan: LaunchPlan) -> Diagnosis:
        """Why an engine with ``plan`` could not start or ended; ``log``: its last lines."""
        if self.settings is None:
            return Diagnosis("unknown", error.what, error.remedy)
        if not isinstance(error, EngineDied):
            return self._not_started(error)
        if error.cause:
            return Diagnosis(error.cause, error.what, error.remedy)
        return diagnose(error.returncode, log, with_drafter=drafts_with_model(plan), system=self.system())

    def _not_started(self, error: LauncherError) -> Diagnosis:
        if not isinstance(error.__cause__, OSError):
            return Diagnosis("not-startable", error.what, error.remedy)
        found = diagnose_start(error.__cause__, system=self.system())
        # Where no program starts the cause is never in the model's files, nor in the engine's work.
        program = {"missing-file": "missing-program", "unknown": "not-startable"}
        return replace(found, cause=program.get(found.cause, found.cause))

    def next(self, diagnosis: Diagnosis, plan: LaunchPlan, tried: frozenset[str]) -> Rung | None:
        """See ``next_rung``."""
        if self.settings is None:
            return None
        return next_rung(diagnosis, self.settings(), plan, tried, self.others)

    def hints(self, diagnosis: Diagnosis, plan: LaunchPlan) -> tuple[str, ...]:
        """What the person could change themselves, where the ladder may not."""
        if self.settings is None:
            return ()
        return tuple(
            step
            for step in _steps(diagnosis, self.settings(), plan, frozenset(), self.others)
            if isinstance(step, str)
        )


def next_rung(
    diagnosis: Diagnosis,
    settings: Settings,
    plan: LaunchPlan,
    tried: frozenset[str],
    others: Callable[[LaunchPlan], Sequence[OtherEngine]] = lambda plan: (),  # noqa: ARG005
) -> Rung | None:
    """The first rung against this cause whose name is not in ``tried``; None when there is none left.

    ``plan``: what failed. ``tried``: names of rungs, and programs of engines that failed. A value that a person asked
    for (context, layers, engine) is never changed; speculation may be left out, since the answers are the same without it.
    """
    for step in _steps(diagnosis, settings, plan, tried, others):
        if isinstance(step, Rung) and step.name not in tried:
            return step
    return None


def drafts_with_model(plan: LaunchPlan) -> bool:
    """Whether ``plan`` loads a drafter's file."""
    return "-md" in plan.argv


def without_drafter(why: str) -> Rung:
    """The same without speculation. ``why``: a whole sentence."""
    return Rung(
        WITHOUT_DRAFTER,
        "Trying without the drafter …",
        f"Speculation off: {why}",
        {"speculative": Value(False, "the engine failed with the drafter")},
    )


def once_more() -> Rung:
    """The same again, unchanged."""
    return Rung(AGAIN, "Starting it again …")


def changes_engine(rung: Rung) -> bool:
    """Whether ``rung`` is another engine."""
    return "engine" in rung.change


def upon(rungs: tuple[Rung, ...], rung: Rung) -> tuple[Rung, ...]:
    """``rungs`` and one more, which takes the place of one that changes the same. Another engine begins from what was
    asked for: what did not help the one before it need not be given up for this one."""
    if changes_engine(rung):
        return (rung,)
    kept = (it for it in rungs if not it.change or it.change.keys() != rung.change.keys())
    return (*kept, rung)


def apply(settings: Settings, rungs: Sequence[Rung]) -> Settings:
    """``settings`` with what the rungs change."""
    changes: dict[str, Any] = {}
    for rung in rungs:
        changes |= rung.change
    return replace(settings, **changes)


def marked(plan: LaunchPlan, rungs: Sequence[Rung]) -> LaunchPlan:
    """A plan made from applied settings, with the rungs' environment and with a warning for everything changed."""
    said = tuple(rung.warning for rung in rungs if rung.warning)
    env = dict(plan.env)
    for rung in rungs:
        env |= rung.env
    plan = replace(plan, env=env, warnings=(*said, *plan.warnings))
    off = next((rung for rung in rungs if "speculative" in rung.change), None)
    if off is None:
        return plan
    # It was asked for, and this is why it does not run.
    why = off.warning.removeprefix("Speculation off: ").rstrip(".")
    reasons = tuple(Reason(it.part, why) if it.part == "no drafter" else it for it in plan.reasons)
    return replace(plan, speculation_requested=True, speculation_why=why, reasons=reasons)


def _steps(
    diagnosis: Diagnosis,
    settings: Settings,
    plan: LaunchPlan,
    tried: frozenset[str],
    others: Callable[[LaunchPlan], Sequence[OtherEngine]],
) -> Iterator[Rung | str]:
    """The rungs against a cause in order; a text where one would touch an explicit choice."""
    kinds = list(_BY_CAUSE.get(diagnosis.cause, ()))
    if diagnosis.drafter:
        kinds = ["drafter", *(kind for kind in kinds if kind != "drafter")]
    if diagnosis.again:
        kinds.insert(0, "again")
    for kind in kinds:
        if kind == "again":
            yield once_more()
        elif kind == "drafter" and plan.spec_type != "none":
            yield without_drafter(diagnosis.sentence)
        elif kind == "metal" and METAL_SWITCH not in plan.env:
            yield Rung(
                METAL,
                "Trying with Metal's tensor code off …",
                f"Metal's tensor code is off ({METAL_SWITCH}=1): {diagnosis.sentence}",
                env={METAL_SWITCH: "1"},
            )
        elif kind == "context":
            yield from _smaller_context(diagnosis, settings, plan)
        elif kind == "layers":
            yield from _fewer_layers(diagnosis, settings, plan, tried)
        elif kind == "engine":
            yield from _other_engines(
                diagnosis, settings, [it for it in others(plan) if it.program not in tried]
            )
        elif kind == "embedded":
            yield from _embedded(diagnosis, settings, plan)


def _smaller_context(diagnosis: Diagnosis, settings: Settings, plan: LaunchPlan) -> Iterator[Rung | str]:
    smaller = plan.context // 2
    if smaller < LEAST_CONTEXT:
        return
    if settings.ctx.asked and settings.ctx.value:
        yield f"{settings.ctx.source} asks for a context of {settings.ctx.value} tokens: a smaller one needs less memory."
        return
    yield Rung(
        f"a context of {smaller} tokens",
        f"Trying a context of {smaller} tokens …",
        f"The context is {smaller} tokens only: {diagnosis.sentence}",
        {"ctx": Value(smaller, "what the memory allowed")},
    )


def _fewer_layers(
    diagnosis: Diagnosis, settings: Settings, plan: LaunchPlan, tried: frozenset[str]
) -> Iterator[Rung | str]:
    now = layers_on_gpu(plan)
    if not now:
        return
    if settings.ngl.asked:
        yield f"{settings.ngl.source} asks for {settings.ngl.value} layers on the GPU: fewer need less of its memory."
        return
    halved = any(name.endswith(_ON_GPU) for name in tried)
    for fewer in (0,) if halved else (now // 2, 0):
        where = f"{fewer or 'no'} layers{_ON_GPU}"
        yield Rung(
            where,
            f"Trying with {where} …",
            f"Slower than it could be, with {where}: {diagnosis.sentence}",
            {"ngl": Value(fewer, "what the GPU's memory allowed")},
        )


def layers_on_gpu(plan: LaunchPlan) -> int:
    """Layers that ``plan`` puts on a GPU, the output counted as llama.cpp does; 0 when none."""
    given = next((value for flag, value in pairwise(plan.argv) if flag == "-ngl"), "0")
    asked = int(given) if re.fullmatch(r"[0-9]+", given) else 0
    there = plan.resolved.target.header.layers
    return min(asked, there + 1) if there else asked


def _other_engines(
    diagnosis: Diagnosis, settings: Settings, others: Sequence[OtherEngine]
) -> Iterator[Rung | str]:
    named = settings.llama_server.value is not None
    asked = settings.llama_server if named else settings.engine
    may = [it for it in others if not named and settings.engine.value in ("auto", it.line)]
    for other in [it for it in others if it not in may][:1]:
        yield f"{asked.source} asks for this engine; {other.name}, which is on this machine, could run this model, too."
    for other in may:
        yield _change_engine(
            other.name,
            f"Trying {other.name}, which is on this machine, too …",
            f"The engine is {other.name}: {diagnosis.sentence}",
            engine=settings.engine,
            program=other.program,
        )


def _change_engine(name: str, says: str, warning: str, *, engine: Value[str], program: str | None) -> Rung:
    """Always both settings: a named program would win over the line."""
    change: dict[str, Value[Any]] = {"engine": engine, "llama_server": Value(program, OUR_NEXT)}
    return Rung(name, says, warning, change)


def _embedded(diagnosis: Diagnosis, settings: Settings, plan: LaunchPlan) -> Iterator[Rung | str]:
    resolved = plan.resolved
    if resolved.engine.kind == "embedded":
        return
    formats = getattr(resolved.target.header, "formats", None)
    if not resolved.practice and not (formats and formats <= EMBEDDED_READS):
        return
    for setting in (settings.llama_server, settings.engine):
        if setting.asked and setting.value not in (None, "auto"):
            yield f"{setting.source} asks for this engine; the one that comes with the launcher could run this model, too."
            return
    yield _change_engine(
        EMBEDDED,
        "Trying the engine that comes with the launcher …",
        f"The engine is the one that comes with the launcher, which may be slower: {diagnosis.sentence}",
        engine=Value("embedded", OUR_NEXT),
        program=None,
    )
