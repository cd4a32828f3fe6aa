"""Pure: which engine line, weights and drafter work together for one model on one machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from launcher.catalog import Catalog, Drafter, Line, Model, Weights
from launcher.choose_builds import Builds, needs_avx2, pick_builds, wanted_backend, without_avx2
from launcher.errors import PlanRefused
from launcher.hardware.model import BACKENDS, Machine
from launcher.settings import Settings

FORMAT_WORDS = {
    "q2_0-g128": "Q2_0 in groups of 128 (legacy)",
    "q2_0-g64": "Q2_0 in groups of 64",
    "pq2_0": "PQ2_0",
    "ptq1_0": "PTQ1_0",
    "q1_0": "Q1_0",
    "common": "llama.cpp's common formats",
}
# Formats that several lines read alike, so that the machine's GPU decides; the others come with their own engine.
SHARED_FORMATS = ("common", "q2_0-g64")
NOTHING = Builds((), (), (), has_gpu_backend=True)


@dataclass(frozen=True)
class LeftOut:
    """An alternative that was not taken. ``part``: "engine", "weights", "drafter" or "model"."""

    part: str
    what: str
    why: str


@dataclass(frozen=True)
class Pin:
    """A line that is not ours to choose. ``there``: that engine is on this machine, so no build is looked for."""

    line: str
    there: bool
    said: str  # "BONSAI_ENGINE asks for prism"
    loosen: str  # "leave BONSAI_ENGINE out"


@dataclass(frozen=True)
class Parts:
    """A trio with a sentence for each part. ``builds``: empty ``picked`` when the engine is there already."""

    line: Line
    builds: Builds
    weights: Weights
    drafter: Drafter | None
    drafter_why: str
    why: tuple[tuple[str, str], ...]  # engine, weights, drafter
    left_out: tuple[LeftOut, ...]
    with_drafter: str = ""  # another trio of this model that has a drafter, as a sentence; or empty
    with_gpu: str = ""  # the same for one that computes as the machine's GPU is best used

    @property
    def backend(self) -> str | None:
        """What the first build computes with; None where that is not known from builds."""
        return self.builds.picked[0].build.backend if self.builds.picked else None


def pinned(settings: Settings, line: str | None) -> Pin | None:
    """The line that is given, if any: that of an engine that is there, or the one that BONSAI_ENGINE asks for."""
    if line is not None:
        asked = settings.llama_server if settings.llama_server.value else settings.engine
        said = f"the engine that {asked.source} names" if asked.asked else "the engine on this machine"
        return Pin(
            line, True, f"{said} is of the {line} line", f"leave {asked.source} out" if asked.asked else ""
        )
    engine = settings.engine
    if engine.value == "auto":
        return None
    there = engine.value == "embedded"
    return Pin(engine.value, there, f"{engine.source} asks for {engine.value}", f"leave {engine.source} out")


def spare_gpu(settings: Settings) -> bool:
    """Whether nothing is to be kept on the GPU."""
    return settings.ngl.value == 0


def join(settings: Settings, machine: Machine, catalog: Catalog, model: Model, line: str | None) -> Parts:
    """The trio for ``model``. Raises PlanRefused naming the part that does not fit and what would work."""
    case = Case(settings, machine, catalog, model, pinned(settings, line))
    pairs = case.pairs()
    chosen = case.fixed(pairs) if case.pin else case.free(pairs)
    drafter, drafter_why, drafter_says = _drafter(settings, model, chosen.line)
    weights_why = (
        f"{chosen.weights.file.name}: {chosen.line.name} reads {FORMAT_WORDS[chosen.weights.format]}"
    )
    other = ""
    if drafter is None and not settings.drafter.value:
        other = _with_drafter(pairs, model, chosen.line)
    with_gpu = "" if chosen.builds.has_gpu_backend else _with_gpu(case, pairs, chosen)
    return Parts(
        line=chosen.line,
        builds=chosen.builds,
        weights=chosen.weights,
        drafter=drafter,
        drafter_why=drafter_why,
        why=(("engine", case.engine_why(chosen)), ("weights", weights_why), ("drafter", drafter_says)),
        left_out=tuple(_left_out(case, chosen, drafter)),
        with_drafter=other,
        with_gpu=with_gpu,
    )


@dataclass(frozen=True)
class Pair:
    """Weights and a line that reads them."""

    weights: Weights
    line: Line
    builds: Builds


@dataclass(frozen=True)
class Case:
    """One question: which parts for this model, on this machine, with these settings."""

    settings: Settings
    machine: Machine
    catalog: Catalog
    model: Model
    pin: Pin | None

    def builds(self, line: Line) -> Builds:
        """The line's builds for the machine."""
        return pick_builds(line, self.machine, spare_gpu=spare_gpu(self.settings))

    def pairs(self) -> list[Pair]:
        """Weights and lines that read them and have a build for this machine, best first."""
        out: list[Pair] = []
        for weights in self.model.weights:
            readers = [it for it in self.catalog.lines if weights.format in it.formats]
            pairs = [Pair(weights, it, self.builds(it)) for it in readers]
            drafter_first = weights.format not in SHARED_FORMATS or self.settings.speculative.value

            def order(pair: Pair, drafter_first: bool = drafter_first) -> tuple[bool, bool, bool]:
                alone = not any(pair.line.drafts_with(it) for it in self.model.drafters)
                return drafter_first and alone, not pair.builds.has_gpu_backend, alone

            out += sorted((it for it in pairs if it.builds.picked), key=order)
        if without_avx2(self.machine):
            out.sort(key=lambda it: needs_avx2(it.line))
        return out

    def free(self, pairs: list[Pair]) -> Pair:
        """The best of ``pairs``."""
        if not pairs:
            raise PlanRefused(
                f"No engine that reads {self.model.label} is published for {self.place}.",
                "Build one with `bonsai engines build`, or name a llama-server with BONSAI_LLAMA_SERVER.",
            )
        return pairs[0]

    def fixed(self, pairs: list[Pair]) -> Pair:
        """The pinned line with the first weights that it reads; ``pairs`` serve to say what would work instead."""
        assert self.pin is not None  # noqa: S101
        pin, lines = self.pin, {it.name: it for it in self.catalog.lines}
        line = lines.get(pin.line) or lines["mainline"]
        weights = next((it for it in self.model.weights if it.format in line.formats), None)
        if weights is None:
            formats = " or ".join(FORMAT_WORDS[it.format] for it in self.model.weights)
            raise PlanRefused(
                f"The weights of {self.model.label} do not fit the engine: {pin.said}, which does not read {formats}.",
                _ways_out(pairs, pin),
            )
        builds = NOTHING if pin.there else self.builds(line)
        if not builds.picked and not pin.there:
            raise PlanRefused(
                f"The engine does not fit this machine: {pin.said}, which has no build for {self.place}.",
                _ways_out(pairs, pin),
            )
        return Pair(weights, line, builds)

    @property
    def place(self) -> str:
        """System and processor for people: "Linux on x86_64"."""
        return f"{self.machine.system} on {self.machine.arch}"

    def engine_why(self, chosen: Pair) -> str:
        """Why this line and, where it is to be fetched, this build."""
        if self.pin is not None and self.pin.there:
            return self.pin.said
        first = chosen.builds.picked[0].why
        if self.pin is not None:
            return f"{self.pin.said}; {first}"
        drafters = [it for it in self.model.drafters if chosen.line.drafts_with(it)]
        also = f" and loads {drafters[0].file.name} as it is published" if drafters else ""
        return f"{chosen.line.name} reads {chosen.weights.file.name}{also}; {first}"


