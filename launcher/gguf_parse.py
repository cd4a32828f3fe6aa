"""Walks the bytes of a GGUF file up to the tensor data; launcher.gguf_header says what they mean.

The layout is that of the GGUF specification, versions 2 and 3, little endian: magic, version, tensor
count, entry count, the entries, the tensor infos, padding to ``general.alignment``, tensor data.
The file is taken as hostile: every count and length is held against the bytes that are there before
anything is allowed to depend on it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from operator import length_hint
from pathlib import Path
from typing import BinaryIO, NoReturn

from launcher.errors import GgufError

_MAGIC = b"GGUF"
_STRING, _ARRAY, _BOOL = 8, 9, 7
# GGUF value type -> struct format, all little endian.
_SCALARS = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: struct.Struct("<I"),
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    _BOOL: struct.Struct("<?"),
    10: struct.Struct("<Q"),
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")

# ggml type id -> (values per block, bytes per block). An id that is missing here is allowed: then only the
# tensor's offset is checked. Id 42 (Q2_0) has two layouts, 34 bytes for 128 values or 18 for 64; the
# smaller per value is used, as a lower bound.
BLOCKS = {
    **dict.fromkeys((24,), (1, 1)),  # I8
    **dict.fromkeys((1, 25, 30), (1, 2)),  # F16, I16, BF16
    **dict.fromkeys((0, 26), (1, 4)),  # F32, I32
    **dict.fromkeys((27, 28), (1, 8)),  # I64, F64
    **dict.fromkeys((2, 20), (32, 18)),  # Q4_0, IQ4_NL
    **{3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40)},  # Q4_1, Q5_0, Q5_1, Q8_0, Q8_1
    **{10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176)},  # Q2_K to Q5_K
    **{14: (256, 210), 15: (256, 292)},  # Q6_K, Q8_K
    **{16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50)},  # IQ2_XXS, IQ2_XS, IQ3_XXS, IQ1_S
    **{21: (256, 110), 22: (256, 82), 23: (256, 136), 29: (256, 56)},  # IQ3_S, IQ2_S, IQ4_XS, IQ1_M
    **{34: (256, 54), 35: (256, 66)},  # TQ1_0, TQ2_0
    **{39: (32, 17), 40: (64, 36), 41: (128, 18), 42: (128, 34)},  # MXFP4, NVFP4, Q1_0, Q2_0
}

# Far above any real model (250,000 tokens, 2,000 tensors), low enough to end quickly on nonsense.
_HEADER_LIMIT = 256 << 20
_MAX_ENTRIES = 65_536
_MAX_TENSORS = 65_536
_MAX_STRINGS = 4_000_000
_MAX_NAME = 65_535
_MAX_TEXT = 4 << 20
_MAX_DIMS = 4
_KEPT_ARRAY = 1_024
_READ_STEP = 1 << 20

_AGAIN = "Fetch or copy the file again."
_OTHER = "Choose a GGUF model file."


@dataclass(frozen=True)
class TensorInfo:
    """One tensor's entry. ``shape`` in ggml order (fastest first); ``type_id`` may be unknown to us."""

    name: str
    shape: tuple[int, ...]
    type_id: int
    offset: int


@dataclass(frozen=True)
class Parsed:
    """What stands in a file. ``metadata`` lacks arrays of more than 1,024 elements; ``vocab`` is the number
    of tokens and the sha256 (hex) of their list as it lies in the file; ``data_offset`` is in bytes."""

    version: int
    metadata: Mapping[str, object]
    tensors: tuple[TensorInfo, ...]
    vocab: tuple[int, str] | None
    data_offset: int


def parse(path: Path, file: BinaryIO, size: int) -> Parsed:
    """Parse ``file``, ``size`` bytes long, open at its start. ``path`` only serves messages.

    Raises GgufError for everything that is not a whole GGUF. Reads 256 MiB at most.
    """
    return _Parser(path, file, size).run()


