"""Pure: Settings + Machine + Resolved -> LaunchPlan, with a reason for every part of the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from launcher.choose_builds import seen_by
from launcher.devices import backend_of, differences
from launcher.errors import PlanRefused
from launcher.fit import ALL_LAYERS, DEFAULT_CONTEXT, PROCESSOR_BATCH, Fit, fit
from launcher.hardware.model import Gpu, Machine
from launcher.methods import DRAFT_ON, DRAFT_P_MIN, DSPARK, PLAIN, Method, Speculation, offered, planned
from launcher.need import BATCH
from launcher.resolved import Resolved
from launcher.settings import Settings

__all__ = ["ALL_LAYERS", "DEFAULT_CONTEXT", "LaunchPlan", "Reason", "make_plan"]

# The public demo's sampling for 27B. A request that names its own values overrides them.
SAMPLING = (("--temp", "0.7"), ("--top-p", "0.95"), ("--top-k", "20"), ("--min-p", "0"))
FEW_CORES = 2
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Reason:
    """``part`` is the piece of the command line (or "target", "engine", ...); ``why`` a sentence."""

    part: str
    why: str


@dataclass(frozen=True)
class LaunchPlan:
    """The exact llama-server command line and why. Plans that start the same server compare equal.

    ``argv`` includes the program; host and port stand at its end. ``env`` holds only what differs
    from the launcher's own environment. ``context`` is in tokens. ``method``: how it drafts, as it stands on
    the command line. ``fit``: what it needs of memory, and against what; free memory changes, so plans do not
    compare it.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(hash=False)
    resolved: Resolved
    host: str
    port: int
    port_asked: bool
    context: int
    method: Method
    speculation_requested: bool
    speculation_why: str = field(compare=False)
    reasons: tuple[Reason, ...] = field(compare=False)
    warnings: tuple[str, ...] = field(compare=False)
    fit: Fit | None = field(default=None, compare=False)

    @property
    def spec_type(self) -> str:
        """The method's kind by llama-server's name ("draft-dspark", ...) or "none"."""
        return self.method.spec_type

    @property
    def draft_max(self) -> int | None:
        """The method's draft length in tokens; None where the engine's own default holds."""
        return self.method.draft_max

    @property
    def speculation(self) -> str:
        """The whole method in people's words, "none" where nothing is drafted."""
        return "none" if self.method == PLAIN else self.method.name

    def command(self, port: int, *extra: str) -> list[str]:
        """The argv with another port and more arguments (alias and key of a run)."""
        return [*self.argv[:-1], str(port), *extra]


def make_plan(
    settings: Settings,
    machine: Machine,
    resolved: Resolved,
    method: Method | None = None,
    *,
    source: str = "",
) -> LaunchPlan:
    """The plan that the settings ask for; with ``method`` the same one with exactly that way to draft.

    Plans that differ by their method alone have the same batch, threads, context and slots, so their speeds can
    be compared; they take any free port, since two of them may run at once. ``source``: where ``method`` comes
    from, for a plan that is to run alone and has the port that was asked for. Raises PlanRefused for parts that
    cannot work together and for values that the model does not allow.
    """
    engine, target = resolved.engine, resolved.target
    if target.header.is_drafter:
        raise PlanRefused(
            f"{target.path} is a drafter (architecture {target.header.architecture}), not a model to chat with.",
            "Give the target's file as BONSAI_MODEL and this one as BONSAI_DRAFTER.",
        )
    speculation = planned(settings, resolved, method, source)
    on_processor = _on_processor(resolved, machine)
    batch = PROCESSOR_BATCH if on_processor else BATCH
    found = _fit(
        settings, machine, resolved, batch, with_drafter=_counts_drafter(speculation, resolved, method)
    )
    context, layers = found.context, found.layers

    parts: list[tuple[str, ...]] = []
    reasons = [Reason("engine", engine.why or f"{engine.kind} engine, version {engine.version}")]
    # That of the weights stands with -m, below.
    reasons += [Reason(part, why) for part, why in resolved.reasons if part not in ("engine", "weights")]

    def add(why: str, *argv: str) -> None:
        parts.append(argv)
        reasons.append(Reason(" ".join(argv), why))

    add(_target_why(settings, resolved), "-m", target.path)
    for why, *argv in _drafting(speculation, resolved, layers):
        add(why, *argv)
    if speculation.method.spec_type == "none":
        reasons.append(Reason("no drafter", speculation.why))
        if engine.can("--spec-type"):
            add("said aloud: a config.ini of llama.cpp could switch speculation on", "--spec-type", "none")
    add(found.layers_why, "-ngl", str(layers))
    add("flash attention: less memory and faster", "-fa", "on")
    add(found.context_why, "-c", str(context))
    add("one request at a time, so that it has the whole context (speculation needs it)", "-np", "1")
    if on_processor:
        # Measured on a prompt of 1,508 tokens: Stop took 3.5 s at the default 2,048, 0.3 s at 256.
        add("small steps through the prompt: Stop takes effect between them", "-b", str(batch))
    if resolved.practice and machine.cores is not None and machine.cores <= FEW_CORES:
        # Measured on two cores with a page streaming beside it: 18 % slower at two threads, 1 % at one;
        # next to a busy program two threads that wait for each other fall to a hundredth.
        add("one core for the engine, one for the page; the practice pair is small", "-t", "1")
    if settings.kv4.value:
        add(f"{settings.kv4.source}: KV cache in 4 bits", "-ctk", "q4_0", "-ctv", "q4_0")
    for flag, value in SAMPLING:
        add("default sampling of the 27B; a request's own values win", flag, value)
    if engine.can("--metrics"):
        add("acceptance by position in the block can be read", "--metrics")
    if settings.host.value in LOOPBACK and engine.can("--cors-origins"):
        add("keeps other web sites from reading answers", "--cors-origins", "localhost")
    add(f"address ({settings.host.source})", "--host", settings.host.value)
    add(f"port ({settings.port.source})", "--port", str(settings.port.value))

    return LaunchPlan(
        argv=(*engine.program, *(word for part in parts for word in part)),
        env={},
        resolved=resolved,
        host=settings.host.value,
        port=settings.port.value,
        port_asked=settings.port.asked and (method is None or bool(source)),
        context=context,
        method=speculation.method,
        speculation_requested=settings.speculative.value if method is None else method.spec_type != "none",
        speculation_why=speculation.why,
        reasons=tuple(reasons),
        warnings=tuple(dict.fromkeys(_warnings(settings, machine, resolved, speculation, found))),
        fit=found,
    )


