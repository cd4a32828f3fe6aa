"""A race as the page's scripts and the exported card take it.

Times are in milliseconds after the first token, and lengths in UTF-16 units, as JavaScript counts.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from launcher.race_export import as_list, figure_rows, race_json
from launcher.race_figures import KindRow, by_kind, saved, sentence, side_figures, texts
from launcher.race_store import RaceListing
from launcher.race_types import Difference, Race, Run, Verdict
from webui.blocks import utf16

_ORIGIN = {"draft": 1, "target": 0}
_THOUGHT = 10
_NO_ROW = "acceptance by position"  # has a picture of its own


def result_view(race: Race, *, with_texts: bool = True) -> dict[str, Any]:
    """Everything that the verdict, the tables and the replay show."""
    verdict = race.verdict
    figures = side_figures(race, 0), side_figures(race, 1)
    return {
        "id": race.id,
        "date": date(race.created),
        "headline": headline(race),
        "below": _below(verdict),
        "word": verdict.word,
        "saved": saved(verdict),
        "texts": texts(race) if verdict.first_difference is None else _parting(verdict.first_difference),
        "identical": verdict.identical,
        "difference": _difference(verdict.first_difference, with_texts),
        "warnings": list(verdict.warnings),
        "ended": race.ended,
        "problem": f"{race.problem} {race.remedy}".strip(),
        "practice": race.sides[0].practice,
        "prompt": _sendable(race.prompt.text) if with_texts else None,
        "kind": race.prompt.kind,
        "language": race.prompt.language,
        "names": [side.name for side in race.sides],
        "rows": _rows(race),
        "positions": [as_list(figure.acceptance_by_position) for figure in figures],
        "about": _about(race),
        "commands": [side["argv"] for side in race_json(race, with_texts=False)["sides"]],
        "rounds": rounds_view(race, with_texts),
        "median": median_round(race),
        "has_texts": with_texts,
    }


def headline(race: Race) -> list[str]:
    """The verdict as [before, word, after]: the word stands out the same way whatever it is."""
    verdict, (a, b) = race.verdict, race.sides
    if verdict.ratio is None:
        return ["", "No verdict", ": no round was finished on both sides."]
    rates = [figure.tokens_per_second or 0 for figure in (side_figures(race, 1), side_figures(race, 0))]
    against = " against ".join(_speed(rate) for rate in rates) + " tokens/s"
    after = f"{verdict.ratio:.2f}x, {against}"
    if verdict.word == "no difference":
        return ["", "No difference", f" between {b.name} and {a.name}: {after}"]
    return [f"{b.name} is ", verdict.word, f" than {a.name}: {after}"]


def row_view(race: Race) -> dict[str, Any]:
    """A line of the table by kind: one race."""
    row: KindRow = by_kind((race,))[0]
    return {
        "id": race.id,
        "kind": row.kind,
        "language": race.prompt.language,
        "names": [side.name for side in race.sides],
        "rates": list(row.rates),
        "ratio": row.ratio,
        "spread": as_list(row.spread),
        "word": row.word,
        "acceptance": row.acceptance,
        "identical": race.verdict.identical,
        "ended": race.ended,
        "problem": f"{race.problem} {race.remedy}".strip(),
    }


def races_view(listing: RaceListing) -> dict[str, Any]:
    """The kept races, and what had to be set aside."""
    return {
        "races": [asdict(it) | {"prompt": _sendable(it.prompt)} for it in listing.races],
        "set_aside": list(listing.set_aside),
        "unreadable": list(listing.unreadable),
    }


def verdict_view(verdict: Verdict) -> dict[str, Any]:
    """How it stands after a round."""
    spread = as_list(verdict.spread)
    return {"rounds": verdict.rounds, "ratio": verdict.ratio, "spread": spread, "word": verdict.word}


def rounds_view(race: Race, with_texts: bool) -> list[dict[str, Any]]:
    """The rounds in order, each with its two runs (None where one was not made)."""
    numbers = sorted({run.round for run in race.runs})
    return [
        {
            "round": number,
            "runs": [
                next(
                    (run_view(run, with_texts) for run in race.runs if (run.round, run.side) == (number, at)),
                    None,
                )
                for at in (0, 1)
            ],
        }
        for number in numbers
    ]


def run_view(run: Run, with_texts: bool) -> dict[str, Any]:
    """One answer for the replay. The time line in columns, times as differences: a third of the size.

    ``at``: milliseconds since the mark before; ``chars``, ``tokens``, ``origin`` (1 drafter, 0 target, -1 unknown,
    and 10 more for thoughts). ``steps``: [milliseconds, drafted, accepted].
    """
    chars, at = [], {True: 0, False: 0}
    for mark in run.marks:
        source = run.thinking if mark.thinking else run.text
        start = at[mark.thinking]
        at[mark.thinking] = start + mark.chars
        chars.append(utf16(source[start : start + mark.chars]))
    times = [round(mark.at_s * 1000) for mark in run.marks]
    timings = run.timings
    return {
        "at": [now - before for before, now in zip([0, *times], times, strict=False)],
        "chars": chars,
        "tokens": [mark.tokens for mark in run.marks],
        "origin": [_ORIGIN.get(mark.origin, -1) + (_THOUGHT if mark.thinking else 0) for mark in run.marks],
        "steps": [[round(step.at_s * 1000), step.drafted, step.accepted] for step in run.steps],
        "first_ms": round((timings.time_to_first_token_s or 0) * 1000),
        "speed": timings.tokens_per_second,
        "acceptance": timings.acceptance,
        "count": timings.predicted_tokens,
        "ended": run.ended,
        "text": run.text if with_texts else None,
        "thinking": run.thinking if with_texts else None,
    }


def median_round(race: Race) -> int | None:
    """The round whose ratio is nearest to the verdict's; without a verdict the first there is."""
    ratio = race.verdict.ratio
    speeds = [{run.round: run.timings.tokens_per_second or 0 for run in race.of(side)} for side in (0, 1)]
    both = [number for number, speed in speeds[0].items() if speed and number in speeds[1]]
    if ratio is None or not both:
        return min((run.round for run in race.runs), default=None)
    return min(both, key=lambda number: abs(speeds[1][number] / speeds[0][number] - ratio))


