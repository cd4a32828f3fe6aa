"""The packaged app for the tests: built once for what it is made of, kept outside the checkout."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from launcher import __version__
from launcher.fetch_lock import only_one

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("build", "launcher", "webui")
KEPT = 2
BUILD_S = 900
APP = pytest.StashKey[Path | str]()


def missing() -> str | None:
    """What is not here and needed to make the app; None when all is."""
    if find_spec("PyInstaller") is None:
        return "PyInstaller is not installed (extra: build)"
    if sys.platform == "linux":
        library = Path(
            sysconfig.get_config_var("LIBDIR") or "/", sysconfig.get_config_var("INSTSONAME") or "-"
        )
        if not library.exists():
            return f"this Python has no shared library ({library}), which the app would take along"
    return None


def sources() -> Iterator[Path]:
    """Every file of ours that the app is made of."""
    yield from (ROOT / name for name in ("requirements.lock", "LICENSE"))
    for room in SOURCES:
        for path in sorted((ROOT / room).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def fingerprint() -> str:
    """Changes when the app would come out differently."""
    digest = hashlib.sha256(f"{sys.version} {sys.platform} {find_spec('xllamacpp') is not None}".encode())
    for path in sources():
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def app(cache: Path) -> Path | str:
    """The app's program below ``cache``, built when it is not there or does not run; a sentence when it cannot be."""
    if reason := missing():
        return reason
    cache.mkdir(parents=True, exist_ok=True)
    with only_one(cache / "lock", lambda: time.sleep(0.5)):  # several runs of the tests may need it at once
        return _app(cache)


def _app(cache: Path) -> Path:
    work = cache / fingerprint()
    program = _program(work)
    if program is None or not _runs(program):
        shutil.rmtree(work, ignore_errors=True)
        part = cache / f".{work.name}.{os.getpid()}"
        part.mkdir(parents=True)
        command = [sys.executable, str(ROOT / "build" / "build.py"), "--work", str(part), "--only", "app"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S, check=False)
        if done.returncode != 0:
            shutil.rmtree(part, ignore_errors=True)
            raise RuntimeError(f"build.py failed:\n{done.stderr[-3000:]}")
        for path in part.iterdir():
            if path.name != "dist":
                shutil.rmtree(path, ignore_errors=True)
        _rename(part, work)
        program = _program(work)
        assert program is not None
    os.utime(work)
    _prune(cache)
    return program


def _program(work: Path) -> Path | None:
    for pattern in (
        "bonsai-launcher-*/bonsai",
        "bonsai-launcher-*/bonsai.exe",
        "*.app/Contents/MacOS/bonsai",
    ):
        for path in (work / "dist").glob(pattern):
            return path
    return None


def _runs(program: Path) -> bool:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and __version__ in done.stdout


def _rename(part: Path, work: Path) -> None:
    try:
        part.rename(work)
    except OSError:  # another run was faster
        shutil.rmtree(part, ignore_errors=True)


def _prune(cache: Path) -> None:
    """Old versions go; of what an ended run has left half made, too."""
    made = sorted(
        (it for it in cache.iterdir() if it.is_dir()), key=lambda it: it.stat().st_mtime, reverse=True
    )
    whole = [it for it in made if not it.name.startswith(".")]
    for folder in whole[KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)
    for folder in made:
        if folder.name.startswith(".") and not _alive(int(folder.suffix[1:] or 0)):
            shutil.rmtree(folder, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
