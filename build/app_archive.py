"""Packs the app's folder: the same files give the same archive, and links and execute bits survive."""

from __future__ import annotations

import gzip
import hashlib
import stat
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

LEVEL = 6  # 9 takes three times as long for half a percent
PIECE = 1 << 20
OLDEST = 315532800  # 1980-01-01, the earliest that a zip can say


def entries(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every file and link below ``folder`` with its name inside the archive, in a fixed order. Links to folders are
    links, not folders."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_dir():
            yield path, f"{folder.name}/{path.relative_to(folder).as_posix()}"


def _mode(path: Path) -> int:
    return 0o755 if path.lstat().st_mode & stat.S_IXUSR else 0o644


def tar_gz(folder: Path, target: Path, *, epoch: int = OLDEST) -> Path:
    """Write ``folder`` as ``target`` (.tar.gz); every file belongs to nobody and is of ``epoch`` (seconds)."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", LEVEL, raw, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path, name in entries(folder):
            info = tar.gettarinfo(path, name)
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            info.mtime = epoch
            if info.islnk():  # two names of one file: each is written out
                info.type, info.linkname, info.size = tarfile.REGTYPE, "", path.stat().st_size
            if info.isreg():
                info.mode = _mode(path)
                with path.open("rb") as file:
                    tar.addfile(info, file)
            else:
                tar.addfile(info)
    return target


def zipped(folder: Path, target: Path, *, epoch: int = OLDEST) -> Path:
    """Write ``folder`` as ``target`` (.zip), with Unix modes and links, which macOS needs."""
    date = time.gmtime(max(epoch, OLDEST))[:6]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for path, name in entries(folder):
            info = zipfile.ZipInfo(name, date)
            info.create_system = 3  # Unix: the modes count
            info.compress_type = zipfile.ZIP_DEFLATED
            if path.is_symlink():
                info.external_attr = (stat.S_IFLNK | 0o777) << 16
                archive.writestr(info, str(path.readlink()))
            else:
                info.external_attr = (stat.S_IFREG | _mode(path)) << 16
                with path.open("rb") as file, archive.open(info, "w") as inside:
                    while piece := file.read(PIECE):
                        inside.write(piece)
    return target


def sha256(path: Path) -> str:
    """The file's digest, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_sums(folder: Path, names: list[str]) -> Path:
    """``SHA256SUMS`` in ``folder`` for these files of it, as sha256sum reads it."""
    target = folder / "SHA256SUMS"
    lines = [f"{sha256(folder / name)}  {name}\n" for name in sorted(names)]
    target.write_text("".join(lines), encoding="utf-8", newline="\n")
    return target
