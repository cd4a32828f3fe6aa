"""Between frozen dataclasses and JSON values, by their type hints. Pure.

Dataclasses become objects, tuples (named ones too) lists. Reading checks every value against the hint; fields
that are missing take their default, unknown ones are passed over, so that older and newer files can be read.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


class UnfitError(ValueError):
    """A value that does not fit its hint; the text names the place."""


def to_plain(value: object) -> Any:
    """``value`` as json.dumps takes it. A number that is not finite becomes null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: to_plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def from_plain(kind: type[T], value: object) -> T:
    """``value``, as json.loads gave it, as a ``kind``. Raises UnfitError."""
    made: T = _read(kind, value, kind.__name__)
    return made


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(hint: Any, value: object, where: str) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        if value is None and type(None) in get_args(hint):
            return None
        return _read(next(kind for kind in get_args(hint) if kind is not type(None)), value, where)
    if get_origin(hint) is tuple:
        return _tuple(get_args(hint), value, where)
    if is_dataclass(hint):
        return _object(hint, value, where)
    if isinstance(hint, type) and issubclass(hint, tuple):  # a named tuple
        return hint(*_tuple(tuple(_hints(hint).values()), value, where))
    return _scalar(hint, value, where)


def _scalar(hint: Any, value: object, where: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise UnfitError(f"{where} is not a {hint.__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise UnfitError(f"{where} is not finite")
    return value


def _tuple(hints: tuple[Any, ...], value: object, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise UnfitError(f"{where} is not a list")
    if len(hints) == 2 and hints[1] is Ellipsis:
        return tuple(_read(hints[0], item, f"{where}[{at}]") for at, item in enumerate(value))
    if len(value) != len(hints):
        raise UnfitError(f"{where} has {len(value)} values, not {len(hints)}")
    return tuple(
        _read(hint, item, f"{where}[{at}]") for at, (hint, item) in enumerate(zip(hints, value, strict=True))
    )


def _object(hint: Any, value: object, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise UnfitError(f"{where} is not a set of named values")
    given = {}
    for item in fields(hint):
        if item.name in value:
            given[item.name] = _read(_hints(hint)[item.name], value[item.name], f"{where}.{item.name}")
        elif item.default is MISSING and item.default_factory is MISSING:
            raise UnfitError(f"{where} has no {item.name}")
    return hint(**given)
