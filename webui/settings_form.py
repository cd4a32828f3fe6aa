"""What a person sets for answers, checked. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from launcher.errors import BadInput
from launcher.store import ChatSettings

LONGEST_SYSTEM_PROMPT = 100_000  # characters


@dataclass(frozen=True)
class Limits:
    """``low`` to ``high``, both allowed; ``empty`` says whether "automatic" is a value."""

    label: str
    low: float
    high: float
    whole: bool = False
    empty: bool = False


LIMITS = {
    "temperature": Limits("Temperature", 0, 2),
    "top_p": Limits("Top-p", 0, 1),
    "top_k": Limits("Top-k", 0, 1000, whole=True),
    "min_p": Limits("Min-p", 0, 1),
    "seed": Limits("The seed", 0, 2**32 - 1, whole=True, empty=True),
    "max_tokens": Limits("The answer limit", 1, 1_000_000, whole=True, empty=True),
    "thinking_budget": Limits("The thinking budget", 1, 1_000_000, whole=True, empty=True),
}
_SWITCHES = ("thinking", "tint")


def settings_view(settings: ChatSettings) -> dict[str, Any]:
    """The values for the form."""
    return asdict(settings)


def changed_settings(before: ChatSettings, changes: Mapping[str, Any]) -> ChatSettings:
    """``before`` with ``changes`` (name -> value). Raises BadInput that names the first value which is no good."""
    good: dict[str, Any] = {}
    for name, value in changes.items():
        if name in LIMITS:
            good[name] = _number(LIMITS[name], value)
        elif name in _SWITCHES:
            if not isinstance(value, bool):
                raise BadInput(f"{name} is a switch: on or off.")
            good[name] = value
        elif name == "system_prompt":
            if not isinstance(value, str) or len(value) > LONGEST_SYSTEM_PROMPT:
                raise BadInput(
                    f"The system prompt is longer than {LONGEST_SYSTEM_PROMPT:,} characters.", "Shorten it."
                )
            good[name] = value
        else:
            raise BadInput(f"There is no setting named {name!r}.", "Reload the page.")
    return replace(before, **good)


def _number(limits: Limits, value: Any) -> float | int | None:
    if value is None or value == "":
        if limits.empty:
            return None
        raise BadInput(f"{limits.label} needs a number.", _range(limits))
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadInput(f"{limits.label} needs a number.", _range(limits))
    if limits.whole and value != int(value):
        raise BadInput(f"{limits.label} is a whole number.", _range(limits))
    if not limits.low <= value <= limits.high:
        raise BadInput(f"{limits.label} of {value:g} is out of range.", _range(limits))
    return int(value) if limits.whole else float(value)


def _range(limits: Limits) -> str:
    empty = ", or empty for automatic" if limits.empty else ""
    return f"Use {limits.low:g} to {limits.high:,.10g}{empty}."
