"""Engines that were fetched: each release and backend in a folder of its own, with a manifest of what lies in it.

``engine_install`` puts them there.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from launcher.catalog import Build, Line
from launcher.choose_builds import build_name
from launcher.engine_probe import engine_from_binary
from launcher.errors import ArchiveError, FolderError, NotAnEngine
from launcher.resolved import Engine
from launcher.supervise.programs import runs_from

MANIFEST = "manifest.json"
KIND = "fetched"
GOING = ".going-"  # begins the name of what is about to be deleted
NEW = ".new"  # ends the name of what is being unpacked
PROGRAMS = ("llama-server", "llama-server.exe")


@dataclass(frozen=True)
class Installed:
    """A fetched engine on disk; ``used_bytes`` is what its folder takes. ``missing``: files that were unpacked and are
    not there any more, or not whole, by their path in the folder."""

    name: str
    folder: Path
    line: str
    tag: str
    backend: str
    version: str
    used_bytes: int
    missing: tuple[str, ...] = ()


def folder_name(line: Line, build: Build) -> str:
    """Name of the folder of ``build``: everything that tells it from another."""
    toolkit = f"-{build.cuda}" if build.cuda else ""
    return f"{line.name}-{line.tag}-{build.backend}{toolkit}-{build.system.lower()}-{build.arch}"


def server_binary(folder: Path) -> Path:
    """The llama-server in an unpacked folder, which may lie in its ``bin``; ArchiveError when there is none."""
    for inner in (folder, folder / "bin", folder / "build" / "bin"):
        for name in PROGRAMS:
            if (inner / name).is_file():
                return inner / name
    raise ArchiveError(
        f"The engine in {folder} has no llama-server.",
        "If an antivirus removed it, allow it there; then run `bonsai fetch --engine-only` again.",
    )


def installed(engines: Path, line: Line, build: Build) -> Path | None:
    """The folder of ``build`` when it is whole: every file has the size that was unpacked."""
    folder = engines / folder_name(line, build)
    found = manifest(folder)
    if found is None or found["assets"] != [asset.name for asset in build.assets]:
        return None
    return folder if found["files"] and not _missing(folder, found) else None


@dataclass(frozen=True)
class Here:
    """A build that is here. ``better``: one that suits this machine better and was never tried here. ``notice``: what is
    to be said of that, or of why those before it do not run here; empty for the best one."""

    folder: Path
    build: Build
    better: Build | None
    notice: str


def find(engines: Path, line: Line, builds: Sequence[Build]) -> Here | None:
    """The first of ``builds`` (best first) that is on this machine, whole."""
    for at, build in enumerate(builds):
        folder = installed(engines, line, build)
        if folder is None:
            continue
        tried = instead_of(folder)
        before = {folder_name(line, it): it for it in builds[:at]}
        better = next((it for name, it in before.items() if name not in tried), None)
        if not before:
            notice = ""
        elif better is None:
            notice = (
                f"{tried[next(iter(before))]} Instead {build_name(line, build)} is used. Once that is mended: "
                f"`bonsai engines remove {folder.name}`, then `bonsai fetch`."
            )
        else:
            notice = (
                f"{build_name(line, better)} would be better here, but is not on this machine: meanwhile "
                f"{build_name(line, build)} is used. `bonsai fetch` brings the better one."
            )
        return Here(folder, build, better, notice)
    return None


def instead_of(folder: Path) -> Mapping[str, str]:
    """The builds that were tried before the one in ``folder`` and do not run here: folder name to a sentence."""
    found = (manifest(folder) or {}).get("instead_of")
    return {name: str(why) for name, why in found.items()} if isinstance(found, dict) else {}


def ready(engines: Path, line: Line, builds: Sequence[Build], why: str) -> tuple[Engine, Here] | None:
    """The first of ``builds`` (best first) that is here and runs; None when none is here. One that does not run any
    more, after a change of driver for instance, is passed over, and the notice says so. Raises NotAnEngine, for the best
    one, when none runs."""
    failed: NotAnEngine | None = None
    left = list(builds)
    while here := find(engines, line, left):
        try:
            found = engine(here.folder, line.name, here.build.backend, why)
        except NotAnEngine as error:
            failed = failed or error
            left = left[left.index(here.build) + 1 :]
            continue
        if failed:
            notice = f"{failed.what} Instead {build_name(line, here.build)} is used. {failed.remedy}"
            here = replace(here, better=None, notice=notice)
        return found, here
    if failed:
        raise failed
    return None


def holding(engines: Path, program: Path, why: str) -> Engine | None:
    """The fetched engine below ``engines`` whose llama-server is ``program``, asked what it can do; None when it is none.
    Raises as ``engine``."""
    if not program.is_relative_to(engines) or program == engines:
        return None
    folder = engines / program.relative_to(engines).parts[0]
    found = manifest(folder)
    with contextlib.suppress(ArchiveError):
        if found is not None and server_binary(folder) == program:
            return engine(folder, str(found.get("line", "")), str(found.get("backend", "")), why)
    return None


def engine(folder: Path, line: str, backend: str, why: str) -> Engine:
    """The engine in ``folder``, asked what it can do. Raises NotAnEngine when it cannot run here (any more)."""
    try:
        found = engine_from_binary(server_binary(folder), KIND)
    except NotAnEngine as error:
        again = (
            f"Or `bonsai engines remove {folder.name}`, then `bonsai fetch`: it takes a build that runs here."
        )
        raise NotAnEngine(error.what, f"{error.remedy} {again}") from error
    return replace(found, line=line, backend=backend, why=why)


def expected(engines: Path, line: Line, build: Build, why: str) -> Engine:
    """What the engine will be once it is fetched; nobody has asked it."""
    program = engines / folder_name(line, build) / PROGRAMS[build.system == "Windows"]
    return Engine(
        KIND,
        line.name,
        (str(program),),
        line.tag,
        line.flags,
        line.spec_types,
        why,
        probed=False,
        backend=build.backend,
    )


def all_installed(engines: Path) -> list[Installed]:
    """Every fetched engine below ``engines``, whole or not."""
    rows = []
    with contextlib.suppress(OSError):
        for folder in sorted(engines.iterdir()):
            found = manifest(folder)
            if found is None or folder.name.startswith(".") or folder.name.endswith(NEW):
                continue
            used = sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())
            line, tag, backend, version = (
                str(found.get(key, "")) for key in ("line", "tag", "backend", "version")
            )
            missing = _missing(folder, found)
            rows.append(Installed(folder.name, folder, line, tag, backend, version, used, missing))
    return rows


def remove(found: Installed) -> int:
    """Delete a fetched engine; returns the freed bytes. FolderError when that is impossible, or when it runs, and may load
    more from its folder at any time: all of it is there then."""
    if runs_from(found.folder):
        raise FolderError(f"The engine in {found.folder} is running.", "Quit Bonsai, then try again.")
    with folder_errors(found.folder, "Quit Bonsai if it is in use, then try again."):
        discard(found.folder)
    return found.used_bytes


def discard(folder: Path) -> None:
    """Delete ``folder`` as one: what cannot be moved away as a whole, such as a running program on Windows, stays whole
    (OSError). What is moved away and cannot be deleted is, at the next ``sweep``."""
    going = folder.with_name(f"{GOING}{secrets.token_hex(4)}-{folder.name}")
    folder.rename(going)
    shutil.rmtree(going, ignore_errors=True)


def sweep(engines: Path) -> None:
    """Delete what an earlier ``discard`` could not."""
    with contextlib.suppress(OSError):
        for folder in engines.iterdir():
            if folder.name.startswith(GOING):
                shutil.rmtree(folder, ignore_errors=True)


def manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a fetched engine: "line", "tag", "backend", "version", "assets" (names), "files" (path to
    bytes), perhaps "instead_of". None: no fetched engine; engines built here have another form."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    right = isinstance(found, dict) and all(
        isinstance(found.get(key), kind) for key, kind in (("assets", list), ("files", dict))
    )
    return found if right else None


def _missing(folder: Path, found: Mapping[str, Any]) -> tuple[str, ...]:
    def whole(name: str, size: object) -> bool:
        try:
            return (folder / name).stat().st_size == size
        except OSError:
            return False

    return tuple(name for name, size in found["files"].items() if not whole(name, size))


@contextlib.contextmanager
def folder_errors(
    folder: Path, remedy: str = "Free it, or choose another with BONSAI_HOME."
) -> Iterator[None]:
    """What the system says about ``folder``, as FolderError."""
    try:
        yield
    except OSError as error:
        raise FolderError(f"{folder} cannot be changed: {error.strerror or error}.", remedy) from error
