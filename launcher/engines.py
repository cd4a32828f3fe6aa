"""Which engine runs what: one that a person named, one built here, one fetched, or the embedded one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from launcher import catalog, embedded, engine_build, engine_store
from launcher.choose import choose_line
from launcher.choose_builds import build_name
from launcher.devices import backend_of
from launcher.engine_probe import embedded_engine, engine_from_binary
from launcher.errors import EngineMissing, NotFetched
from launcher.hardware.model import Machine
from launcher.paths import Paths
from launcher.resolved import Engine
from launcher.settings import Settings

WAYS = "Build one with `bonsai engines build`, or name a llama-server with BONSAI_LLAMA_SERVER."
# What llama.cpp itself reads: an engine built here and the embedded one are its releases.
MAINLINE_READS = frozenset({"q2_0-g64", "q1_0", "common"})


def ready_engine(settings: Settings, paths: Paths) -> Engine | None:
    """The engine that a person asked for and that is here without fetching: named, built, or the embedded one.

    None when the choice is free, or another line was asked for. Raises EngineMissing when the embedded one was asked for and
    is not there, NotAnEngine for a program that is none.
    """
    own, wanted = settings.llama_server.value, settings.engine.value
    if own:
        path, why = Path(own).expanduser(), f"named by {settings.llama_server.source}"
        return because(engine_store.holding(paths.engines, path, why) or engine_from_binary(path, "own"), why)
    if wanted == "mainline":
        return _built(paths, f"asked by {settings.engine.source}")
    if wanted == "embedded":
        return _embedded(f"asked by {settings.engine.source}")
    return None


def local_engine(settings: Settings, paths: Paths) -> Engine:
    """An engine for files that any llama.cpp reads, such as the practice pair. Raises EngineMissing with the ways
    to get one."""
    ready = ready_engine(settings, paths)
    if ready:
        return ready
    wanted = settings.engine.value
    if wanted != "auto":
        found = _fetched(paths, wanted, f"asked by {settings.engine.source}")
        if found:
            return found
        raise EngineMissing(
            f"{settings.engine.source} asks for a {wanted} engine, but none is on this machine.",
            f"Leave {settings.engine.source} out: any engine runs this, also the one that comes with the launcher."
            + (f" {WAYS}" if wanted == "mainline" else ""),
        )
    return _built(paths, "built on this machine from source") or _embedded(
        "comes with the launcher; no engine was built or named"
    )


def engine_reading(
    formats: frozenset[str],
    settings: Settings,
    paths: Paths,
    machine: Machine,
    path: str,
    *,
    elsewhere: bool = False,
) -> tuple[Engine, tuple[str, ...]]:
    """The engine for weights given by ``path`` that hold ``formats``, and what is to be said about it. ``elsewhere``:
    ``machine`` is another one than this, so that what engines say here does not count.

    Raises NotFetched when the only engine that reads them has to be fetched first.
    """
    ready = ready_engine(settings, paths)
    if ready:
        return _told_of(ready, elsewhere=elsewhere), ()
    found = choose_line(settings, machine, catalog.load(), formats)
    if found is None:
        return _told_of(local_engine(settings, paths), elsewhere=elsewhere), ()
    line, builds = found
    there = engine_store.ready(paths.engines, line, builds, "")
    if there:
        engine, here = there
        engine = replace(engine, why=f"{build_name(line, here.build)}, {line.tag}: it reads {path}")
        return _told_of(engine, elsewhere=elsewhere), (here.notice,) if here.notice else ()
    if formats <= MAINLINE_READS and settings.engine.value == "auto":
        engine = _told_of(local_engine(settings, paths), elsewhere=elsewhere)
        said: tuple[str, ...] = ()
        if builds and builds[0].backend != "cpu" and backend_of(engine, machine) == "cpu":
            said = (
                "This engine uses the processor only: `bonsai fetch --engine-only` brings one for the GPU.",
            )
        return engine, said
    raise NotFetched(
        f"{path} holds weights that only the {line.name} engine reads, which is not on this machine.",
        "Run `bonsai fetch --engine-only`.",
    )


def _told_of(engine: Engine, *, elsewhere: bool) -> Engine:
    """Without what it said of the GPUs here, when it is for another machine."""
    return replace(engine, devices=None) if elsewhere else engine


def because(engine: Engine, why: str) -> Engine:
    """``engine`` with the sentence that says which it is and why it was taken."""
    return replace(engine, why=f"{engine.kind} engine, version {engine.version}: {why}")


def _built(paths: Paths, why: str) -> Engine | None:
    folder = engine_build.installed(paths.engines)
    return because(engine_from_binary(engine_build.server_binary(folder), "built"), why) if folder else None


def _embedded(why: str) -> Engine:
    missing = embedded.available()
    if missing:
        raise EngineMissing(f"There is no engine on this machine: {missing}", WAYS)
    return because(embedded_engine(), why)


def _fetched(paths: Paths, line_name: str, why: str) -> Engine | None:
    """A fetched engine of this line, whatever its backend."""
    line = catalog.load().line(line_name)
    for build in line.builds:
        folder = engine_store.installed(paths.engines, line, build)
        if folder:
            return engine_store.engine(folder, line.name, build.backend, f"{line.name} {line.tag}: {why}")
    return None
