"""What a person asks of a race, checked: the two ways to run, the prompt, the conditions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from launcher.errors import BadInput
from launcher.methods import Method, Offer
from launcher.plan import LaunchPlan
from launcher.race_prompts import KINDS, LANGUAGES, prompt, whole_set
from launcher.race_types import MOST_ROUNDS, Prompt, RaceSpec
from webui.state import RaceRoom

LONGEST_PROMPT = 200_000  # characters; the engine says what its context holds
MOST_TOKENS = 16_384
ROUNDS_TO_CHOOSE = (1, 2, 4, 6, 10, 20)
DEFAULT_TOKENS = 300


def setup_view(room: RaceRoom) -> dict[str, Any]:
    """What can be chosen here. Slow (reads files); raises LauncherError when nothing can be raced."""
    offers = room.offers()
    default = room.default()
    return {
        "offers": [
            {"type": offer.method.spec_type, "length": offer.method.draft_max, "name": offer.method.name,
             "why_not": offer.why_not}
            for offer in offers
        ],
        "default": [_position(offers, method) for method in default],
        "kinds": list(KINDS),
        "languages": LANGUAGES,
        "prompts": {kind: {name: prompt(kind, name).text for name in LANGUAGES} for kind in KINDS},
        "rounds": list(ROUNDS_TO_CHOOSE),
        "most_rounds": MOST_ROUNDS,
        "tokens": DEFAULT_TOKENS,
        "most_tokens": MOST_TOKENS,
        "longest_prompt": LONGEST_PROMPT,
    }  # fmt: skip


def specs_for(room: RaceRoom, body: Mapping[str, Any]) -> tuple[RaceSpec, ...]:
    """One race for each prompt. Slow (plans); raises LauncherError for what cannot be run, BadInput for nonsense."""
    plans = _plans(room, body)
    rounds = body.get("rounds")
    if rounds is not None:
        rounds = _whole(rounds, "The number of rounds", 1, 100)
    most = _whole(body.get("max_tokens", DEFAULT_TOKENS), "The answer limit", 2, MOST_TOKENS)
    temperature = _temperature(body.get("temperature", 0))
    return tuple(
        RaceSpec(
            plans=plans,
            prompt=one,
            rounds=rounds or MOST_ROUNDS,
            adaptive=rounds is None,
            max_tokens=most,
            temperature=temperature,
            machine=room.machine,
        )
        for one in _prompts(body)
    )


def _plans(room: RaceRoom, body: Mapping[str, Any]) -> tuple[LaunchPlan, LaunchPlan]:
    offers = room.offers()
    methods = [_method(offers, body.get(name)) for name in ("a", "b")]
    return room.plans(methods[0], methods[1])


def _method(offers: Sequence[Offer], given: Any) -> Method:
    if isinstance(given, Mapping):
        for offer in offers:
            if (offer.method.spec_type, offer.method.draft_max) == (given.get("type"), given.get("length")):
                return offer.method
    raise BadInput("A race needs two ways to run the model.", "Reload the page and choose both.")


def _prompts(body: Mapping[str, Any]) -> tuple[Prompt, ...]:
    language = str(body.get("language", "en"))
    if body.get("set"):
        return whole_set(language)
    text = body.get("text")
    if isinstance(text, str) and text.strip():
        if len(text) > LONGEST_PROMPT:
            raise BadInput(f"The prompt is longer than {LONGEST_PROMPT:,} characters.", "Shorten it.")
        # A browser may send half a surrogate pair, which no engine and no file takes.
        return (Prompt(text.encode("utf-8", "replace").decode()),)
    if body.get("kind"):
        return (prompt(str(body["kind"]), language),)
    raise BadInput("A prompt needs some text.")


def _position(offers: Sequence[Offer], method: Method) -> int:
    return next((at for at, offer in enumerate(offers) if offer.method == method), 0)


def _whole(value: Any, label: str, low: int, high: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BadInput(f"{label} is a whole number from {low} to {high:,}.")
    return value


def _temperature(value: Any) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or not 0 <= value <= 2:
        raise BadInput("Temperature is a number from 0 to 2.")
    return float(value)
