"""What a person chose -> the races to run: finds engine and files, makes both plans. Starts nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from launcher.hardware.detect import detect
from launcher.methods import default_pair, named
from launcher.paths import Paths
from launcher.plan import make_plan
from launcher.provision import resolve_all
from launcher.race_prompts import ALIASES, prompt, whole_set
from launcher.race_types import MOST_ROUNDS, Prompt, RaceSpec
from launcher.settings import Settings


@dataclass(frozen=True)
class RaceOptions:
    """What a person can choose. ``rounds`` None: as many as it takes, at most six; else exactly so many.

    ``a`` and ``b`` name the sides (see methods.named); None: plain, and what BONSAI_SPECULATIVE=1 would run.
    ``prompt`` is the person's own; else the one of ``kind`` and ``language``, or with ``whole_set`` all kinds.
    """

    prompt: str | None = None
    kind: str | None = None
    language: str = "en"
    whole_set: bool = False
    rounds: int | None = None
    a: str | None = None
    b: str | None = None
    max_tokens: int = 300
    temperature: float = 0.0
    seed: int = 42
    thinking: bool | None = None


def make_specs(
    settings: Settings, paths: Paths, env: Mapping[str, str], options: RaceOptions
) -> tuple[RaceSpec, ...]:
    """One race for each prompt. Raises LauncherError for what cannot be run or is unknown."""
    prompts = _prompts(options)
    machine = detect()
    resolved = resolve_all(settings, paths, env, machine)
    a, b = options.a, options.b
    pair = (None, None) if a and b else default_pair(settings, resolved)
    methods = [
        named(text, settings, resolved) if text else default
        for text, default in zip((a, b), pair, strict=True)
    ]
    plans = [make_plan(settings, machine, resolved, method) for method in methods]
    return tuple(
        RaceSpec(
            plans=(plans[0], plans[1]),
            prompt=one,
            rounds=options.rounds or MOST_ROUNDS,
            adaptive=options.rounds is None,
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            seed=options.seed,
            thinking=options.thinking,
            machine=machine,
        )
        for one in prompts
    )


def _prompts(options: RaceOptions) -> tuple[Prompt, ...]:
    if options.whole_set:
        return whole_set(options.language)
    if options.prompt is not None:
        kind = (options.kind or "").strip().lower()
        return (Prompt(options.prompt, ALIASES.get(kind, kind)),)
    return (prompt(options.kind or "code", options.language),)
