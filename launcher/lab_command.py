"""``bonsai lab``: the lab on the terminal; progress on stderr, the result on stdout."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from launcher import console
from launcher.advise_command import take
from launcher.amounts import span
from launcher.ask import make_lifecycle
from launcher.counted import know_lab
from launcher.errors import AnswerProblem
from launcher.fetch_command import ensure_here, may_lack
from launcher.hardware.detect import detect
from launcher.in_use import key_here
from launcher.interrupts import interrupts
from launcher.lab import new_lab, run_lab
from launcher.lab_advice import advise, between
from launcher.lab_export import ENDED, lab_csv, lab_json, lab_markdown, sweep_rows, table_rows
from launcher.lab_setup import LabOptions, look, make_spec, spec_of, with_budget
from launcher.lab_stats import sweeps
from launcher.lab_store import LabStore
from launcher.lab_types import (
    BlockStarted,
    CellDone,
    CellFigures,
    EnginePreparing,
    Lab,
    LabEvent,
    LabNote,
    LabPlan,
    LabSpec,
    LabStarted,
)
from launcher.learned_page import advised
from launcher.lifecycle import Lifecycle
from launcher.measure import Stop
from launcher.paths import Paths
from launcher.settings import Settings


def run_lab_command(
    settings: Settings,
    paths: Paths,
    env: Mapping[str, str],
    options: LabOptions,
    *,
    form: str,
    resume: bool = False,
    record: str | None = None,
    use: str | None = None,
    agreed: bool = False,
) -> None:
    """Measure and print; ``form`` is "text", "json", "markdown" or "csv". Raises LauncherError; what was measured
    before plain decoding failed is printed all the same.

    ``resume``: go on with the lab ``record``, else with the latest; its own plan holds then, but for the minutes.
    ``use``: the purpose ("coding", "chat") whose advice is used from then on. ``agreed``: what is missing is fetched
    without asking. Ctrl+C ends after the running answer with what there is, a second one at once.
    """
    if may_lack(settings):
        ensure_here(settings, paths, env, detect(), agreed=agreed)
    store = LabStore(paths.data)
    parts = look(settings, paths, env)
    if resume:
        kept = store.resumable(parts.subject, record)
        lab = replace(kept, plan=with_budget(kept.plan, options.minutes, kept.spent_s))
        spec = spec_of(parts, lab.plan, lab.refused)
    else:
        spec = make_spec(parts, options)
        lab = new_lab(spec)
    for warning in dict.fromkeys(w for launch in spec.launches.values() for w in launch.warnings):
        console.warn(warning)
    if lab.subject.practice:
        console.warn("This is the practice pair, no language model: its speeds say nothing about a real one.")
    lifecycle, stop = make_lifecycle(settings, paths, env), Stop()
    try:
        with interrupts(stop, "this answer"):
            lab = asyncio.run(_measure(lifecycle, spec, stop, store, lab))
    finally:
        lifecycle.close()
    _print(lab, form)
    key = key_here(paths, parts.machine, parts.resolved)
    know_lab(paths, key, lab)
    if lab.ended in ("stopped", "budget"):
        console.say(f"Go on with it by `bonsai lab --resume` ({lab.id}).", "dim")
    if lab.ended == "failed":
        raise AnswerProblem(f"The lab ended early. {lab.problem}", lab.remedy)
    if use is not None:
        take(parts, paths, advised(lab, use, key))


async def _measure(lifecycle: Lifecycle, spec: LabSpec, stop: Stop, store: LabStore, lab: Lab) -> Lab:
    async with lifecycle.workshop("lab") as workshop:
        return await run_lab(workshop, spec, tell, stop, save=store.save, lab=lab)


def tell(event: LabEvent) -> None:
    """Say on stderr how a lab goes."""
    match event:
        case LabStarted(lab, left):
            console.say(_opening(lab, left), "bold")
            for one in lab.refused:
                console.say(f"  not here: {one.method.name}. {one.why}", "dim")
        case BlockStarted(number, cells):
            console.say(f"Block {number}: {cells} answers")
        case EnginePreparing(_, message) if message.startswith("Warming"):
            console.say(f"  {message}", "dim")
        case CellDone(run, figures):
            cell = run.cell
            share = "" if figures.acceptance is None else f", {figures.acceptance:.0%} accepted"
            console.say(
                f"  {cell.kind}, temperature {cell.temperature:g}: {cell.method.name} {run.rate:.1f} tokens/s"
                f"{_ratio(figures)}{share}"
            )
        case LabNote(text):
            console.warn(text)
        case _:
            pass


def _ratio(figures: CellFigures) -> str:
    if figures.cell.method.spec_type == "none" or figures.ratio is None or figures.spread is None:
        return ""
    return f", {figures.ratio:.2f}x ({between(figures.spread)})"


def _opening(lab: Lab, left: int) -> str:
    plan = lab.plan
    done = f", {len(lab.runs)} answers are there already" if lab.runs else ""
    return f"Lab {lab.id}: {len(plan.cells)} cells, {left} not measured yet{done}. {limits(plan)}"


def limits(plan: LabPlan) -> str:
    """How long a lab may take and how sure it wants to be, in a sentence."""
    if plan.least == plan.most:
        times = "once" if plan.least == 1 else f"{plan.least} times"
        how = f"Each is measured {times}"
    else:
        how = (
            f"Each is measured {plan.least} to {plan.most} times, until the {plan.confidence:.0%} interval of its ratio to "
            f"plain decoding is within ±{plan.precision:.0%}"
        )
    limit = "" if plan.budget_s is None else f"; no answer begins after {span(plan.budget_s)}"
    return f"{how}{limit}."


def _print(lab: Lab, form: str) -> None:
    if form == "json":
        console.data_json(lab_json(lab))
    elif form == "markdown":
        console.data(lab_markdown(lab), end="")
    elif form == "csv":
        console.data(lab_csv(lab), end="")
    else:
        _print_lab(lab)


def _print_lab(lab: Lab) -> None:
    headers, rows = table_rows(lab)
    console.table(list(headers), rows)
    for sweep in sweeps(lab):
        if len(sweep.points) > 1:
            console.data(f"\n{sweep.spec_type} on {sweep.kind}, temperature {sweep.temperature:g}")
            sweep_headers, lengths = sweep_rows(sweep)
            console.table(list(sweep_headers), lengths)
    console.data("")
    for one in advise(lab):
        console.data(one.text)
    console.say(f"{ENDED[lab.ended].capitalize()}, after {span(lab.spent_s)}.", "dim")