def date(seconds: float) -> str:
    """Local time, for people."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def title(race: Race) -> str:
    """What an exported file is called after."""
    a, b = race.sides
    return " ".join(filter(None, ["race", b.name, "against", a.name, race.prompt.kind]))


def plain_sentence(race: Race) -> str:
    """The verdict for a window's title."""
    return sentence(race)


def _below(verdict: Verdict) -> str:
    if verdict.ratio is None or verdict.spread is None:
        return ""
    rounds = "One round" if verdict.rounds == 1 else f"Median of {verdict.rounds} rounds"
    low, high = verdict.spread
    return (
        f"{rounds}; with {verdict.confidence:.0%} confidence the ratio lies between {low:.2f} and {high:.2f}."
    )


def _parting(difference: Difference) -> str:
    return f"The texts part at token {difference.token}."


def _difference(difference: Difference | None, with_texts: bool) -> dict[str, str] | None:
    if difference is None:
        return None
    return {"why": difference.why, **({"a": difference.a, "b": difference.b} if with_texts else {})}


def _rows(race: Race) -> list[list[str]]:
    rows = [
        list(row) for row in figure_rows(side_figures(race, 0), side_figures(race, 1)) if row[0] != _NO_ROW
    ]
    at = next((at for at, row in enumerate(rows) if row[0] == "acceptance"), len(rows))
    rows.insert(at, ["accepted of drafted tokens, all rounds", _drafted(race, 0), _drafted(race, 1)])
    return rows


def _drafted(race: Race, side: int) -> str:
    timings = [run.timings for run in race.of(side)]
    drafted = sum(one.draft_n or 0 for one in timings)
    return f"{sum(one.draft_n_accepted or 0 for one in timings):,} of {drafted:,}" if drafted else "–"


def _about(race: Race) -> list[list[str]]:
    made = race_json(race, with_texts=False)
    files, order = made["files"], " ".join("AB"[run.side] for run in race.runs if run.finished)
    request = f"at most {race.max_tokens:,} tokens, temperature {race.temperature:g}, seed {race.seed}, no prompt cache"
    rows = [
        ["Model", race.sides[0].model],
        ["Target file", files["target"]],
        ["Drafter file", files["drafter"] or "none"],
        ["Engine", race.sides[0].engine],
        ["Context", f"{race.sides[0].context:,} tokens"],
        ["Request", request + (", with thinking" if race.thinking else "")],
        [
            "Order",
            f"{order or 'nothing was finished'} (A is {race.sides[0].name}, B is {race.sides[1].name})",
        ],
        [
            "Engines",
            "swapped in memory, warmed up anew each time" if race.swapped else "kept loaded, warmed up first",
        ],
        ["Date", date(race.created)],
    ]
    return rows + [list(row) for row in race.machine]


def _sendable(text: str) -> str:
    """A prompt from a terminal may hold half a surrogate pair, which JSON in UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()


def _speed(rate: float) -> str:
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.1f}"
