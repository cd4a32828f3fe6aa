"""Pure: whether a target and its drafter fit into a machine's memory, with which context and how many layers on
the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from launcher.errors import PlanRefused
from launcher.gguf_header import GgufHeader
from launcher.hardware.model import BACKENDS, Gpu, Machine
from launcher.need import BATCH, Need, estimate
from launcher.settings import Settings

__all__ = ["ALL_LAYERS", "DEFAULT_CONTEXT", "Fit", "Need", "Room", "fit", "room_of"]

# The public demo's context: the 27B may think 2,000 tokens before it answers.
DEFAULT_CONTEXT = 16384
TIERS = (DEFAULT_CONTEXT, 8192, 4096)
ALL_LAYERS = 999
GIB = 2**30
# Kept free on each GPU: the driver's context (300 to 400 MB with CUDA) and what a screen takes.
GPU_HEADROOM = GIB // 2
# And on each further GPU: llama.cpp has compute buffers on every one of them, and splits by whole layers.
FURTHER_GPU_HEADROOM = GIB
# Kept free in RAM: the engine's own code and heap, the launcher, the browser.
RAM_HEADROOM = GIB
# macOS lets the GPU use about three quarters; a cautious share where its cap could not be read.
METAL_SHARE = 0.7
PROCESSOR_BATCH = 256  # the plan's -b where the processor computes


@dataclass(frozen=True)
class Fit:
    """``verdict``: "gpu" (all on the GPU), "partly" (some layers), "ram" (processor, or a GPU that shares its
    memory), "no", or "unknown" (a size is not known). ``layers``: for -ngl; ``context``: in tokens. ``room``:
    bytes of memory that the decision was made against. ``says``: one sentence with the figures, for people.
    ``notes``: to be said aloud (less context, partial offload, a cap).
    """

    verdict: str
    context: int
    context_why: str
    layers: int
    layers_why: str
    need: Need | None
    room: int | None
    says: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Room:
    """Memory to compute in. ``bytes``: free ones, None when not known, of which ``kept`` stay free. ``where``
    completes "… GiB": "free on the GPU". ``shared``: it is a part of RAM. ``note``: to be said when it is short.
    """

    bytes: int | None
    kept: int
    where: str
    shared: bool = False
    note: str = ""

    @property
    def usable(self) -> int | None:
        """Bytes that may be taken; None when not known."""
        return None if self.bytes is None else max(0, self.bytes - self.kept)


def room_of(machine: Machine, backend: str) -> Room:
    """The memory that an engine has which computes with ``backend``; several GPUs of it count together."""
    gpus = [gpu for gpu in machine.gpus if gpu.backend == backend]
    if backend == "cpu":
        return Room(machine.ram_free_bytes, RAM_HEADROOM, "free in RAM")
    if backend == "metal":
        return _of_metal(machine, gpus)
    if not gpus:
        return Room(None, GPU_HEADROOM, f"on {BACKENDS.get(backend, backend)} GPUs")
    own = [gpu for gpu in gpus if not gpu.unified]
    if not own:
        where = "free memory, which the GPU shares with the processor"
        return Room(machine.ram_free_bytes, RAM_HEADROOM, where, True)
    free = [gpu.free_bytes for gpu in own]
    known = [count for count in free if count is not None]
    where = "free on the GPU" if len(own) == 1 else f"free on {len(own)} GPUs together"
    return Room(
        sum(known) if len(known) == len(free) else None,
        GPU_HEADROOM + FURTHER_GPU_HEADROOM * (len(own) - 1),
        where,
    )


def _of_metal(machine: Machine, gpus: list[Gpu]) -> Room:
    cap = gpus[0].total_bytes if gpus else None
    if cap is not None:
        note = f"macOS lets the GPU use at most {_gib(cap)} GiB of this machine's memory."
        return Room(cap, GPU_HEADROOM, "that macOS lets the GPU use", True, note)
    if machine.ram_bytes is None:
        return Room(None, GPU_HEADROOM, "that macOS lets the GPU use", True)
    cap = round(machine.ram_bytes * METAL_SHARE)
    note = f"How much macOS lets the GPU use is not known; {METAL_SHARE:.0%} of its memory is counted on."
    return Room(cap, GPU_HEADROOM, "taken as the GPU's share of RAM", True, note)


def fit(
    settings: Settings,
    machine: Machine,
    backend: str,
    target: GgufHeader,
    drafter: GgufHeader | None,
    batch: int | None = None,
) -> Fit:
    """``backend``: what the engine computes with ("cpu", "cuda", "metal", "rocm", "vulkan"); ``batch``: its -b, where
    it is not the one usual there. Values that a person asked for (context, layers) stay as they are; what they
    lead to is said. Raises PlanRefused for a context that the model does not hold.

    Where it does not fit: less context first (unless asked for), then fewer layers on the GPU (unless asked for).
    """
    return _Fitting(settings, machine, backend, target, drafter, batch).run()


@dataclass(frozen=True)
class _Try:
    """One context and one number of layers: how its bytes lie, and whether they fit. ``tight``: into RAM as a
    whole, but only when other programs give up what they hold or parts of the mapped file are read again."""

    context: int
    layers: int
    need: Need
    fits: bool
    tight: bool = False


class _Fitting:
    def __init__(
        self,
        settings: Settings,
        machine: Machine,
        backend: str,
        target: GgufHeader,
        drafter: GgufHeader | None,
        batch: int | None,
    ) -> None:
        self.settings, self.machine, self.target, self.drafter = settings, machine, target, drafter
        asked = settings.ngl.value
        self.on_processor = backend == "cpu" or asked == 0
        # Engines there may have Metal in them, which crashes or computes nonsense.
        self.never_gpu = (machine.system, machine.arch) == ("Darwin", "x86_64")
        self.batch = batch or (PROCESSOR_BATCH if backend == "cpu" else BATCH)
        self.room = room_of(machine, "cpu" if self.on_processor else backend)
        self.contexts = self._contexts()

    def run(self) -> Fit:
        """The largest context with all layers, else fewer layers, else with memory that is tight; else verdict "no"."""
        asked = self.settings.ngl.value
        layers = asked if asked is not None else 0 if self.never_gpu else ALL_LAYERS
        need = self._need(self.contexts[0])
        if need is None or self.room.usable is None:
            return self._unknown(need, layers)
        tries = [self._try(context, layers) for context in self.contexts]
        for one in tries:
            if one.fits and not one.tight:
                return self._found(one)
        fewer = self._fewer_layers(self.contexts[-1])
        if fewer is not None and not fewer.tight:
            return self._found(fewer)
        for one in (*tries[-1:], *((fewer,) if fewer else ())):
            if one.fits:
                return self._found(one)
        return self._no(tries[-1])

    # -- what may be tried

    def _contexts(self) -> list[int]:
        """The one asked for; else the largest that the model and the launcher allow, and the smaller tiers."""
        ctx, trained = self.settings.ctx, self.target.context_length
        if ctx.value and trained and ctx.value > trained:
            raise PlanRefused(
                f"{ctx.source} asks for a context of {ctx.value} tokens, but the model holds at most {trained}.",
                f"Set it to {trained} or less, or to 0 for automatic.",
            )
        if ctx.value:
            return [ctx.value]
        top = min(DEFAULT_CONTEXT, trained or DEFAULT_CONTEXT)
        return [top, *(tier for tier in TIERS if tier < top)]

    def _need(self, context: int) -> Need | None:
        kv4 = self.settings.kv4.value
        return estimate(self.target, self.drafter, context, kv4=kv4, batch=self.batch)

    def _split(self, need: Need, layers: int) -> tuple[int, int]:
        """(on the GPU, in RAM). Weights and cache lie with their layers, drafter and buffers on the GPU."""
        if self.on_processor:
            return 0, need.total
        whole = self.target.layers or 1
        share = min(layers, whole) / whole
        with_layers = round((need.weights + need.cache) * share)
        return with_layers + need.drafter + need.compute, need.weights + need.cache - with_layers

    def _try(self, context: int, layers: int) -> _Try:
        need = self._need(context)
        assert need is not None  # noqa: S101 -- run() has asked for one; they are known or not together
        usable = self.room.usable or 0
        on_gpu, in_ram = self._split(need, layers)
        if on_gpu > usable and not self.on_processor:
            return _Try(context, layers, need, fits=False)
        if not in_ram:
            return _Try(context, layers, need, fits=True)
        free, total = self.machine.ram_free_bytes, self.machine.ram_bytes
        taken = on_gpu if self.room.shared else 0
        if free is None or in_ram + taken + RAM_HEADROOM <= free:
            return _Try(context, layers, need, fits=True)
        # The weights are mapped: they need not be in free memory all at once, but in the machine's they must be.
        mapped = min(need.weights, in_ram)
        tight = (
            total is not None
            and in_ram + taken + RAM_HEADROOM <= total
            and in_ram - mapped + taken + RAM_HEADROOM <= free
        )
        return _Try(context, layers, need, fits=tight, tight=tight)

    def _fewer_layers(self, context: int) -> _Try | None:
        """As many layers on the GPU as fit there; None where the number was asked for or none fits."""
        whole = self.target.layers
        if self.on_processor or self.settings.ngl.value is not None or not whole:
            return None
        need, usable = self._need(context), self.room.usable
        if need is None or usable is None:
            return None
        left = usable - need.drafter - need.compute
        layers = min(whole, int(left / ((need.weights + need.cache) / whole)))
        found = self._try(context, layers) if layers > 0 else None
        return found if found is not None and found.fits else None

    # -- what is said

    def _found(self, one: _Try) -> Fit:
        whole = self.target.layers or 1
        partly = not self.on_processor and one.layers < whole
        verdict = (
            "partly" if partly else "ram" if self.on_processor or (self.room.shared and not partly) else "gpu"
        )
        notes = [*self._less_context(one)]
        if partly and self.settings.ngl.value is None:
            notes.append(
                f"Only {one.layers} of {whole} layers fit on the GPU; the rest is computed by the processor, which is "
                "much slower."
            )
        if one.tight:
            notes.append(
                f"Memory is tight: it needs {_gib(self._in_ram(one))} GiB of RAM and {_gib(self.machine.ram_free_bytes)} "
                "GiB are free. It starts, but may be slow; close other programs."
            )
        if self.room.note and (notes or self.room.note.startswith("How")):
            notes.append(self.room.note)
        return self._fit(one, verdict, self._figures(one), notes)

    def _less_context(self, one: _Try) -> Iterator[str]:
        if one.context < self.contexts[0]:
            yield (
                f"The context is {one.context} tokens instead of {self.contexts[0]}: more does not fit into "
                f"{self._place()}."
            )

    def _no(self, one: _Try) -> Fit:
        says = self._figures(one, short=True)
        if not self.on_processor and not self.room.shared and self.settings.ngl.value is None:
            says += f" RAM ({_gib(self.machine.ram_free_bytes)} GiB free) does not hold the rest either."
        notes = [f"It does not fit: {says[0].lower()}{says[1:]}"]
        if self.room.note:
            notes.append(self.room.note)
        return self._fit(one, "no", says, notes)

    def _unknown(self, need: Need | None, layers: int) -> Fit:
        if need is None:
            says = "How much memory it needs is not known: its header does not tell all sizes."
        else:
            says = f"Needs {_gib(need.total)} GiB ({_parts(need)}); how much memory there is for it is not known."
        one = _Try(self.contexts[0], layers, need or Need(0, 0, 0, 0), fits=True)
        return replace(self._fit(one, "unknown", says, []), need=need, room=self.room.usable)

    def _fit(self, one: _Try, verdict: str, says: str, notes: list[str]) -> Fit:
        return Fit(
            verdict=verdict,
            context=one.context,
            context_why=self._context_why(one),
            layers=one.layers,
            layers_why=self._layers_why(verdict),
            need=one.need,
            room=self.room.usable,
            says=says,
            notes=tuple(notes),
        )

    def _context_why(self, one: _Try) -> str:
        trained = self.target.context_length
        if self.settings.ctx.value:
            return f"asked by {self.settings.ctx.source}"
        if one.context < self.contexts[0]:
            return f"as much as fits into {self._place()}"
        if trained and trained < DEFAULT_CONTEXT:
            return f"the most this model was trained for ({trained} tokens)"
        return "roomy: the model may think 2,000 tokens before it answers"

    def _layers_why(self, verdict: str) -> str:
        if self.settings.ngl.value is not None:
            return f"asked by {self.settings.ngl.source}"
        if self.never_gpu:
            return "none on a GPU: Metal is unreliable on Macs with an Intel processor"
        if verdict == "partly":
            return f"as many of the {self.target.layers} layers as fit on the GPU"
        if verdict == "gpu" or (verdict == "ram" and not self.on_processor):
            return "all layers on the GPU: they fit"
        if verdict == "no" and not self.on_processor:
            return "all layers on the GPU, although they do not fit"
        return "all layers on the GPU; without a GPU the engine uses the processor"

    def _place(self) -> str:
        return "memory" if self.on_processor or self.room.shared else "the GPU's memory"

    def _in_ram(self, one: _Try) -> int:
        return self._split(one.need, one.layers)[1]

    def _figures(self, one: _Try, *, short: bool = False) -> str:
        """What is needed of what; ``short``: more than may be used."""
        on_gpu, in_ram = self._split(one.need, one.layers)
        here, room = (one.need.total if self.on_processor else on_gpu), self.room
        kept = f"; {_gib(room.kept)} stays free"
        if short and here > (room.usable or 0):
            text = f"Needs {_gib(here)} GiB, but of {_gib(room.bytes)} GiB {room.where} only {_gib(room.usable)} may be used"
            kept = ""
        else:
            text = f"Needs {_gib(here)} GiB of {_gib(room.bytes)} GiB {room.where}"
        if in_ram and not self.on_processor:
            text += f" and {_gib(in_ram)} GiB of {_gib(self.machine.ram_free_bytes)} GiB free in RAM"
        return f"{text} ({_parts(one.need)}{kept})."


def _parts(need: Need) -> str:
    parts = [f"weights {_gib(need.weights)}"]
    if need.drafter:
        parts.append(f"drafter {_gib(need.drafter)}")
    return ", ".join([*parts, f"cache {_gib(need.cache)}", f"buffers {_gib(need.compute)}"])


def _gib(count: int | None) -> str:
    return "an unknown number of" if count is None else f"{count / GIB:.1f}"
