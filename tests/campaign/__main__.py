"""Runs the campaign: see ``--help``."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from launcher import engine_build
from launcher.practice import ensure_pair
from tests.campaign.kinds import FAULTS, KINDS
from tests.campaign.report import markdown, table
from tests.campaign.running import Result, chosen, run_one
from tests.campaign.trial import Kind
from tests.conftest import BUILT_TARGETS, shared_cache


def main() -> int:
    """Exit status 1 when anything was not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description="The fault campaign.")
    parser.add_argument("--faults", type=int, help=f"how many, over all kinds (default: {FAULTS})")
    parser.add_argument("--seed", type=int, default=1, help="of all dice (default: 1)")
    parser.add_argument("--only", metavar="KIND[:NUMBER]", help="faults of one kind, or one of them again")
    parser.add_argument("--markdown", action="store_true", help="write docs/campaign.md")
    parser.add_argument("--keep", action="store_true", help="keep what faults that went wrong have left")
    given = parser.parse_args()
    kind_name, _, number = (given.only or "").partition(":")
    kinds = [kind for kind in KINDS if kind_name in ("", kind.name)]
    if not kinds:
        parser.error(f"no such kind; there are: {', '.join(kind.name for kind in KINDS)}")
    faults = given.faults or sum(kind.share for kind in kinds)
    todo = [(kinds[0], int(number))] if number else chosen(kinds, faults)
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="campaign-"))
    try:
        results = run_all(todo, given.seed, folder)
    finally:
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)
    seconds = time.monotonic() - began
    sys.stdout.write(table(results, seconds))
    if given.markdown:
        page = Path(__file__).parents[2] / "docs" / "campaign.md"
        page.write_text(markdown(results, given.seed, seconds), encoding="utf-8")
    return int(any(result.problems for result in results))


def run_all(todo: Sequence[tuple[Kind, int]], seed: int, folder: Path) -> list[Result]:
    """One after the other, told as they go."""
    built, practice = built_engine(), folder / "practice"
    ensure_pair(practice, "small")
    results = []
    for at, (kind, number) in enumerate(todo, 1):
        result = run_one(
            kind, number, seed=seed, folder=folder / f"{kind.name}-{number}", built=built, practice=practice
        )
        results.append(result)
        recovery = "" if result.recovery_s is None else f", recovered after {result.recovery_s:.1f} s"
        sys.stdout.write(f"{at}/{len(todo)} {result.label} {result.way}: {result.seconds:.1f} s{recovery}\n")
        for problem in result.problems:
            sys.stdout.write(f"    WRONG {problem}\n")
        sys.stdout.flush()
    return results


def built_engine() -> Path:
    """The llama-server of the tests, built when it is not there."""
    engines, cache = shared_cache() / "engines", shared_cache() / "build"
    for place in (engines, cache):
        place.mkdir(parents=True, exist_ok=True)
    return engine_build.server_binary(engine_build.build(engines, cache, targets=BUILT_TARGETS))


if __name__ == "__main__":
    sys.exit(main())
