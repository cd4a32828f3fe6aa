"""``bonsai lab --advise``: what to use, found with a part of a lab's answers; progress on stderr, the advice on stdout.

Also what a person does with an advice on the terminal: use it from now on, and undo that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from launcher import console, learned
from launcher.advise import Advice, Trial
from launcher.advise_run import AdviseSpec, run_advisor
from launcher.ask import make_lifecycle
from launcher.errors import BadInput
from launcher.fetch_command import ensure_here, may_lack
from launcher.hardware.detect import detect
from launcher.in_use import key_here
from launcher.interrupts import interrupts
from launcher.lab_advice import CHAT, CODING
from launcher.lab_export import method_json
from launcher.lab_matrix import kinds_of
from launcher.lab_setup import LabOptions, Parts, look, make_spec
from launcher.learned import Learned
from launcher.lifecycle import Lifecycle
from launcher.measure import Stop
from launcher.methods import Method
from launcher.paths import Paths
from launcher.settings import Settings

WHOM = {"coding": "a coding assistant", "chat": "a general chat"}


@dataclass(frozen=True)
class Found:
    """What the advisor came to for one purpose, on one kind of text at one temperature."""

    purpose: str
    kind: str
    temperature: float
    advice: Advice

    @property
    def text(self) -> str:
        """For people."""
        return f"For {WHOM[self.purpose]}: {self.advice.text}"


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
    """Search and print. Raises LauncherError.

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
    specs = specs_for(parts, paths, options, wanted)
    lifecycle, stop = make_lifecycle(settings, paths, env), Stop()
    try:
        with interrupts(stop, "this answer"):
            found = asyncio.run(_search(lifecycle, specs, stop, options.minutes))
    finally:
        lifecycle.close()
    if as_json:
        console.data_json(advise_json(found, practice=parts.subject.practice))
    else:
        _print(found)
    for one in found:
        if one.purpose == use:
            take(parts, paths, learned_of(one, key_here(paths, parts.machine, parts.resolved)))


def wanted_for(options: LabOptions) -> dict[str, tuple[str, float]]:
    """The kind of text and the temperature for each purpose: of the kinds asked for (else code and chat) the first that
    stands for it, coding at the lowest temperature asked for, chat at the highest, as in a lab's advice. Raises BadInput
    where none stands for any."""
    kinds = kinds_of(options.kinds) if options.kinds else ("code", "chat")
    low, high = min(options.temperatures), max(options.temperatures)
    wanted = {}
    for purpose, stand_for, temperature in (("coding", CODING, low), ("chat", CHAT, high)):
        own = [kind for kind in kinds if kind in stand_for]
        if own:
            wanted[purpose] = own[0], temperature
    if not wanted:
        raise BadInput("Advice is for code, chat or prose.", "Choose one of them with --kinds.")
    return wanted


def specs_for(
    parts: Parts, paths: Paths, options: LabOptions, wanted: Mapping[str, tuple[str, float]]
) -> dict[str, tuple[str, AdviseSpec]]:
    """For each purpose the kind of text and what to search. Raises LauncherError as lab_setup.make_spec."""
    spec = make_spec(parts, replace(options, kinds=",".join(kind for kind, _ in wanted.values())))
    key = key_here(paths, parts.machine, parts.resolved)
    specs = {}
    for purpose, (kind, temperature) in wanted.items():
        before = learned.learned(paths, key, purpose)
        specs[purpose] = (
            kind,
            AdviseSpec(
                spec.launches,
                spec.plan.prompt(kind),
                temperature,
                options.seed,
                options.thinking,
                prior=before.method if before else None,
            ),
        )
    return specs


async def _search(
    lifecycle: Lifecycle, specs: Mapping[str, tuple[str, AdviseSpec]], stop: Stop, minutes: float | None
) -> list[Found]:
    found: list[Found] = []
    end = None
    if minutes is not None:
        end = asyncio.get_running_loop().call_later(minutes * 60, stop.after_round)
    async with lifecycle.workshop("lab") as workshop:
        for purpose, (kind, spec) in specs.items():
            console.say(f"For {WHOM[purpose]}: {kind}, temperature {spec.temperature:g}", "bold")
            try:
                advice = await run_advisor(workshop, spec, _tell, stop)
            except BadInput:
                if not stop.between_rounds:
                    raise
                console.warn(f"It ended before anything was known for {purpose}.")
                continue
            found.append(Found(purpose, kind, spec.temperature, advice))
    if end is not None:
        end.cancel()
    return found


def _tell(trial: Trial) -> None:
    console.say(f"  {trial.method.name}, {trial.tokens} tokens …", "dim")


def advise_json(found: list[Found], *, practice: bool) -> dict[str, Any]:
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


def _print(found: list[Found]) -> None:
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


def learned_of(found: Found, key: learned.Key) -> Learned:
    """``found`` as it is kept for ``key``."""
    advice = found.advice
    return Learned(
        key=key,
        kind=found.purpose,
        method=advice.method,
        ratio=advice.expected_ratio,
        low=advice.low,
        high=advice.high,
        sure=advice.sure,
        text=found.text,
        learned_at=time.time(),
    )


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
