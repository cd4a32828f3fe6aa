"""``bonsai lab --advise``: what to use, found with a part of a lab's answers; progress on stderr, the advice on stdout.

Also what a person does with an advice on the terminal: use it from now on, and undo that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from launcher import console, learned
from launcher.advise import Trial
from launcher.advise_run import WHOM, AdviseEvent, Began, Findings, Found, LeftOut, Search, find
from launcher.advise_setup import learned_of, search_for, wanted_for
from launcher.ask import make_lifecycle
from launcher.counted import know_plain
from launcher.errors import BadInput
from launcher.fetch_command import ensure_here, may_lack
from launcher.hardware.detect import detect
from launcher.in_use import key_here
from launcher.interrupts import interrupts
from launcher.lab_export import method_json
from launcher.lab_setup import LabOptions, Parts, look
from launcher.learned import Learned
from launcher.lifecycle import Lifecycle
from launcher.measure import Stop
from launcher.methods import PLAIN, Method
from launcher.paths import Paths
from launcher.settings import Settings


def run_advise_command(
    settings: Settings,
    paths: Paths,
    env: Mapping[str, str],
    options: LabOptions,
    *,
    as_json: bool,
    use: str | None = None,
    agreed: bool = False,
) -> None:
    """Search and print. Raises LauncherError; what was found before plain decoding failed is printed all the same.

    ``options``: texts and temperatures as in wanted_for, methods as in a lab; ``minutes`` end the search with what there
    is. ``use``: the purpose whose advice is used from then on. ``agreed``: what is missing is fetched without asking.
    Ctrl+C ends after the running answer, a second one at once.
    """
    wanted = wanted_for(options)
    if use is not None and use not in wanted:
        raise BadInput(f"Nothing is measured for {use}.", "Choose its kind of text, or leave --kinds out.")
    if may_lack(settings):
        ensure_here(settings, paths, env, detect(), agreed=agreed)
    parts = look(settings, paths, env)
    if parts.subject.practice:
        console.warn("This is the practice pair, no language model: its speeds say nothing about a real one.")
    search = search_for(parts, paths, options, wanted)
    lifecycle, stop = make_lifecycle(settings, paths, env), Stop()
    try:
        with interrupts(stop, "this answer"):
            findings = asyncio.run(_search(lifecycle, search, stop, options.minutes))
    finally:
        lifecycle.close()
    for purpose in findings.missing:
        console.warn(f"It ended before anything was known for {purpose}.")
    if as_json:
        console.data_json(advise_json(findings.found, practice=parts.subject.practice))
    else:
        _print(findings.found)
    key = key_here(paths, parts.machine, parts.resolved)
    if findings.plain_speed:
        launches = next(iter(search.specs.values())).launches
        know_plain(paths, parts.machine, launches[PLAIN], findings.plain_speed, "the advisor")
    for one in findings.found:
        if one.purpose == use:
            take(parts, paths, learned_of(one, key))
    if findings.problem is not None:
        raise findings.problem


async def _search(lifecycle: Lifecycle, search: Search, stop: Stop, minutes: float | None) -> Findings:
    end = None
    if minutes is not None:
        end = asyncio.get_running_loop().call_later(minutes * 60, stop.after_round)
    try:
        async with lifecycle.workshop("lab") as workshop:
            return await find(workshop, search, _tell, stop)
    finally:
        if end is not None:
            end.cancel()


def _tell(event: AdviseEvent) -> None:
    match event:
        case Began(purpose, spec):
            console.say(f"For {WHOM[purpose]}: {spec.prompt.kind}, temperature {spec.temperature:g}", "bold")
        case Trial(method, tokens):
            console.say(f"  {method.name}, {tokens} tokens …", "dim")
        case LeftOut(method, why):
            console.warn(f"{method.name} is left out: {why}")
        case _:
            pass


def advise_json(found: Sequence[Found], *, practice: bool) -> dict[str, Any]:
    """The documented form of ``bonsai lab --advise --json``: ``advice`` as in a lab's, and how it was found."""
    return {
        "advice": {
            one.purpose: {
                **method_json(one.advice.method),
                "ratio": one.advice.expected_ratio,
                "spread": [one.advice.low, one.advice.high],
                "text": one.text,
                "sure": one.advice.sure == "high",
                "sureness": one.advice.sure,
                "kind": one.kind,
                "temperature": one.temperature,
                "engine_seconds": one.advice.engine_seconds,
                "tried": [
                    {
                        **method_json(it.method),
                        "answers": it.answers,
                        "tokens_per_second": it.tokens_per_second,
                        "ratio": it.ratio,
                    }
                    for it in one.advice.tried
                ],
            }
            for one in found
        },
        "practice": practice,
    }


def _print(found: Sequence[Found]) -> None:
    for one in found:
        console.data(f"{one.kind}, temperature {one.temperature:g}")
        rows = [
            (
                it.method.name,
                f"{it.tokens_per_second:.1f}",
                f"{it.ratio:.2f}x",
                str(it.answers) if it.answers else "foreseen",
            )
            for it in one.advice.tried
        ]
        console.table(["method", "tokens/s", "ratio", "answers"], rows)
        console.data("")
    for one in found:
        console.data(one.text)


# -- using it --------------------------------------------------------------------------------------------------


def take(parts: Parts, paths: Paths, entry: Learned) -> None:
    """Use ``entry`` from now on, and say so. Raises StoreError, FolderError."""
    learned.learn(paths, entry)
    console.say(f"{_name(entry.method)} is used from now on. Undo it by `bonsai lab --undo`.")
    asked = parts.settings.speculative
    if asked.asked:
        console.warn(f"{asked.source} says whether to speculate, and comes first.")


def run_undo(settings: Settings, paths: Paths, env: Mapping[str, str]) -> None:
    """``bonsai lab --undo``: forget what was chosen last for what would run now; what was chosen before it holds again.
    Raises LauncherError."""
    parts = look(settings, paths, env)
    key = key_here(paths, parts.machine, parts.resolved)
    entry = learned.learned(paths, key) or learned.outdated(paths, key)
    if entry is None:
        console.say("Nothing was learned for what would run here, so there is nothing to undo.")
        return
    learned.forget(paths, entry.key, entry.kind)
    console.say(f"{_name(entry.method)}, advised for {entry.kind}, is forgotten.")


def _name(method: Method) -> str:
    return "Plain decoding" if method.name == "plain" else method.name
