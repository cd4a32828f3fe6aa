"""Pure: the ways in which an engine can run a target, and which of them these files and this engine allow."""

from __future__ import annotations

from dataclasses import dataclass, replace

from launcher.drafter_kinds import head_misfit, sibling_misfit
from launcher.errors import BadInput, PlanRefused
from launcher.pair import misfit
from launcher.resolved import Resolved
from launcher.settings import Settings

DSPARK = "draft-dspark"
# llama-server's default draft length for drafters without a block size.
DEFAULT_LENGTH = 3
# Offered lengths: a sibling may draft far ahead; heads are trained for a few tokens.
LENGTHS = {"draft-simple": (2, 3, 4, 8, 16), "draft-eagle3": (2, 3, 4, 8), "draft-mtp": (1, 2, 3)}
DRAFT_P_MIN = "--spec-draft-p-min"
# Where a drafter can run beside "with the target": the words that say so to llama-server.
DRAFT_ON = {"cpu": ("-devd", "none"), "ngld0": ("-ngld", "0")}
# Which drafter architecture an engine line does not load: the frozen Prism build has its own, and only that.
_WRONG_ARCHITECTURE = {
    "embedded": "dspark",
    "mainline": "dspark",
    "prism": "dspark",
    "prism-legacy": "dflash",
}


@dataclass(frozen=True)
class Method:
    """``spec_type`` as llama-server names it, "none" for plain decoding; several are tried in the order of a
    comma list ("ngram-mod,draft-dspark"). ``draft_max`` is the draft length in tokens, None where the engine's own
    default holds (n-gram types, plain). ``p_min``: a draft ends before the first token that the drafter holds less
    probable (0 to 1; None: the engine's default, which is never). ``draft_on``: None with the target, "cpu" on no
    device but the processor, "ngld0" with no layer in the GPU's memory.
    """

    spec_type: str = "none"
    draft_max: int | None = None
    p_min: float | None = None
    draft_on: str | None = None

    @property
    def name(self) -> str:
        """How people call it: "plain", "dspark 4", "ngram-mod + dspark 4", "draft-simple 3, p-min 0.5"."""
        if self.spec_type == "none":
            return "plain"
        parts = [part if part == "draft-simple" else part.removeprefix("draft-") for part in self.types]
        name = " + ".join(parts) if self.draft_max is None else f"{' + '.join(parts)} {self.draft_max}"
        if self.p_min is not None:
            name += f", p-min {self.p_min:g}"
        on = {"cpu": ", draft on CPU", "ngld0": ", draft off the GPU's memory"}
        return name + on.get(self.draft_on or "", "")

    @property
    def types(self) -> tuple[str, ...]:
        """The parts of ``spec_type``."""
        return tuple(self.spec_type.split(","))

    @property
    def drafter_needed(self) -> bool:
        """Whether it drafts with a model of its own: n-gram types look the draft up in the text so far."""
        return any(part.startswith("draft-") for part in self.types)


PLAIN = Method()
_BLOCK_SIZE = "the drafter's block size, read from its file ({})"


@dataclass(frozen=True)
class Offer:
    """A method, and why it cannot be had here (None: it can)."""

    method: Method
    why_not: str | None = None


@dataclass(frozen=True)
class Speculation:
    """What is drafted with and why; ``warnings`` where something else was asked for.

    ``with_drafter``: the drafter's file is loaded (a target's own prediction heads need none).
    """

    method: Method
    why: str
    with_drafter: bool = False
    length_why: str = ""
    warnings: tuple[str, ...] = ()


def offered(resolved: Resolved) -> tuple[Offer, ...]:
    """Every method that this engine lists, plain first, each with what stands against it."""
    methods = [PLAIN]
    size = resolved.drafter.header.block_size if resolved.drafter else None
    if size and resolved.engine.line != "prism-legacy":
        methods += [Method(DSPARK, length) for length in range(1, size + 1)]
    else:
        methods.append(Method(DSPARK, size))
    methods += [Method(spec_type, length) for spec_type, all_ in LENGTHS.items() for length in all_]
    methods += [Method(name) for name in sorted(resolved.engine.spec_types) if name.startswith("ngram-")]
    return tuple(Offer(method, why_not(resolved, method)) for method in methods)


def why_not(resolved: Resolved, method: Method) -> str | None:
    """What keeps the engine from running the target by ``method``, as a sentence; None when nothing does."""
    if method.spec_type == "none":
        return None
    if len(method.types) > 1 and resolved.engine.line == "prism-legacy":
        return "The frozen Prism build is not known to take several types at once."
    for kind in method.types:
        length = method.draft_max if kind.startswith("draft-") else None
        problem = _why_not(resolved, replace(method, spec_type=kind, draft_max=length))
        if problem:
            return problem
    return _details(resolved, method)


