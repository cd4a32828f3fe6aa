"""What the tests of choosing share: settings from a few variables, and what they lead to."""

from __future__ import annotations

from dataclasses import replace

from launcher import catalog
from launcher.choose import Choice, choose
from launcher.hardware.model import Machine
from launcher.settings import Settings, resolve
from tests.machines import GIB, load

CATALOG = catalog.load()
BIG = load("rtx4090-cuda-12.4")
DSPARK = "Ternary-Bonsai-27B-dspark-Q4_1.gguf"


def settings(**env: str) -> Settings:
    """Settings from variables without their prefix, in lower case."""
    return resolve({}, {f"BONSAI_{name.upper()}": text for name, text in env.items()})


def chosen(machine: Machine = BIG, line: str | None = None, **env: str) -> Choice:
    return choose(settings(**env), machine, CATALOG, line)


def short(choice: Choice) -> tuple[str, str, str | None]:
    """(first asset, weights, drafter)."""
    drafter = choice.drafter.file.name if choice.drafter else None
    return choice.builds[0].assets[0].name, choice.weights.file.name, drafter


def left(choice: Choice) -> dict[str, str]:
    return {it.what: it.why for it in choice.left_out}


def with_ram(machine: Machine, gib: float) -> Machine:
    return replace(machine, ram_bytes=round(gib * GIB), ram_free_bytes=round(gib * GIB * 0.9))
