"""A lab as the page's scripts take it: rows, sweeps, temperatures, advice. Speeds in tokens a second. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from launcher.amounts import span
from launcher.lab import next_block
from launcher.lab_advice import advise
from launcher.lab_export import ENDED, lab_json, notes
from launcher.lab_stats import all_figures, figures, sweeps, temperature_effect
from launcher.lab_store import LabListing, LabSummary
from launcher.lab_types import Advice, Cell, CellFigures, Lab, Refused, Sweep
from launcher.methods import PLAIN, Method
from launcher.plan import LaunchPlan
from launcher.race_export import as_list
from webui.lab_form import methods_of
from webui.race_views import date
from webui.state import Learned, TimeLedger


def result_view(lab: Lab) -> dict[str, Any]:
    """Everything that the page shows of a lab that is over."""
    return {
        "id": lab.id,
        "date": date(lab.created),
        "practice": lab.subject.practice,
        "quick": lab.plan.quick,
        "ended": lab.ended,
        "how": how_it_ended(lab),
        "resumable": resumable(lab),
        "minutes": None if lab.plan.budget_s is None else lab.plan.budget_s / 60,
        "confidence": lab.plan.confidence,
        "advice": [advice_view(one) for one in advise(lab)] if lab.runs else [],
        "rows": rows_view(lab),
        "sweeps": [_sweep(lab, one) for one in sweeps(lab)],
        "temperatures": _temperatures(lab),
        "refused": refused_view(lab.refused),
        "failures": refused_view(lab.failures),
        "about": _about(lab),
        "prompts": [[prompt.kind, prompt.text] for prompt in lab.plan.prompts],
        "commands": _commands(lab),
    }


def rows_view(lab: Lab) -> list[dict[str, Any]]:
    """A row for every cell of the plan, measured or not; ``key`` is its place in the plan."""
    failed = {failure.method for failure in lab.failures}
    return [
        {**row_view(figures(lab, cell)), "failed": cell.method in failed, "key": key}
        for key, cell in enumerate(lab.plan.cells)
    ]


def row_view(one: CellFigures) -> dict[str, Any]:
    """The figures of one cell."""
    return {
        "kind": one.cell.kind,
        "temperature": one.cell.temperature,
        "name": one.cell.method.name,
        "plain": one.cell.method == PLAIN,
        "speed": one.tokens_per_second,
        "speed_spread": as_list(one.speed_spread),
        "ratio": one.ratio,
        "spread": as_list(one.spread),
        "word": one.word,
        "acceptance": one.acceptance,
        "identical": one.identical,
        "runs": one.runs,
        "narrow": one.narrow,
        "notes": notes(one) if one.runs else [],
    }


def advice_view(one: Advice) -> dict[str, Any]:
    """What to run for one purpose."""
    return {
        "purpose": one.purpose,
        "name": one.method.name,
        "plain": one.method == PLAIN,
        "ratio": one.ratio,
        "spread": as_list(one.spread),
        "text": one.text,
        "sure": one.sure,
    }


def refused_view(refused: tuple[Refused, ...]) -> list[list[str]]:
    """[name, reason] of each."""
    return [[one.method.name, one.why] for one in refused]


def how_it_ended(lab: Lab) -> str:
    """A sentence."""
    if lab.ended == "failed":
        return f"The lab ended early. {lab.problem} {lab.remedy}".strip()
    if not lab.ended:
        return "The lab broke off: Bonsai was ended while it ran. What was measured until then stands below."
    if lab.ended == "stopped":
        return "The lab was stopped: what was measured until then stands below."
    text = ENDED[lab.ended]
    return f"{text[:1].upper()}{text[1:]}, after {span(lab.spent_s)}."


def resumable(lab: Lab) -> bool:
    """Whether something is left to measure."""
    return lab.ended not in ("sure", "runs") and bool(next_block(lab)[1])


def labs_view(listing: LabListing, other: dict[str, tuple[str, ...]], running: str) -> dict[str, Any]:
    """The kept labs, and what had to be set aside. ``other``: by id, what is another now than when it was measured."""
    return {
        "labs": [_summary(it, other.get(it.id, ()), it.id == running) for it in listing.labs],
        "set_aside": list(listing.set_aside),
        "unreadable": list(listing.unreadable),
    }


def _summary(it: LabSummary, other: tuple[str, ...], running: bool) -> dict[str, Any]:
    values = asdict(it)
    del values["subject"]
    return values | {"unfinished": it.unfinished, "running": running, "other": list(other)}


def title(lab: Lab) -> str:
    """What an exported file is called after."""
    return " ".join(filter(None, ["lab", dict(lab.subject.facts).get("Model", ""), date(lab.created)[:10]]))


def _sweep(lab: Lab, sweep: Sweep) -> dict[str, Any]:
    return {
        "confidence": lab.plan.confidence,
        "plain": figures(lab, Cell(sweep.kind, PLAIN, sweep.temperature)).tokens_per_second,
        "kind": sweep.kind,
        "temperature": sweep.temperature,
        "type": sweep.spec_type,
        "name": Method(sweep.spec_type).name,
        "best": sweep.best,
        "ties": list(sweep.ties),
        "break_even": sweep.break_even,
        "plain_s": sweep.costs.plain_s if sweep.costs else None,
        "fixed_s": sweep.costs.fixed_s if sweep.costs else None,
        "each_s": sweep.costs.each_s if sweep.costs else None,
        "points": [asdict(point) for point in sweep.points],
    }


def _temperatures(lab: Lab) -> list[dict[str, Any]]:
    return [
        {"kind": kind, "name": method.name, "plain": method == PLAIN, "at": [row_view(one) for one in known]}
        for kind, method, known in temperature_effect(lab)
    ]


def _about(lab: Lab) -> list[list[str]]:
    plan = lab.plan
    repeated = (
        f"{plan.least} to {plan.most} answers a cell, until the {plan.confidence:.0%} interval of the ratio is within "
        f"±{plan.precision:.0%}"
    )
    if plan.least == plan.most:
        repeated = f"{plan.least} {'answer' if plan.least == 1 else 'answers'} a cell"
    budget = "none" if plan.budget_s is None else span(plan.budget_s)
    return [
        ["Cells", f"{len(plan.cells)}, {len(all_figures(lab))} of them measured, {len(lab.runs)} answers"],
        ["Request", f"at most {plan.max_tokens:,} tokens, seed {plan.seed}, no prompt cache"],
        ["Repeated", repeated],
        ["Budget of time", budget],
        ["Measured for", span(lab.spent_s)],
        ["Engines", f"{len(methods_of(plan))}, each warmed up by an answer that does not count"],
        ["Date", date(lab.created)],
        *[list(row) for row in lab.subject.facts],
    ]


def _commands(lab: Lab) -> list[list[str]]:
    argvs = [command["argv"] for command in lab_json(lab)["commands"]]
    return [[side.method.name, " ".join(argv)] for side, argv in zip(lab.sides, argvs, strict=True)]


def learned_view(learned: Learned | None, plan: LaunchPlan | None) -> dict[str, Any] | None:
    """What is in use by a person's choice, or was. ``plan``: what runs now."""
    if learned is None:
        return None
    return {
        "name": learned.method.name,
        "plain": learned.method == PLAIN,
        "purpose": learned.purpose,
        "why": learned.why,
        "since": date(learned.since),
        "stale": list(learned.stale),
        "overruled": learned.overruled,
        "runs": plan is not None and plan.method == learned.method,
    }


def ledger_view(ledger: TimeLedger | None) -> dict[str, Any] | None:
    """What speculation saved or cost so far."""
    return (
        None if ledger is None else {"sentence": ledger.sentence, "rows": [list(row) for row in ledger.rows]}
    )
