"""Reads the entries of tar.gz and zip archives in order, within bounds, and believes none of their numbers."""

from __future__ import annotations

import gzip
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from launcher.amounts import size
from launcher.archive_names import DIRECTORY, FILE, HARDLINK, SYMLINK

CHUNK = 1 << 20
LONGEST_HEADER = 1 << 16  # bytes that one header of a tar may take
LONGEST_TARGET = 4096  # bytes of a link's target
LARGEST_LIST = 4 << 20  # bytes of a zip's list of entries
DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    struct.error,
    RecursionError,  # headers that lead to headers
    NotImplementedError,  # a way of packing that zipfile does not know
    ValueError,
    OverflowError,
)


@dataclass(frozen=True)
class Limits:
    """What one archive may unpack to: ``entries``, ``bytes`` in all, and ``ratio`` of those to the archive's own
    size, which counts from ``ratio_from`` bytes on. The largest engine build has about 60 files and 2 GB."""

    entries: int = 20_000
    bytes: int = 16 << 30
    ratio: float = 60
    ratio_from: int = 256 << 20


@dataclass(frozen=True)
class Entry:
    """``name`` and link ``target`` as the archive has them. ``executable`` None: the archive does not say."""

    name: str
    kind: str
    size: int = 0
    executable: bool | None = None
    target: str = ""


class Budget:
    """Counts what comes out of an archive and raises ValueError when it is too much."""

    def __init__(self, limits: Limits, packed: int) -> None:
        self._limits, self._packed = limits, packed
        self._entries = self._bytes = 0

    def entry(self, size: int) -> None:
        """One more entry, which says that it has ``size`` bytes."""
        self._entries += 1
        if self._entries > self._limits.entries:
            raise ValueError(f"it holds more than {self._limits.entries} entries")
        if size < 0:
            raise ValueError("an entry has a negative size")
        self._check(self._bytes + size)

    def spend(self, count: int) -> None:
        """``count`` bytes that really came out."""
        self._bytes += count
        self._check(self._bytes)

    def _check(self, total: int) -> None:
        if total > self._limits.bytes:
            raise ValueError(f"it unpacks to more than {size(self._limits.bytes)}")
        if total > self._limits.ratio_from and total > self._packed * self._limits.ratio:
            raise ValueError(f"it unpacks to more than {self._limits.ratio:g} times its size")


def entries(archive: Path, limits: Limits) -> Iterator[tuple[Entry, Iterator[bytes]]]:
    """Each entry with its bytes, which have to be taken before the next entry is asked for.

    Raises one of DAMAGE for what is no archive, is damaged or breaks ``limits``, and OSError when it cannot be read.
    """
    packed = archive.stat().st_size
    with archive.open("rb") as file:
        start = file.read(512)
    budget = Budget(limits, packed)
    if start.startswith(b"\x1f\x8b"):
        yield from _tar(archive, budget)
    elif start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        yield from _zip(archive, budget)
    else:
        page = b"<html" in start.lower() or b"<!doctype" in start.lower()
        raise ValueError("it is a web page" if page else "it is neither a tar.gz nor a zip")


# --- tar.gz -----------------------------------------------------------------------------------------------------


class _Forward:
    """A gzip stream as tarfile wants it, which only goes forward and hands out headers of bounded size."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self.last = b""

    def tell(self) -> int:
        """Where the stream is, in bytes of what was unpacked."""
        return self._stream.tell()

    def seek(self, position: int) -> int:
        """Skip forward to ``position``; ValueError for one that lies behind."""
        if position < self._stream.tell():
            raise ValueError("its headers lead backwards")
        return self._stream.seek(position)

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes, kept in ``last``; ValueError for more than a header can have."""
        if not 0 <= size <= LONGEST_HEADER:
            raise ValueError("one of its headers has an impossible size")
        self.last = self._stream.read(size)
        return self.last

    def data(self, size: int) -> bytes:
        """The next ``size`` bytes of an entry, fewer at the end of the stream."""
        return self._stream.read(size)