def _why_not(resolved: Resolved, method: Method) -> str | None:
    """The same for a method of one type, but for its details."""
    engine, drafter, kind = resolved.engine, resolved.drafter, method.spec_type
    if kind not in engine.spec_types:
        return f"This llama-server ({engine.version}) cannot do {kind}."
    if not method.drafter_needed or own_heads(resolved, method):
        return None
    if drafter is None:
        return f"It needs a drafter, but {resolved.drafter_why}."
    header, target = drafter.header, resolved.target.header
    if kind == DSPARK:
        problem = misfit(target, header)
        if problem is None and header.architecture == _WRONG_ARCHITECTURE.get(engine.line):
            problem = f"its architecture is {header.architecture}, which {engine.line} engines do not load."
        return f"The drafter does not fit: {problem}" if problem else _length(resolved, method)
    problem = sibling_misfit(target, header) if kind == "draft-simple" else head_misfit(target, header, kind)
    return f"The drafter does not fit: {problem}" if problem else None


def _details(resolved: Resolved, method: Method) -> str | None:
    """What stands against ``p_min`` and ``draft_on``."""
    if method.p_min is None and method.draft_on is None:
        return None
    if not method.drafter_needed:
        return "It drafts without a model: there is no probability to ask for, and nothing to place."
    problem = _no_p_min(resolved, method) if method.p_min is not None else None
    return problem or (_not_there(resolved, method) if method.draft_on is not None else None)


def _no_p_min(resolved: Resolved, method: Method) -> str | None:
    engine, header = resolved.engine, resolved.drafter.header if resolved.drafter else None
    if not engine.can(DRAFT_P_MIN):
        return f"This llama-server ({engine.version}) has no {DRAFT_P_MIN}."
    # Without that key the engine takes the head for there (b11434, common/speculative.cpp).
    key = f"{header.architecture}.has_confidence_head" if header else ""
    if header and DSPARK in method.types and header.metadata.get(key, True) is False:
        return "The drafter has no confidence head, so it cannot say how sure it is of a token."
    return None


def _not_there(resolved: Resolved, method: Method) -> str | None:
    words = DRAFT_ON.get(method.draft_on or "")
    if words is None:
        return f"{method.draft_on!r} is no place for a drafter."
    if own_heads(resolved, method):
        return "Its prediction heads are part of the target's file and run where the target runs."
    if not resolved.engine.can(words[0]):
        return f"This llama-server ({resolved.engine.version}) has no {words[0]}."
    return None


def own_heads(resolved: Resolved, method: Method) -> bool:
    """Whether the target's own file has the prediction heads that ``method`` drafts with."""
    header = resolved.target.header
    heads = header.metadata.get(f"{header.architecture}.nextn_predict_layers")
    return "draft-mtp" in method.types and isinstance(heads, int) and heads > 0


def _length(resolved: Resolved, method: Method) -> str | None:
    size = resolved.drafter.header.block_size if resolved.drafter else None
    if size is None:
        return "The drafter's file names no block size."
    if method.draft_max is None or not 1 <= method.draft_max <= size:
        return f"The drafter's block holds {size} tokens."
    if resolved.engine.line == "prism-legacy" and method.draft_max != size:
        return f"The frozen Prism build drafts whole blocks only ({size} tokens); it ends itself otherwise."
    return None


def planned(settings: Settings, resolved: Resolved, method: Method | None, source: str = "") -> Speculation:
    """What to draft with: ``method`` where one is given, else what the settings ask for. ``source``: where ``method``
    comes from, in words ("learned on this machine"); empty: somebody chose it.

    Raises PlanRefused for parts that cannot work together and for a method that cannot be had.
    """
    if method is None:
        return _asked(settings, resolved)
    problem = why_not(resolved, method)
    if problem:
        raise PlanRefused(f"{method.name} cannot be run here. {problem}", "Choose another method.")
    if method == PLAIN:
        return Speculation(PLAIN, "plain decoding was chosen")
    with_drafter = method.drafter_needed and not own_heads(resolved, method)
    size = resolved.drafter.header.block_size if resolved.drafter else None
    whole = method == Method(DSPARK, size)
    length_why = _BLOCK_SIZE.format(size) if whole else f"draft length of {method.name}, in tokens"
    return Speculation(method, source or f"{method.name} was chosen", with_drafter, length_why)


