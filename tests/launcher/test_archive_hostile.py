"""Archives that are bombs, are damaged, or hold what is no file."""

from __future__ import annotations

import gzip
import stat
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.archive import unpack
from launcher.archive_read import Limits
from launcher.errors import ArchiveError
from tests.launcher.archive_bytes import member, refused, tar, zipped

# -- things that are no files ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE, b"Z"]
)
def test_devices_and_their_like(tmp_path: Path, kind: bytes) -> None:
    refused(
        tar(tmp_path / "a.tgz", member("good"), member("dev", type=kind)), tmp_path / "out", "no file|damaged"
    )


@pytest.mark.parametrize("kind", [stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK])
def test_devices_in_zips(tmp_path: Path, kind: int) -> None:
    refused(
        zipped(tmp_path / "a.zip", ("good", b"", 0), ("dev", b"", kind | 0o644)), tmp_path / "out", "no file"
    )


# -- bombs ----------------------------------------------------------------------------------------------------


def test_more_bytes_than_allowed(tmp_path: Path) -> None:
    few = Limits(bytes=1000)
    refused(
        tar(tmp_path / "a.tgz", member("a", bytes(600)), member("b", bytes(600))),
        tmp_path / "o",
        "more than 1 kB",
        few,
    )
    refused(
        zipped(tmp_path / "a.zip", ("a", bytes(600), 0), ("b", bytes(600), 0)),
        tmp_path / "o",
        "more than 1 kB",
        few,
    )


def test_a_size_that_is_only_claimed(tmp_path: Path) -> None:
    info, _ = member("huge")
    info.size = 1 << 60
    path = tmp_path / "a.tgz"
    path.write_bytes(gzip.compress(info.tobuf() + bytes(1024)))
    refused(path, tmp_path / "out", "GB")


@pytest.mark.parametrize("suffix", ["tgz", "zip"])
def test_a_bomb_by_its_ratio(tmp_path: Path, suffix: str) -> None:
    limits = Limits(ratio=60, ratio_from=1 << 20)
    zeros = bytes(4 << 20)
    path = tmp_path / f"a.{suffix}"
    archive = tar(path, member("a", zeros)) if suffix == "tgz" else zipped(path, ("a", zeros, 0))
    refused(archive, tmp_path / "out", "60 times", limits)
    unpack(archive, tmp_path / "out")  # a small archive may well hold zeros


def test_too_many_entries(tmp_path: Path) -> None:
    archive = tar(tmp_path / "a.tgz", *(member(f"f{n}") for n in range(12)))
    refused(archive, tmp_path / "out", "more than 10 entries", Limits(entries=10))


def test_headers_that_would_fill_the_memory(tmp_path: Path) -> None:
    """A tar's long names and attributes are read at once, before anybody sees their size."""
    for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE):
        info, _ = member("h", type=kind)
        info.size = 300 << 20
        path = tmp_path / "a.tgz"
        path.write_bytes(gzip.compress(member("ok")[0].tobuf() + info.tobuf() + bytes(4 << 20), 1))
        refused(path, tmp_path / "out", "impossible size")


def test_headers_that_lead_to_headers(tmp_path: Path) -> None:
    info, data = member("h", b"9 path=x\n", type=tarfile.XHDTYPE)
    path = tmp_path / "a.tgz"
    path.write_bytes(gzip.compress((info.tobuf() + data.ljust(512, b"\x00")) * 5000))
    refused(path, tmp_path / "out", "recursion|damaged")


def test_a_zip_whose_list_is_too_long(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a.zip", ("a", b"x", 0))
    data = bytearray(archive.read_bytes())
    struct.pack_into("<I", data, data.rfind(b"PK\x05\x06") + 12, 1 << 30)
    archive.write_bytes(bytes(data))
    refused(archive, tmp_path / "out", "too long")


# -- damage ---------------------------------------------------------------------------------------------------


def noise(size: int) -> bytes:
    return b"".join(i.to_bytes(4, "big") for i in range(size // 4))


@pytest.mark.parametrize(
    "make", [lambda p: tar(p, member("a", noise(9000))), lambda p: zipped(p, ("a", noise(9000), 0))]
)
def test_cut_anywhere(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    whole = make(tmp_path / "whole").read_bytes()
    archive = tmp_path / "cut"
    for size in [*range(0, 64, 7), *range(64, len(whole), max(1, len(whole) // 25)), len(whole) - 1]:
        archive.write_bytes(whole[:size])
        refused(archive, tmp_path / "out", "cannot be unpacked")


@pytest.mark.parametrize(
    "make", [lambda p: tar(p, member("a", noise(3000))), lambda p: zipped(p, ("a", noise(3000), 0))]
)
def test_a_changed_byte_is_noticed_or_harmless(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    whole = make(tmp_path / "whole").read_bytes()
    archive = tmp_path / "changed"
    for at in range(0, len(whole), max(1, len(whole) // 60)):
        archive.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        folder = tmp_path / f"out{at}"
        try:
            unpack(archive, folder)
        except ArchiveError:
            assert not folder.exists()
        else:
            assert [path.read_bytes() for path in folder.rglob("*") if path.is_file()] == [noise(3000)]


def test_a_tar_without_its_end(tmp_path: Path) -> None:
    data = gzip.decompress(tar(tmp_path / "a.tgz", member("a", noise(1024)), member("b", b"b")).read_bytes())
    path = tmp_path / "b.tgz"
    path.write_bytes(gzip.compress(data[:1536]))  # after the first entry
    refused(path, tmp_path / "out", "too early")
    path.write_bytes(gzip.compress(data[:1536] + b"\x01" * 512 + data[1536:]))  # a header of nonsense
    refused(path, tmp_path / "out", "too early")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "neither"),
        (b"<!DOCTYPE html><html>Sign in</html>", "web page"),
        (b"GGUF....", "neither"),
        (gzip.compress(b"", mtime=0), "cannot be unpacked"),
        (gzip.compress(bytes(10240), mtime=0), "empty"),
        (b"PK\x05\x06" + bytes(18), "empty"),
    ],
)
def test_no_archive_at_all(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(data)
    refused(path, tmp_path / "out", why)


def test_an_encrypted_zip(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a.zip", ("a", b"x", 0))
    data = bytearray(archive.read_bytes())
    data[data.find(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(bytes(data))
    refused(archive, tmp_path / "out", "encrypted")


@given(st.binary(max_size=600))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rubbish_gives_only_our_errors(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.bin"
    for start in (b"", b"PK\x03\x04"):
        path.write_bytes(start + data)
        with pytest.raises(ArchiveError):
            unpack(path, tmp_path / "out")
    path.write_bytes(gzip.compress(data, 1))
    with pytest.raises(ArchiveError):
        unpack(path, tmp_path / "out")
