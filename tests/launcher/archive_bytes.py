"""Makes archives member by member, and says what has to hold when one is refused."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from launcher.archive import LIMITS, unpack
from launcher.archive_read import Limits
from launcher.errors import ArchiveError

LINK, HARD = tarfile.SYMTYPE, tarfile.LNKTYPE


def member(name: str, data: bytes = b"", **values: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    for key, value in values.items():
        setattr(info, key, value)
    return info, data


def link(name: str, target: str, kind: bytes = LINK) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=kind, linkname=target)


def tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as out:
        for info, data in members:
            out.addfile(info, io.BytesIO(data))
    return path


def zipped(path: Path, *members: tuple[str, bytes, int]) -> Path:
    """(name, data, Unix mode or 0 for none)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data, mode in members:
            info = zipfile.ZipInfo("x")
            info.filename = name  # as it is: ZipInfo() would tidy it up
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(info, data)
    return path


def everything(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def refused(archive: Path, folder: Path, why: str, limits: Limits = LIMITS) -> ArchiveError:
    """It is refused with that reason, and nothing is left beside or in the folder."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    beside = set(folder.parent.iterdir())
    with pytest.raises(ArchiveError, match=why) as caught:
        unpack(archive, folder, limits=limits)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert set(folder.parent.iterdir()) == beside
    assert str(archive) in caught.value.what or str(folder) in caught.value.what
    assert caught.value.remedy
    return caught.value
