"""Pure: what an engine says it computes with (``--list-devices``), against what the probes of this machine saw."""

from __future__ import annotations

import re

from launcher.hardware.model import BACKENDS, Machine
from launcher.resolved import Device, Engine

# As ggml's backends call their devices.
_BACKEND_OF = {
    "CUDA": "cuda",
    "MTL": "metal",
    "Metal": "metal",
    "ROCm": "rocm",
    "HIP": "rocm",
    "Vulkan": "vulkan",
}
# Not GPUs: matrix libraries and the processor itself.
_NO_GPU = ("BLAS", "Accelerate", "CPU", "ZenDNN")
_LINE = re.compile(r"^  (\S+): (.*) \((\d+) MiB, (\d+) MiB free\)\s*$", re.MULTILINE)


def parse_devices(text: str) -> tuple[Device, ...] | None:
    """The GPUs in the output of ``--list-devices``; empty when it lists none, None when ``text`` is no such list."""
    _, heading, listed = text.partition("Available devices:")
    if not heading:
        return None
    found = []
    for name, description, total, free in _LINE.findall(listed):
        kind = re.sub(r"\d+$", "", name)
        if kind not in _NO_GPU:
            backend = _BACKEND_OF.get(kind, kind.lower())
            found.append(Device(name, description, backend, int(total) * 2**20, int(free) * 2**20))
    return tuple(found)


def backend_of(engine: Engine, machine: Machine) -> str:
    """What the engine computes with: its own word first; where it was not asked, the build's, else the machine's.

    The embedded engine and one built here have no GPU code, except on Macs.
    """
    if engine.devices is not None:
        return engine.devices[0].backend if engine.devices else "cpu"
    if engine.backend is not None:
        return engine.backend
    if engine.kind in ("embedded", "built"):
        return "metal" if machine.system == "Darwin" and machine.arch == "arm64" else "cpu"
    return machine.gpus[0].backend if machine.gpus else "cpu"


def differences(engine: Engine, machine: Machine) -> tuple[str, ...]:
    """What the engine sees otherwise than the probes, as sentences to be said aloud."""
    if engine.devices is None:
        return ()
    seen = [gpu for gpu in machine.gpus if not gpu.integrated]
    if not engine.devices and engine.backend not in (None, "cpu") and seen:
        build = BACKENDS.get(engine.backend or "", "")
        return (
            f"This machine has {seen[0].name}, but the engine ({build} build) sees no GPU: it will use the processor. "
            "Its driver or a library it needs may be missing, or a variable hides the GPU.",
        )
    if engine.devices and not machine.gpus:
        listed = ", ".join(device.description for device in engine.devices)
        return (f"No GPU was found here, but the engine uses {listed}: its word counts.",)
    same = [gpu for gpu in seen if gpu.backend == engine.devices[0].backend] if engine.devices else []
    if engine.devices and len(same) > len(engine.devices):
        return (f"This machine has {len(same)} GPUs, but the engine uses {len(engine.devices)} of them.",)
    return ()
