"""Between conversations and JSON. Whatever comes in is checked field by field; unknown fields are passed over. Pure.

A file is ``{"format": "bonsai-conversation", "version": 1, "title", "created", "updated", "turns": [...]}``.
Fields that have their default are left out of a turn.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any

from launcher.client.events import Timings
from launcher.errors import StoreError
from launcher.store_types import ChatSettings, Conversation, Turn

FORMAT = "bonsai-conversation"
SETTINGS_FORMAT = "bonsai-chat-settings"
VERSION = 1
MOST_TURNS = 10_000
LONGEST_TITLE = 200

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LATEST = 32_503_680_000.0  # the year 3000: what lies beyond is no time, and dates cannot be made of it
_LARGEST = 10**12


class NewerFormatError(StoreError):
    """The file is sound, but a later version of the program wrote it."""


class MalformedError(StoreError):
    """The text is not what it should be; ``what`` says where."""


Check = Callable[[object], Any]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _number(low: float, high: float) -> Check:
    def check(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError
        if not math.isfinite(value) or not low <= value <= high:
            raise ValueError
        return float(value)

    return check


def _whole(low: int, high: int = _LARGEST) -> Check:
    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError
        if not low <= value <= high:
            raise ValueError
        return value

    return check


def _or_none(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _one_of(*allowed: str) -> Check:
    def check(value: object) -> str:
        if value not in allowed:
            raise ValueError
        return str(value)

    return check


def _id(value: object) -> str:
    if not _ID.fullmatch(_text(value)):
        raise ValueError
    return _text(value)


def _pairs(first: Check, second: Check) -> Check:
    def check(value: object) -> tuple[tuple[Any, Any], ...]:
        if not isinstance(value, list | tuple):
            raise TypeError
        return tuple((first(left), second(right)) for left, right in value)

    return check


_time = _number(0, _LATEST)
_count = _whole(0)
_seconds = _or_none(_number(0, _LATEST))
_speed = _or_none(_number(0, 1e12))

_TIMINGS: dict[str, Check] = {
    "prompt_tokens": _or_none(_count),
    "cached_tokens": _or_none(_count),
    "prompt_tokens_per_second": _speed,
    "predicted_tokens": _count,
    "tokens_per_second": _speed,
    "time_to_first_token_s": _seconds,
    "total_s": _seconds,
    "draft_n": _or_none(_count),
    "draft_n_accepted": _or_none(_count),
    "measured_by": _one_of("server", "client"),
}
_TURN: dict[str, Check] = {
    "id": _id,
    "role": _one_of("user", "assistant"),
    "content": _text,
    "created": _time,
    "thinking": _text,
    "thinking_s": _seconds,
    "runs": _pairs(_count, _one_of("draft", "target", "")),
    "blocks": _pairs(_count, _count),
    "timings": lambda value: None if value is None else Timings(**_take(_TIMINGS, value, "timings")),
    "context_used": _or_none(_count),
    "context_size": _or_none(_count),
    "engine": _text,
    "ended": _text,
    "note": _text,
}
_CONVERSATION: dict[str, Check] = {"title": _text, "created": _time, "updated": _time}
_SETTINGS: dict[str, Check] = {
    "system_prompt": _text,
    "temperature": _number(0, 100),
    "top_p": _number(0, 1),
    "top_k": _whole(-1),
    "min_p": _number(0, 1),
    "seed": _or_none(_whole(-1, 2**64)),
    "max_tokens": _or_none(_whole(1)),
    "thinking": _flag,
    "thinking_budget": _or_none(_whole(0)),
    "tint": _flag,
}


def dump_conversation(conversation: Conversation) -> str:
    """JSON text. Raises MalformedError for what could not be read again."""
    turns = [_without_defaults(turn) for turn in conversation.turns]
    plain = {
        "format": FORMAT,
        "version": VERSION,
        "title": conversation.title,
        "created": conversation.created,
        "updated": conversation.updated,
        "turns": turns,
    }
    _conversation(plain, conversation.id)
    return _dump(plain)


def parse_conversation(text: str, conversation_id: str) -> Conversation:
    """The conversation in ``text``, under ``conversation_id``. Raises MalformedError or NewerFormatError."""
    return _conversation(_parse(text, FORMAT, "conversation"), conversation_id)


def dump_settings(settings: ChatSettings) -> str:
    """JSON text. Raises MalformedError for values that make no sense."""
    values = asdict(settings)
    _take(_SETTINGS, values, "The chat settings")
    return _dump({"format": SETTINGS_FORMAT, "version": VERSION, **values})


def parse_settings(text: str) -> ChatSettings:
    """Raises MalformedError or NewerFormatError."""
    return ChatSettings(
        **_take(_SETTINGS, _parse(text, SETTINGS_FORMAT, "settings file"), "The chat settings")
    )


def _conversation(plain: Mapping[str, Any], conversation_id: str) -> Conversation:
    values = _take(_CONVERSATION, plain, "The conversation", needed=("created",))
    turns = plain.get("turns")
    if not isinstance(turns, list):
        raise MalformedError("The conversation has no list of messages.")
    if len(turns) > MOST_TURNS:
        raise MalformedError(f"The conversation has more than {MOST_TURNS} messages.")
    made = []
    for number, turn in enumerate(turns, 1):
        needed = ("id", "role", "content", "created")
        made.append(Turn(**_take(_TURN, turn, f"Message {number}", needed=needed)))
    if len({turn.id for turn in made}) < len(made):
        raise MalformedError("Two messages of the conversation have the same id.")
    return Conversation(
        id=conversation_id,
        title=" ".join(values.get("title", "").split())[:LONGEST_TITLE].rstrip(),
        created=values["created"],
        updated=values.get("updated", values["created"]),
        turns=tuple(made),
    )


def _take(
    checks: Mapping[str, Check], data: object, where: str, *, needed: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The known fields of ``data``, each checked."""
    if not isinstance(data, Mapping):
        raise MalformedError(f"{where} is not a set of named values.")
    out = {}
    for name, check in checks.items():
        if name not in data:
            if name in needed:
                raise MalformedError(f"{where} has no {name}.")
            continue
        try:
            out[name] = check(data[name])
        except (TypeError, ValueError):
            raise MalformedError(f"{where} has a {name} that makes no sense.") from None
    return out


