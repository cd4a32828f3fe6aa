"""What a fetch would bring for these settings: an engine build, weights, a drafter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from launcher import catalog, engine_store
from launcher.catalog import Build, HubFile, Line
from launcher.choose import choose_line
from launcher.disk import part_bytes
from launcher.engines import ready_engine
from launcher.errors import BadInput
from launcher.fetch_types import Item
from launcher.gguf_header import read_header
from launcher.hardware.model import Machine
from launcher.paths import Paths
from launcher.settings import PRACTICE_MODELS, Settings, is_path
from launcher.shelf import Shelf
from launcher.trio import Trio, look_up


@dataclass(frozen=True)
class Wants:
    """``label``: the model for people. ``line`` None: no engine has to be fetched. ``builds``: to be tried in this
    order; ``here``: the one of them that is on this machine. ``files``: (part, file, where it lies or None). ``unread``:
    where a part lies that has to be read before it is known to be right. ``notice``: of the engine that is here, where it
    is not the best one."""

    label: str
    line: Line | None
    builds: tuple[Build, ...]
    here: Build | None
    files: tuple[tuple[str, HubFile, Path | None], ...]
    notice: str = ""
    unread: Mapping[str, Path] = field(default_factory=dict)


def wanted(
    settings: Settings,
    paths: Paths,
    env: Mapping[str, str],
    machine: Machine,
    shelf: Shelf,
    *,
    engine_only: bool,
) -> Wants:
    """What is needed and what of it is here. Raises BadInput when nothing can be fetched for these settings."""
    model = settings.model.value
    if model in PRACTICE_MODELS:
        raise BadInput(
            "The practice pair needs no fetching: it is written in seconds, and its engine comes with the launcher.",
            "Give another model with --model, such as 27B.",
        )
    if is_path(model):
        return _for_file(settings, paths, machine)
    return of_trio(look_up(settings, paths, env, machine, shelf), engine_only=engine_only)


def of_trio(trio: Trio, *, engine_only: bool = False) -> Wants:
    """What ``trio`` consists of."""
    files: list[tuple[str, HubFile, Path | None]] = []
    if not engine_only:
        files.append(("weights", trio.choice.weights.file, trio.target))
        if trio.choice.drafter is not None and trio.drafter_place is not None:
            files.append(("drafter", trio.choice.drafter.file, trio.drafter))
    line = trio.choice.line if trio.build is not None else None
    here = trio.build if trio.engine.probed and trio.better is None else None
    builds = trio.choice.builds if line else ()
    unread = {part: place for part, place in trio.unread if part in {it[0] for it in files}}
    return Wants(trio.choice.model.label, line, builds, here, tuple(files), trio.engine_notice, unread)


def items_of(wants: Wants, paths: Paths, shelf: Shelf) -> tuple[Item, ...]:
    """Every part with its size as the catalog or the disk tells it, and where it lies or will lie."""
    items = []
    if wants.line is not None:
        build = wants.here or wants.builds[0]
        size = total([asset.bytes for asset in build.assets])
        have, state = (size or 0, "done") if wants.here else (0, "waiting")
        where = str(paths.engines / engine_store.folder_name(wants.line, build))
        source = f"release {wants.line.tag} of {wants.line.repo}"
        items.append(
            Item(
                "engine",
                build.assets[0].name,
                size,
                have,
                state,
                where,
                state == "done",
                note=wants.notice if state == "done" else "",
                source=source,
            )
        )
    for part, file, place in wants.files:
        if part in wants.unread:
            found = wants.unread[part]
            items.append(Item(part, file.name, found.stat().st_size, 0, "found", str(found)))
            continue
        size = place.stat().st_size if place else file.bytes
        part_here = part_bytes(shelf.place(file))
        have, state = (size or 0, "done") if place else (min(part_here, size or part_here), "waiting")
        where, source = str(place or shelf.place(file)), f"repository {file.repo}"
        items.append(Item(part, file.name, size, have, state, where, place is not None, source=source))
    return tuple(items)


def total(sizes: Sequence[int | None]) -> int | None:
    """The sum of ``sizes`` in bytes; None when one of them is unknown."""
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _for_file(settings: Settings, paths: Paths, machine: Machine) -> Wants:
    path = Path(settings.model.value).expanduser().absolute()
    found = choose_line(settings, machine, catalog.load(), read_header(path).formats)
    if ready_engine(settings, paths) or found is None or not found[1]:
        raise BadInput(
            f"There is no engine to fetch for {path}: it runs on what is here, or on nothing published."
        )
    line, builds = found
    here = engine_store.find(paths.engines, line, builds)
    best = here.build if here is not None and here.better is None else None
    return Wants(path.name, line, builds, best, (), here.notice if here else "")
