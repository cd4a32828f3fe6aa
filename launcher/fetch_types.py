"""Values about fetching that downloader, page and terminal share. Pure. Sizes in bytes, times in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """One thing to have on disk. ``part``: "weights", "drafter" or "engine". ``total`` None: not known yet.

    ``state``: "waiting", "found" (lies here by name and size, and has to be read to tell whether it is right),
    "running", "checking" (what is here is read), "unpacking", "proving" (the engine is run once), "done", "failed".
    ``in_place``: found on this machine and used where it lies; ``have`` counts what an earlier fetch has left, or what was
    read. ``rate`` and ``left_s`` are None while unknown. ``note``: what is happening beyond that ("trying again in
    12 s"), or empty. ``source``: where it comes from, for people.
    """

    part: str
    name: str
    total: int | None
    have: int
    state: str
    where: str
    in_place: bool = False
    rate: float | None = None
    left_s: float | None = None
    note: str = ""
    source: str = ""


@dataclass(frozen=True)
class FetchState:
    """``phase``: "idle" (nothing begun), "looking" (sizes are asked for), "checking" (what was found here is read, and
    ``items`` are that alone), "running", "paused", "failed", "cancelled" or "done". ``total`` and ``have`` over all items;
    ``error`` and ``remedy`` when failed. ``choices``: how often another model was chosen since the start."""

    phase: str
    items: tuple[Item, ...]
    total: int | None
    have: int
    rate: float | None = None
    left_s: float | None = None
    error: str = ""
    remedy: str = ""
    choices: int = 0


@dataclass(frozen=True)
class Offer:
    """What the first-run view shows before anybody agrees. All sentences are for people.

    ``title``: the model; ``why``: (part, sentence); ``items``: what would be fetched or is there; ``to_fetch``: bytes still
    to be fetched, as far as sizes are known (None: of nothing), 0 where only something that is here has to be read;
    ``disk_free`` and ``disk_needed`` bytes at ``folder``; ``disk_about``: an estimate is counted there for sizes that
    nobody knows; ``disk_ok`` False: even without it that is too much; ``memory_ok``; ``memory``: the verdict in words;
    ``left_out``: (what, why); ``notices``; ``offline``: why nothing can be fetched now, or empty; ``usable``: the model
    starts without it too (what is missing only makes it better).
    """

    title: str
    why: tuple[tuple[str, str], ...]
    items: tuple[Item, ...]
    to_fetch: int | None
    folder: str
    disk_needed: int | None
    disk_free: int | None
    disk_ok: bool
    memory: str
    memory_ok: bool
    left_out: tuple[tuple[str, str], ...] = ()
    notices: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()
    offline: str = ""
    licence: str = ""
    usable: bool = False
    disk_about: bool = False


@dataclass(frozen=True)
class ModelRow:
    """A model of the catalog, as it would run here. All sentences are for people.

    ``name``: what chooses it (ternary/8B); ``size``: bytes of weights and drafter, as far as they are known, and
    ``size_about``: of one of them they are not. ``here``: "yes", "unread" (found, to be read once), "partly" (without its
    drafter) or "no". ``runs``: it can be chosen; ``fits`` says how, ``says`` with figures or why not. ``drafter``: which one
    it would have here, or why none, and ``drafts``: it has one. ``chosen``: somebody asks for it; ``automatic``: nobody asks
    for another, and it is taken.
    """

    name: str
    label: str
    size: int | None
    size_about: bool
    here: str
    runs: bool
    fits: str
    says: str
    drafter: str
    drafts: bool
    licence: str = ""
    notice: str = ""
    chosen: bool = False
    automatic: bool = False


@dataclass(frozen=True)
class ModelList:
    """``automatic``: the model that is taken where none is chosen, or empty where none could be; ``fixed``: why nothing
    can be chosen here, a sentence, or empty; ``other``: what runs instead of a model of the list, or empty."""

    rows: tuple[ModelRow, ...]
    automatic: str = ""
    fixed: str = ""
    other: str = ""