class _Parser:
    """Walks one file. ``_at`` is the position of the next byte, ``_buffer`` what was read so far."""

    def __init__(self, path: Path, file: BinaryIO, size: int) -> None:
        self._path = path
        self._file = file
        self._size = size
        self._buffer = bytearray()
        self._at = 0
        self._strings = 0
        self._vocab: tuple[int, str] | None = None

    def run(self) -> Parsed:
        """Everything up to the tensors' data. Raises GgufError."""
        version = self._preamble()
        tensor_count, entry_count = self._u64("tensor count"), self._u64("entry count")
        # An entry is at least a key length, a type and one byte; a tensor info its fixed fields.
        self._plausible("metadata entries", entry_count, _MAX_ENTRIES, 13)
        self._plausible("tensors", tensor_count, _MAX_TENSORS, 24)
        metadata: dict[str, object] = {}
        for _ in range(entry_count):
            key = self._text("a metadata key", _MAX_NAME)
            if key in metadata:
                self._malformed(f"the metadata key {key!r} stands in it twice")
            metadata[key] = self._value(key, self._u32(f"the type of {key!r}"))
        tensors = tuple(self._tensor() for _ in range(tensor_count))
        data_offset = self._check_data(metadata, tensors)
        kept = {key: value for key, value in metadata.items() if value is not None}
        return Parsed(version, kept, tensors, self._vocab, data_offset)

    # -- pieces of the file, in order

    def _preamble(self) -> int:
        if self._size == 0:
            raise GgufError(f"The model file {self._path} is empty.", _AGAIN)
        start = self._peek(256)
        if start[:4] != _MAGIC:
            self._foreign(start)
        self._at = 4
        version = self._u32("version")
        if version in (2, 3):
            return version
        if version in (2 << 24, 3 << 24):
            raise GgufError(
                f"The model file {self._path} is a big-endian GGUF, made for other processors.",
                "Choose the ordinary, little-endian file.",
            )
        raise GgufError(
            f"The model file {self._path} has GGUF version {version}; versions 2 and 3 are known.",
            "Choose a file in the present format.",
        )

    def _value(self, key: str, kind: int) -> object:
        """One metadata value; None stands for an array too long to keep."""
        if kind == _STRING:
            return self._text(f"the value of {key!r}", _MAX_TEXT)
        if kind != _ARRAY:
            return self._scalar(key, kind)
        inner, count = self._u32(f"the type of {key!r}"), self._u64(f"the length of {key!r}")
        if inner == _STRING:
            return self._string_array(key, count)
        form = _SCALARS.get(inner)
        if form is None:
            self._malformed(f"the array {key!r} has the unknown type {inner}")
        begin = self._at
        self._skip(count * form.size, f"the array {key!r}")
        if count > _KEPT_ARRAY:
            return None
        return tuple(form.unpack_from(self._buffer, begin + i * form.size)[0] for i in range(count))

    def _scalar(self, key: str, kind: int) -> object:
        form = _SCALARS.get(kind)
        if form is None:
            self._malformed(f"the metadata key {key!r} has the unknown type {kind}")
        self._skip(form.size, f"the value of {key!r}")
        value: object = form.unpack_from(self._buffer, self._at - form.size)[0]
        return value

    def _string_array(self, key: str, count: int) -> object:
        self._strings += count
        self._plausible(f"strings in {key!r}", count, _MAX_STRINGS, 8)
        if self._strings > _MAX_STRINGS:
            self._malformed("its metadata holds more strings than any model has")
        begin = self._at
        self._walk_strings(count, f"the array {key!r}")
        if key == "tokenizer.ggml.tokens":
            with memoryview(self._buffer) as view:
                self._vocab = (count, hashlib.sha256(view[begin : self._at]).hexdigest())
            return None
        if count > _KEPT_ARRAY or self._at - begin > _MAX_TEXT:
            return None
        self._at = begin
        return tuple(self._text(f"the array {key!r}", _MAX_TEXT) for _ in range(count))

    def _walk_strings(self, count: int, where: str) -> None:
        """Step over ``count`` strings without making one of them."""
        unpack, at, left = _U64.unpack_from, self._at, count
        while left:
            buffer = self._buffer
            ahead = iter(range(left))
            try:
                for _ in ahead:
                    at += 8 + unpack(buffer, at)[0]
                left = 0
            except (struct.error, OverflowError):  # past the end of the buffer: that one again
                left = length_hint(ahead) + 1
                self._fill(at + 8, where)
        self._at = at
        self._fill(at, where)

    def _tensor(self) -> TensorInfo:
        name = self._text("a tensor's name", _MAX_NAME)
        dims = self._u32(f"the dimensions of tensor {name!r}")
        if dims > _MAX_DIMS:
            self._malformed(f"tensor {name!r} has {dims} dimensions")
        shape = tuple(self._u64(f"the shape of tensor {name!r}") for _ in range(dims))
        kind = self._u32(f"the type of tensor {name!r}")
        return TensorInfo(name, shape, kind, self._u64(f"the offset of tensor {name!r}"))

    def _check_data(self, metadata: Mapping[str, object], tensors: tuple[TensorInfo, ...]) -> int:
        """Where tensor data begins; refuses a file that ends before its last tensor does."""
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
            self._malformed(f"its alignment is {alignment!r}")
        begin = -(-self._at // alignment) * alignment
        names: set[str] = set()
        needed = 0
        for tensor in tensors:
            if tensor.name in names:
                self._malformed(f"tensor {tensor.name!r} stands in it twice")
            names.add(tensor.name)
            values = 1
            for length in tensor.shape:
                values *= length
            block = BLOCKS.get(tensor.type_id)
            needed = max(needed, begin + tensor.offset + (values // block[0] * block[1] if block else 0))
        if needed > self._size:
            raise GgufError(
                f"The model file {self._path} is truncated: its tensors need {needed:,} bytes, "
                f"but it holds {self._size:,}.",
                _AGAIN,
            )
        return begin

    # -- bytes

    def _peek(self, count: int) -> bytes:
        end = min(self._at + count, self._size)
        self._fill(end, "its start")
        return bytes(self._buffer[self._at : end])

    def _fill(self, end: int, where: str) -> None:
        """Have the bytes up to ``end`` in the buffer."""
        if end <= len(self._buffer):
            return
        if end > self._size:
            raise GgufError(
                f"The model file {self._path} is truncated or damaged: it ends within {where}.", _AGAIN
            )
        if end > _HEADER_LIMIT:
            self._malformed(f"its header passes {_HEADER_LIMIT >> 20} MiB within {where}")
        while len(self._buffer) < end:
            # In doubling steps: most headers are short, and a vocabulary is some megabytes.
            step = max(_READ_STEP, len(self._buffer), end - len(self._buffer))
            more = self._file.read(min(step, self._size - len(self._buffer)))
            if not more:
                raise GgufError(f"The model file {self._path} shrank while it was read.", _AGAIN)
            self._buffer += more

    def _skip(self, count: int, where: str) -> None:
        self._fill(self._at + count, where)
        self._at += count

    def _u32(self, where: str) -> int:
        self._skip(4, where)
        value: int = _U32.unpack_from(self._buffer, self._at - 4)[0]
        return value

    def _u64(self, where: str) -> int:
        self._skip(8, where)
        value: int = _U64.unpack_from(self._buffer, self._at - 8)[0]
        return value

    def _text(self, where: str, limit: int) -> str:
        length = self._u64(where)
        if length > limit and self._at + length <= self._size:
            self._malformed(f"{where} is {length:,} bytes long")
        self._skip(length, where)
        return self._buffer[self._at - length : self._at].decode("utf-8", "replace")

    # -- refusals

    def _plausible(self, what: str, count: int, limit: int, least: int) -> None:
        if count > limit or count * least > self._size - self._at:
            self._malformed(f"it claims {count:,} {what}")

    def _malformed(self, why: str) -> NoReturn:
        raise GgufError(f"The model file {self._path} is damaged: {why}.", _AGAIN)

    def _foreign(self, start: bytes) -> NoReturn:
        """Say what the file is instead, as far as its first bytes tell."""
        head = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
        if head.startswith(b"version https://git-lfs.github.com/spec/"):
            raise GgufError(
                f"{self._path} is a git-LFS pointer, not the model file it stands for.",
                "Fetch the file itself, for example with `git lfs pull`.",
            )
        if head.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
            raise GgufError(
                f"{self._path} is a web page saved under a model's name, not a GGUF file.",
                "Fetch the file again; the page itself may say why it came instead.",
            )
        if start[:4] in (b"ggml", b"lmgg", b"fmgg", b"tjgg", b"algg"):
            raise GgufError(
                f"{self._path} is a model in the old GGML format, not a GGUF file.",
                "Choose a file in the present format.",
            )
        if len(start) < 4 and _MAGIC.startswith(start):
            raise GgufError(f"The model file {self._path} is truncated: it holds {len(start)} bytes.", _AGAIN)
        shown = start[:4].decode("ascii", "replace")
        raise GgufError(
            f"{self._path} is not a GGUF file: it begins with {shown!r} instead of 'GGUF'.", _OTHER
        )
