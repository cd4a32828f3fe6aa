"""``bonsai race``: the race on the terminal; progress on stderr, the result on stdout."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from launcher import console
from launcher.ask import make_lifecycle
from launcher.counted import know_raced
from launcher.errors import AnswerProblem, StoreError
from launcher.fetch_command import ensure_here, may_lack
from launcher.hardware.detect import detect
from launcher.interrupts import interrupts
from launcher.lifecycle import Lifecycle
from launcher.paths import Paths
from launcher.race import Stop, run_set
from launcher.race_export import (
    figure_rows,
    kind_cells,
    kind_headers,
    race_markdown,
    set_json,
    set_markdown,
)
from launcher.race_figures import by_kind, saved, sentence, side_figures, texts
from launcher.race_setup import RaceOptions, make_specs
from launcher.race_store import RaceStore
from launcher.race_types import (
    Ended,
    Note,
    Preparing,
    Race,
    RaceEvent,
    RaceSpec,
    RaceStarted,
    RoundDone,
    RunDone,
    Side,
)
from launcher.settings import Settings


def run_race_command(
    settings: Settings,
    paths: Paths,
    env: Mapping[str, str],
    options: RaceOptions,
    *,
    form: str,
    with_texts: bool,
    agreed: bool = False,
) -> None:
    """Race and print; ``form`` is "text", "json" or "markdown". Raises LauncherError; what was measured before an
    engine failed is printed all the same.

    ``agreed``: what is missing is fetched without asking. Ctrl+C ends after the running round with the verdict so
    far, a second one at once.
    """
    if may_lack(settings):
        ensure_here(settings, paths, env, detect(), agreed=agreed)
    specs = make_specs(settings, paths, env, options)
    for warning in dict.fromkeys(warning for plan in specs[0].plans for warning in plan.warnings):
        console.warn(warning)
    if specs[0].plans[0].resolved.practice:
        console.warn("This is the practice pair, no language model: its speeds say nothing about a real one.")
    lifecycle, stop = make_lifecycle(settings, paths, env), Stop()
    try:
        with interrupts(stop, "this round"):
            races = asyncio.run(_race(lifecycle, specs, _Progress(RaceStore(paths.data)), stop))
    finally:
        lifecycle.close()
    know_raced(paths, specs[0], races)
    _print(races, options.whole_set, form, with_texts)
    if races[-1].ended == "failed":
        raise AnswerProblem(f"The race ended early. {races[-1].problem}", races[-1].remedy)


async def _race(
    lifecycle: Lifecycle, specs: tuple[RaceSpec, ...], progress: _Progress, stop: Stop
) -> tuple[Race, ...]:
    async with lifecycle.workshop("race") as workshop:
        return await run_set(workshop, specs, progress, stop)


class _Progress:
    """Tells on stderr how a race goes, and keeps it on disk when it is over."""

    def __init__(self, store: RaceStore) -> None:
        self._store = store
        self._sides: tuple[Side, ...] = ()

    def __call__(self, event: RaceEvent) -> None:
        match event:
            case RaceStarted():
                self._sides = event.sides
                a, b = event.sides
                kind = f", {event.prompt.kind}" if event.prompt.kind else ""
                of = f" {event.number} of {event.total}" if event.total > 1 else ""
                console.say(f"Race{of}: {a.name} against {b.name}{kind}", "bold")
            case Preparing(_, message) if message.startswith("Warming"):
                console.say(f"  {message}", "dim")
            case Note(text):
                console.say(f"  {text}", "dim")
            case RunDone(run):
                timings = run.timings
                rate = (
                    "no speed"
                    if timings.tokens_per_second is None
                    else f"{timings.tokens_per_second:.1f} tokens/s"
                )
                share = "" if timings.acceptance is None else f", {timings.acceptance:.0%} accepted"
                console.say(f"  round {run.round}: {self._sides[run.side].name} {rate}{share}")
            case RoundDone(number, verdict) if verdict.ratio is not None and verdict.spread is not None:
                low, high = verdict.spread
                says = verdict.word if verdict.sure else "not sure yet"
                console.say(
                    f"  after {number}: {verdict.ratio:.2f}x ({low:.2f} to {high:.2f}), {says}", "dim"
                )
            case Ended(race):
                try:
                    self._store.save(race)
                except StoreError as error:
                    console.warn(f"This race is not kept. {error}")
            case _:
                pass


def _print(races: tuple[Race, ...], as_table: bool, form: str, with_texts: bool) -> None:
    if form == "json":
        whole = set_json(races, with_texts=with_texts)
        console.data_json(whole if as_table else whole["races"][0])
    elif form == "markdown":
        text = set_markdown(races) if as_table else race_markdown(races[0], with_texts=with_texts)
        console.data(text, end="")
    elif as_table:
        console.table(list(kind_headers(races[0])), [kind_cells(row) for row in by_kind(races)])
    else:
        _print_race(races[0])


def _print_race(race: Race) -> None:
    console.data(f"{sentence(race)} {saved(race.verdict)}".rstrip())
    rows = figure_rows(side_figures(race, 0), side_figures(race, 1))
    console.table(["", *(side.name for side in race.sides)], rows)
    if texts(race):
        console.data(texts(race))
    for warning in race.verdict.warnings:
        console.data(f"Note: {warning}")
