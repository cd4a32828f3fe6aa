"""What a person chose -> the lab to run: finds engine and files, makes the plan of every method. Starts nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from launcher import lab_matrix
from launcher.devices import backend_of
from launcher.gguf_header import GgufHeader
from launcher.hardware.detect import detect
from launcher.hardware.model import Machine
from launcher.lab_types import (
    MAX_TOKENS,
    MOST_RUNS,
    PRECISION,
    SEED,
    TEMPERATURES,
    LabPlan,
    LabSpec,
    Refused,
    Subject,
)
from launcher.methods import PLAIN, Method
from launcher.paths import Paths
from launcher.plan import LaunchPlan, make_plan
from launcher.provision import resolve_all
from launcher.race_prompts import lab_prompt
from launcher.resolved import Resolved
from launcher.settings import Settings

QUICK_TOKENS = 128
QUICK_BUDGET_S = 180.0
QUICK_MOST_RUNS = 6
BUDGET_S = 3600.0
LEAST_RUNS = 3  # fewer cannot have an interval of 5 %, see race_stats


@dataclass(frozen=True)
class LabOptions:
    """What a person can choose. None: as ``quick`` says, else everything.

    ``kinds`` and ``methods`` are comma lists, see lab_matrix.kinds_of and lab_matrix.chosen. ``runs``: exactly so many
    of each cell; None: as many as it takes. ``minutes`` is the budget of time. ``p_mins`` and ``places``: each method with
    a drafter also with these (places: "cpu", "ngld0").
    """

    quick: bool = False
    kinds: str | None = None
    language: str = "en"
    methods: str | None = None
    temperatures: tuple[float, ...] = TEMPERATURES
    p_mins: tuple[float, ...] = ()
    places: tuple[str, ...] = ()
    max_tokens: int | None = None
    seed: int = SEED
    runs: int | None = None
    minutes: float | None = None
    precision: float = PRECISION
    thinking: bool | None = None


@dataclass(frozen=True)
class Parts:
    """What a lab needs to know of this machine: the parts, and what they are as a Subject."""

    settings: Settings
    machine: Machine
    resolved: Resolved
    subject: Subject


def look(settings: Settings, paths: Paths, env: Mapping[str, str], machine: Machine | None = None) -> Parts:
    """Find engine and files. Raises LauncherError for what is missing or cannot be run."""
    machine = machine or detect()
    resolved = resolve_all(settings, paths, env, machine)
    plain = make_plan(settings, machine, resolved, PLAIN)
    return Parts(settings, machine, resolved, subject_of(plain, machine))


def make_spec(parts: Parts, options: LabOptions) -> LabSpec:
    """The lab that ``options`` ask for. Raises LauncherError for what cannot be run or is unknown."""
    kinds = lab_matrix.kinds_of(
        options.kinds or (",".join(lab_matrix.QUICK_KINDS) if options.quick else "all")
    )
    offers = lab_matrix.matrix(parts.resolved, parts.machine)
    if options.methods:
        methods = lab_matrix.chosen(options.methods, parts.settings, parts.resolved, parts.machine)
    else:
        methods = lab_matrix.quick(offers) if options.quick else lab_matrix.usable(offers)
    if options.p_mins or options.places:
        methods = lab_matrix.varied(methods, (None, *options.p_mins), (None, *options.places), parts.resolved)
    quick_budget = QUICK_BUDGET_S if options.quick else BUDGET_S
    plan = LabPlan(
        cells=lab_matrix.cells(kinds, methods, tuple(dict.fromkeys(options.temperatures))),
        prompts=tuple(lab_prompt(kind, options.language) for kind in kinds),
        max_tokens=options.max_tokens or (QUICK_TOKENS if options.quick else MAX_TOKENS),
        seed=options.seed,
        thinking=options.thinking,
        least=options.runs or LEAST_RUNS,
        most=options.runs or (QUICK_MOST_RUNS if options.quick else MOST_RUNS),
        precision=options.precision,
        budget_s=quick_budget if options.minutes is None else options.minutes * 60,
        quick=options.quick,
    )
    return spec_of(parts, plan, lab_matrix.refused(offers))


def spec_of(parts: Parts, plan: LabPlan, refused: Sequence[Refused] = ()) -> LabSpec:
    """``plan`` with a launch plan for each of its methods: also that of a lab from disk, to go on with it.

    Raises PlanRefused for a method that cannot be had (any more).
    """
    methods = dict.fromkeys(cell.method for cell in plan.cells)
    launches: dict[Method, LaunchPlan] = {
        method: make_plan(parts.settings, parts.machine, parts.resolved, method) for method in methods
    }
    return LabSpec(plan, parts.subject, launches, tuple(refused))


def with_budget(plan: LabPlan, minutes: float | None, spent_s: float) -> LabPlan:
    """``plan`` of a lab that is gone on with: its own budget anew, or ``minutes``, on top of what was spent."""
    part = (plan.part_s or plan.budget_s) if minutes is None else minutes * 60
    return replace(plan, budget_s=None if part is None else spent_s + part, part_s=part)


def subject_of(plain: LaunchPlan, machine: Machine) -> Subject:
    """What is measured, by the plan for plain decoding."""
    resolved = plain.resolved
    engine, drafter = resolved.engine, resolved.drafter
    gpus = ", ".join(gpu.name for gpu in machine.gpus)
    facts = [
        ("Model", resolved.target.label),
        ("Target", PurePath(resolved.target.path).name),
        ("Drafter", PurePath(drafter.path).name if drafter else "none"),
        ("Engine", f"{engine.kind} {engine.version}"),
        *machine.rows(),
    ]
    marks = {
        "target": _mark(resolved.target.header),
        "drafter": _mark(drafter.header) if drafter else "none",
        "engine": f"{engine.kind} {engine.line} {engine.version} {backend_of(engine, machine)}",
        "machine": f"{machine.system} {machine.arch}, {machine.cpu}, {machine.cores} cores, {gpus or 'no GPU'}",
        "setting": _settings(plain),
    }
    return Subject(resolved.practice, tuple(facts), tuple(marks.items()))


def _mark(header: GgufHeader) -> str:
    """A model file by what is in its header, wherever it lies."""
    tensors = hashlib.sha256(repr(header.tensors).encode()).hexdigest()[:16]
    return f"{header.architecture}, {header.file_bytes} bytes, {(header.vocab_fingerprint or '')[:16]}, {tensors}"


def _settings(plain: LaunchPlan) -> str:
    """The words of the command line that change the speed. The context is left out: it follows the free memory."""
    argv = plain.argv
    told = ("-ngl", "-fa", "-b", "-t", "-ctk", "-ctv")
    return " ".join(f"{flag} {argv[argv.index(flag) + 1]}" for flag in told if flag in argv)
