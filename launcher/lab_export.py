"""Pure: a lab as JSON, as Markdown and as CSV. Files are named without their folders, texts are left out."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from launcher.amounts import span
from launcher.lab_advice import advise, between
from launcher.lab_stats import all_figures, sweeps
from launcher.lab_types import Advice, Cell, CellFigures, Lab, Refused, Sweep
from launcher.markdown import fenced, table
from launcher.methods import PLAIN, Method
from launcher.race_export import PRACTICE, about_side, as_list, date, file_name, number, prompt_json

ENDED = {
    "": "not over",
    "sure": "every interval is as narrow as was asked for",
    "runs": "every cell has as many answers as were allowed",
    "budget": "the budget of time was spent",
    "stopped": "it was stopped",
    "failed": "it failed",
}
COLUMNS = (
    "kind",
    "method",
    "n_max",
    "p_min",
    "draft_on",
    "temperature",
    "tokens_per_second",
    "ratio",
    "ratio_low",
    "ratio_high",
    "acceptance",
    "identical",
    "runs",
    "notes",
)


def lab_json(lab: Lab) -> dict[str, Any]:
    """The documented form of ``bonsai lab --json``: ``cells``, ``sweep``, ``advice``, and what was measured on what."""
    advice = {one.purpose: _advice(one) for one in advise(lab)}
    return {
        "id": lab.id,
        "created": date(lab.created),
        "cells": [_cell(one) for one in all_figures(lab)],
        "sweep": [_sweep(one) for one in sweeps(lab)],
        "advice": advice,
        "refused": [{**method_json(one.method), "why": one.why} for one in lab.refused],
        "failed": [{**method_json(one.method), "why": one.why} for one in lab.failures],
        "ended": lab.ended or None,
        "problem": lab.problem or None,
        "remedy": lab.remedy or None,
        "spent_s": lab.spent_s,
        **_conditions(lab),
    }


def lab_csv(lab: Lab) -> str:
    """The table with a row a cell, the column names first."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for one in all_figures(lab):
        method = one.cell.method
        low, high = one.spread or (None, None)
        rows.writerow(
            [
                one.cell.kind,
                method.spec_type,
                _blank(method.draft_max),
                _blank(method.p_min),
                _blank(method.draft_on),
                f"{one.cell.temperature:g}",
                _rounded(one.tokens_per_second, 2),
                _rounded(one.ratio, 4),
                _rounded(low, 4),
                _rounded(high, 4),
                _rounded(one.acceptance, 4),
                "" if one.identical is None else "yes" if one.identical else "no",
                one.runs,
                "; ".join(notes(one)),
            ]
        )
    return text.getvalue()


def lab_markdown(lab: Lab) -> str:
    """For people to read and to paste: the table, the sweeps, the advice, the conditions. Ends with a line feed."""
    return "\n\n".join(part for part in _parts(lab) if part) + "\n"


def table_rows(lab: Lab) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """(headers, rows) of the table for people: a row for each kind and method at each temperature."""
    headers = (
        "text",
        "method",
        "temperature",
        "tokens/s",
        "ratio",
        "acceptance",
        "identical at temperature 0",
        "notes",
    )
    return headers, [_row(one) for one in all_figures(lab)]


def sweep_rows(sweep: Sweep) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """(headers, rows) of one sweep for people, a row a draft length."""
    headers = ("draft length", "tokens/s", "ratio", "acceptance", "break-even acceptance", "")
    rows: list[tuple[str, ...]] = []
    for point in sweep.points:
        mark = "best" if point.n_max == sweep.best else "as fast" if point.n_max in sweep.ties else ""
        rows.append(
            (
                str(point.n_max),
                number(point.tokens_per_second, "{:.1f}"),
                f"{point.ratio:.2f}x ({between(point.spread)})",
                number(point.acceptance, "{:.0%}"),
                share(point.break_even),
                mark,
            )
        )
    return headers, rows


def share(break_even: float | None) -> str:
    """A break-even acceptance for people: above 1 there is none, below 0 any will do."""
    if break_even is not None and break_even > 1:
        return "none: over 100%"
    return number(None if break_even is None else max(break_even, 0.0), "{:.0%}")


def notes(figures: CellFigures) -> list[str]:
    """What a reader should know of a cell beside its figures."""
    found: list[str] = []
    if figures.cell.method == PLAIN:
        return found
    if figures.acceptance is None:
        found.append("drafted nothing")
    if figures.spread is None:
        found.append("no plain answer of the same block to compare with")
    elif figures.word == "no difference":
        found.append("no difference" if figures.narrow else "not told apart from plain")
    if figures.runs == 1:
        found.append("one answer only, its spread is assumed")
    return found


# --- parts ----------------------------------------------------------------------------------


def method_json(method: Method) -> dict[str, Any]:
    """A method as it stands in JSON, by llama-server's names."""
    return {
        "method": method.spec_type,
        "n_max": method.draft_max,
        "p_min": method.p_min,
        "draft_on": method.draft_on,
    }


