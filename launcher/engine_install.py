"""Puts a fetched engine in its place: unpacked beside it, run once, then named; older releases go last."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from launcher.archive import unpack
from launcher.catalog import Build, Line
from launcher.choose_builds import build_name
from launcher.engine_probe import engine_from_binary
from launcher.engine_store import (
    GOING,
    KIND,
    MANIFEST,
    NEW,
    all_installed,
    discard,
    folder_errors,
    folder_name,
    installed,
    server_binary,
    sweep,
)
from launcher.errors import NotAnEngine
from launcher.fetch_lock import only_one
from launcher.fetch_part import rename
from launcher.paths import make_folder
from launcher.quarantine import clear_quarantine
from launcher.supervise.programs import runs_from

WAIT_S = 0.1


def install(
    engines: Path,
    line: Line,
    build: Build,
    archives: Sequence[Path],
    tell: Callable[[str], None],
    *,
    instead_of: Mapping[str, str] | None = None,
    wait: Callable[[], None] = lambda: None,
) -> Path:
    """Unpack ``archives`` in order, prove that the engine runs, then give the folder of ``build`` its name; ``tell`` hears
    "unpacking" and "proving". One process at a time. ``wait`` is called again and again, while another installs the same
    and while this one unpacks; what it raises ends that.

    An engine that does not run leaves nothing behind and raises NotAnEngine; older releases of the same line and
    backend go only after this one has proved itself, and not while they run. ``instead_of``: the builds that were
    tried before and do not run here (folder name to a sentence).
    """
    final = make_folder(engines) / folder_name(line, build)

    def busy() -> None:
        wait()
        time.sleep(WAIT_S)

    with only_one(final.with_name(f"{final.name}.lock"), busy):
        sweep(engines)
        if installed(engines, line, build) is None:
            _install(final, line, build, archives, tell, wait, dict(instead_of or {}))
    for other in all_installed(engines):
        older = (other.line, other.backend) == (line.name, build.backend) and other.tag != line.tag
        # Where another launcher runs it, it goes the next time: an engine loads its backends from there when it needs
        # them, and some systems keep what runs anyway.
        if older and not runs_from(other.folder):
            with contextlib.suppress(OSError):
                discard(other.folder)
    return final


def _install(
    final: Path,
    line: Line,
    build: Build,
    archives: Sequence[Path],
    tell: Callable[[str], None],
    wait: Callable[[], None],
    instead_of: dict[str, str],
) -> None:
    fresh = final.with_name(f"{final.name}{NEW}")
    try:
        with folder_errors(final.parent):
            shutil.rmtree(fresh, ignore_errors=True)
            tell("unpacking")
            for archive in archives:
                unpack(archive, fresh, lambda written: wait())  # noqa: ARG005
            clear_quarantine(fresh)
            tell("proving")
            version = _proved(fresh, line, build)
            manifest = {
                "line": line.name,
                "tag": line.tag,
                "backend": build.backend,
                "version": version,
                "assets": [asset.name for asset in build.assets],
                "instead_of": instead_of,
                "files": {
                    file.relative_to(fresh).as_posix(): file.stat().st_size
                    for file in sorted(fresh.rglob("*"))
                    if file.is_file()
                },
            }
            (fresh / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
            _take_place(fresh, final)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def _proved(fresh: Path, line: Line, build: Build) -> str:
    """The version that the engine in ``fresh`` tells; NotAnEngine, naming the build, when it does not run here."""
    binary = server_binary(fresh)
    try:
        return engine_from_binary(binary, KIND).version
    except NotAnEngine as error:
        what = error.what.replace(str(binary), f"The engine {build_name(line, build)}")
        raise NotAnEngine(what, error.remedy) from error


def _take_place(fresh: Path, final: Path) -> None:
    """Give ``fresh`` the name of ``final``, whatever has it now; when that fails, the old one has it still."""
    if not final.exists():
        rename(fresh, final)
        return
    aside = final.with_name(f"{GOING}{secrets.token_hex(4)}-{final.name}")
    rename(final, aside)
    try:
        rename(fresh, final)
    except BaseException:
        rename(aside, final)
        raise
    shutil.rmtree(aside, ignore_errors=True)
