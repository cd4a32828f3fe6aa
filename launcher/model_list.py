"""The models of the catalog as a person chooses among them: what comes, whether it would run here, what is here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from launcher import catalog
from launcher.catalog import Drafter, HubFile, Model, Weights
from launcher.choose import Choice, choose
from launcher.choose_builds import seen_by
from launcher.choose_model import find_models, name_of
from launcher.choose_parts import join
from launcher.devices import backend_of
from launcher.engines import ready_engine
from launcher.errors import BadInput, PlanRefused, SettingsError
from launcher.expected import expected_drafter, expected_header
from launcher.fetch_types import ModelList, ModelRow
from launcher.fit import fit
from launcher.hardware.model import Machine
from launcher.paths import Paths
from launcher.settings import AUTO, FAMILIES, PRACTICE_MODELS, Settings, Value, is_path
from launcher.shelf import Shelf

There = tuple[str | None, str | None]  # see _engine

FITS = {
    "gpu": "Fits on the GPU",
    "partly": "Partly on the GPU",
    "ram": "Fits into memory",
    "unknown": "Not known whether it fits",
}
NO_FIT = "Does not fit"
NO_ENGINE = "Does not run here"
CHOICE = "the choice"  # the source of what somebody might ask for


def list_models(
    settings: Settings, paths: Paths, env: Mapping[str, str], machine: Machine, fixed: str = ""
) -> ModelList:
    """Every model of the catalog, in its order, also those that cannot run here. ``fixed``: see ModelList. Asks no
    network and reads no file to its end. Raises LauncherError where the engine that was asked for cannot be used."""
    known = catalog.load()
    there = _engine(settings, paths, machine)
    shelf = Shelf(settings, paths, env)
    other, chosen, taken = _other(settings), None, None
    if settings.model.value.lower() == AUTO:
        taken = _taken(settings, machine, there)
    elif not other:
        with suppress(SettingsError):  # a name that is unknown is told where it is to run
            chosen = find_models(settings, known)[0]
    nobody_asks = replace(settings, model=Value(AUTO), family=Value(FAMILIES[0]))
    usual = _taken(nobody_asks, machine, there)
    rows = (_row(settings, machine, model, there, shelf) for model in known.models)
    return ModelList(
        tuple(replace(it, chosen=it.name == _name(chosen), automatic=it.name == _name(taken)) for it in rows),
        usual.label if usual else "",
        fixed,
        other,
    )


def refuse_what_cannot_run(settings: Settings, paths: Paths, machine: Machine, model: Model) -> None:
    """PlanRefused for a ``model`` that cannot run on ``machine``, whatever ``settings`` say of the model. Raises
    LauncherError where the engine that was asked for cannot be used."""
    _choose(asking_for(settings, model), machine, _engine(settings, paths, machine))


def asking_for(settings: Settings, model: Model) -> Settings:
    """``settings`` that ask for ``model``."""
    family = Value(model.family) if model.family else replace(settings.family, source="default")
    return replace(settings, model=Value(model.name, CHOICE), family=family)


def _engine(settings: Settings, paths: Paths, machine: Machine) -> There:
    """(line, backend) of the engine that a person asked for and that is here; None where the choice is free."""
    there = ready_engine(settings, paths)
    return (there.line, backend_of(there, machine)) if there else (None, None)


def _choose(settings: Settings, machine: Machine, there: There) -> Choice:
    return choose(settings, machine, catalog.load(), *there)


def _taken(settings: Settings, machine: Machine, there: There) -> Model | None:
    with suppress(BadInput):  # none fits; each row says why
        return _choose(settings, machine, there).model
    return None


def _name(model: Model | None) -> str | None:
    return name_of(model) if model else None


def _other(settings: Settings) -> str:
    """What is asked for and stands in no catalog."""
    model = settings.model.value
    if model in PRACTICE_MODELS:
        return "the practice pair"
    return model if is_path(model) else ""


def _row(settings: Settings, machine: Machine, model: Model, there: There, shelf: Shelf) -> ModelRow:
    weights, drafter = model.weights[0], model.drafters[0] if model.drafters else None
    asked = asking_for(settings, model)
    try:
        join(asked, machine, catalog.load(), model, there[0])  # raises where no engine reads it
    except PlanRefused as error:
        return _made(model, weights, drafter, shelf, fits=NO_ENGINE, says=error.what)
    try:
        choice = _choose(asked, machine, there)
    except PlanRefused as error:
        return _made(model, weights, drafter, shelf, fits=NO_FIT, says=error.what)
    backend = choice.builds[0].backend if choice.builds else there[1] or "cpu"
    drafts = choice.drafter is not None and settings.speculative.value
    found = fit(
        asked,
        seen_by(machine, backend),
        backend,
        expected_header(model, choice.weights),
        expected_drafter(choice.drafter) if choice.drafter and drafts else None,
    )
    made = _made(
        model, choice.weights, choice.drafter, shelf, fits=FITS.get(found.verdict, NO_FIT), says=found.says
    )
    return replace(
        made, runs=True, drafter=made.drafter if choice.drafter else _no_drafter(choice.drafter_why)
    )


def _made(
    model: Model, weights: Weights, drafter: Drafter | None, shelf: Shelf, *, fits: str, says: str
) -> ModelRow:
    files = [weights.file, *([drafter.file] if drafter else [])]
    sizes = [file.bytes for file in files]
    known = [size for size in sizes if size is not None]
    return ModelRow(
        name=name_of(model),
        label=model.label,
        size=sum(known) if known else None,
        size_about=len(known) < len(sizes),
        here=_here(shelf, files),
        runs=False,
        fits=fits,
        says=says,
        drafter=_drafter(model, drafter),
        drafts=drafter is not None,
        licence=model.licence,
        notice=model.notice,
    )


def _drafter(model: Model, drafter: Drafter | None) -> str:
    if drafter is None:
        return _no_drafter(model.no_drafter)
    if drafter.kind == "model":
        return f"A small model drafts for it ({drafter.method})"
    return f"Comes with a drafter that was trained for it ({drafter.method})"


def _no_drafter(why: str) -> str:
    return f"N{why[1:]}" if why.startswith("no ") else f"No drafter here: {why}"


def _here(shelf: Shelf, files: Sequence[HubFile]) -> str:
    found = [shelf.find(file) is not None for file in files]
    if all(found):
        return "yes"
    if found[0]:
        return (
            "unread"
            if all(has or shelf.unread(it) for has, it in zip(found, files, strict=True))
            else "partly"
        )
    return "unread" if shelf.unread(files[0]) else "no"
