"""What an option's text may be and where its value goes in xllamacpp's parameters.

The building blocks of the table in ``embedded_flags``: each does what llama-server's own parser does.
Nothing here imports xllamacpp; the module is handed in when a value is applied.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Convert = Callable[[str], Any]
# (the xllamacpp module, its CommonParams, the converted value)
Apply = Callable[[Any, Any, Any], None]

INT32, FLOAT32 = 2**31 - 1, 3.4e38
# llama-server writes 2**32 - 1 here for "-c 0"; the wheel holds a signed number, and every
# comparison with a model's context comes out the same with its largest one.
NO_CONTEXT_FITTING = INT32
TRUE, FALSE, AUTO = ("on", "enabled", "true", "1"), ("off", "disabled", "false", "0"), ("auto", "-1")
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
SPEC_TYPES = (
    "none",
    "draft-simple",
    "draft-eagle3",
    "draft-mtp",
    "draft-dflash",
    "draft-dspark",
    "ngram-simple",
    "ngram-map-k",
    "ngram-map-k4v",
    "ngram-mod",
    "ngram-cache",
)


class FlagError(ValueError):
    """An option that is unknown, has no value or a value that is none; the message is llama-server's."""


# --- values ---------------------------------------------------------------------------------


def check_utf8(text: str) -> None:
    """File names may hold any bytes; the engine takes text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise FlagError(f"error: not UTF-8: {text!a}") from None


def integer(low: int = -INT32 - 1, high: int = INT32) -> Convert:
    """Reads whole numbers from ``low`` to ``high``."""

    def convert(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d+", text) or not low <= (value := int(text)) <= high:
            raise FlagError("invalid value")
        return value

    return convert


def number(text: str) -> float:
    """A finite number that a 32-bit float holds."""
    try:
        value = float(text)
    except ValueError:
        raise FlagError("invalid value") from None
    if not abs(value) <= FLOAT32:  # also refuses nan
        raise FlagError("invalid value")
    return value


def temperature(text: str) -> float:
    """A number; below 0 counts as 0."""
    return max(number(text), 0.0)


def positive(text: str) -> float:
    """A number above 0."""
    if (value := number(text)) <= 0:
        raise FlagError("invalid value, must be greater than 0")
    return value


def seed(text: str) -> int:
    """-1 (random) to 2**32 - 1, as the unsigned number that the engine keeps."""
    return int(integer(-1, 2**32 - 1)(text)) % 2**32


def threads(text: str) -> int:
    """A number of threads; 0 and less mean one for each processor."""
    value = int(integer()(text))
    return value if value > 0 else (os.cpu_count() or 1)


def slots(text: str) -> int:
    """A number of slots, any but 0."""
    if (value := int(integer()(text))) == 0:
        raise FlagError("invalid value for n_parallel")
    return value


def layers(text: str) -> int:
    """A number of layers, or "auto" (-1) or "all" (-2)."""
    return {"auto": -1, "all": -2}[text] if text in ("auto", "all") else int(integer()(text))


def as_is(text: str) -> str:
    """Any text."""
    return text


def words(text: str) -> list[str]:
    """The words between commas, without spaces around them and without empty ones."""
    return [word for part in text.split(",") if (word := part.strip())]


def hosts(text: str) -> list[str]:
    """Addresses between commas, one at least."""
    if not (hosts := words(text)):
        raise FlagError("--host requires at least one address")
    return hosts


def read(text: str) -> str:
    """What stands in the file of that name, which must be UTF-8."""
    try:
        return Path(text).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise FlagError(f"failed to open file '{text}'") from None


def key_file(text: str) -> list[str]:
    """The keys in the file of that name, one a line; "#" begins a comment."""
    return [line for line in read(text).splitlines() if line and not line.startswith("#")]


def json_object(text: str) -> dict[str, str]:
    """A JSON object, each of its values as JSON again."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise FlagError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise FlagError("must be a JSON object")
    return {key: json.dumps(item) for key, item in value.items()}


def onoff(text: str) -> bool:
    """One of the words for on and off."""
    if text in TRUE:
        return True
    if text in FALSE:
        return False
    raise FlagError(f"unknown value '{text}', must be one of: on, off")


def onoffauto(text: str) -> bool | None:
    """The same, or None for "auto"."""
    return None if text in AUTO else onoff(text)


