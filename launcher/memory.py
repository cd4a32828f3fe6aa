"""Pure: what a planned engine needs of memory, and whether it fits beside one that is loaded."""

from __future__ import annotations

from launcher.gguf_header import GgufHeader
from launcher.hardware.model import Machine
from launcher.plan import LaunchPlan

MARGIN = 2**30  # for compute buffers, the engine itself and the rest of the machine
F16 = 2.0  # bytes a value of the KV cache
Q4_0 = 18 / 32  # blocks of 32 values in 18 bytes
# Engines that compute on the processor everywhere but on Macs.
_ON_PROCESSOR = ("embedded", "built")


def needed_bytes(plan: LaunchPlan) -> int | None:
    """Weights, drafter and KV cache of ``plan``, without the margin; None where a header does not tell.

    The weights are counted in full although two servers share a mapped file on the processor: that it stays
    mapped is not for us to promise.
    """
    target = plan.resolved.target.header
    value = Q4_0 if "q4_0" in plan.argv else F16
    cache = kv_bytes_per_token(target, value)
    if cache is None:
        return None
    total = target.file_bytes + cache * plan.context
    drafter = plan.resolved.drafter
    if drafter is not None and "-md" in plan.argv:
        own = kv_bytes_per_token(drafter.header, F16)
        if own is None:
            return None
        total += drafter.header.file_bytes + own * plan.context
    return round(total)


def kv_bytes_per_token(header: GgufHeader, value_bytes: float = F16) -> float | None:
    """Bytes of KV cache for one token: K and V of every attention layer, ``value_bytes`` a value.

    In hybrid models only every n-th layer is attention (``full_attention_interval``), or the header gives the
    heads of each layer. None where the header lacks a size.
    """
    heads, layers = header.head_count_kv, header.layers
    key, value = header.key_length, header.value_length
    if key is None and header.hidden_size and header.head_count:
        key = header.hidden_size // header.head_count  # llama.cpp's own default
    value = key if value is None else value
    if not heads or not layers or not key or not value:
        return None
    interval = header.metadata.get(f"{header.architecture}.full_attention_interval")
    all_heads = sum(header.kv_heads_by_layer) or heads * layers
    if isinstance(interval, int) and interval > 1 and not header.kv_heads_by_layer:
        all_heads = heads * -(-layers // interval)
    return all_heads * (key + value) * value_bytes


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
