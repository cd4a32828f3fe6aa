"""The trio that fits settings and machine, and which of its parts are on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from launcher import catalog, engine_store
from launcher.catalog import Build
from launcher.choose import Choice, choose
from launcher.choose_builds import build_name
from launcher.devices import backend_of
from launcher.engines import ready_engine
from launcher.hardware.model import Machine
from launcher.paths import Paths
from launcher.resolved import Engine
from launcher.settings import Settings
from launcher.shelf import Shelf


@dataclass(frozen=True)
class Trio:
    """``engine`` is probed, or expected when it is not here; ``build`` is the one to fetch then, or the one that is
    here (None: not a fetched engine). ``target`` and ``drafter``: where they lie, None when they are not here;
    ``*_place``: where they go. ``missing``: "engine", "weights", "drafter"; empty when a start is possible. ``unread``:
    (part, where) of what is missing, but lies here by name and size: it is used once its content was read and is right.
    ``better``: an engine is here, but not the build that suits this machine best, which nobody has tried here yet.
    ``notices``: to be said aloud, those of the choice among them; ``engine_notice``: the one about a lesser build.
    """

    choice: Choice
    engine: Engine
    build: Build | None
    target: Path | None
    target_place: Path
    drafter: Path | None
    drafter_place: Path | None
    missing: tuple[str, ...]
    unread: tuple[tuple[str, Path], ...] = ()
    better: Build | None = None
    notices: tuple[str, ...] = ()
    engine_notice: str = ""


def look_up(
    settings: Settings,
    paths: Paths,
    env: Mapping[str, str],
    machine: Machine,
    shelf: Shelf | None = None,
    *,
    elsewhere: bool = False,
) -> Trio:
    """The trio for a model of the catalog. Asks no network and reads no file to its end. Raises LauncherError as choose
    and the probes do.

    A missing drafter is listed in ``missing`` only where engine or weights have to be fetched: without it the target
    runs plain. ``elsewhere``: ``machine`` is another one than this, so that what engines say here does not count.
    """
    shelf = shelf or Shelf(settings, paths, env)
    there = ready_engine(settings, paths)
    if there and elsewhere:
        there = replace(there, devices=None)
    line, backend = (there.line, backend_of(there, machine)) if there else (None, None)
    choice = choose(settings, machine, catalog.load(), line, backend)
    engine, build, better, notice = (
        (there, None, None, "") if there else _fetched(paths, choice, elsewhere=elsewhere)
    )
    wants_drafter = choice.drafter is not None and not settings.drafter.value
    drafter_file = choice.drafter.file if choice.drafter is not None and wants_drafter else None
    files = {"weights": choice.weights.file} | ({"drafter": drafter_file} if drafter_file else {})
    target, drafter = shelf.find(files["weights"]), shelf.find(drafter_file) if drafter_file else None
    unread = {part: found[0] for part, file in files.items() if (found := shelf.unread(file))}
    missing = []
    if not engine.probed:
        missing.append("engine")
    if target is None:
        missing.append("weights")
    if set(missing) - set(unread) and drafter_file and drafter is None:
        missing.append("drafter")
    return Trio(
        choice=choice,
        engine=engine,
        build=build,
        target=target,
        target_place=shelf.place(choice.weights.file),
        drafter=drafter,
        drafter_place=shelf.place(drafter_file) if drafter_file else None,
        missing=tuple(missing),
        unread=tuple(unread.items()),
        better=better,
        notices=(
            *_notices(choice, build, notice),
            *(_not_it(path) for file in files.values() if not shelf.find(file) for path in shelf.wrong(file)),
        ),
        engine_notice=notice,
    )


def _not_it(path: Path) -> str:
    return f"{path} is not used: its name and size are right, but its content is not."


def _notices(choice: Choice, build: Build | None, notice: str) -> Iterator[str]:
    """The choice's, about the build that is used and not the one that should be."""
    if notice:
        yield notice
    lesser = build is not None and bool(notice)
    yield from (it for it in choice.notices if not lesser or it != choice.builds[0].note)
    if lesser and build is not None and build.note:
        yield build.note


def _fetched(paths: Paths, choice: Choice, *, elsewhere: bool) -> tuple[Engine, Build, Build | None, str]:
    """The first of the wanted builds that is here, else what the first of them will be; the build that would be
    better and was never tried here; and what is to be said of that."""
    why, line, first = dict(choice.why)["engine"], choice.line, choice.builds[0]
    there = None if elsewhere else engine_store.ready(paths.engines, line, choice.builds, why)
    if there is None:
        return engine_store.expected(paths.engines, line, first, why), first, None, ""
    engine, here = there
    if not here.notice:
        return engine, here.build, None, ""
    engine = replace(
        engine, why=f"{build_name(line, here.build)}, version {engine.version}; not the best for this machine"
    )
    return engine, here.build, here.better, here.notice
