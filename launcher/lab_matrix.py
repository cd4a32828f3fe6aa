"""Pure: what a lab can measure with these files, this engine and this machine, and why not the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from launcher.devices import backend_of
from launcher.errors import BadInput
from launcher.hardware.model import Machine
from launcher.lab_types import P_MIN, Cell, Refused
from launcher.methods import DEFAULT_LENGTH, DRAFT_ON, DSPARK, PLAIN, Method, Offer, named, offered, why_not
from launcher.race_prompts import ALIASES, KINDS
from launcher.resolved import Resolved
from launcher.settings import Settings

# Looked up first, so that the drafter works only where nothing in the text repeats.
MIXED_IN = "ngram-mod"
NGRAMS = ("ngram-cache", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-simple")
DRAFTING = (DSPARK, "draft-simple", "draft-mtp", "draft-eagle3")
# The two that draft at once from a first repetition, in the order of what they cost.
QUICK_NGRAMS = ("ngram-mod", "ngram-simple")
QUICK_KINDS = ("code", "prose")
_ON_PROCESSOR = "This engine computes on the processor: the drafter runs there anyway."


def matrix(resolved: Resolved, machine: Machine) -> tuple[Offer, ...]:
    """Every method that a lab knows, plain first, each with what stands against it here.

    What engine and files offer to a race, then mixes of phrase table and drafter, a least probability for drafts, and
    the other places for the drafter, each at the drafter's usual length.
    """
    on_processor = backend_of(resolved.engine, machine) == "cpu"
    offers, types = list(offered(resolved)), resolved.engine.spec_types
    none = f"This llama-server ({resolved.engine.version}) does not offer it."
    offers += [Offer(Method(name), none) for name in NGRAMS if name not in types]
    for method in _variants(resolved):
        why = why_not(resolved, method)
        if why is None and method.draft_on is not None and on_processor:
            why = _ON_PROCESSOR
        offers.append(Offer(method, why))
    return tuple(offers)


def _variants(resolved: Resolved) -> Iterator[Method]:
    """Of every drafter that can be had; where there is none, of the first, to say why not."""
    every = [Method(spec_type, usual_length(resolved, spec_type)) for spec_type in DRAFTING]
    for usual in [method for method in every if why_not(resolved, method) is None] or every[:1]:
        spec_type = usual.spec_type
        yield replace(usual, spec_type=f"{MIXED_IN},{spec_type}")
        yield replace(usual, p_min=P_MIN)
        for place in DRAFT_ON:
            yield replace(usual, draft_on=place)


def usual_length(resolved: Resolved, spec_type: str) -> int:
    """The draft length to begin with: the drafter's block size, else the engine's default; in tokens."""
    size = resolved.drafter.header.block_size if resolved.drafter else None
    return size if spec_type == DSPARK and size else DEFAULT_LENGTH


def usable(offers: Sequence[Offer]) -> tuple[Method, ...]:
    """The methods that can be measured."""
    return tuple(offer.method for offer in offers if offer.why_not is None)


def refused(offers: Sequence[Offer]) -> tuple[Refused, ...]:
    """The others with their reasons; those that differ by their length alone, for one reason, are one."""
    found: dict[tuple[Method, str], Method] = {}
    for offer in offers:
        if offer.why_not is not None:
            alike = (replace(offer.method, draft_max=None), offer.why_not)
            found[alike] = alike[0] if alike in found else offer.method
    return tuple(Refused(method, why) for (_, why), method in found.items())


def quick(offers: Sequence[Offer]) -> tuple[Method, ...]:
    """A small useful part of what can be measured: plain, each length of the drafter, two phrase tables."""
    methods = usable(offers)
    drafting = next((kind for kind in DRAFTING if any(method.spec_type == kind for method in methods)), None)
    tables = [kind for kind in QUICK_NGRAMS if Method(kind) in methods]
    wanted = {"none", drafting, *tables}
    return tuple(
        method
        for method in methods
        if method.spec_type in wanted and method.p_min is None and method.draft_on is None
    )


def chosen(text: str, settings: Settings, resolved: Resolved, machine: Machine) -> tuple[Method, ...]:
    """The methods that a person means by a comma list such as "none,dspark:2,ngram-mod", plain among them always.

    A drafter's name without a length stands for every length that it has; "all" and "quick" for those sets. Mixes are
    written with a plus, "ngram-mod+dspark:4". Raises BadInput for a name that no method has, and for a method that
    cannot be had here, with the reason.
    """
    offers = matrix(resolved, machine)
    found = [PLAIN]
    for word in (part.strip().lower() for part in text.split(",")):
        if word in ("all", "quick"):
            found += usable(offers) if word == "all" else quick(offers)
        elif word:
            found += _meant(word, settings, resolved, offers)
    return tuple(dict.fromkeys(found))


def _meant(word: str, settings: Settings, resolved: Resolved, offers: Sequence[Offer]) -> list[Method]:
    parts = word.split("+")
    methods = [named(part, settings, resolved) for part in parts]
    if len(methods) == 1 and ":" not in word and " " not in word and methods[0].drafter_needed:
        lengths = [method for method in usable(offers) if method.spec_type == methods[0].spec_type]
        plain_ones = [method for method in lengths if method.p_min is None and method.draft_on is None]
        if plain_ones:
            return plain_ones
    lengths_given = [method.draft_max for method in methods if method.draft_max is not None]
    method = replace(
        methods[0],
        spec_type=",".join(method.spec_type for method in methods),
        draft_max=lengths_given[0] if lengths_given else None,
    )
    if len(methods) > 1 and any(part.spec_type == "none" for part in methods):
        raise BadInput(f"{word!r} mixes plain decoding with something.", "Leave plain out of the mix.")
    problem = why_not(resolved, method)
    if problem:
        raise BadInput(f"{method.name} cannot be measured here. {problem}", "Leave it out.")
    return [method]


def varied(
    methods: Sequence[Method],
    p_mins: Sequence[float | None],
    places: Sequence[str | None],
    resolved: Resolved,
) -> tuple[Method, ...]:
    """``methods`` with each of the given least probabilities and places; those that draft without a model, and
    combinations that cannot be had, as they are."""
    found: list[Method] = []
    for method in methods:
        found.append(method)
        for p_min in p_mins:
            for place in places:
                other = replace(method, p_min=p_min, draft_on=place)
                if method.drafter_needed and why_not(resolved, other) is None:
                    found.append(other)
    return tuple(dict.fromkeys(found))


def kinds_of(text: str) -> tuple[str, ...]:
    """The kinds in a comma list; "all" is every one. Raises BadInput for one that there is not."""
    names = [part.strip().lower() for part in text.split(",") if part.strip()]
    if "all" in names:
        return KINDS
    names = [ALIASES.get(name, name) for name in names]
    wrong = [name for name in names if name not in KINDS]
    if wrong or not names:
        raise BadInput(
            f"There is no kind of text {wrong[0]!r}." if wrong else "No kind of text was given.",
            f"Choose from {', '.join(KINDS)}, or all.",
        )
    return tuple(dict.fromkeys(names))


def cells(kinds: Sequence[str], methods: Sequence[Method], temperatures: Sequence[float]) -> tuple[Cell, ...]:
    """Every combination, the baselines among them."""
    every = tuple(dict.fromkeys([PLAIN, *methods]))
    return tuple(
        Cell(kind, method, temperature) for kind in kinds for temperature in temperatures for method in every
    )