def _tar(archive: Path, budget: Budget) -> Iterator[tuple[Entry, Iterator[bytes]]]:
    with gzip.open(archive) as unzipped:
        stream = _Forward(unzipped)
        # Typed as a whole file object; it asks for no more than these three methods.
        with tarfile.TarFile(fileobj=stream, errors="surrogateescape") as tar:  # type: ignore[arg-type]
            for member in tar:
                budget.entry(member.size)
                yield _tar_entry(member), _tar_bytes(stream, member, budget)
        # tarfile takes a header that makes no sense for the end.
        if not stream.last or any(stream.last):
            raise ValueError("it ends too early")
        while rest := stream.data(CHUNK):  # to the end, where gzip keeps its checksum
            budget.spend(len(rest))
            if any(rest):
                raise ValueError("something follows its end")


def _tar_entry(member: tarfile.TarInfo) -> Entry:
    if member.isdir():
        return Entry(member.name, DIRECTORY)
    if member.issym():
        return Entry(member.name, SYMLINK, target=member.linkname)
    if member.islnk():
        return Entry(member.name, HARDLINK, target=member.linkname)
    if not member.isreg() or member.issparse():
        raise ValueError(f"{member.name!r} is a device, pipe or another thing that is no file")
    return Entry(member.name, FILE, member.size, bool(member.mode & 0o111))


def _tar_bytes(stream: _Forward, member: tarfile.TarInfo, budget: Budget) -> Iterator[bytes]:
    stream.seek(member.offset_data)
    left = member.size
    while left > 0:
        chunk = stream.data(min(left, CHUNK))
        if not chunk:
            raise EOFError("it ends too early")
        left -= len(chunk)
        budget.spend(len(chunk))
        yield chunk


# --- zip --------------------------------------------------------------------------------------------------------


def _zip(archive: Path, budget: Budget) -> Iterator[tuple[Entry, Iterator[bytes]]]:
    _check_list(archive)
    with zipfile.ZipFile(archive) as packed:
        for info in packed.infolist():
            budget.entry(info.file_size)
            yield _zip_entry(packed, info), _zip_bytes(packed, info, budget)


def _check_list(archive: Path) -> None:
    """zipfile reads the whole list at once: look at its size first, in the record at the archive's end."""
    with archive.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - (22 + 0xFFFF)))
        tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) < at + 22:
        raise EOFError("it ends too early")
    if int.from_bytes(tail[at + 12 : at + 16], "little") > LARGEST_LIST:
        raise ValueError("its list of entries is too long")


def _zip_entry(packed: zipfile.ZipFile, info: zipfile.ZipInfo) -> Entry:
    name = info.orig_filename  # zipfile's own name has lost what follows a NUL
    mode = info.external_attr >> 16
    kind = stat.S_IFMT(mode)
    if info.flag_bits & 0x1:
        raise ValueError(f"{name!r} is encrypted")
    if kind == stat.S_IFLNK:
        if info.file_size > LONGEST_TARGET:
            raise ValueError(f"the link {name!r} has an impossible size")
        target = packed.read(info).decode("utf-8", "surrogateescape")
        return Entry(name, SYMLINK, target=target)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise ValueError(f"{name!r} is a device, pipe or another thing that is no file")
    if name.endswith("/"):
        return Entry(name, DIRECTORY)
    if kind == stat.S_IFDIR:
        raise ValueError(f"{name!r} is both a file and a folder")
    return Entry(name, FILE, info.file_size, bool(mode & 0o111) if kind else None)


def _zip_bytes(packed: zipfile.ZipFile, info: zipfile.ZipInfo, budget: Budget) -> Iterator[bytes]:
    had = 0
    with packed.open(info) as stream:
        while chunk := stream.read(CHUNK):
            had += len(chunk)
            budget.spend(len(chunk))
            yield chunk
    if had != info.file_size:
        raise EOFError("it ends too early")
