"""What a person types into the settings is checked before it is kept."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.errors import BadInput
from launcher.store import ChatSettings
from webui.settings_form import LIMITS, changed_settings, settings_view

BEFORE = ChatSettings()


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"temperature": 0}, "temperature", 0.0),
        ({"temperature": 1.25}, "temperature", 1.25),
        ({"top_k": 40.0}, "top_k", 40),
        ({"seed": None}, "seed", None),
        ({"seed": 7}, "seed", 7),
        ({"max_tokens": ""}, "max_tokens", None),
        ({"max_tokens": 512}, "max_tokens", 512),
        ({"thinking_budget": 256}, "thinking_budget", 256),
        ({"thinking": False}, "thinking", False),
        ({"tint": True}, "tint", True),
        ({"system_prompt": "Be brief."}, "system_prompt", "Be brief."),
    ],
)
def test_good_values(changes: dict[str, Any], field: str, value: object) -> None:
    after = changed_settings(BEFORE, changes)
    assert getattr(after, field) == value
    assert type(getattr(after, field)) is type(value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"temperature": 3}, "Temperature of 3 is out of range. Use 0 to 2."),
        ({"temperature": None}, "Temperature needs a number"),
        ({"temperature": "hot"}, "Temperature needs a number"),
        ({"temperature": float("nan")}, "Temperature needs a number"),
        ({"temperature": True}, "Temperature needs a number"),
        ({"top_k": 1.5}, "Top-k is a whole number"),
        ({"seed": -1}, "out of range"),
        ({"max_tokens": 0}, "or empty for automatic"),
        ({"thinking": 1}, "on or off"),
        ({"system_prompt": 5}, "system prompt"),
        ({"system_prompt": "x" * 200_000}, "100,000 characters"),
        ({"colour": "red"}, "no setting named 'colour'"),
    ],
)
def test_bad_values_are_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as caught:
        changed_settings(BEFORE, changes)
    assert said in str(caught.value)


def test_every_setting_has_a_place_in_the_form() -> None:
    assert set(settings_view(BEFORE)) == {*LIMITS, "system_prompt", "thinking", "tint"}
