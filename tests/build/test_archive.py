"""Archives: links and execute bits survive, and the same app gives the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import app_archive
import pytest

from tests.conftest import ROOT

Pack = Callable[[Path, Path], Path]
PACKS = [(app_archive.tar_gz, "app.tar.gz"), (app_archive.zipped, "app.zip")]


def make(folder: Path) -> Path:
    """A small app."""
    app = folder / "Bönsai 1.0"
    (app / "_internal" / "lib").mkdir(parents=True)
    (app / "bonsai").write_bytes(b"\x7fELF" + bytes(100_000))
    (app / "bonsai").chmod(0o700)
    (app / "_internal" / "data.txt").write_text("text\n", encoding="utf-8")
    (app / "_internal" / "data.txt").chmod(0o600)
    (app / "_internal" / "link.txt").symlink_to("data.txt")
    (app / "_internal" / "other").symlink_to("lib", target_is_directory=True)
    (app / "_internal" / "lib" / "x.so").write_bytes(b"x")
    os.link(app / "_internal" / "lib" / "x.so", app / "_internal" / "lib" / "y.so")
    return app


@pytest.mark.system("posix")
@pytest.mark.parametrize(("pack", "name"), PACKS)
def test_the_same_app_gives_the_same_bytes(tmp_path: Path, pack: Pack, name: str) -> None:
    first = pack(make(tmp_path / "a"), tmp_path / f"1{name}")
    app = make(tmp_path / "b")
    os.utime(app / "bonsai", (1, 1))
    assert first.read_bytes() == pack(app, tmp_path / f"2{name}").read_bytes()


@pytest.mark.system("posix")
def test_a_tar_unpacks_to_the_same_tree(tmp_path: Path) -> None:
    app = make(tmp_path / "a")
    archive = app_archive.tar_gz(app, tmp_path / "app.tar.gz")
    with tarfile.open(archive) as tar:
        assert {(it.uid, it.gid, it.uname) for it in tar} == {(0, 0, "")}
        tar.extractall(tmp_path / "out", filter="data")
    same(app, tmp_path / "out" / app.name)


@pytest.mark.system("posix")
def test_a_zip_keeps_modes_and_links(tmp_path: Path) -> None:
    app = make(tmp_path / "a")
    with zipfile.ZipFile(app_archive.zipped(app, tmp_path / "app.zip")) as archive:
        modes = {it.filename.split("/", 1)[1]: it.external_attr >> 16 for it in archive.infolist()}
        assert archive.testzip() is None
        assert archive.read(f"{app.name}/_internal/link.txt") == b"data.txt"
    assert modes["bonsai"] == 0o100755
    assert modes["_internal/data.txt"] == 0o100644
    assert modes["_internal/link.txt"] & 0o170000 == 0o120000
    assert modes["_internal/other"] & 0o170000 == 0o120000


def same(a: Path, b: Path) -> None:
    inside = {it.relative_to(a) for it in a.rglob("*")}
    assert inside == {it.relative_to(b) for it in b.rglob("*")}
    for name in inside:
        assert (a / name).is_symlink() == (b / name).is_symlink(), name
        if (a / name).is_file():
            assert (a / name).read_bytes() == (b / name).read_bytes(), name
            assert os.access(a / name, os.X_OK) == os.access(b / name, os.X_OK), name
    assert (b / "bonsai").stat().st_mode & 0o777 == 0o755
    assert (b / "_internal" / "data.txt").stat().st_mode & 0o777 == 0o644


@pytest.mark.system("linux")
def test_sums_are_what_sha256sum_reads(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"a")
    (tmp_path / "b c.zip").write_bytes(b"b")
    app_archive.write_sums(tmp_path, ["b c.zip", "a.zip"])
    command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0


@pytest.mark.frozen
@pytest.mark.system("linux")
def test_what_is_packed_passes_the_trial_of_a_release(app_program: Path, tmp_path: Path) -> None:
    """As the workflow does it, from the archive on."""
    work, out = app_program.parents[2], tmp_path / "out"
    pack = [sys.executable, str(ROOT / "build" / "build.py"), "--work", str(work), "--out", str(out)]
    packed = subprocess.run([*pack, "--only", "archive"], capture_output=True, text=True, check=False)
    assert packed.returncode == 0, packed.stderr
    smoke = [sys.executable, str(ROOT / "build" / "smoke.py"), packed.stdout.strip()]
    tried = subprocess.run(smoke, capture_output=True, text=True, timeout=300, check=False)
    assert (tried.returncode, tried.stdout) == (0, "The app works.\n"), tried.stderr
