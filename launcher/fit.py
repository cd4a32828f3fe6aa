"""Pure: whether a target and its drafter fit into a machine's memory, with which context and how many layers on
the GPU."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.gguf_header import GgufHeader
from launcher.hardware.model import Machine
from launcher.settings import Settings


@dataclass(frozen=True)
class Need:
    """Bytes: ``weights`` of the target, ``drafter`` (weights, cache and buffers), KV ``cache`` of the target
    (recurrent state included), ``compute`` buffers."""

    weights: int
    drafter: int
    cache: int
    compute: int

    @property
    def total(self) -> int:
        return self.weights + self.drafter + self.cache + self.compute


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


def fit(
    settings: Settings, machine: Machine, backend: str, target: GgufHeader, drafter: GgufHeader | None
) -> Fit:
    """``backend``: what the engine computes with ("cpu", "cuda", "metal", "rocm", "vulkan"). Values that a person
    asked for (context, layers) stay as they are; what they lead to is said. Raises PlanRefused for a context
    that the model does not hold."""
    raise NotImplementedError
