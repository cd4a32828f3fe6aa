"""What a person is asked before gigabytes are fetched: what it is, why, how big, and whether it will run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from launcher.choose_builds import seen_by
from launcher.devices import backend_of
from launcher.disk import free_bytes, needed_bytes
from launcher.expected import expected_drafter, expected_header
from launcher.fetch_types import Offer
from launcher.fit import fit
from launcher.hardware.model import Machine
from launcher.paths import Paths
from launcher.settings import PRACTICE_MODELS, Settings, is_path
from launcher.shelf import Shelf
from launcher.trio import look_up
from launcher.wants import items_of, of_trio


def make_offer(settings: Settings, paths: Paths, env: Mapping[str, str], machine: Machine) -> Offer | None:
    """What could be fetched for these settings; None when all is here or the model is none of the catalog. Asks no
    network and reads no file to its end: sizes are the catalog's. Raises LauncherError where no trio can be chosen."""
    if settings.model.value in PRACTICE_MODELS or is_path(settings.model.value):
        return None
    shelf = Shelf(settings, paths, env)
    trio = look_up(settings, paths, env, machine, shelf)
    items = items_of(of_trio(trio), paths, shelf)
    if all(item.state == "done" for item in items):
        return None
    missing = [item for item in items if item.state not in ("done", "found")]
    sizes = [item.total - item.have for item in missing if item.total is not None]
    needed = sum(needed_bytes(Path(item.where), item.total) for item in missing if item.total is not None)
    free = free_bytes(paths.models)
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
        folder=str(paths.models),
        disk_needed=needed if sizes else None,
        disk_free=free,
        disk_ok=not sizes or free is None or needed <= free,
        memory=found.says,
        memory_ok=found.verdict != "no",
        left_out=tuple((left.what, left.why) for left in trio.choice.left_out),
        notices=(*trio.notices, *found.notes),
        offers=trio.choice.offers,
        offline="BONSAI_OFFLINE is set, so nothing can be fetched." if forbidden else "",
        licence=trio.choice.model.licence,
        usable=not trio.missing,
    )
