"""Pure: how much memory llama-server takes for a target and its drafter, from their headers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from launcher.gguf_header import GgufHeader

F16 = 2.0  # bytes a value of the KV cache
Q4_0 = 18 / 32  # blocks of 32 values in 18 bytes
F32 = 4
BATCH = 2048  # llama-server's own -b
MICRO_BATCH = 512  # and -ub: tokens that are computed at once
# Architectures that mix attention with recurrent layers, every fourth being attention unless the header says else.
_EVERY_FOURTH = ("qwen35", "qwen35moe", "qwen3next")
_DRAFT_LENGTH = 4  # where the drafter names no block size


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
        """All of it, in bytes."""
        return self.weights + self.drafter + self.cache + self.compute


def estimate(
    target: GgufHeader, drafter: GgufHeader | None, context: int, *, kv4: bool = False, batch: int = BATCH
) -> Need | None:
    """What one llama-server with one slot takes at ``context`` tokens; None where a header does not tell.

    ``kv4``: the target's cache in q4_0 (a drafter's stays f16); ``batch``: tokens handed over at once (-b).
    Within 10 % of what llama-server b11434 reports for the practice pair in every size (benchmarks/memory.py).
    Weights count once and in full. Where the processor computes, their file is mapped and may be paged out again,
    also when llama.cpp has made a copy in another order (Q4_0 and the K types; not Q2_0).
    """
    per_token = kv_bytes_per_token(target, Q4_0 if kv4 else F16)
    buffers = compute_bytes(target, context, batch)
    if not target.file_bytes or per_token is None or buffers is None:
        return None
    copies, drafting = 1, 0
    if drafter is not None:
        length = drafter.block_size or _DRAFT_LENGTH
        copies += length
        own = kv_bytes_per_token(drafter)
        own_buffers = compute_bytes(drafter, context, batch)
        if not drafter.file_bytes or own is None or own_buffers is None:
            return None
        drafting = drafter.file_bytes + round(own * context) + own_buffers
        # What the drafter reads of the target: one row of F32 a token and layer, kept for a whole batch.
        drafting += len(drafter.target_layers) * (target.hidden_size or 0) * min(batch, context) * F32
    cache = round(per_token * context) + recurrent_bytes(target) * copies
    return Need(target.file_bytes, drafting, cache, buffers)


def kv_bytes_per_token(header: GgufHeader, value_bytes: float = F16) -> float | None:
    """Bytes of KV cache for one token: K and V of every attention layer, ``value_bytes`` a value.

    In hybrid models only some layers are attention: every n-th (``full_attention_interval``), or those with
    heads where the header gives the heads of each layer. None where the header lacks a size.
    """
    heads, layers = header.head_count_kv, header.layers
    key, value = header.key_length, header.value_length
    if key is None and header.hidden_size and header.head_count:
        key = header.hidden_size // header.head_count  # llama.cpp's own default
    value = key if value is None else value
    if not heads or not layers or not key or not value:
        return None
    all_heads = sum(header.kv_heads_by_layer) or heads * (layers - sum(_recurrent(header)))
    return all_heads * (key + value) * value_bytes


def recurrent_bytes(header: GgufHeader) -> int:
    """State of all recurrent layers for one sequence; 0 without such layers and where the header lacks a size.

    A convolution's window and a state matrix a layer, both in F32 (llama.cpp: ``n_embd_r``, ``n_embd_s``).
    Drafting keeps one more copy for each token of the draft, to go back to.
    """
    sizes = [
        _number(header, f"ssm.{name}") for name in ("inner_size", "state_size", "group_count", "conv_kernel")
    ]
    if any(size is None for size in sizes):
        return 0
    inner, state, groups, window = (size or 0 for size in sizes)
    row = max(window - 1, 0) * (inner + 2 * groups * state) + state * inner
    return row * F32 * sum(_recurrent(header))


def compute_bytes(header: GgufHeader, context: int, batch: int = BATCH) -> int | None:
    """Buffers for the values between the layers; None where the header lacks the hidden size.

    The largest moment counts: in the feed-forward part three rows as wide as its inner layer lie there beside
    five as wide as the hidden one (two for a drafter), at the end the logits. Each for all tokens of a
    micro-batch, in F32; besides them the attention mask, micro-batch times context in F16. Measured with
    llama-server b11434 at widths of 2 to 16 times the hidden size; logits of the whole micro-batch are what
    earlier builds keep, later ones keep fewer.
    """
    hidden = header.hidden_size
    if not hidden:
        return None
    inner = _number(header, "feed_forward_length") or 4 * hidden
    experts = (_number(header, "expert_used_count") or 0) * (
        _number(header, "expert_feed_forward_length") or 0
    )
    inner = max(inner, experts)
    tokens = min(batch, MICRO_BATCH, context)
    mask = 2 * context
    logits = (header.vocab_size or 0) + hidden
    if header.is_drafter:  # its feature rows and its attention lie there at different moments
        a_token = max(F32 * (3 * inner + 2 * hidden), F32 * 4 * hidden + mask, F32 * logits + mask)
    else:
        a_token = max(F32 * (3 * inner + 5 * hidden), F32 * logits) + mask
    return tokens * a_token


def _recurrent(header: GgufHeader) -> Iterator[bool]:
    """For each layer whether it is recurrent, as llama.cpp finds it."""
    layers = header.layers or 0
    if header.kv_heads_by_layer:
        yield from (not heads for heads in header.kv_heads_by_layer)
        return
    named = header.metadata.get(f"{header.architecture}.attention.recurrent_layers")
    if isinstance(named, tuple) and len(named) == layers:
        yield from (bool(it) for it in named)
        return
    every = _number(header, "full_attention_interval") or (4 if header.architecture in _EVERY_FOURTH else 1)
    whole = layers - (_number(header, "nextn_predict_layers") or 0)  # prediction heads are attention
    yield from (layer < whole and (layer + 1) % every != 0 for layer in range(layers))


def _number(header: GgufHeader, key: str) -> int | None:
    """A count of the header; where it differs by layer, the largest."""
    value = header.metadata.get(f"{header.architecture}.{key}")
    if isinstance(value, tuple):
        value = max((it for it in value if isinstance(it, int)), default=None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