def one_of(values: Mapping[str, str]) -> Convert:
    """Reads the keys of ``values``, and gives their values."""

    def convert(text: str) -> str:
        if text not in values:
            raise FlagError(f"unknown value '{text}', must be one of: {', '.join(values)}")
        return values[text]

    return convert


def spec_types(text: str) -> list[str]:
    """Types of speculation between commas, as the names of the wheel's enumeration."""
    for name in (names := text.split(",")):
        if name not in SPEC_TYPES:
            raise FlagError(f"unknown speculative type: {name}")
    return ["COMMON_SPECULATIVE_TYPE_" + name.upper().replace("-", "_") for name in names]


# --- where they go --------------------------------------------------------------------------


def to_field(path: str, enum: str = "") -> Apply:
    """Set the attribute at the dotted ``path``; with ``enum`` the value is a member's name."""
    *parents, last = path.split(".")

    def apply(module: Any, params: Any, value: Any) -> None:
        holder = params
        for name in parents:
            holder = getattr(holder, name)
        setattr(holder, last, getattr(getattr(module, enum), value) if enum else value)

    return apply


def to_negated(path: str) -> Apply:
    """Set the attribute at the dotted ``path`` to the opposite."""
    setter = to_field(path)
    return lambda module, params, value: setter(module, params, not value)


def sampling(name: str, bit: str) -> Apply:
    """Marked as the user's, so that it wins over sampling that a model file brings."""

    def apply(module: Any, params: Any, value: Any) -> None:
        setattr(params.sampling, name, value)
        mark = getattr(module.common_params_sampling_config, f"COMMON_PARAMS_SAMPLING_CONFIG_{bit}")
        params.sampling.user_sampling_config |= int(mark)

    return apply


def apply_context(module: Any, params: Any, value: int) -> None:
    """Tokens of context; 0: the model's own, never less to fit the memory."""
    del module
    params.n_ctx = value
    if value == 0:
        params.fit_params_min_ctx = NO_CONTEXT_FITTING


def apply_spec_types(module: Any, params: Any, names: Sequence[str]) -> None:
    """Add types to those that are asked for already."""
    kind = module.common_speculative_type
    params.speculative.types = [*params.speculative.types, *(getattr(kind, name) for name in names)]


def apply_cors(module: Any, params: Any, value: str) -> None:
    """Origins that may ask from a browser, marked as chosen."""
    del module
    params.cors_origins = value
    params.cors_origins_explicit = True


def apply_keys(module: Any, params: Any, value: list[str]) -> None:
    """Add keys to those that are accepted already."""
    del module
    params.api_keys = [*params.api_keys, *value]


def apply_alias(module: Any, params: Any, value: list[str]) -> None:
    """Add names to those that the model goes by."""
    del module
    params.model_alias = {*params.model_alias, *value}


def apply_timeout(module: Any, params: Any, value: int) -> None:
    """Seconds, for reading and for writing."""
    del module
    params.timeout_read = params.timeout_write = value


def template_words(params: Any, words: Mapping[str, str]) -> None:
    """Add ``words`` to what every chat template is given."""
    params.default_template_kwargs = {**params.default_template_kwargs, **words}


def apply_template_words(module: Any, params: Any, value: dict[str, str]) -> None:
    """The same as an option."""
    del module
    template_words(params, value)


def apply_reasoning(module: Any, params: Any, value: bool | None) -> None:
    """Thinking on or off, told to the template too; None leaves it to the template."""
    del module
    params.enable_reasoning = -1 if value is None else int(value)
    if value is not None:
        template_words(params, {"enable_thinking": "true" if value else "false"})


def apply_preserve(module: Any, params: Any, value: bool) -> None:
    """Whether thoughts of earlier turns stay in the prompt."""
    del module
    template_words(params, {"preserve_reasoning": "true" if value else "false"})
    params.preserve_reasoning_specified = True


def apply_devices(module: Any, params: Any, value: str) -> None:
    """Where the drafter computes; FlagError for a device that is not there."""
    del module
    try:
        params.speculative.draft.devices = value
    except ValueError as error:
        raise FlagError(str(error)) from None


def apply_sampler(module: Any, params: Any, value: str) -> None:
    """ "1" samples the drafter by its probabilities; empty: its likeliest token."""
    del module
    params.speculative.draft.probabilistic = bool(value)