def _without_defaults(turn: Turn) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for item in fields(Turn):  # not asdict(), which copies thousands of runs one by one
        value = getattr(turn, item.name)
        if value != item.default:
            plain[item.name] = asdict(value) if isinstance(value, Timings) else value
    return plain


def _dump(plain: dict[str, Any]) -> str:
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which a browser may send
        return json.dumps(plain, allow_nan=False, separators=(",", ":"))
    return text


def _no_number(_: str) -> float:
    raise ValueError


def _parse(text: str, wanted: str, kind: str) -> dict[str, Any]:
    start = text.lstrip("\ufeff \t\r\n")
    if not start:
        raise MalformedError(f"The {kind} is empty.")
    if start.startswith("<"):
        raise MalformedError(f"This is a web page, not a {kind}.")
    try:
        plain = json.loads(start, parse_constant=_no_number)
    except RecursionError:
        raise MalformedError(f"This is nested too deeply for a {kind}.") from None
    except ValueError:
        raise MalformedError(f"This is not JSON, or not all of it: no {kind} can be read from it.") from None
    if not isinstance(plain, dict) or plain.get("format") != wanted:
        raise MalformedError(f"This is JSON, but not a {kind} of this program.")
    version = plain.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise MalformedError(f"The {kind} does not say which format version it has.")
    if version > VERSION:
        raise NewerFormatError(
            f"This {kind} was written by a newer version of the program (format {version}, known is {VERSION}).",
            "Update the program, or leave the file as it is.",
        )
    return plain
