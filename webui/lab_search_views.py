"""A search for advice as the page's scripts take it: what is known so far, and what came of it. Speeds in tokens a second,
times in seconds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from launcher.advise import Advice, Tried
from launcher.advise_run import AdviseSpec, Findings, Found
from launcher.amounts import span
from launcher.methods import PLAIN, Method


@dataclass
class Part:
    """How far the search for one purpose is. ``advice`` is as far as the answers go, ``found`` the last word;
    ``limit_s``: the engine time that it keeps to; ``share`` of that is done (0 to 1, and never less than before)."""

    purpose: str
    spec: AdviseSpec
    advice: Advice | None = None
    limit_s: float | None = None
    share: float = 0.0
    left_out: set[Method] = field(default_factory=set)
    found: Found | None = None

    @property
    def spent_s(self) -> float:
        """Engine time."""
        return self.advice.engine_seconds if self.advice else 0.0

    def know(self, advice: Advice, limit_s: float | None) -> None:
        """What is known by now."""
        self.advice, self.limit_s = advice, limit_s
        if limit_s:
            self.share = max(self.share, min(self.spent_s / limit_s, 1.0))

    def end(self, found: Found) -> None:
        """The last word."""
        self.found, self.advice, self.share = found, found.advice, 1.0


def part_view(part: Part) -> dict[str, Any]:
    """What is known for one purpose: the fastest first, then those that nothing is known of."""
    tried = part.advice.tried if part.advice else ()
    known = {one.method for one in tried}
    unknown = [method for method in part.spec.launches if method not in known]
    return {
        "purpose": part.purpose,
        "kind": part.spec.prompt.kind,
        "temperature": part.spec.temperature,
        "best": part.advice.method.name if part.advice else "",
        "ratio": part.advice.expected_ratio if part.advice else None,
        "text": part.found.text if part.found else "",
        "rows": [*rows_view(tried), *(_unknown(method, method in part.left_out) for method in unknown)],
    }


def rows_view(tried: Iterable[Tried]) -> list[dict[str, Any]]:
    """A row for every method that something is known of; no answers: foreseen."""
    return [
        {
            "name": one.method.name,
            "plain": one.method == PLAIN,
            "speed": one.tokens_per_second,
            "ratio": one.ratio,
            "answers": one.answers,
            "failed": False,
        }
        for one in tried
    ]


def _unknown(method: Method, failed: bool) -> dict[str, Any]:
    return {
        "name": method.name,
        "plain": method == PLAIN,
        "speed": None,
        "ratio": None,
        "answers": 0,
        "failed": failed,
    }


def found_view(findings: Findings) -> dict[str, Any]:
    """Everything that the page shows of a search that is over."""
    problem = findings.problem
    seconds = sum(one.advice.engine_seconds for one in findings.found)
    return {
        "practice": findings.subject.practice,
        "how": _how(findings, span(seconds)),
        "took": span(seconds),
        "problem": f"{problem.what} {problem.remedy}".strip() if problem else "",
        "stopped": findings.stopped,
        "missing": list(findings.missing),
        "advice": [_advice(one) for one in findings.found],
        "about": [list(row) for row in findings.subject.facts],
    }


def _advice(found: Found) -> dict[str, Any]:
    advice = found.advice
    return {
        "purpose": found.purpose,
        "kind": found.kind,
        "temperature": found.temperature,
        "name": advice.method.name,
        "plain": advice.method == PLAIN,
        "ratio": advice.expected_ratio,
        "spread": [advice.low, advice.high],
        "text": found.text,
        "sure": advice.sure,
        "took": f"It took {span(advice.engine_seconds)} of engine time.",
        "rows": rows_view(advice.tried),
    }


def _how(findings: Findings, took: str) -> str:
    """A sentence."""
    answers = sum(one.answers for found in findings.found for one in found.advice.tried)
    what = f"{answers} {'answer' if answers == 1 else 'answers'} in {took} of engine time"
    if findings.stopped:
        return f"The search was stopped: what it says goes as far as {what}."
    return f"Found with {what}."
