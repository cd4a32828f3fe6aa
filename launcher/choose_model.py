"""Pure: which model of the catalog BONSAI_MODEL and BONSAI_FAMILY mean."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace

from launcher.catalog import Catalog, Model
from launcher.errors import BadInput, SettingsError
from launcher.settings import AUTO, FAMILIES, PRACTICE_MODELS, Settings, Value


def find_models(settings: Settings, catalog: Catalog) -> tuple[Model, ...]:
    """What BONSAI_MODEL means: one model, or with "auto" all of the family, largest first.

    Raises SettingsError for a name that is unknown, with the nearest and the list.
    """
    asked, family = settings.model, settings.family.value
    sizes = sorted((it for it in catalog.models if it.family == family), key=_size, reverse=True)
    if asked.value.lower() == AUTO:
        if not sizes:
            raise SettingsError(
                f"The catalog has no model of the family {family} ({settings.family.source})."
            )
        return tuple(sizes)
    others = [it for it in catalog.models if not it.family]
    for model in (*sizes, *others):
        if model.name.lower() == asked.value.lower():
            return (model,)
    raise SettingsError(_unknown(settings, catalog, sizes, others), _nearest(asked.value, (*sizes, *others)))


def named(settings: Settings, name: str, catalog: Catalog) -> Model:
    """The one model that ``name`` means, such as 27B (of the family that ``settings`` ask for) or bonsai/8B. Raises
    BadInput for any other name."""
    if name.lower() == AUTO:
        raise BadInput("auto is no model's name.", "`bonsai models` shows the names.")
    family, _, size = name.rpartition("/")
    asked = replace(settings, model=Value(size, "NAME"))
    if family:
        if family not in FAMILIES:
            raise BadInput(f"There is no family {family}.", f"There are {', '.join(FAMILIES)}.")
        asked = replace(asked, family=Value(family, "NAME"))
    try:
        return find_models(asked, catalog)[0]
    except SettingsError as error:
        near = error.remedy if error.remedy.startswith("Did you mean") else ""
        raise BadInput(f"No model is called {name!r}.", near or "`bonsai models` shows the names.") from error


def name_of(model: Model) -> str:
    """What ``named`` takes for it: what BONSAI_FAMILY and BONSAI_MODEL say, in one."""
    return f"{model.family}/{model.name}" if model.family else model.name


def size_in_billions(model: Model) -> float | None:
    """27.0 for "27B"; None for names that are no size."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)B", model.name)
    return float(found[1]) if found else None


def _size(model: Model) -> float:
    return size_in_billions(model) or 0.0


def _unknown(settings: Settings, catalog: Catalog, sizes: Sequence[Model], others: Sequence[Model]) -> str:
    asked, family = settings.model, settings.family
    own = ", ".join(it.name for it in sizes)
    if any(it.name.lower() == asked.value.lower() for it in catalog.models):
        return f"{asked.source} asks for {asked.value}, but the family {family.value} ({family.source}) has {own} only."
    known = ", ".join([own, *(it.name for it in others), PRACTICE_MODELS[0]])
    return f"{asked.source} asks for {asked.value}, which is no known model; there are {known}, and paths of .gguf files."


def _nearest(text: str, models: Sequence[Model]) -> str:
    """A size is near to a size, a name to one that is spelt alike."""
    sizes = {size: it.name for it in models if (size := size_in_billions(it))}
    number = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)b?", text.strip().lower())
    if number and sizes:
        return f"Did you mean {sizes[min(sizes, key=lambda it: abs(it - float(number[1])))]}?"
    names = {it.name.lower(): it.name for it in models} | {it: it for it in PRACTICE_MODELS}
    near = difflib.get_close_matches(text.lower(), list(names), n=1, cutoff=0.5)
    return f"Did you mean {names[near[0]]}?" if near else "Set BONSAI_MODEL to one of these, or leave it out."
