"""Pure: Settings + Machine + catalog -> the trio of engine build, weights and drafter, with reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from launcher.catalog import Build, Catalog, Drafter, Line, Model, Weights
from launcher.choose_builds import needs_avx2, pick_builds, seen_by, without_avx2
from launcher.choose_model import find_models
from launcher.choose_parts import LeftOut, Parts, join, pinned, spare_gpu
from launcher.errors import PlanRefused
from launcher.expected import expected_drafter, expected_header
from launcher.fit import Fit, fit
from launcher.hardware.model import Machine
from launcher.settings import AUTO, Settings, Value

__all__ = ["Choice", "LeftOut", "choose", "choose_line"]


@dataclass(frozen=True)
class Choice:
    """``builds``: the engine build to use first, then those to try when it cannot run here; empty when the engine
    is there already (``line`` is then that engine's). ``why``: (part, sentence) for model, engine, weights, drafter.
    ``offers``: sentences about what else could be had (n-gram speculation, a smaller model).
    """

    model: Model
    line: Line
    builds: tuple[Build, ...]
    weights: Weights
    drafter: Drafter | None
    drafter_why: str
    why: tuple[tuple[str, str], ...]
    left_out: tuple[LeftOut, ...] = ()
    notices: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()


def choose(
    settings: Settings,
    machine: Machine,
    catalog: Catalog,
    line: str | None = None,
    backend: str | None = None,
) -> Choice:
    """The trio for a model of the catalog. ``line``: the line of an engine that is there already and was asked for
    (BONSAI_LLAMA_SERVER, a built or the embedded one), else the choice is free; ``backend``: what that engine
    computes with, where it is known.

    Raises SettingsError for an unknown model (with the nearest name) and PlanRefused for parts that cannot work
    together or a model that does not fit into memory, naming the part and the alternative that works.
    """
    models = find_models(settings, catalog)
    if settings.model.value.lower() != AUTO:
        return _finish(_try(settings, machine, catalog, models[0], line, backend).kept(), catalog, ())
    return _largest(settings, machine, catalog, models, line, backend)


@dataclass(frozen=True)
class _Tried:
    """A model with its trio and how it fits; ``fits`` without the context that a person asked for, where that
    alone is too much."""

    settings: Settings
    machine: Machine
    model: Model
    parts: Parts
    backend: str
    fit: Fit
    with_less_context: Fit | None = None
    notices: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        """Whether it fits, or nobody knows."""
        return self.fit.verdict != "no"

    def kept(self) -> _Tried:
        """Itself, although it does not fit, when that is due to the context alone; else PlanRefused."""
        if self.runs:
            return self
        if self.with_less_context is None:
            raise PlanRefused(
                f"{self.model.label} does not fit into this machine's memory: {self.fit.says}",
                "Choose a smaller model with BONSAI_MODEL, or BONSAI_MODEL=practice.",
            )
        context = self.settings.ctx
        said = (
            f"{context.source} asks for a context of {context.value} tokens, for which there is not enough memory: "
            f"{self.fit.says} With BONSAI_CTX=0 it fits: {self.with_less_context.says}"
        )
        return replace(self, notices=(*self.notices, said))


def _try(
    settings: Settings,
    machine: Machine,
    catalog: Catalog,
    model: Model,
    line: str | None,
    backend: str | None,
) -> _Tried:
    parts = join(settings, machine, catalog, model, line)
    computes = parts.backend or backend or _backend_there(parts.line, machine)
    machine = seen_by(machine, computes)
    target = expected_header(model, parts.weights)
    drafter = expected_drafter(parts.drafter) if parts.drafter and settings.speculative.value else None
    found = fit(settings, machine, computes, target, drafter)
    if found.verdict != "no":
        return _Tried(settings, machine, model, parts, computes, found)
    if drafter is not None:
        plain = fit(settings, machine, computes, target, None)
        if plain.verdict != "no":
            return _Tried(settings, machine, model, _without_drafter(parts, found), computes, plain)
    less = None
    if settings.ctx.value:
        less = fit(replace(settings, ctx=Value(0, settings.ctx.source)), machine, computes, target, drafter)
        less = less if less.verdict != "no" else None
    return _Tried(settings, machine, model, parts, computes, found, less)


def _without_drafter(parts: Parts, found: Fit) -> Parts:
    assert parts.drafter is not None  # noqa: S101
    name = parts.drafter.file.name
    why = f"the memory does not hold {name} beside the target"
    left = LeftOut("drafter", name, f"{why}: {found.says}")
    says = tuple((part, f"none: {why}" if part == "drafter" else text) for part, text in parts.why)
    return replace(parts, drafter=None, drafter_why=why, why=says, left_out=(*parts.left_out, left))


def _backend_there(line: Line, machine: Machine) -> str:
    """What an engine that is there computes with, as far as the line tells: the embedded one uses Metal on Macs
    with Apple silicon and the processor elsewhere; of others it is expected that they suit the machine."""
    if line.name == "embedded":
        return "metal" if (machine.system, machine.arch) == ("Darwin", "arm64") else "cpu"
    return machine.gpus[0].backend if machine.gpus else "cpu"


def _largest(
    settings: Settings,
    machine: Machine,
    catalog: Catalog,
    models: Sequence[Model],
    line: str | None,
    backend: str | None,
) -> Choice:
    """The first of ``models`` that fits."""
    passed: list[LeftOut] = []
    too_long: list[_Tried] = []
    for model in models:
        try:
            tried = _try(settings, machine, catalog, model, line, backend)
        except PlanRefused as error:
            if model == models[0]:
                raise
            passed.append(LeftOut("model", model.label, error.what))
            continue
        if tried.runs:
            return _finish(tried, catalog, passed)
        says = f"{tried.fit.says[:1].lower()}{tried.fit.says[1:]}"
        passed.append(LeftOut("model", model.label, f"it does not fit into memory: it {says}"))
        if tried.with_less_context is not None:
            too_long.append(tried)
    if too_long:  # no size holds so long a context here: then the largest that fits without it
        kept = too_long[0].kept()
        return _finish(kept, catalog, passed[: models.index(kept.model)])
    raise PlanRefused(
        f"No model of the family {settings.family.value} fits into this machine's memory. "
        f"{passed[-1].what}: {passed[-1].why}",
        "Free some memory, or try the practice pair: BONSAI_MODEL=practice.",
    )


# --- what is said about it ------------------------------------------------------------------


def _finish(tried: _Tried, catalog: Catalog, passed: Sequence[LeftOut]) -> Choice:
    parts, model = tried.parts, tried.model
    asked = tried.settings.model
    if asked.value.lower() != AUTO:
        why = f"asked by {asked.source}"
    elif not tried.runs:
        why = "the largest that fits, though not with the context asked for"
    elif passed:
        why = f"the largest of the family {model.family} that fits"
    elif tried.settings.family.asked:
        why = f"the largest of the family {model.family}, which {tried.settings.family.source} asks for; it fits"
    else:
        why = "what the launcher is made for; it fits"
    return Choice(
        model=model,
        line=parts.line,
        builds=tuple(it.build for it in parts.builds.picked),
        weights=parts.weights,
        drafter=parts.drafter,
        drafter_why=parts.drafter_why,
        why=(("model", f"{model.label}: {why}. {tried.fit.says}".strip()), *parts.why),
        left_out=(*passed, *_other_models(tried, catalog, passed), *parts.left_out),
        notices=tuple(_notices(tried, passed)),
        offers=tuple(_offers(tried, catalog)),
    )


def _other_models(tried: _Tried, catalog: Catalog, passed: Sequence[LeftOut]) -> Iterator[LeftOut]:
    """The other sizes of the family, and the same size of the other families."""
    named = {it.what for it in passed} | {tried.model.label}
    for model in catalog.models if tried.model.family else ():
        if model.label in named or not model.family:
            continue
        if model.family == tried.model.family:
            why = f"BONSAI_MODEL={model.name} asks for it"
        elif model.name == tried.model.name:
            why = f"BONSAI_FAMILY={model.family} asks for it"
        else:
            continue
        yield LeftOut("model", model.label, why)


def _notices(tried: _Tried, passed: Sequence[LeftOut]) -> Iterator[str]:
    settings, parts, model = tried.settings, tried.parts, tried.model
    for left in passed:
        yield f"{left.what} is left out: {left.why}"
    if passed:
        yield f"{model.label} is taken instead."
    yield from tried.notices
    if tried.fit.verdict == "partly" and settings.model.value.lower() != AUTO:
        source = settings.model.source
        yield f"{model.label} is kept, as {source} asks, although only a part of it fits on the GPU."
    if model.notice:
        yield model.notice
    if not model.family and settings.family.asked:
        yield f"{settings.family.source} changes nothing: {model.label} is of no Bonsai family."
    yield from parts.builds.notices
    if settings.speculative.value:
        source = settings.speculative.source
        if parts.drafter is None and not settings.drafter.value:
            yield f"{source} asks for speculation, but {parts.drafter_why}: it runs plain."
        elif tried.backend == "metal":
            yield (
                "On Macs others have measured everything from 0.17x to 1.3x with a drafter: race it against plain "
                "decoding before you keep it on."
            )


def _offers(tried: _Tried, catalog: Catalog) -> Iterator[str]:
    parts, model = tried.parts, tried.model
    if parts.drafter is None and not tried.settings.drafter.value:
        types = [it for it in model.methods or ("ngram-simple",) if it in parts.line.spec_types]
        if types:
            yield (
                f"N-gram speculation ({_or(types)}) needs no drafter: `bonsai race --b {types[0]}` measures it."
            )
        if parts.with_drafter:
            yield parts.with_drafter
    if parts.with_gpu:
        yield parts.with_gpu
    slow = tried.fit.verdict == "partly" or tried.backend == "cpu"
    family = [it for it in catalog.models if model.family and it.family == model.family]
    smaller = family[family.index(model) + 1 :] if model in family else []
    if slow and smaller:
        yield f"BONSAI_MODEL={smaller[0].name} is smaller, and faster here."


def _or(names: Sequence[str]) -> str:
    """ "a, b or c"."""
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


# --- weights given by path ------------------------------------------------------------------


def choose_line(
    settings: Settings, machine: Machine, catalog: Catalog, formats: frozenset[str]
) -> tuple[Line, tuple[Build, ...]] | None:
    """The line for weights given by path that hold ``formats``, with its builds for this machine, best first (none
    for the embedded engine); None when no line reads them here. Raises PlanRefused when BONSAI_ENGINE asks for one
    that does not read them.
    """
    readers = [it for it in catalog.lines if formats <= it.formats]
    pin = pinned(settings, None)
    if pin is not None:
        line = catalog.line(pin.line)
        if line not in readers:
            others = ", ".join(it.name for it in readers)
            raise PlanRefused(
                f"The weights do not fit the engine: {pin.said}, which does not read {' and '.join(sorted(formats))}.",
                f"{pin.loosen[0].upper()}{pin.loosen[1:]}; {others} can read them."
                if others
                else "No engine that is known here reads them.",
            )
        readers = [line]
    found = [(line, pick_builds(line, machine, spare_gpu=spare_gpu(settings))) for line in readers]
    old = without_avx2(machine)
    found = sorted(
        (it for it in found if it[1].picked or not it[0].builds),
        key=lambda it: (not it[0].builds, old and needs_avx2(it[0]), not it[1].has_gpu_backend),
    )
    if not found:
        return None
    line, builds = found[0]
    return line, tuple(it.build for it in builds.picked)
