"""What the headers of the ternary 27B and its drafter say, and machines to fit them into."""

from __future__ import annotations

from dataclasses import replace

from launcher.hardware.model import Gpu, Machine
from tests.plans import TARGET

GIB = 2**30
VOCABULARY = 248_320
# Hybrid: every fourth of 64 layers is attention; 64 KiB of f16 cache a token.
TERNARY_27B = replace(
    TARGET,
    path="Ternary-Bonsai-27B-Q2_0.gguf",
    file_bytes=7_165_121_600,
    architecture="qwen35",
    name="Ternary Bonsai 27B",
    layers=64,
    hidden_size=5120,
    context_length=262_144,
    head_count=24,
    head_count_kv=4,
    key_length=256,
    value_length=256,
    vocab_size=VOCABULARY,
    vocab_fingerprint=None,
    metadata={"qwen35.full_attention_interval": 4, "qwen35.feed_forward_length": 17_408},
)
DSPARK_27B = replace(
    TARGET,
    path="Ternary-Bonsai-27B-dspark-Q4_1.gguf",
    file_bytes=1_946_393_568,
    architecture="dspark",
    layers=6,
    hidden_size=5120,
    head_count=40,
    head_count_kv=4,
    key_length=128,
    value_length=128,
    vocab_size=VOCABULARY,
    vocab_fingerprint=None,
    block_size=4,
    target_layers=(1, 16, 31, 46, 61),
    metadata={"dspark.feed_forward_length": 17_408},
)


def machine(ram: float, *gpus: Gpu, free: float | None = None, system: str = "Linux") -> Machine:
    """A machine with ``ram`` GiB, of which ``free`` (else all but two) are free."""
    left = ram - 2 if free is None else free
    return Machine(
        system, "x86_64", "a processor", 8, 16, round(ram * GIB), round(left * GIB), gpus=tuple(gpus)
    )


def card(gib: float, backend: str = "cuda") -> Gpu:
    """A card of ``gib`` GiB with all but half a GiB free."""
    return Gpu(
        "nvidia",
        f"{gib} GiB card",
        backend,
        total_bytes=round(gib * GIB),
        free_bytes=round((gib - 0.5) * GIB),
    )
