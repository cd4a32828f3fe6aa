"""What a person is asked before gigabytes are fetched: what it is, why, how big, and whether it will run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from launcher.catalog import Asset, Build
from launcher.choose_builds import seen_by
from launcher.devices import backend_of
from launcher.disk import UNPACKED, Need, free_bytes, needs, room_says
from launcher.engine_store import folder_name
from launcher.expected import expected_drafter, expected_header
from launcher.fetch_types import Item, Offer
from launcher.fit import fit
from launcher.hardware.model import Machine
from launcher.paths import Paths
from launcher.settings import PRACTICE_MODELS, Settings, is_path
from launcher.shelf import Shelf
from launcher.trio import look_up
from launcher.wants import Wants, items_of, of_trio

# Bytes of an engine's archive whose size the catalog does not know, by what the engine computes on: rather too much.
ARCHIVES = {
    "cpu": 50_000_000,
    "metal": 50_000_000,
    "vulkan": 100_000_000,
    "cuda": 450_000_000,
    "rocm": 600_000_000,
}


def make_offer(settings: Settings, paths: Paths, env: Mapping[str, str], machine: Machine) -> Offer | None:
    """What could be fetched for these settings; None when all is here or the model is none of the catalog. Asks no
    network and reads no file to its end: sizes are the catalog's. Raises LauncherError where no trio can be chosen."""
    if settings.model.value in PRACTICE_MODELS or is_path(settings.model.value):
        return None
    shelf = Shelf(settings, paths, env)
    trio = look_up(settings, paths, env, machine, shelf)
    wants = of_trio(trio)
    items = items_of(wants, paths, shelf)
    if all(item.state == "done" for item in items):
        return None
    missing = [item for item in items if item.state not in ("done", "found")]
    sizes = [item.total - item.have for item in missing if item.total is not None]
    room = _room(wants, missing, paths)
    header = expected_header(trio.choice.model, trio.choice.weights)
    drafts = trio.choice.drafter is not None and settings.speculative.value
    drafter = expected_drafter(trio.choice.drafter) if trio.choice.drafter and drafts else None
    backend = backend_of(trio.engine, machine)
    found = fit(settings, seen_by(machine, backend), backend, header, drafter)
    forbidden = bool(missing) and settings.offline.value
    return Offer(
        title=trio.choice.model.label,
        why=trio.choice.why,
        items=items,
        to_fetch=sum(sizes) if sizes or not missing else None,
        folder=str(room.folder),
        disk_needed=room.needed if missing else None,
        disk_about=room.about,
        disk_free=room.free,
        disk_ok=room.fits,
        memory=found.says,
        memory_ok=found.verdict != "no",
        left_out=tuple((left.what, left.why) for left in trio.choice.left_out),
        notices=(*trio.notices, *found.notes, *_tight(room)),
        offers=trio.choice.offers,
        offline="BONSAI_OFFLINE is set, so nothing can be fetched." if forbidden else "",
        licence=trio.choice.model.licence,
        usable=not trio.missing,
    )


def _room(wants: Wants, missing: Sequence[Item], paths: Paths) -> Need:
    """What ``missing`` takes on the disk, counted as the fetch counts it before it begins: an engine packed and unpacked
    at once. Of several disks the one where room is lacking, else the first."""
    wanted: dict[Path, int | None] = {}
    guesses: dict[Path, int] = {}
    for item in missing:
        if item.part != "engine":
            wanted[Path(item.where)] = item.total
        elif wants.line is not None:
            known, guessed = 0, 0
            build = wants.builds[0]
            for asset in build.assets:
                archive = paths.cache / "downloads" / f"{wants.line.tag}-{asset.name}"
                here = _size_here(archive)
                count = asset.bytes if here is None else here
                guess = _guess(build, asset) if count is None else count
                if here is None:
                    wanted[archive], guesses[archive] = count, guess
                known, guessed = known + (count or 0), guessed + guess
            folder = paths.engines / folder_name(wants.line, build)
            wanted[folder], guesses[folder] = UNPACKED * known, UNPACKED * guessed
    # The models' place first, where one is to be filled: there the most is needed.
    order = sorted(wanted, key=lambda path: paths.models not in path.parents)
    nothing = Need(paths.models, 0, 0, False, free_bytes(paths.models))
    found = needs({path: wanted[path] for path in order}, guesses)
    # Of those that agree in both, the first.
    return min(found, key=lambda it: (it.fits, it.surely), default=nothing)


def _size_here(archive: Path) -> int | None:
    """Bytes of an archive that an earlier fetch has left whole."""
    try:
        return archive.stat().st_size
    except OSError:
        return None


def _guess(build: Build, asset: Asset) -> int:
    """Some builds begin with the archive for the processor, and the other one adds the GPU's part."""
    return ARCHIVES["cpu" if "-cpu-" in asset.name else build.backend]


def _tight(room: Need) -> Iterator[str]:
    """Said where only what is not known for sure is too much: the fetch asks for the true sizes, and looks again."""
    if room.free is not None and room.fits and not room.surely:
        says = room_says(room.needed, room.free, about=room.about)
        yield f"There may be too little room in {room.folder}: {says}."
