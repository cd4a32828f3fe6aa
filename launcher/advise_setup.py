"""What a person wants advice for -> what to search; and an advice as it is kept. For page and terminal. Starts nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from launcher import learned
from launcher.advise_run import AdviseSpec, Found, Search
from launcher.errors import BadInput
from launcher.in_use import key_here
from launcher.lab_advice import CHAT, CODING
from launcher.lab_matrix import kinds_of
from launcher.lab_setup import LabOptions, Parts, make_spec
from launcher.learned import Learned
from launcher.paths import Paths


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


def search_for(
    parts: Parts, paths: Paths, options: LabOptions, wanted: Mapping[str, tuple[str, float]]
) -> Search:
    """The search for ``wanted``, with what was learned before for the same parts. Raises LauncherError as
    lab_setup.make_spec."""
    spec = make_spec(parts, replace(options, kinds=",".join(kind for kind, _ in wanted.values())))
    key = key_here(paths, parts.machine, parts.resolved)
    specs = {}
    for purpose, (kind, temperature) in wanted.items():
        before = learned.learned(paths, key, purpose)
        specs[purpose] = AdviseSpec(
            spec.launches,
            spec.plan.prompt(kind),
            temperature,
            options.seed,
            options.thinking,
            prior=before.method if before else None,
        )
    return Search(parts.subject, specs)


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
