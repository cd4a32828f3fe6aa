"""GGUF files built byte by byte, so that tests can make wrong ones."""

from __future__ import annotations

import struct
from collections.abc import Sequence

U8, I32, U32, F32, BOOL, STR, ARR, U64, F64 = 0, 5, 4, 6, 7, 8, 9, 10, 12
FORMS = {U8: "<B", I32: "<i", U32: "<I", F32: "<f", BOOL: "<?", U64: "<Q", F64: "<d"}


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def value_bytes(kind: int, value: object) -> bytes:
    if kind == STR:
        assert isinstance(value, str | bytes)
        return text(value)
    return struct.pack(FORMS[kind], value)


def entry(key: str, kind: int, value: object) -> bytes:
    return text(key) + struct.pack("<I", kind) + value_bytes(kind, value)


def array(key: str, kind: int, values: list[object], count: int | None = None) -> bytes:
    head = text(key) + struct.pack("<IIQ", ARR, kind, len(values) if count is None else count)
    return head + b"".join(value_bytes(kind, value) for value in values)


def tensor(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    return (
        text(name)
        + struct.pack("<I", len(shape))
        + b"".join(struct.pack("<Q", n) for n in shape)
        + struct.pack("<IQ", kind, offset)
    )


def gguf(
    entries: list[bytes],
    tensors: Sequence[bytes] = (),
    data: int = 0,
    version: int = 3,
    pad: int = 32,
) -> bytes:
    body = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries))
    body += b"".join(entries) + b"".join(tensors)
    return body + bytes(-len(body) % pad) + bytes(data)


ARCH = entry("general.architecture", STR, "qwen3")
TOKENS = ["<unk>", "hello", "▁wörld"]


def small_model(tensors: list[bytes] | None = None, data: int = 2 * 4 * 4 + 34) -> bytes:
    return gguf(
        [
            ARCH,
            entry("general.name", STR, "A small model"),
            entry("qwen3.block_count", U32, 2),
            entry("qwen3.embedding_length", U32, 64),
            entry("qwen3.context_length", U32, 4096),
            entry("qwen3.attention.head_count", U32, 8),
            entry("qwen3.attention.head_count_kv", U32, 4),
            entry("qwen3.attention.key_length", U32, 16),
            entry("qwen3.attention.value_length", U32, 16),
            entry("qwen3.rope.freq_base", F32, 10000.0),
            entry("tokenizer.ggml.add_bos_token", BOOL, True),
            entry("tokenizer.chat_template", STR, "{{ messages }}"),
            array("tokenizer.ggml.tokens", STR, list(TOKENS)),
            array("tokenizer.ggml.scores", F32, [0.0] * 3),
        ],
        [tensor("a", (4, 2), 0, 0), tensor("b", (32,), 8, 32)] if tensors is None else tensors,
        data,
    )