def _drafting(speculation: Speculation, resolved: Resolved, layers: int) -> Iterator[tuple[str, ...]]:
    """The pieces of the command line that make it draft, each after its reason."""
    method = speculation.method
    spec_type, length = method.spec_type, method.draft_max
    if speculation.with_drafter and resolved.drafter is not None:
        dspark = DSPARK in method.types
        why = "drafter trained for exactly this target" if dspark else "the file that drafts"
        yield why, "-md", resolved.drafter.path
    if spec_type != "none":
        yield speculation.why, "--spec-type", spec_type
    if length is not None:
        yield speculation.length_why, "--spec-draft-n-max", str(length)
    if method.p_min is not None:
        yield "a draft ends before a token that is less probable", DRAFT_P_MIN, f"{method.p_min:g}"
    if speculation.with_drafter and method.draft_on is not None:
        yield "the drafter stays on the processor, as was chosen", *DRAFT_ON[method.draft_on]
    elif speculation.with_drafter:
        yield "the drafter goes where the target goes", "-ngld", str(layers)


def _target_why(settings: Settings, resolved: Resolved) -> str:
    if resolved.practice:
        asked = (
            f"asked by {settings.model.source}"
            if settings.model.asked
            else "while nothing else is on this machine"
        )
        return f"the practice target, {asked}; it is not a language model"
    chosen = dict(resolved.reasons).get("weights")
    return chosen or f"asked by {settings.model.source}"


def _on_processor(resolved: Resolved, machine: Machine) -> bool:
    """Whether the engine is known to compute on the processor."""
    engine = resolved.engine
    if engine.kind == "fetched" or engine.devices is not None:
        return backend_of(engine, machine) == "cpu"
    return engine.kind in ("embedded", "built") and machine.system != "Darwin"  # these have no GPU there


def _counts_drafter(speculation: Speculation, resolved: Resolved, method: Method | None) -> bool:
    """Whether memory is counted with the drafter: where it is loaded, and for plans of a comparison as soon as
    one of its sides may load it, so that both have the same context."""
    if method is None or speculation.with_drafter:
        return speculation.with_drafter
    return any(offer.method.drafter_needed and offer.why_not is None for offer in offered(resolved))


def _fit(settings: Settings, machine: Machine, resolved: Resolved, batch: int, *, with_drafter: bool) -> Fit:
    engine = resolved.engine
    backend = backend_of(engine, machine)
    if engine.devices and not any(gpu.unified for gpu in machine.gpus):  # the engine's word counts
        listed = tuple(
            Gpu(
                "other",
                device.description,
                device.backend,
                total_bytes=device.total_bytes,
                free_bytes=device.free_bytes,
            )
            for device in engine.devices
        )
        machine = replace(machine, gpus=listed)
    else:
        machine = seen_by(machine, backend)
    drafter = resolved.drafter.header if resolved.drafter and with_drafter else None
    return fit(settings, machine, backend, resolved.target.header, drafter, batch)


def _warnings(
    settings: Settings, machine: Machine, resolved: Resolved, speculation: Speculation, found: Fit
) -> Iterator[str]:
    """What is to be said aloud of a plan, the same thing once only."""
    if resolved.stands_in_for:
        yield f"{resolved.stands_in_for} is not on this machine yet: the practice pair runs meanwhile."
    yield from settings.notices
    # The choice's notice about memory has the figures that the fit's own notes say again.
    yield from (it for it in resolved.notices if not (found.notes and it.endswith(found.says)))
    if not any(resolved.drafter_why in notice for notice in resolved.notices):
        yield from speculation.warnings
    yield from found.notes
    yield from differences(resolved.engine, machine)