def _asked(settings: Settings, resolved: Resolved) -> Speculation:
    drafter, engine, source = resolved.drafter, resolved.engine, settings.speculative.source
    if not settings.speculative.value:
        return Speculation(
            PLAIN, "speculation is off until BONSAI_SPECULATIVE=1 or the page's switch asks for it"
        )
    if drafter is None:
        return _plain_after_all(
            resolved.drafter_why, f"speculation was asked for, but {resolved.drafter_why}"
        )
    header = drafter.header
    if header.is_drafter and header.architecture == _WRONG_ARCHITECTURE.get(engine.line):
        loads = "only the frozen Prism build loads" if header.architecture == "dspark" else "it does not load"
        raise PlanRefused(
            f"The drafter {drafter.path} is of architecture {header.architecture}, which {loads}; "
            f"the engine is {engine.kind} ({engine.line} llama.cpp).",
            "Use a drafter converted for this engine (dflash for mainline and newer builds), or another engine "
            "with BONSAI_LLAMA_SERVER.",
        )
    problem = misfit(resolved.target.header, header)
    if problem:
        raise PlanRefused(
            f"The drafter {drafter.path} does not fit the target {resolved.target.path}: {problem}",
            "Use the drafter that was trained for this target, or set BONSAI_SPECULATIVE=0.",
        )
    if DSPARK not in engine.spec_types:
        return _plain_after_all(f"this llama-server ({engine.version}) cannot do {DSPARK}")
    length, length_why = _asked_length(settings, resolved)
    return Speculation(Method(DSPARK, length), f"asked by {source}", with_drafter=True, length_why=length_why)


def _plain_after_all(short: str, why: str = "") -> Speculation:
    return Speculation(PLAIN, why or short, warnings=(f"Running without speculation: {short}.",))


def _asked_length(settings: Settings, resolved: Resolved) -> tuple[int, str]:
    asked = settings.spec_nmax.value
    size = resolved.drafter.header.block_size if resolved.drafter else None
    if size is None:
        raise PlanRefused("The drafter's file names no block size.", "It is damaged or of an unknown kind.")
    if asked is not None and asked > size:
        raise PlanRefused(
            f"{settings.spec_nmax.source} asks for drafts of {asked} tokens, but the drafter's block holds {size}.",
            f"Set it to a number from 1 to {size}, or leave it out.",
        )
    if asked is not None and asked != size and resolved.engine.line == "prism-legacy":
        raise PlanRefused(
            f"{settings.spec_nmax.source} asks for drafts of {asked} tokens, but this engine (the frozen Prism "
            f"build) ends itself unless they are as long as the drafter's block ({size}).",
            f"Set it to {size}, or leave it out.",
        )
    if asked is None:
        return size, _BLOCK_SIZE.format(size)
    return asked, f"asked by {settings.spec_nmax.source} (the drafter's block size is {size})"


def default_pair(settings: Settings, resolved: Resolved) -> tuple[Method, Method]:
    """Plain, and what BONSAI_SPECULATIVE=1 would run; where that would be plain too or is refused, the
    first other method that can be had. Raises PlanRefused when there is none."""
    try:
        asked = planned(settings.with_speculative(True, "the race"), resolved, None).method
    except PlanRefused:
        asked = PLAIN
    if asked != PLAIN:
        return PLAIN, asked
    found = [offer.method for offer in offered(resolved)[1:] if offer.why_not is None]
    if not found:
        raise PlanRefused(
            "There is nothing to race against plain decoding: this engine cannot speculate with these files.",
            "Give a drafter with BONSAI_DRAFTER, or another engine with BONSAI_LLAMA_SERVER.",
        )
    best = [method for method in found if method.spec_type == DSPARK][-1:]
    best += [method for method in found if method.draft_max == DEFAULT_LENGTH]
    return PLAIN, (best or found)[0]


def named(text: str, settings: Settings, resolved: Resolved) -> Method:
    """The method that a person means by ``text``: "plain", "dspark", "dspark:2", "draft-simple 4", "ngram-mod".

    Without a length: the one asked for by BONSAI_SPEC_NMAX, else the drafter's block size or the engine's
    default. Raises BadInput for a name that no method has.
    """
    word, _, length = text.strip().lower().replace(":", " ").partition(" ")
    known = {"plain": "none", "none": "none", "simple": "draft-simple"}
    offers = offered(resolved)
    for offer in offers:
        known[offer.method.spec_type] = offer.method.spec_type
        known[offer.method.spec_type.removeprefix("draft-")] = offer.method.spec_type
    if word not in known or (length.strip() and not length.strip().isdecimal()):
        usable = sorted({offer.method.name.split(" ")[0] for offer in offers if offer.why_not is None})
        raise BadInput(f"{text!r} is no method.", f"Give one of {', '.join(usable)}, as in dspark:2.")
    spec_type = known[word]
    method = Method(spec_type, int(length) if length.strip() else None)
    if method.drafter_needed and method.draft_max is None:
        size = resolved.drafter.header.block_size if resolved.drafter and spec_type == DSPARK else None
        return Method(spec_type, settings.spec_nmax.value or size or DEFAULT_LENGTH)
    if method.draft_max is not None and not method.drafter_needed:
        raise BadInput(f"{word} has no draft length to choose.", f"Give it as {word} alone.")
    return method
