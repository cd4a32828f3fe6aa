"""Settings and machine -> Resolved: the engine and the model files that are here, or what they will be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from launcher.engines import engine_reading, local_engine
from launcher.errors import GgufError, NotFetched
from launcher.expected import expected_drafter, expected_header
from launcher.gguf_header import read_header
from launcher.hardware.model import Machine
from launcher.paths import Paths, make_folder
from launcher.practice import ensure_pair
from launcher.resolved import ModelFile, Resolved
from launcher.settings import PRACTICE_MODELS, Settings, Value, is_path
from launcher.trio import Trio, look_up

FETCH = "Run `bonsai fetch`, or try the practice pair: BONSAI_MODEL=practice."


def resolve_all(
    settings: Settings,
    paths: Paths,
    env: Mapping[str, str],
    machine: Machine,
    *,
    expect: bool = False,
    stand_in: bool = False,
    elsewhere: bool = False,
) -> Resolved:
    """Everything a plan needs. Raises LauncherError for what is missing or broken. ``elsewhere``: ``machine`` is another
    one than this, so that what engines say here does not count.

    What has not been fetched yet: with ``expect`` it is taken from the catalog (``on_disk`` is then False), and so is what
    lies here but was never read to its end, which is then said; with ``stand_in`` the practice pair takes its place,
    said aloud; else NotFetched.
    """
    model = settings.model.value
    if model in PRACTICE_MODELS:
        return _practice(settings, paths, elsewhere=elsewhere)
    if is_path(model):
        return _given(settings, paths, machine, elsewhere=elsewhere)
    trio = look_up(settings, paths, env, machine, elsewhere=elsewhere)
    if trio.missing and stand_in:
        settings = replace(settings, model=Value("practice", "what is on this machine"))
        if "engine" in trio.missing:  # the one asked for; the pair runs on whatever is here
            settings = replace(settings, engine=Value("auto"))
        found = _practice(settings, paths)
        return replace(found, stands_in_for=trio.choice.model.label)
    if trio.missing and not expect:
        raise _not_here(trio)
    return _of_catalog(settings, trio, expect=expect)


def _not_here(trio: Trio) -> NotFetched:
    label, unread = trio.choice.model.label, dict(trio.unread)
    absent = [part for part in trio.missing if part not in unread]
    if absent:
        what = " and ".join(f"the {part}" for part in absent)
        return NotFetched(f"{label} is not on this machine: {what} would have to be fetched.", FETCH)
    weights = unread["weights"]
    return NotFetched(f"{weights} was found, but not checked yet.", "Run `bonsai fetch`: it reads it once.")


def _of_catalog(settings: Settings, trio: Trio, *, expect: bool) -> Resolved:
    choice = trio.choice
    unread = dict(trio.unread) if expect else {}  # a start uses nothing that was not proved
    on_disk = set(trio.missing) <= set(unread)
    target = ModelFile(
        str(trio.target or unread.get("weights", trio.target_place)),
        choice.model.label,
        read_header(trio.target) if trio.target else expected_header(choice.model, choice.weights),
    )
    drafter, why = None, choice.drafter_why
    if settings.drafter.value:
        drafter, why = _model_file(settings.drafter.value, settings.drafter.source), _given_by(settings)
    elif choice.drafter is not None:
        if trio.drafter:
            drafter = ModelFile(str(trio.drafter), choice.drafter.file.name, read_header(trio.drafter))
        elif not on_disk or "drafter" in unread:  # only expected: it would be fetched, or read, with the rest
            drafter = ModelFile(
                str(unread.get("drafter", trio.drafter_place)),
                choice.drafter.file.name,
                expected_drafter(choice.drafter),
            )
        elif trio.unread:
            why = "its drafter was found, but not checked yet (`bonsai fetch` does it)"
        else:
            why = "its drafter is not on this machine (`bonsai fetch` brings it)"
    return Resolved(
        engine=trio.engine,
        target=target,
        drafter=drafter,
        drafter_why=why,
        on_disk=on_disk,
        to_fetch=_to_fetch(trio),
        notices=(*trio.notices, *map(_unread, unread.values())),
        reasons=choice.why,
    )


def _unread(path: Path) -> str:
    return f"{path} has not been checked yet: the first start reads it once, and uses it if it is the right file."


def _to_fetch(trio: Trio) -> tuple[str, ...]:
    names, here = [], dict(trio.unread)
    build = trio.better or (None if trio.engine.probed else trio.build)
    if build is not None:
        names += [asset.name for asset in build.assets]
    if trio.target is None and "weights" not in here:
        names.append(trio.choice.weights.file.name)
    if trio.drafter_place is not None and trio.drafter is None and "drafter" not in here:
        names.append(trio.drafter_place.name)
    return tuple(names)


def _practice(settings: Settings, paths: Paths, *, elsewhere: bool = False) -> Resolved:
    engine = local_engine(settings, paths)
    if elsewhere:
        engine = replace(engine, devices=None)
    size = settings.model.value.partition("-")[2] or "small"
    pair = ensure_pair(make_folder(paths.practice), size)
    label = f"practice pair ({size})"
    drafter = settings.drafter.value
    return Resolved(
        engine=engine,
        target=ModelFile(str(pair.target), label, read_header(pair.target)),
        drafter=_model_file(drafter, settings.drafter.source)
        if drafter
        else ModelFile(str(pair.drafter), label, read_header(pair.drafter)),
        drafter_why=_given_by(settings) if drafter else "the practice pair's own",
        practice=True,
    )


def _given(settings: Settings, paths: Paths, machine: Machine, *, elsewhere: bool) -> Resolved:
    """A target named by its path, judged by its header alone; with the engine that reads what it holds."""
    target = _model_file(settings.model.value, settings.model.source)
    engine, notices = engine_reading(
        target.header.formats, settings, paths, machine, target.path, elsewhere=elsewhere
    )
    drafter = settings.drafter.value
    return Resolved(
        engine=engine,
        target=target,
        drafter=_model_file(drafter, settings.drafter.source) if drafter else None,
        drafter_why=_given_by(settings) if drafter else "no drafter was given with BONSAI_DRAFTER",
        notices=notices,
    )


def _given_by(settings: Settings) -> str:
    return f"given by {settings.drafter.source}"


def _model_file(text: str, source: str) -> ModelFile:
    path = Path(text).expanduser().absolute()
    if not path.exists():
        raise GgufError(f"There is no file {path}.", f"Check what {source} says, or leave it out.")
    header = read_header(path)
    return ModelFile(str(path), header.name or path.name, header)