def _ways_out(pairs: list[Pair], pin: Pin) -> str:
    if not pairs:
        return "Name a llama-server that reads them with BONSAI_LLAMA_SERVER."
    loosen = f"{pin.loosen[0].upper()}{pin.loosen[1:]}, or set" if pin.loosen else "Set"
    best = pairs[0]
    return f"{best.line.name} runs {best.weights.file.name} here. {loosen} BONSAI_ENGINE={best.line.name}."


def _drafter(settings: Settings, model: Model, line: Line) -> tuple[Drafter | None, str, str]:
    """(drafter, why there is none or why this one: a clause that can follow "but", the same as a sentence)."""
    if settings.drafter.value:
        why = f"given by {settings.drafter.source}"
        return None, why, f"{settings.drafter.value}, {why}"
    for drafter in model.drafters:
        if line.drafts_with(drafter):
            why = f"made for {model.label}, and {line.name} loads it ({drafter.method})"
            return drafter, why, f"{drafter.file.name}: {why}"
    if not model.drafters:
        why = model.no_drafter.rstrip(".") or f"{model.label} has no drafter"
    else:
        why = _not_loaded(line, model.drafters[0])
    return None, why, f"none: {why}"


def _not_loaded(line: Line, drafter: Drafter) -> str:
    architecture = drafter.facts.architecture
    if architecture == "dspark" and "dflash" in line.drafters:
        return (
            f"{line.name} engines load only drafters converted to dflash, not {drafter.file.name} (dspark), "
            "and no converted one is published under a known name"
        )
    if drafter.method in line.spec_types:
        return f"{line.name} engines do not load {drafter.file.name}, whose architecture is {architecture}"
    return f"{line.name} engines cannot do {drafter.method}, which {drafter.file.name} is made for"


