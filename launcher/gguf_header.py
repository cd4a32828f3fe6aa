"""Reads the header of a GGUF file: metadata and tensor infos, never the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class TensorInfo:
    """One tensor's entry. ``shape`` in ggml order (fastest first); ``type_id`` may be unknown to us."""

    name: str
    shape: tuple[int, ...]
    type_id: int
    offset: int


@dataclass(frozen=True)
class GgufHeader:
    """What a launch needs to know of a model file. Absent values are None, never a guess."""

    path: str
    file_bytes: int
    version: int
    architecture: str
    name: str | None
    layers: int | None
    hidden_size: int | None
    context_length: int | None
    head_count: int | None
    head_count_kv: int | None
    key_length: int | None
    value_length: int | None
    vocab_size: int | None
    vocab_fingerprint: str | None  # sha256 of the token list, hex
    chat_template: str | None
    block_size: int | None  # DSpark / DFlash drafters: tokens drafted at once
    target_layers: tuple[int, ...]  # DSpark / DFlash drafters: layers of the target they read
    metadata: Mapping[str, object] = field(repr=False, compare=False)  # scalars, strings, short arrays
    tensors: tuple[TensorInfo, ...] = field(repr=False, compare=False)

    @property
    def is_drafter(self) -> bool:
        """Whether the file is a drafter by architecture (dflash or dspark), not a model of its own."""
        return self.architecture in ("dflash", "dspark")


def read_header(path: Path) -> GgufHeader:
    """Read ``path``; raises GgufError with one clear sentence for anything that is not a whole GGUF."""
    raise NotImplementedError
