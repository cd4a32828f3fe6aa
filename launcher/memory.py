"""Pure: what a planned engine needs of memory, and whether it fits beside one that is loaded."""

from __future__ import annotations

from launcher.hardware.model import Machine
from launcher.need import BATCH, estimate
from launcher.plan import LaunchPlan

MARGIN = 2**30  # for the engine itself and the rest of the machine
# Engines that compute on the processor everywhere but on Macs.
_ON_PROCESSOR = ("embedded", "built")


def needed_bytes(plan: LaunchPlan) -> int | None:
    """Weights, drafter, KV cache and buffers of ``plan``, without the margin; None where a header does not tell.

    The weights are counted in full although two servers share a mapped file on the processor: that it stays
    mapped is not for us to promise.
    """
    batch = int(plan.argv[plan.argv.index("-b") + 1]) if "-b" in plan.argv else BATCH
    drafter = plan.resolved.drafter if "-md" in plan.argv else None
    need = estimate(
        plan.resolved.target.header,
        drafter.header if drafter else None,
        plan.context,
        kv4="q4_0" in plan.argv,
        batch=batch,
    )
    return None if need is None else need.total


def may_keep(wanted: LaunchPlan, machine: Machine) -> bool:
    """Whether engines that are loaded may stay while ``wanted`` is started for a measurement.

    ``machine`` as it is now, with what is loaded. On the processor: when it fits into the free memory with a
    margin. On the only CUDA GPU: when it fits into the GPU's free memory and into the machine's, since nobody has
    asked the engine yet which of the two it takes. On other GPUs: for the practice pair only, which fits everywhere.
    """
    if wanted.resolved.engine.kind in _ON_PROCESSOR and machine.system != "Darwin":
        return _fits(wanted, machine.ram_free_bytes)
    cuda = [gpu for gpu in machine.gpus if gpu.backend == "cuda"]
    if wanted.resolved.practice or len(cuda) != 1:
        return wanted.resolved.practice
    return _fits(wanted, cuda[0].free_bytes) and _fits(wanted, machine.ram_free_bytes)


def _fits(wanted: LaunchPlan, free_bytes: int | None) -> bool:
    needed = needed_bytes(wanted)
    return needed is not None and free_bytes is not None and needed + MARGIN <= free_bytes
