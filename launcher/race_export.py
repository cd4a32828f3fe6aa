"""Pure: a race as JSON, as Markdown, and as the data of a card that replays it.

Files are named without their folders: an export is made to be shown to others. ``with_texts`` False leaves out
the prompt, both answers and what is quoted from them; lengths and times stay, so that a replay still runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from launcher.markdown import fenced, table
from launcher.race_figures import KindRow, SideFigures, by_kind, saved, sentence, side_figures, texts
from launcher.race_types import Difference, Prompt, Race, Run, Side, acceptance_by_position

PRACTICE = (
    "Run with the practice pair, which is not a language model: its speeds say nothing about a real one."
)
MOST_POSITIONS = 8  # shown to people; phrase tables draft dozens of tokens at once


def race_json(race: Race, *, with_texts: bool = True) -> dict[str, Any]:
    """The documented form of ``bonsai race --json``: ``order``, ``sides``, ``verdict``, and what was run on what.

    ``order`` and ``rounds`` hold the answers that went to their end; ``broken`` what was cut.
    """
    finished = [run for run in race.runs if run.finished]
    return {
        "id": race.id,
        "created": date(race.created),
        "prompt": prompt_json(race.prompt, with_texts=with_texts),
        "order": [race.sides[run.side].name for run in finished],
        "sides": [_side(race, number, finished, with_texts) for number in (0, 1)],
        "verdict": _verdict(race, with_texts),
        "ended": race.ended,
        "problem": race.problem or None,
        "remedy": race.remedy or None,
        "broken": [
            {
                "side": race.sides[run.side].name,
                "round": run.round,
                "ended": run.ended,
                **_texts(run, with_texts),
            }
            for run in race.runs
            if not run.finished
        ],
        **_conditions(race),
    }


def set_json(races: Sequence[Race], *, with_texts: bool = True) -> dict[str, Any]:
    """The documented form of ``bonsai race --set --json``: a row a kind, then every race."""
    kinds = [
        {
            "kind": row.kind,
            "races": row.races,
            "tokens_per_second": list(row.rates),
            "ratio": row.ratio,
            "spread": list(row.spread) if row.spread else None,
            "word": row.word or None,
            "acceptance": row.acceptance,
        }
        for row in by_kind(races)
    ]
    return {"kinds": kinds, "races": [race_json(race, with_texts=with_texts) for race in races]}


def card_data(race: Race, with_texts: bool = True) -> dict[str, Any]:
    """What a card needs to show the verdict and replay both sides in true time: ``race_json`` with the sentences
    for people and, in each round, its time line.

    A mark is [seconds after the first piece, characters, tokens, origin "draft" | "target" | "", thinking]; a step
    is [seconds, drafted, accepted]. The marks of the answer and of the thoughts cover ``text`` and ``thinking``;
    characters are code points (in JavaScript: ``Array.from(text)``).
    """
    data = race_json(race, with_texts=with_texts)
    for at, side in enumerate(data["sides"]):
        runs = [run for run in race.runs if run.finished and run.side == at]
        for entry, run in zip(side["rounds"], runs, strict=True):
            entry["marks"] = [list(mark) for mark in run.marks]
            entry["steps"] = [list(step) for step in run.steps]
    data["sentences"] = {"verdict": sentence(race), "saved": saved(race.verdict), "texts": texts(race)}
    return data


def race_markdown(race: Race, *, with_texts: bool = True) -> str:
    """For people to read and to paste, ending with a line feed."""
    return "\n\n".join(part for part in _race_parts(race, with_texts) if part) + "\n"


def set_markdown(races: Sequence[Race]) -> str:
    """The table by kind, with the conditions below; no texts."""
    if not races:
        return "No race was run.\n"
    kinds = table(kind_headers(races[0]), [kind_cells(row) for row in by_kind(races)], right={1, 2, 3, 6})
    return "\n\n".join(["# Race by kind of text", kinds, *_about(races[0])]) + "\n"


def kind_headers(race: Race) -> tuple[str, ...]:
    """What stands above ``kind_cells`` in the table of a set to which ``race`` belongs."""
    a, b = (side.name for side in race.sides)
    return ("text", f"{a}, tokens/s", f"{b}, tokens/s", "ratio", "spread", "", "acceptance")


def kind_cells(row: KindRow) -> tuple[str, ...]:
    """A row of the table by kind as texts: kind, both speeds, ratio, spread, word, acceptance."""
    return (
        row.kind,
        *(number(rate, "{:.1f}") for rate in row.rates),
        number(row.ratio, "{:.2f}x"),
        f"{row.spread[0]:.2f} to {row.spread[1]:.2f}" if row.spread else "–",
        row.word or "–",
        number(row.acceptance, "{:.0%}"),
    )


def figure_rows(a: SideFigures, b: SideFigures) -> list[tuple[str, str, str]]:
    """(what, side 0, side 1) lines for people."""

    def row(what: str, name: str, form: str) -> tuple[str, str, str]:
        return what, number(getattr(a, name), form), number(getattr(b, name), form)

    return [
        row("decode speed, tokens/s", "tokens_per_second", "{:.1f}"),
        row("prompt processing, tokens/s", "prompt_tokens_per_second", "{:.0f}"),
        row("time to first token, s", "time_to_first_token_s", "{:.2f}"),
        row("total, s", "total_s", "{:.2f}"),
        row("tokens", "predicted_tokens", "{}"),
        row("acceptance", "acceptance", "{:.0%}"),
        ("acceptance by position", _shares(a.acceptance_by_position), _shares(b.acceptance_by_position)),
        row("tokens per verify step", "tokens_per_step", "{:.2f}"),
    ]


# --- parts ----------------------------------------------------------------------------------


def _side(race: Race, number: int, finished: Sequence[Run], with_texts: bool) -> dict[str, Any]:
    side, figures = race.sides[number], side_figures(race, number)
    return {
        "name": side.name,
        "method": side.method.spec_type,
        "draft_max": side.method.draft_max,
        "rounds": [_round(run, side, with_texts) for run in finished if run.side == number],
        "tokens_per_second": figures.tokens_per_second,
        "acceptance": figures.acceptance,
        "acceptance_by_position": as_list(figures.acceptance_by_position),
        "tokens_per_step": figures.tokens_per_step,
        "argv": [file_name(word) for word in side.argv],
    }


def _round(run: Run, side: Side, with_texts: bool) -> dict[str, Any]:
    timings = run.timings
    return {
        "round": run.round,
        "predicted_tokens": timings.predicted_tokens,
        "tokens_per_second": timings.tokens_per_second,
        "prompt_tokens": timings.prompt_tokens,
        "cached_tokens": timings.cached_tokens,
        "prompt_tokens_per_second": timings.prompt_tokens_per_second,
        "time_to_first_token_s": timings.time_to_first_token_s,
        "total_s": timings.total_s,
        "draft_n": timings.draft_n,
        "draft_n_accepted": timings.draft_n_accepted,
        "acceptance": timings.acceptance,
        "acceptance_by_position": as_list(acceptance_by_position(run.steps, side.method.draft_max)),
        "measured_by": timings.measured_by,
        "finish_reason": run.ended,
        "started": date(run.started),
        **_texts(run, with_texts),
    }


def _texts(run: Run, with_texts: bool) -> dict[str, str]:
    return {"text": run.text, "thinking": run.thinking} if with_texts else {}


def _verdict(race: Race, with_texts: bool) -> dict[str, Any]:
    verdict = race.verdict
    return {
        "rounds": verdict.rounds,
        "ratio": verdict.ratio,
        "spread": as_list(verdict.spread),
        "confidence": verdict.confidence,
        "word": verdict.word or None,
        "sure": verdict.sure,
        "time_saved_s": verdict.time_saved_s,
        "identical": verdict.identical,
        "first_difference": _difference(verdict.first_difference, with_texts),
        "warnings": list(verdict.warnings),
    }


def _difference(difference: Difference | None, with_texts: bool) -> dict[str, Any] | None:
    if difference is None:
        return None
    quoted = {"a": difference.a, "b": difference.b} if with_texts else {}
    return {"char": difference.char, "token": difference.token, **quoted, "why": difference.why}


def prompt_json(prompt: Prompt, *, with_texts: bool = True) -> dict[str, Any]:
    """A prompt as it stands in JSON, its text None without ``with_texts``."""
    return {"text": prompt.text if with_texts else None, "kind": prompt.kind, "language": prompt.language}


def about_side(side: Side, drafter: str | None) -> dict[str, Any]:
    """What ``side`` ran on; ``drafter`` is the path of the drafter of whichever side has one."""
    return {
        "engine": side.engine,
        "model": side.model,
        "files": {"target": file_name(side.model_path), "drafter": file_name(drafter) if drafter else None},
        "practice": side.practice,
        "context": side.context,
    }


def _conditions(race: Race) -> dict[str, Any]:
    drafter = next((it.drafter_path for it in race.sides if it.drafter_path), None)
    return {
        **about_side(race.sides[0], drafter),
        "swapped": race.swapped,
        "request": {
            "max_tokens": race.max_tokens,
            "temperature": race.temperature,
            "seed": race.seed,
            "thinking": race.thinking,
            "cache_prompt": False,
            "rounds": race.rounds_asked,
        },
        "machine": dict(race.machine),
    }


def _race_parts(race: Race, with_texts: bool) -> Iterator[str]:
    a, b = race.sides
    yield f"# Race: {a.name} against {b.name}"
    yield f"**{sentence(race)}** {saved(race.verdict)}".strip()
    if race.problem:
        yield f"The race ended early. {race.problem} {race.remedy}".strip()
    rows = figure_rows(side_figures(race, 0), side_figures(race, 1))
    yield table(("", a.name, b.name), rows, right={1, 2})
    yield texts(race)
    difference = race.verdict.first_difference
    if difference and with_texts:
        yield f"{a.name}:\n\n{fenced(difference.a)}\n\n{b.name}:\n\n{fenced(difference.b)}"
    if race.verdict.warnings:
        yield "\n".join(f"- {warning}" for warning in race.verdict.warnings)
    if with_texts:
        yield f"Prompt:\n\n{fenced(race.prompt.text)}"
        for at, side in enumerate(race.sides):
            runs = race.of(at)
            if runs and (at == 0 or race.verdict.identical is not True):
                yield f"Answer of {side.name}:\n\n{fenced(runs[0].whole)}"
    yield from _about(race)


def _about(race: Race) -> Iterator[str]:
    side = race.sides[0]
    if side.practice:
        yield PRACTICE
    order = " ".join("AB"[run.side] for run in race.runs if run.finished)
    limits = f"at most {race.max_tokens} tokens, temperature {race.temperature:g}, seed {race.seed}"
    swapped = ", engines swapped in memory" if race.swapped else ""
    facts = [
        ("Model", side.model),
        ("Engine", side.engine),
        ("Request", f"{limits}, no prompt cache"),
        ("Order", f"{order} (A is {side.name}), each engine warmed up first{swapped}"),
        ("Date", date(race.created)),
        *race.machine,
    ]
    yield "\n".join(f"- {what}: {value}" for what, value in facts)


def file_name(word: str) -> str:
    """A path without its folders; other words as they are."""
    if "/" not in word and "\\" not in word:
        return word
    return PureWindowsPath(word).name if "\\" in word else PurePosixPath(word).name


def as_list(values: Sequence[float] | None) -> list[float] | None:
    """``values`` as JSON has them."""
    return None if values is None else list(values)


def _shares(shares: Sequence[float] | None) -> str:
    shown = [f"{share:.0%}" for share in shares or ()]
    return " ".join([*shown[:MOST_POSITIONS], "…"] if len(shown) > MOST_POSITIONS else shown) or "–"


def number(value: float | None, form: str) -> str:
    """``value`` in ``form``, a dash where there is none."""
    return "–" if value is None else form.format(value)


def date(seconds: float) -> str:
    """Seconds since 1970 for people, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