def _cell(one: CellFigures) -> dict[str, Any]:
    method = one.cell.method
    return {
        "kind": one.cell.kind,
        "method": method.spec_type,
        "n_max": method.draft_max,
        "temperature": one.cell.temperature,
        "p_min": method.p_min,
        "draft_on": method.draft_on,
        "tokens_per_second": one.tokens_per_second,
        "speed_spread": as_list(one.speed_spread),
        "spread": as_list(one.spread),
        "ratio": one.ratio,
        "word": one.word or None,
        "acceptance": one.acceptance,
        "acceptance_by_position": as_list(one.acceptance_by_place),
        "tokens_per_step": one.tokens_per_step,
        "step_s": one.step_s,
        "identical": one.identical,
        "runs": one.runs,
        "narrow": one.narrow,
        "notes": notes(one),
    }


def _sweep(sweep: Sweep) -> dict[str, Any]:
    costs = sweep.costs
    return {
        "kind": sweep.kind,
        "method": sweep.spec_type,
        "temperature": sweep.temperature,
        "points": [
            {
                "n_max": point.n_max,
                "tokens_per_second": point.tokens_per_second,
                "ratio": point.ratio,
                "spread": list(point.spread),
                "acceptance": point.acceptance,
                "break_even": point.break_even,
            }
            for point in sweep.points
        ],
        "best": sweep.best,
        "ties": list(sweep.ties),
        "break_even": sweep.break_even,
        "costs": {"plain_s": costs.plain_s, "fixed_s": costs.fixed_s, "each_s": costs.each_s}
        if costs
        else None,
    }


def _advice(advice: Advice) -> dict[str, Any]:
    return {
        **method_json(advice.method),
        "ratio": advice.ratio,
        "spread": as_list(advice.spread),
        "text": advice.text,
        "sure": advice.sure,
    }


def _conditions(lab: Lab) -> dict[str, Any]:
    plan, plain = lab.plan, next((side for side in lab.sides if side.method == PLAIN), None)
    return {
        "practice": lab.subject.practice,
        **(
            about_side(plain, next((it.drafter_path for it in lab.sides if it.drafter_path), None))
            if plain
            else {}
        ),
        "request": {
            "max_tokens": plan.max_tokens,
            "seed": plan.seed,
            "cache_prompt": False,
            "prompts": [prompt_json(prompt) for prompt in plan.prompts],
        },
        "plan": {
            "quick": plan.quick,
            "cells": len(plan.cells),
            "least_runs": plan.least,
            "most_runs": plan.most,
            "precision": plan.precision,
            "confidence": plan.confidence,
            "budget_s": plan.budget_s,
        },
        "order": [[run.block, *_key(run.cell)] for run in lab.runs],
        "commands": [
            {**method_json(side.method), "argv": [file_name(word) for word in side.argv]}
            for side in lab.sides
        ],
        "machine": dict(lab.subject.facts),
    }


def _key(cell: Cell) -> list[Any]:
    return [cell.kind, cell.method.name, cell.temperature]


def _parts(lab: Lab) -> Iterator[str]:
    yield "# Lab: what speculation gains here"
    if lab.subject.practice:
        yield PRACTICE
    if lab.problem:
        yield f"The lab ended early. {lab.problem} {lab.remedy}".strip()
    yield table(*table_rows(lab))
    yield "\n\n".join(one.text for one in advise(lab))
    for sweep in sweeps(lab):
        yield (
            f"## Draft length: {Method(sweep.spec_type).name} on {sweep.kind}, temperature {sweep.temperature:g}\n\n"
            + table(*sweep_rows(sweep))
        )
    yield from _left_out("Could not be measured here:", lab.refused)
    yield from _left_out("Left out while measuring:", lab.failures)
    plan = lab.plan
    facts = [
        (
            "Request",
            f"at most {plan.max_tokens} tokens, seed {plan.seed}, no prompt cache; each engine warmed up first",
        ),
        (
            "Repeated",
            f"{plan.least} to {plan.most} answers a cell, until the ratio's {plan.confidence:.0%} interval is within "
            f"±{plan.precision:.0%}; "
            + (f"budget {span(plan.budget_s)}" if plan.budget_s else "no budget of time"),
        ),
        ("Ended", f"{ENDED[lab.ended]}, after {span(lab.spent_s)}"),
        ("Date", date(lab.created)),
        *lab.subject.facts,
    ]
    yield "\n".join(f"- {what}: {value}" for what, value in facts)
    for prompt in plan.prompts:
        yield f"Prompt for {prompt.kind}:\n\n{fenced(prompt.text)}"


def _left_out(heading: str, refused: Sequence[Refused]) -> Iterator[str]:
    if refused:
        yield heading + "\n\n" + "\n".join(f"- {one.method.name}: {one.why}" for one in refused)


def _row(one: CellFigures) -> tuple[str, ...]:
    cell = one.cell
    ratio = "–"
    if one.ratio is not None and one.spread is not None:
        ratio = f"{one.ratio:.2f}x ({between(one.spread)})"
    return (
        cell.kind,
        "no draft" if cell.method == PLAIN else cell.method.name,
        f"{cell.temperature:g}",
        number(one.tokens_per_second, "{:.1f}"),
        "1" if cell.method == PLAIN else ratio,
        number(one.acceptance, "{:.0%}"),
        {None: "–", True: "yes", False: "no"}[one.identical],
        ", ".join(notes(one)),
    )


def _blank(value: object) -> object:
    return "" if value is None else value


def _rounded(value: float | None, digits: int) -> object:
    return "" if value is None else round(value, digits)
