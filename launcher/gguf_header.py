"""Reads the header of a GGUF file: metadata and tensor infos, never the weights."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from launcher.errors import GgufError
from launcher.gguf_formats import formats_of, thinks
from launcher.gguf_parse import Parsed, TensorInfo, parse

__all__ = ["GgufHeader", "TensorInfo", "read_header"]


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
    head_count_kv: int | None  # where it differs by layer: the largest, see kv_heads_by_layer
    key_length: int | None
    value_length: int | None
    vocab_size: int | None
    vocab_fingerprint: str | None  # sha256 of the token list, hex
    chat_template: str | None = field(repr=False)
    block_size: int | None  # DSpark / DFlash drafters: tokens drafted at once
    target_layers: tuple[int, ...]  # DSpark / DFlash drafters: layers of the target they read
    metadata: Mapping[str, object] = field(repr=False, compare=False)  # scalars, strings, short arrays
    tensors: tuple[TensorInfo, ...] = field(repr=False, compare=False)
    kv_heads_by_layer: tuple[int, ...] = ()  # hybrid models give one number a layer; else empty
    data_offset: int = 0  # where tensor data begins, in bytes from the start of the file
    formats: frozenset[str] = frozenset()  # of catalog.FORMATS, as far as they are known
    unknown_types: frozenset[int] = frozenset()  # ids of tensor types that none of these formats covers
    thinking: bool | None = None  # whether the chat template knows of thinking; None without one

    @property
    def is_drafter(self) -> bool:
        """Whether the file is a drafter by architecture (dflash or dspark), not a model of its own."""
        return self.architecture in ("dflash", "dspark")


def read_header(path: Path) -> GgufHeader:
    """Read ``path``; raises GgufError with one clear sentence for anything that is not a whole GGUF.

    Reads at most 256 MiB, in steps, however large the file; a vocabulary of 250,000 tokens takes
    about a tenth of a second.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            what = "is a folder" if stat.S_ISDIR(found.st_mode) else "is no regular file"
            raise GgufError(f"{path} {what}, not a model file.", "Choose a GGUF model file.")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return _summary(path, size, parse(path, file, size))
    except FileNotFoundError:
        raise GgufError(f"The model file {path} does not exist.", "Check the path, or fetch it.") from None
    except PermissionError:
        raise GgufError(
            f"The model file {path} may not be read by this user.", "Change its permissions."
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        raise GgufError(
            f"The model file {path} cannot be read: {error}.", "Fetch or copy the file again."
        ) from None


def _summary(path: Path, size: int, parsed: Parsed) -> GgufHeader:
    metadata, vocab = parsed.metadata, parsed.vocab
    arch = metadata.get("general.architecture")
    if not isinstance(arch, str) or not arch:
        raise GgufError(
            f"The model file {path} is damaged: it names no architecture.", "Fetch or copy the file again."
        )

    def text(key: str) -> str | None:
        value = metadata.get(key)
        return value if isinstance(value, str) else None

    def number(key: str) -> int | None:
        return _whole(metadata.get(f"{arch}.{key}"))

    by_layer = _whole_tuple(metadata.get(f"{arch}.attention.head_count_kv"))
    heads = number("attention.head_count") or max(
        _whole_tuple(metadata.get(f"{arch}.attention.head_count")), default=None
    )
    formats, unknown = formats_of(parsed.tensors, metadata, size - parsed.data_offset)
    return GgufHeader(
        path=str(path),
        file_bytes=size,
        version=parsed.version,
        architecture=arch,
        name=text("general.name"),
        layers=number("block_count"),
        hidden_size=number("embedding_length"),
        context_length=number("context_length"),
        head_count=heads,
        head_count_kv=number("attention.head_count_kv") or max(by_layer, default=None),
        key_length=number("attention.key_length"),
        value_length=number("attention.value_length"),
        vocab_size=vocab[0] if vocab else number("vocab_size"),
        vocab_fingerprint=vocab[1] if vocab else None,
        chat_template=text("tokenizer.chat_template"),
        block_size=_whole(_of_drafter(metadata, arch, ("block_size",))),
        target_layers=_whole_tuple(_of_drafter(metadata, arch, ("target_layers", "target_layer_ids"))),
        metadata=metadata,
        tensors=parsed.tensors,
        kv_heads_by_layer=by_layer,
        data_offset=parsed.data_offset,
        formats=formats,
        unknown_types=unknown,
        thinking=thinks(text("tokenizer.chat_template")),
    )


def _whole(value: object) -> int | None:
    """``value`` as a count, or None when it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _whole_tuple(value: object) -> tuple[int, ...]:
    if not isinstance(value, tuple):
        return ()
    return tuple(item for item in value if isinstance(item, int) and not isinstance(item, bool))


def _of_drafter(metadata: Mapping[str, object], arch: str, names: tuple[str, ...]) -> object:
    """A drafter's value under the spellings in use: ``<arch>.<name>``, and ``<arch>.<arch>.<name>``
    as the published Bonsai drafters have it."""
    for name in names:
        for key in (f"{arch}.{name}", f"{arch}.{arch}.{name}", f"dflash.{name}", f"dspark.{name}"):
            if key in metadata:
                return metadata[key]
    return None
