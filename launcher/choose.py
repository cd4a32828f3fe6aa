"""Pure: Settings + Machine + catalog -> the trio of engine build, weights and drafter, with reasons."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.catalog import Build, Catalog, Drafter, Line, Model, Weights
from launcher.hardware.model import Machine
from launcher.settings import Settings


@dataclass(frozen=True)
class LeftOut:
    """An alternative that was not taken. ``part``: "engine", "weights", "drafter" or "model"."""

    part: str
    what: str
    why: str


@dataclass(frozen=True)
class Choice:
    """``builds``: the engine build to use first, then those to try when it cannot run here; empty when the engine
    is there already (``line`` is then that engine's). ``why``: (part, sentence) for model, engine, weights, drafter.
    ``offers``: sentences about what else could be had (n-gram speculation, a smaller model).
    """

    model: Model
    line: Line
    builds: tuple[Build, ...]
    weights: Weights
    drafter: Drafter | None
    drafter_why: str
    why: tuple[tuple[str, str], ...]
    left_out: tuple[LeftOut, ...] = ()
    notices: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()


def choose(settings: Settings, machine: Machine, catalog: Catalog, line: str | None = None) -> Choice:
    """The trio for a model of the catalog. ``line``: the line of an engine that is there already and was asked for
    (BONSAI_LLAMA_SERVER, a built or the embedded one), else the choice is free.

    Raises SettingsError for an unknown model (with the nearest name) and PlanRefused for parts that cannot work
    together, naming the part and the alternative that works.
    """
    raise NotImplementedError


def choose_line(
    settings: Settings, machine: Machine, catalog: Catalog, formats: frozenset[str]
) -> Line | None:
    """The line for weights given by path that hold ``formats``; None when no line reads them."""
    raise NotImplementedError
