"""``bonsai fetch``, and the question that every other command asks before gigabytes come."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from launcher import console
from launcher.amounts import size
from launcher.disk import no_space, room_says
from launcher.errors import NotFetched
from launcher.fetch_types import Item, Offer
from launcher.fetching import FetchJob, forbidden
from launcher.hardware.detect import detect
from launcher.hardware.model import Machine
from launcher.offer import make_offer
from launcher.paths import Paths
from launcher.provision import FETCH
from launcher.settings import PRACTICE_MODELS, Settings, is_path
from launcher.transfer_view import TransferView

PARTS = {"engine": "Engine", "weights": "Weights", "drafter": "Drafter"}


def run_fetch(settings: Settings, paths: Paths, env: Mapping[str, str], *, engine_only: bool) -> None:
    """Bring everything that the settings need, with progress on stderr. Raises LauncherError; Ctrl+C keeps what came."""
    machine = detect()
    offer = None if engine_only else _offer(settings, paths, env, machine)
    if offer:
        describe(offer)
        if not offer.offline:
            _check_room(offer)
    fetch(settings, paths, env, machine, engine_only=engine_only)


def fetch(
    settings: Settings, paths: Paths, env: Mapping[str, str], machine: Machine, *, engine_only: bool = False
) -> None:
    """The fetch itself, with progress on stderr."""
    job = FetchJob(settings, paths, env, lambda: machine, engine_only=engine_only)
    try:
        with TransferView() as view:
            job.on_change(view)
            job.run()
    except KeyboardInterrupt:
        console.say("Stopped. What came stays here: `bonsai fetch` goes on from there.")
        raise
    items = job.state().items
    for item in items:
        console.say(f"{PARTS[item.part]}: {item.where}" + (" (was here before)" if item.in_place else ""))
        if item.note:
            console.warn(item.note)
    if items:
        console.say("Everything is here.")
    else:  # named, built, or the embedded one
        console.say("No engine has to be fetched: the one that these settings name is here.")


def ensure_here(
    settings: Settings, paths: Paths, env: Mapping[str, str], machine: Machine, *, agreed: bool
) -> None:
    """Fetch what is missing when the person agrees: by ``agreed`` (--yes) or by answering y on a terminal. Raises
    NotFetched when nobody does, NetworkProblem where it is forbidden, NoSpace where it will not fit. Does nothing when
    all is here."""
    offer = _offer(settings, paths, env, machine) if may_lack(settings) else None
    if offer is None or offer.usable:
        return
    if offer.offline:  # nothing to ask about
        raise forbidden(offer.title)
    describe(offer)
    _check_room(offer)
    if not agreed:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            lacks = [PARTS[item.part].lower() for item in offer.items if item.state != "done"]
            whole = "is not on" if "weights" in lacks else f"lacks its {' and '.join(lacks)} on"
            raise NotFetched(f"{offer.title} {whole} this machine.", f"{FETCH} --yes fetches without asking.")
        if not console.agreed(f"Fetch {_amount(offer)} now?"):
            raise NotFetched(f"{offer.title} was not fetched.", FETCH)
    fetch(settings, paths, env, machine)


def _offer(settings: Settings, paths: Paths, env: Mapping[str, str], machine: Machine) -> Offer | None:
    """What has to be fetched. What lies here unread is read first, with progress on stderr: then nobody is asked, or
    told, about a file that is here."""
    offer = make_offer(settings, paths, env, machine)
    if offer is None or all(item.state != "found" for item in offer.items):
        return offer
    job = FetchJob(settings, paths, env, lambda: machine)
    with TransferView() as view:
        job.on_change(view)
        job.check()
    return make_offer(settings, paths, env, machine)


def _check_room(offer: Offer) -> None:
    """NoSpace where it will not fit, in the words in which the fetch would say so later."""
    if not offer.disk_ok and offer.disk_needed is not None and offer.disk_free is not None:
        raise no_space(offer.folder, offer.disk_needed, offer.disk_free, about=offer.disk_about)


def may_lack(settings: Settings) -> bool:
    """Whether these settings name a model that has to be fetched at some time."""
    model = settings.model.value
    return model not in PRACTICE_MODELS and not is_path(model)


def describe(offer: Offer) -> None:
    """What will be fetched and why, on stderr."""
    console.say(f"{offer.title}:")
    for part, why in offer.why:
        console.say(f"  {part}: {why}", "dim")
    for item in offer.items:
        console.say(f"  {PARTS[item.part]}: {item.name}, {_size(item)}")
    if not any(offer.memory in why for _, why in offer.why):
        console.say(f"  Memory: {offer.memory}")
    if offer.disk_free is not None and offer.disk_needed is not None:
        says = room_says(offer.disk_needed, offer.disk_free, about=offer.disk_about)
        console.say(f"  Disk: {says} in {offer.folder}")
    for notice in offer.notices:
        console.warn(notice)


def _size(item: Item) -> str:
    if item.state in ("done", "found"):
        return f"here: {item.where}" + ("" if item.state == "done" else ", not checked yet")
    if item.total is None:
        return f"from {item.source}, which tells its size"
    rest = f", {size(item.have)} of them are here" if item.have else ""
    return f"{size(item.total)}{rest}, from {item.source}"


def _amount(offer: Offer) -> str:
    """How much is to be fetched, in words; sizes that nobody knows yet are no zeros."""
    unknown = [
        PARTS[item.part].lower() for item in offer.items if item.state != "done" and item.total is None
    ]
    what = [] if offer.to_fetch is None else [size(offer.to_fetch)]
    return " and ".join([*what, *(f"the {part}" for part in unknown)])
