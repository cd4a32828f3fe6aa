"""What is known of this machine. Unknown is None, never a guess. Pure."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from launcher.amounts import gib
from launcher.errors import BadInput
from launcher.plain_values import UnfitError, from_plain, to_plain

BACKENDS = {"cuda": "CUDA", "metal": "Metal", "rocm": "ROCm", "vulkan": "Vulkan"}


@dataclass(frozen=True)
class Gpu:
    """One GPU that an engine could use. Memory in bytes.

    ``vendor``: nvidia, amd, apple, intel, or "other". ``backend``: a key of BACKENDS. ``driver`` is the driver's
    version; ``runtime`` the newest CUDA version that the driver names (a hint, often absent; a GPU without it is
    still CUDA). ``compute_capability``: "8.6", or AMD's "gfx1100". ``integrated``: shares chip and memory with
    the processor; ``unified``: its memory is the machine's own, so the two must not be added up. ``index``
    is the place in its tool's list. ``note`` is a sentence to say aloud, or empty.
    """

    vendor: str
    name: str
    backend: str
    driver: str | None = None
    runtime: str | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    compute_capability: str | None = None
    integrated: bool = False
    unified: bool = False
    index: int = 0
    note: str = ""

    def describe(self) -> str:
        """One line for people: name, backend, driver, memory."""
        parts = [BACKENDS.get(self.backend, self.backend) + (f" {self.runtime}" if self.runtime else "")]
        if self.driver:
            parts.append(f"driver {self.driver}")
        if self.total_bytes is None:
            parts.append("memory unknown")
        else:
            parts.append(f"{gib(self.total_bytes)}{' of the shared memory' if self.unified else ''}")
        if self.free_bytes is not None:
            parts.append(f"{gib(self.free_bytes)} free")
        if self.compute_capability:
            amd = self.compute_capability.startswith("gfx")
            parts.append(self.compute_capability if amd else f"compute capability {self.compute_capability}")
        if self.integrated:
            parts.append("integrated")
        return f"{self.name} ({', '.join(parts)})"


@dataclass(frozen=True)
class Machine:
    """Memory in bytes. ``arch`` is the machine's own, also where this process runs translated.

    ``gpus``: each card once, with the best way to use it; empty means none was found. ``cpu_features``: names
    such as avx2, fma, neon; None where the system does not tell. ``wsl``: Linux inside Windows. ``rosetta``: this
    process runs as x86_64 on Apple silicon. ``notes`` are sentences to say aloud.
    """

    system: str  # "Linux", "Darwin", "Windows"
    arch: str  # "x86_64", "arm64", ...
    cpu: str | None
    cores: int | None
    threads: int | None
    ram_bytes: int | None
    ram_free_bytes: int | None
    gpus: tuple[Gpu, ...] = ()
    cpu_features: tuple[str, ...] | None = None
    wsl: bool = False
    rosetta: bool = False
    notes: tuple[str, ...] = ()

    def gpu_bytes(self) -> tuple[int | None, int | None]:
        """(total, free) memory of all GPUs that one engine can use together: those of the first one's backend.

        None where one of them is unknown, or there is none. Memory that is the machine's own counts once,
        however many GPUs share it.
        """
        together = [gpu for gpu in self.gpus if gpu.backend == self.gpus[0].backend]
        own = [gpu for gpu in together if not gpu.unified]
        pool = [gpu for gpu in together if gpu.unified][:1]
        return _sum([gpu.total_bytes for gpu in own + pool]), _sum([gpu.free_bytes for gpu in own + pool])

    def rows(self) -> list[tuple[str, str]]:
        """(what, value) lines for people; each name occurs once. The notes are not among them."""
        surroundings = (
            " (inside WSL)" if self.wsl else " (this process through Rosetta)" if self.rosetta else ""
        )
        rows = [
            ("System", f"{self.system} on {self.arch}{surroundings}"),
            ("Processor", self.cpu or "unknown"),
            ("Cores", f"{self.cores or 'unknown'} ({self.threads or 'unknown'} threads)"),
            ("Memory", f"{_gib(self.ram_bytes)}, {_gib(self.ram_free_bytes)} free"),
        ]
        if self.cpu_features:
            rows.insert(3, ("Instructions", ", ".join(self.cpu_features)))
        for at, gpu in enumerate(self.gpus):
            rows.append(("GPU" if len(self.gpus) == 1 else f"GPU {at + 1}", gpu.describe()))
        total, free = self.gpu_bytes()
        if len(self.gpus) > 1 and total is not None:
            backend = BACKENDS.get(self.gpus[0].backend, self.gpus[0].backend)
            rows.append(("GPU memory", f"{_gib(total)} through {backend}, {_gib(free)} free"))
        if not self.gpus:
            rows.append(("GPU", "none found"))
        return rows

    def remarks(self) -> list[str]:
        """What is to be said aloud: the machine's notes, then each GPU's."""
        return [*self.notes, *(f"{gpu.name}: {gpu.note}" for gpu in self.gpus if gpu.note)]

    def to_json(self) -> dict[str, Any]:
        """Plain values for json.dumps; ``from_json`` reads them back to an equal Machine."""
        plain: dict[str, Any] = to_plain(self)
        return plain


def from_json(text: str, where: str) -> Machine:
    """The Machine in ``text``: an object as ``to_json`` makes it, or one that holds it as "machine".

    ``where`` names the text in errors. Raises BadInput with one sentence that says what is wrong.
    """
    try:
        value = json.loads(text)
        if isinstance(value, Mapping) and isinstance(value.get("machine"), Mapping):
            value = value["machine"]
        machine = from_plain(Machine, value)
        _refuse_unknown(Machine, value, "the machine")
        for at, gpu in enumerate(value.get("gpus", ())):
            _refuse_unknown(Gpu, gpu, f"gpus[{at}]")
        _refuse_nonsense(machine)
    except json.JSONDecodeError as error:
        problem = f"it is not JSON ({error.msg}, line {error.lineno})"
    except ValueError as error:  # UnfitError among them, and a number of thousands of digits
        problem = str(error)
    except RecursionError:
        problem = "it is nested too deeply"
    else:
        return machine
    raise BadInput(
        f"{where} describes no machine: {problem}.",
        '`bonsai plan --json` writes a right one under "machine".',
    )


def _refuse_unknown(kind: type[Any], value: object, what: str) -> None:
    """Raise UnfitError for a name that ``kind`` does not have: a misspelt one would silently change nothing."""
    if isinstance(value, Mapping):
        known = [item.name for item in fields(kind)]
        for name in value:
            if name not in known:
                near = difflib.get_close_matches(str(name), known, 1)
                raise UnfitError(
                    f"{what} has no {name!r}" + (f" (did you mean {near[0]!r}?)" if near else "")
                )


def _refuse_nonsense(machine: Machine) -> None:
    """Raise UnfitError for values of the right kind that no machine has."""
    for name in ("cores", "threads", "ram_bytes", "ram_free_bytes"):
        number = getattr(machine, name)
        if number is not None and number < 0:
            raise UnfitError(f"{name} is negative")
    for at, gpu in enumerate(machine.gpus):
        if gpu.backend not in BACKENDS:
            raise UnfitError(f"gpus[{at}].backend is {gpu.backend!r}, not one of {', '.join(BACKENDS)}")
        for size in (gpu.total_bytes, gpu.free_bytes, gpu.index):
            if size is not None and size < 0:
                raise UnfitError(f"gpus[{at}] has a negative number")


def _gib(count: int | None) -> str:
    return "unknown" if count is None else gib(count)


def _sum(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None