def _with_drafter(pairs: list[Pair], model: Model, line: Line) -> str:
    for pair in pairs:
        drafter = next((it for it in model.drafters if pair.line.drafts_with(it)), None)
        if drafter is not None and pair.line.name != line.name:
            return (
                f"BONSAI_ENGINE={pair.line.name} with {pair.weights.file.name} can use the drafter "
                f"{drafter.file.name}."
            )
    return ""


def _with_gpu(case: Case, pairs: list[Pair], chosen: Pair) -> str:
    wanted, _ = wanted_backend(case.machine, spare_gpu=spare_gpu(case.settings))
    for pair in pairs:
        if pair.builds.has_gpu_backend and pair.line.name != chosen.line.name:
            lost = any(
                chosen.line.drafts_with(it) and not pair.line.drafts_with(it) for it in case.model.drafters
            )
            return (
                f"BONSAI_ENGINE={pair.line.name} computes with {BACKENDS[wanted]} here, with "
                f"{pair.weights.file.name}{' and without the drafter' if lost else ''}."
            )
    return ""


# --- what was left out ----------------------------------------------------------------------


def _left_out(case: Case, chosen: Pair, drafter: Drafter | None) -> Iterator[LeftOut]:
    for line in case.catalog.lines:
        if line.name != chosen.line.name:
            yield LeftOut("engine", line.name, _line_why_not(case, chosen, line))
    for what, why in chosen.builds.passed:
        yield LeftOut("engine", what, why)
    for weights in case.model.weights:
        if weights == chosen.weights:
            continue
        why = f"{chosen.line.name} does not read {FORMAT_WORDS[weights.format]}"
        if weights.format in chosen.line.formats:
            why = f"{chosen.weights.file.name} stands before it in the catalog"
        yield LeftOut("weights", weights.file.name, why)
    if case.model.family:
        why = "unquantized and many times larger: a source for conversion, never run"
        yield LeftOut("weights", "F16 and BF16 files", why)
    for other in case.model.drafters:
        if other == drafter:
            continue
        why = f"{drafter.file.name} stands before it" if drafter else _not_loaded(chosen.line, other)
        if case.settings.drafter.value:
            why = f"{case.settings.drafter.source} names another"
        yield LeftOut("drafter", other.file.name, why)


def _line_why_not(case: Case, chosen: Pair, line: Line) -> str:
    reads = next((it for it in case.model.weights if it.format in line.formats), None)
    if reads is None:
        return f"it reads none of the formats of {case.model.label}"
    if case.pin is not None:
        return case.pin.said
    if not line.builds:
        return "it comes with the launcher, for the practice pair and where no engine is published"
    builds = case.builds(line)
    if not builds.picked:
        return f"it has no build for {case.place}"
    if without_avx2(case.machine) and needs_avx2(line) and not needs_avx2(chosen.line):
        return "its builds may end at once on a processor without AVX2"
    return _worse(case, chosen, Pair(reads, line, builds))


def _worse(case: Case, chosen: Pair, pair: Pair) -> str:
    """Why ``pair``, which would run, stands after ``chosen``."""
    lost = [it for it in case.model.drafters if chosen.line.drafts_with(it) and not pair.line.drafts_with(it)]
    if lost:
        return f"it reads {pair.weights.file.name}, but does not load the drafter {lost[0].file.name}"
    if chosen.builds.has_gpu_backend and not pair.builds.has_gpu_backend:
        wanted, _ = wanted_backend(case.machine, spare_gpu=spare_gpu(case.settings))
        return f"it has no {BACKENDS.get(wanted, 'CPU')} build that runs here"
    if pair.weights != chosen.weights:
        return f"it would run {pair.weights.file.name}; {chosen.weights.file.name} stands before it in the catalog"
    return f"it would do as well; {chosen.line.name} stands before it in the catalog"
