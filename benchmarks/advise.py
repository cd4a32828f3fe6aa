"""Does the advisor find what the whole matrix finds, in a third of its engine time?

    python -m benchmarks.advise [--machines 1000]
    python -m benchmarks.advise --real [--model practice-medium] [--kinds code prose] [--most 6] [--llama-server PATH]

Simulated machines have true speeds (tests/launcher/simulated.py says how they are drawn from published figures). With
--real the advisor runs on this machine's engine first, then the lab measures every method it chose from; the last
column is the lab's ratio for the advisor's pick over that for the lab's own best.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.common import machine, table
from launcher.advise import Advice, Trial
from launcher.advise_run import AdviseEvent, AdviseSpec, run_advisor
from launcher.ask import make_lifecycle
from launcher.lab import run_lab
from launcher.lab_setup import LabOptions, look, make_spec
from launcher.lab_stats import figures
from launcher.lab_types import Cell, CellDone, CellFigures, LabEvent
from launcher.methods import PLAIN
from launcher.paths import Paths, locate
from launcher.race_prompts import lab_prompt
from launcher.settings import Settings, resolve
from tests.launcher.simulated import ANCHORS, Score, score


def simulated(count: int) -> None:
    """Print the score by kind of machine, and over all."""
    scores = [score(seed) for seed in range(count)]
    rows = []
    for anchor in ANCHORS:
        found = [one for one in scores if one.machine.name == anchor.name]
        rows.append((anchor.name, *_row(found)))
    rows.append((f"all {count}", *_row(scores)))
    headers = ["drawn from", "machines", "methods", "advisor within 5 %", "whole matrix within 5 %"]
    headers += ["speed lost, mean", "engine time, mean", "engine time, most", "within a third"]
    print(table(headers, rows))
    print()
    sure = [
        (word, len(found), f"{sum(one.loss <= 0.05 for one in found) / len(found):.1%}")
        for word in ("high", "medium", "low")
        if (found := [one for one in scores if one.advice.sure == word])
    ]
    print(table(["it says it is sure", "machines", "within 5 %"], sure))
    print(
        f"\nThe whole matrix takes {statistics.fmean(one.exhaustive.answers for one in scores):.1f} answers a method."
    )


def _row(scores: Sequence[Score]) -> tuple[str, ...]:
    count = len(scores)
    return (
        str(count),
        f"{statistics.fmean(len(one.machine.candidates) for one in scores):.0f}",
        f"{sum(one.loss <= 0.05 for one in scores) / count:.1%}",
        f"{sum(one.exhaustive_loss <= 0.05 for one in scores) / count:.1%}",
        f"{statistics.fmean(one.loss for one in scores):.2%}",
        f"{statistics.fmean(one.share for one in scores):.2f}",
        f"{max(one.share for one in scores):.2f}",
        f"{sum(one.share <= 1 / 3 for one in scores) / count:.1%}",
    )


async def real(settings: Settings, paths: Paths, options: argparse.Namespace) -> None:
    """Print the advisor's choice beside the lab's figures for all it chose from."""
    parts = await asyncio.to_thread(look, settings, paths, dict(os.environ))
    lifecycle = make_lifecycle(settings, paths, dict(os.environ))
    rows, every = [], []
    try:
        for kind in options.kinds:
            asked = LabOptions(quick=True, kinds=kind, temperatures=(0.0,), max_tokens=300, minutes=60)
            spec = make_spec(parts, asked)
            spec = replace(spec, plan=replace(spec.plan, most=options.most))
            async with lifecycle.workshop("benchmark") as workshop:
                begun = time.monotonic()
                advice = await run_advisor(workshop, AdviseSpec(spec.launches, lab_prompt(kind)), _say)
                middle = time.monotonic()
                lab = await run_lab(workshop, spec, _tell)
                spent = middle - begun, time.monotonic() - middle
            cells = [figures(lab, cell) for cell in spec.plan.cells if cell.method != PLAIN]
            found = {PLAIN: 1.0} | {one.cell.method: one.ratio for one in cells if one.ratio is not None}
            best = max(found, key=found.__getitem__)
            rows.append(
                (
                    kind,
                    f"{advice.method.name} ({advice.expected_ratio:.2f}x, {advice.low:.2f} to {advice.high:.2f}; "
                    f"{advice.sure})",
                    f"{best.name} ({found[best]:.2f}x)",
                    f"{sum(one.answers for one in advice.tried)} of {len(lab.runs)}",
                    f"{spent[0]:.0f} s of {spent[1]:.0f} s ({spent[0] / spent[1]:.2f})",
                    f"{found[advice.method] / found[best]:.3f}",
                )
            )
            every += _every(kind, advice, cells, figures(lab, Cell(kind, PLAIN, 0.0)))
    finally:
        lifecycle.close()
    print(machine(), "\n")
    print(table(["text", "advisor", "whole matrix's best", "answers", "engine time", "pick / best"], rows))
    print()
    print(table(["text", "method", "whole matrix: ratio (spread), runs", "advisor: ratio, answers"], every))


def _every(
    kind: str, advice: Advice, cells: Sequence[CellFigures], plain: CellFigures
) -> list[tuple[str, ...]]:
    known = {one.method: one for one in advice.tried}
    rows: list[tuple[str, ...]] = [
        (kind, "plain", f"{plain.tokens_per_second or 0:.0f} tokens/s, {plain.runs}", "")
    ]
    for one in cells:
        low, high = one.spread or (0.0, 0.0)
        tried = known.get(one.cell.method)
        says = f"{tried.ratio:.2f}x, {tried.answers}" if tried else "left out"
        rows.append(
            (kind, one.cell.method.name, f"{one.ratio or 0:.2f}x ({low:.2f} to {high:.2f}), {one.runs}", says)
        )
    return rows


def _say(event: AdviseEvent) -> None:
    if isinstance(event, Trial):
        print(f"advisor: {event.method.name}, {event.tokens} tokens", file=sys.stderr)


def _tell(event: LabEvent) -> None:
    if isinstance(event, CellDone):
        print(
            f"lab: {event.run.cell.method.name}, block {event.run.block}: {event.run.rate:.1f}",
            file=sys.stderr,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--machines", type=int, default=1000)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--model", default="practice-medium")
    parser.add_argument("--kinds", nargs="+", default=["code", "prose"])
    parser.add_argument("--most", type=int, default=6, help="runs of a cell in the whole matrix, at most")
    parser.add_argument("--llama-server")
    options = parser.parse_args()
    if not options.real:
        simulated(options.machines)
        return
    with tempfile.TemporaryDirectory() as folder:
        chosen = {"BONSAI_MODEL": options.model}
        if options.llama_server:
            chosen["BONSAI_LLAMA_SERVER"] = options.llama_server
        asyncio.run(real(resolve({}, chosen), locate(folder), options))


if __name__ == "__main__":
    main()
