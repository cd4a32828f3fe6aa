"""Engines that were fetched: each release and backend in a folder of its own, with a manifest; old ones go last."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from launcher.archive import unpack
from launcher.catalog import Build, Line
from launcher.engine_probe import engine_from_binary
from launcher.errors import ArchiveError, FolderError
from launcher.paths import make_folder
from launcher.quarantine import clear_quarantine
from launcher.resolved import Engine

MANIFEST = "manifest.json"
KIND = "fetched"


@dataclass(frozen=True)
class Installed:
    """A fetched engine on disk; ``used_bytes`` is what its folder takes."""

    name: str
    folder: Path
    line: str
    tag: str
    backend: str
    version: str
    used_bytes: int


def folder_name(line: Line, build: Build) -> str:
    """Name of the folder of ``build``: everything that tells it from another."""
    toolkit = f"-{build.cuda}" if build.cuda else ""
    return f"{line.name}-{line.tag}-{build.backend}{toolkit}-{build.system.lower()}-{build.arch}"


def server_binary(folder: Path) -> Path:
    """The llama-server in an unpacked folder, which may lie in its ``bin``; ArchiveError when there is none."""
    for inner in (folder, folder / "bin", folder / "build" / "bin"):
        for name in ("llama-server", "llama-server.exe"):
            if (inner / name).is_file():
                return inner / name
    raise ArchiveError(
        f"The engine in {folder} has no llama-server.",
        "If an antivirus removed it, allow it there; then run `bonsai fetch --engine-only` again.",
    )


def installed(engines: Path, line: Line, build: Build) -> Path | None:
    """The folder of ``build`` when it is whole: every file has the size that was unpacked."""
    folder = engines / folder_name(line, build)
    manifest = _manifest(folder)
    wanted = [asset.name for asset in build.assets]
    if manifest is None or manifest.get("assets") != wanted:
        return None
    with contextlib.suppress(OSError):
        sizes: dict[str, int] = manifest["files"]
        if sizes and all((folder / name).stat().st_size == size for name, size in sizes.items()):
            return folder
    return None


def engine(folder: Path, line: Line, build: Build, why: str) -> Engine:
    """The engine in ``folder``, asked what it can do. Raises NotAnEngine when it cannot run here."""
    found = engine_from_binary(server_binary(folder), KIND)
    return replace(found, line=line.name, backend=build.backend, why=why)


def expected(engines: Path, line: Line, build: Build, why: str) -> Engine:
    """What the engine will be once it is fetched; nobody has asked it."""
    program = engines / folder_name(line, build) / "llama-server"
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


def install(
    engines: Path, line: Line, build: Build, archives: Sequence[Path], tell: Callable[[str], None]
) -> Path:
    """Unpack ``archives`` in order into the folder of ``build``, prove that the engine runs, then give the folder
    its name; ``tell`` hears "unpacking" and "proving".

    An engine that does not run leaves nothing behind and raises NotAnEngine; older releases of the same line and
    backend go only after this one has proved itself.
    """
    final = make_folder(engines) / folder_name(line, build)
    fresh = final.with_name(f"{final.name}.new")
    with _folder_errors(engines):
        shutil.rmtree(fresh, ignore_errors=True)
        tell("unpacking")
        try:
            for archive in archives:
                unpack(archive, fresh)
            clear_quarantine(fresh)
            tell("proving")
            found = engine_from_binary(server_binary(fresh), KIND)
            manifest = {
                "line": line.name,
                "tag": line.tag,
                "backend": build.backend,
                "version": found.version,
                "assets": [asset.name for asset in build.assets],
                "files": {
                    file.relative_to(fresh).as_posix(): file.stat().st_size
                    for file in sorted(fresh.rglob("*"))
                    if file.is_file()
                },
            }
            (fresh / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        shutil.rmtree(final, ignore_errors=True)
        fresh.replace(final)
    for other in all_installed(engines):
        if (other.line, other.backend) == (line.name, build.backend) and other.tag != line.tag:
            remove(other)
    return final


def all_installed(engines: Path) -> list[Installed]:
    """Every fetched engine below ``engines``, whole or not."""
    rows = []
    with contextlib.suppress(OSError):
        for folder in sorted(engines.iterdir()):
            manifest = _manifest(folder)
            if manifest is not None and {"line", "tag", "backend", "version"} <= set(manifest):
                texts = [str(manifest[key]) for key in ("line", "tag", "backend", "version")]
                used = sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())
                rows.append(Installed(folder.name, folder, texts[0], texts[1], texts[2], texts[3], used))
    return rows


def remove(found: Installed) -> int:
    """Delete a fetched engine; returns the freed bytes. Raises FolderError when that is impossible."""
    with _folder_errors(found.folder):
        shutil.rmtree(found.folder)
    return found.used_bytes


def _manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a fetched engine; engines built here have another form, without "assets"."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("assets"), list) else None


@contextlib.contextmanager
def _folder_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FolderError(
            f"The engines' folder {folder} cannot be changed: {error.strerror or error}.",
            "Free it, or choose another with BONSAI_HOME.",
        ) from error
