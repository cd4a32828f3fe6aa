"""The engines on this machine that could run a plan in the place of its own, for the ladder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from launcher import catalog, engine_build, engine_store
from launcher.choose_builds import build_name, pick_builds
from launcher.choose_parts import spare_gpu
from launcher.engines import MAINLINE_READS
from launcher.errors import ArchiveError, LauncherError
from launcher.hardware.model import Machine
from launcher.ladder import OtherEngine
from launcher.paths import Paths
from launcher.plan import LaunchPlan
from launcher.settings import Settings

BUILT_HERE = "the engine that was built here"


def other_engines(
    plan: LaunchPlan, settings: Settings, paths: Paths, machine: Machine
) -> tuple[OtherEngine, ...]:
    """Fetched and built engines, whole on disk, that read the weights of ``plan`` and suit ``machine``: those for a GPU
    first, and of those the plan's own line. None is run. Never raises: what failed before is to be told, not that the
    others cannot be looked up."""
    mine = plan.resolved.engine
    try:
        found = [it for it in _all(plan, settings, paths, machine) if it[1].program != mine.program[0]]
    except (LauncherError, OSError):
        return ()
    found.sort(key=lambda it: (it[0] == "cpu", it[1].line != mine.line))
    return tuple(other for _, other in found)


def _all(
    plan: LaunchPlan, settings: Settings, paths: Paths, machine: Machine
) -> Iterator[tuple[str, OtherEngine]]:
    """(backend, engine) in the catalog's order."""
    formats = plan.resolved.target.header.formats
    for line in catalog.load().lines:
        if not formats <= line.formats:
            continue
        for picked in pick_builds(line, machine, spare_gpu=spare_gpu(settings)).picked:
            folder = engine_store.installed(paths.engines, line, picked.build)
            with contextlib.suppress(ArchiveError):
                if folder:
                    program = str(engine_store.server_binary(folder))
                    yield (
                        picked.build.backend,
                        OtherEngine(build_name(line, picked.build), line.name, program),
                    )
    built = engine_build.installed(paths.engines) if formats <= MAINLINE_READS else None
    if built:
        backend = "metal" if machine.system == "Darwin" and machine.arch == "arm64" else "cpu"
        yield backend, OtherEngine(BUILT_HERE, "mainline", str(engine_build.server_binary(built)))
