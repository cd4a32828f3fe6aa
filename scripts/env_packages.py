"""Pure: which packages of requirements.lock are needed, worked out before any of them is installed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable


def normal(name: str) -> str:
    """A distribution's name as the lock spells it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def named(requirements: Iterable[str]) -> set[str]:
    """The distributions that requirement strings name, without versions, extras and markers."""
    found = (re.match(r"\s*([A-Za-z0-9._-]+)", text) for text in requirements)
    return {normal(match[1]) for match in found if match}


def roots(pyproject: str, extras: Iterable[str]) -> set[str]:
    """What pyproject.toml asks for by name: to build the project, to run it, and for ``extras``."""
    data = tomllib.loads(pyproject)
    optional = data["project"]["optional-dependencies"]
    wanted = [*data["build-system"]["requires"], *data["project"]["dependencies"]]
    for extra in extras:
        if extra not in optional:
            raise SystemExit(f"pyproject.toml has no extra {extra!r}; it has {', '.join(sorted(optional))}.")
        wanted += optional[extra]
    return named(wanted)


def blocks(lock: str) -> list[tuple[str, str]]:
    """The lock's packages as (name, lines); a package may occur twice, for different Pythons."""
    found = re.split(r"(?m)^(?=[A-Za-z0-9])", lock)[1:]
    return [(next(iter(named([block]))), block) for block in found]


def subset(lock: str, wanted: set[str]) -> str:
    """Those blocks of a uv lock that ``wanted`` need, directly or through others.

    The lock holds the tools for tests and builds too, and some of them exist for fewer systems than we run
    on. Its ``# via`` comments name who asked for a package: read backwards they are the dependency graph.
    """
    packages = [
        (name, block, {normal(via) for via in re.findall(r"(?m)^ +#(?: via)? +([\w.-]+)(?:\[.*\])?$", block)})
        for name, block in blocks(lock)
    ]
    needed = set(wanted)
    while True:
        more = {name for name, _, asked_by in packages if asked_by & needed} - needed
        if not more:
            return "".join(block for name, block, _ in packages if name in needed)
        needed |= more
