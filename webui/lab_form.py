"""What a person asks of a lab, checked; and what can be asked for here, with what it would take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from launcher import lab_matrix
from launcher.advise import answers_foreseen
from launcher.errors import BadInput
from launcher.lab_types import LabPlan
from launcher.methods import PLAIN, Method, Offer
from launcher.race_prompts import KINDS, LANGUAGES, lab_prompt
from webui.lab_pace import search_s
from webui.state import LabHere

MOST_TOKENS = 4096
MOST_RUNS = 100
MOST_MINUTES = 24 * 60
RUNS_TO_CHOOSE = (1, 3, 5, 10)
TEMPERATURES = (0.0, 1.0)


def setup_view(here: LabHere) -> dict[str, Any]:
    """What can be chosen here, and the two ready-made choices."""
    return {
        "offers": [_offer(offer, here) for offer in here.offers],
        "quick": preset_view(here.quick),
        "whole": preset_view(here.whole),
        "kinds": list(KINDS),
        "languages": LANGUAGES,
        "temperatures": list(TEMPERATURES),
        "runs": list(RUNS_TO_CHOOSE),
        "most_tokens": MOST_TOKENS,
        "practice": here.subject.practice,
        "confidence": here.quick.confidence,
        "precision": here.quick.precision,
    }


def find_view(here: LabHere, pace: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a search for advice would do here: by which texts, with how many answers and in how many seconds (None: not
    known), each as [least, most]."""
    least, most = answers_foreseen([offer.method for offer in here.offers if offer.why_not is None])
    answers = [least * len(here.wanted), most * len(here.wanted)]
    return {
        "texts": [[purpose, kind, temperature] for purpose, (kind, temperature) in here.wanted.items()],
        "answers": answers,
        "seconds": search_s(pace, answers) if pace else None,
        "source": pace["source"] if pace else "",
    }


def _offer(offer: Offer, here: LabHere) -> dict[str, Any]:
    return {**method_view(offer.method), "why_not": offer.why_not, "fresh": here.fresh(offer.method)}


def method_view(method: Method) -> dict[str, Any]:
    """A method for the scripts; ``name`` is for people."""
    return {
        "type": method.spec_type,
        "length": method.draft_max,
        "p_min": method.p_min,
        "draft_on": method.draft_on,
        "name": method.name,
    }


def preset_view(plan: LabPlan) -> dict[str, Any]:
    """``plan`` as what would have to be chosen for it."""
    return {
        "kinds": list(dict.fromkeys(cell.kind for cell in plan.cells)),
        "methods": [method_view(method) for method in methods_of(plan)],
        "temperatures": list(dict.fromkeys(cell.temperature for cell in plan.cells)),
        "tokens": plan.max_tokens,
        "least": plan.least,
        "most": plan.most,
        "minutes": None if plan.budget_s is None else plan.budget_s / 60,
    }


def methods_of(plan: LabPlan) -> tuple[Method, ...]:
    """The methods of a plan, each once, in order."""
    return tuple(dict.fromkeys(cell.method for cell in plan.cells))


def plan_for(here: LabHere, body: Mapping[str, Any]) -> LabPlan:
    """The plan that a person asks for. Raises BadInput for nonsense, and for what cannot be had here with the reason."""
    base = here.quick if body.get("preset") == "quick" else here.whole
    language = str(body.get("language", "en"))
    kinds = lab_matrix.kinds_of(",".join(_texts(body.get("kinds"), "Choose at least one kind of text.")))
    runs = body.get("runs")
    if runs is not None:
        runs = _whole(runs, "The number of answers", 1, MOST_RUNS)
    plan = replace(
        base,
        cells=lab_matrix.cells(kinds, _methods(here.offers, body.get("methods")), _temperatures(body)),
        prompts=tuple(lab_prompt(kind, language) for kind in kinds),
        max_tokens=_whole(body.get("tokens"), "The answer limit", 2, MOST_TOKENS),
        least=runs or base.least,
        most=runs or base.most,
        budget_s=_budget(body.get("minutes")),
        quick=True,
    )
    alike = replace(plan, prompts=()) == replace(here.quick, prompts=(), quick=True)
    return replace(plan, quick=alike)


def _methods(offers: Sequence[Offer], given: Any) -> tuple[Method, ...]:
    if not isinstance(given, list):
        raise BadInput("A lab needs ways to run the model.", "Reload the page and choose some.")
    found = [PLAIN]
    for one in given:
        offer = _meant(offers, one)
        if offer.why_not is not None:
            raise BadInput(f"{offer.method.name} cannot be measured here. {offer.why_not}", "Leave it out.")
        found.append(offer.method)
    return tuple(dict.fromkeys(found))


def _meant(offers: Sequence[Offer], given: Any) -> Offer:
    """The offer that ``given`` names; its p-min may be any where one is offered."""
    if isinstance(given, Mapping):
        p_min = given.get("p_min")
        for offer in offers:
            method = offer.method
            same = (method.spec_type, method.draft_max, method.draft_on) == tuple(
                given.get(name) for name in ("type", "length", "draft_on")
            )
            if same and (method.p_min is None) == (p_min is None):
                return offer if p_min is None else replace(offer, method=replace(method, p_min=_share(p_min)))
    raise BadInput("A method was asked for that there is not.", "Reload the page and choose again.")


def _texts(value: Any, otherwise: str) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(it, str) for it in value):
        raise BadInput(otherwise)
    return value


def _temperatures(body: Mapping[str, Any]) -> tuple[float, ...]:
    given = body.get("temperatures")
    if not isinstance(given, list) or not given:
        raise BadInput("Choose at least one temperature.")
    return tuple(dict.fromkeys(_number(it, "Temperature", 0, 2) for it in given))


def _budget(value: Any) -> float | None:
    return (
        None if value is None else _number(value, "The budget of time", 0.05, MOST_MINUTES, " minutes") * 60
    )


def _share(value: Any) -> float:
    return _number(value, "p-min", 0, 1)


def _whole(value: Any, label: str, low: int, high: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BadInput(f"{label} is a whole number from {low} to {high:,}.")
    return value


def _number(value: Any, label: str, low: float, high: float, unit: str = "") -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or not low <= value <= high:
        raise BadInput(f"{label} is a number from {low:g} to {high:,}{unit}.")
    return float(value)
