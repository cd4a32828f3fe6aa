"""The line under an answer: what it cost and how fast it came, in words with an explanation each. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.amounts import seconds
from launcher.client.events import Timings
from launcher.methods import PLAIN
from launcher.plan import LaunchPlan
from launcher.store import Turn

_SPECULATION_ASKED = "speculation "
_MEASURED_HERE = (
    "Decode speed from the first to the last token, measured on this side: the engine gave no figure."
)
_MEASURED_THERE = "Decode speed as the engine measured it, without the time for reading the prompt."


@dataclass(frozen=True)
class Figure:
    """``kind`` names the figure for styling and tests, ``title`` explains it."""

    kind: str
    text: str
    title: str


def engine_label(plan: LaunchPlan) -> str:
    """What answered, kept with each answer: engine, model, and whether speculation was asked for."""
    engine = plan.resolved.engine
    parts = [f"{engine.kind} {engine.version}".strip(), plan.resolved.target.label]
    if plan.speculation_requested or plan.method != PLAIN:
        parts.append(f"{_SPECULATION_ASKED}{plan.speculation}")
    else:
        parts.append("plain")
    return " · ".join(parts)


def speculation_asked(label: str) -> bool:
    """Whether the engine behind an ``engine_label`` was started with speculation."""
    return label.rsplit(" · ", 1)[-1].startswith(_SPECULATION_ASKED)


def figures(turn: Turn) -> tuple[Figure, ...]:
    """Figures of one answer, in reading order; nothing that is unknown is shown as a number."""
    timings = turn.timings
    if timings is None:
        return ()
    found = [*_speed(timings), *_speculation(timings, asked=speculation_asked(turn.engine))]
    if turn.context_used is not None:
        found.append(_context(turn.context_used, turn.context_size))
    return tuple(found)


def number(value: int) -> str:
    """1204 -> 1,204."""
    return f"{value:,}"


def speed(tokens_per_second: float) -> str:
    """Three significant digits are what a run is good for: 7.42, 61.3, 518 tok/s."""
    digits = 2 if tokens_per_second < 10 else 1 if tokens_per_second < 100 else 0
    return f"{tokens_per_second:.{digits}f} tok/s"


def _speed(timings: Timings) -> list[Figure]:
    by_client = timings.measured_by == "client"
    tokens = timings.predicted_tokens
    found = [
        Figure(
            "tokens",
            f"{number(tokens)} token{'' if tokens == 1 else 's'}",
            "Length of the answer, thoughts included.",
        )
    ]
    if timings.tokens_per_second:
        text = speed(timings.tokens_per_second)
        found.append(
            Figure("speed", f"{text} ≈ client", _MEASURED_HERE)
            if by_client
            else Figure("speed", text, _MEASURED_THERE)
        )
    if timings.time_to_first_token_s is not None:
        title = "Time from sending to the first token."
        if timings.prompt_tokens is not None:
            title += f" The conversation before it has {number(timings.prompt_tokens)} tokens"
            title += (
                f", {number(timings.cached_tokens)} of them still known." if timings.cached_tokens else "."
            )
        found.append(Figure("first", f"first token {seconds(timings.time_to_first_token_s)}", title))
    return found


def _speculation(timings: Timings, *, asked: bool) -> list[Figure]:
    if timings.acceptance is not None and timings.draft_n:
        accepted = timings.draft_n_accepted or 0
        text = f"drafter {number(accepted)}/{number(timings.draft_n)} accepted ({timings.acceptance * 100:.0f} %)"
        title = (
            "Tokens that the drafter proposed and the target kept. Every token was checked by the target; "
            "the higher the share, the more a verify step gains."
        )
        return [Figure("drafter", text, title)]
    if asked and timings.predicted_tokens:
        return [
            Figure(
                "inactive",
                "speculation requested but not active",
                "The engine was started with a drafter, but nothing was drafted for this answer.",
            )
        ]
    return []


def _context(used: int, size: int | None) -> Figure:
    text = f"context {number(used)}" + (f" / {number(size)}" if size else "")
    return Figure(
        "context", text, "Tokens of the conversation after this answer, and how many the context holds."
    )
