"""What models and engines are known, on disk and in use; and how those that we fetched are removed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from launcher import catalog, console, embedded, engine_build, engine_store
from launcher.catalog import Model
from launcher.choose_model import name_of, named
from launcher.engine_probe import engine_from_binary
from launcher.engines import local_engine
from launcher.errors import BadInput, FolderError, LauncherError
from launcher.fetch_lock import only_one
from launcher.hardware.model import Machine
from launcher.paths import Paths
from launcher.practice import SIZES, on_disk
from launcher.provision import resolve_all
from launcher.resolved import Engine
from launcher.settings import PRACTICE_MODELS, Settings, Value, is_path
from launcher.shelf import Shelf, place_of
from launcher.verified import Verified


def models(
    settings: Settings, paths: Paths, env: Mapping[str, str], machine: Machine
) -> list[dict[str, Any]]:
    """One row for each model that can be had, and the file that is in use. Asks no network and reads no file to its end:
    ``checked`` is False for what is here by name and size alone, None where nothing tells what the content should be."""
    used = _used(settings, paths, env, machine)
    target = used.target if used else None
    rows = [_practice_row(paths, size, target) for size in SIZES]
    shelf = Shelf(settings, paths, env)
    rows += [_catalog_row(model, shelf, target) for model in catalog.load().models]
    if is_path(settings.model.value):
        file = Path(settings.model.value).expanduser().absolute()
        rows.append(
            {
                "model": settings.model.value,
                "on_disk": file.is_file(),
                "checked": None,
                "in_use": True,
                "bytes": file.stat().st_size if file.is_file() else None,
                "drafter": settings.drafter.value,
                "path": str(file),
                "note": f"named by {settings.model.source}; never moved, changed or deleted",
            }
        )
    return rows


def _practice_row(paths: Paths, size: str, target: str | None) -> dict[str, Any]:
    found = on_disk(paths.practice, size)
    return {
        "model": "practice" if size == "small" else f"practice-{size}",
        "on_disk": found is not None,
        "checked": True if found else None,
        "in_use": found is not None and str(found.target) == target,
        "bytes": sum(file.stat().st_size for file in (found.target, found.drafter)) if found else None,
        "drafter": "draft-dspark",
        "path": str(found.target) if found else None,
        "note": "not a language model; written in seconds, without a download",
    }


def _catalog_row(model: Model, shelf: Shelf, target: str | None) -> dict[str, Any]:
    """A model counts as on disk when weights of any of its formats are here."""
    weights, drafts = [it.file for it in model.weights], [it.file for it in model.drafters]
    unread = [paths[0] for file in (*weights, *drafts) if (paths := shelf.unread(file))]
    here = [path for file in weights if (path := shelf.find(file) or next(iter(shelf.unread(file)), None))]
    drafters = [path for file in drafts if (path := shelf.find(file) or next(iter(shelf.unread(file)), None))]
    found = [*here, *drafters]
    owned = any(shelf.verified.ours(path) for path in found)
    notes = [
        model.notice or model.no_drafter,
        "" if owned or not here else "found here, not fetched by us",
        "the first start reads it once, to be sure that it is the right file" if unread else "",
    ]
    return {
        "model": name_of(model),
        "on_disk": bool(here),
        "checked": not unread if found else None,
        "in_use": any(str(path) == target for path in here),
        "bytes": sum(path.stat().st_size for path in found) or weights[0].bytes,
        "drafter": model.drafters[0].method if model.drafters else None,
        "path": str(here[0]) if here else None,
        "note": "; ".join(note for note in notes if note),
    }


def print_models(rows: list[dict[str, Any]]) -> None:
    """The rows of ``models`` as a table."""

    def cells(row: Mapping[str, Any]) -> list[str]:
        size = "" if row["bytes"] is None else f"{row['bytes'] / 1e6:,.0f} MB"
        state = "on disk" if row["on_disk"] else "not here"
        if row["on_disk"] and row["checked"] is False:
            state += ", not checked yet"
        return [
            row["model"],
            state + (", in use" if row["in_use"] else ""),
            size,
            row["drafter"] or "",
            row["note"],
        ]

    console.table(["model", "state", "size", "drafts by", "note"], [cells(row) for row in rows])


def removable(settings: Settings, paths: Paths, name: str) -> list[Path]:
    """The files of the model ``name`` that we fetched or wrote, parts of unfinished fetches included. What somebody else
    put into our folder is named aloud, and left out.

    Raises BadInput when there are none: what was found on this machine is not ours to delete.
    """
    theirs: list[Path] = []
    practice = {"practice" if size == "small" else f"practice-{size}": size for size in SIZES}
    if name.lower() in practice:
        found = on_disk(paths.practice, practice[name.lower()])
        files = [found.target, found.drafter] if found else []
    else:
        model = _named(settings, name)
        wanted = [weights.file for weights in model.weights] + [drafter.file for drafter in model.drafters]
        places = [place_of(paths, file) for file in wanted]
        verified = Verified(paths.data)
        theirs = [place for place in places if place.is_file() and not verified.ours(place)]
        files = [found for place in places for found in _left_of(place) if found not in theirs]
    if theirs and not files:
        raise BadInput(
            f"{theirs[0]} was not fetched by Bonsai, or was changed since: it is not deleted.",
            f"Delete it yourself if you do not need it: {_by_hand(theirs)}",
        )
    for path in theirs:
        console.warn(
            f"{path} was not fetched by Bonsai, or was changed since: it stays. ({_by_hand([path])})"
        )
    if not files:
        raise BadInput(
            f"There is nothing of {name} here that was fetched.",
            "`bonsai models` shows what there is, and where.",
        )
    return files


def _named(settings: Settings, name: str) -> Model:
    if name.lower().endswith(".gguf"):
        raise BadInput(
            f"{name} is a file of yours: only what was fetched can be removed.",
            "Give a model's name, as `bonsai models` shows it; delete files of your own yourself.",
        )
    return named(settings, name, catalog.load())


def _by_hand(files: list[Path]) -> str:
    """The command that deletes them."""
    if os.name == "nt":
        return " ".join(["del", *(f'"{file}"' for file in files)])
    return shlex.join(["rm", *map(str, files)])


def _left_of(place: Path) -> list[Path]:
    """What lies at ``place``, and what an unfinished fetch has left beside it."""
    beside = [
        place.with_name(place.name + suffix) for suffix in ("", ".part", ".part.json", ".part.json.new")
    ]
    return [file for file in beside if file.is_file()]


def remove(files: list[Path]) -> int:
    """Delete ``files``; returns the freed bytes. FolderError names the one that cannot be deleted, BadInput one that is
    being fetched at this moment."""
    freed = 0
    for file in files:
        target = file.with_name(file.name.removesuffix(".new").removesuffix(".json").removesuffix(".part"))
        lock = target.with_name(target.name + ".part.lock")
        with only_one(lock, partial(_refuse, target)) if lock.exists() else nullcontext():
            try:
                size = file.stat().st_size
                file.unlink()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise FolderError(
                    f"{file} cannot be deleted: {error.strerror}.",
                    "Quit Bonsai if it is in use, then try again.",
                ) from error
        freed += size
    return freed


def _refuse(target: Path) -> None:
    raise BadInput(
        f"{target.name} is being fetched at this moment.", "End that first: Cancel on the page, or Ctrl+C."
    )


def engines(
    settings: Settings, paths: Paths, env: Mapping[str, str], machine: Machine
) -> list[dict[str, Any]]:
    """One row for each way to run a llama-server here; ``in_use`` marks the one that would be taken. ``problem`` and
    ``remedy``: what is wrong with a program that somebody named, else empty."""
    missing = embedded.available()
    built = engine_build.installed(paths.engines)
    rows = [
        _engine_row(
            "embedded",
            missing is None,
            embedded.version() if missing is None else None,
            None,
            missing or "llama.cpp's server inside the launcher (xllamacpp)",
        ),
        _engine_row(
            "built",
            built is not None,
            engine_build.VERSION if built else None,
            str(engine_build.server_binary(built)) if built else None,
            "compiled on this machine" if built else "`bonsai engines build` compiles it from source",
        ),
    ]
    rows += [_fetched_row(found) for found in engine_store.all_installed(paths.engines)]
    if settings.llama_server.value:
        rows.append(_own_row(settings.llama_server.value, settings.llama_server.source))
    used = _used(settings, paths, env, machine)
    for row in rows:
        row["in_use"] = used is not None and _is(row, used)
        if used and row["in_use"]:
            engine = used.engine
            row |= {"version": engine.version, "spec_types": sorted(engine.spec_types), "why": engine.why}
    return rows


def _own_row(own: str, source: str) -> dict[str, Any]:
    """It is asked whether it is a llama-server that runs here, which takes a moment."""
    note = f"named by {source}"
    try:
        return _engine_row("own", True, engine_from_binary(Path(own).expanduser(), "own").version, own, note)
    except LauncherError as error:
        row = _engine_row("own", False, None, own, f"{note}, but cannot be used: {error.what}")
        return row | {"problem": error.what, "remedy": error.remedy}


def _fetched_row(found: engine_store.Installed) -> dict[str, Any]:
    note = f"fetched, {found.used_bytes / 1e6:,.0f} MB"
    if found.missing:
        note = f"not whole: {found.missing[0]} is gone or changed, perhaps by an antivirus; `bonsai fetch` brings it again"
    return _engine_row(found.name, not found.missing, found.version, str(found.folder), note)


def _engine_row(
    name: str, available: bool, version: str | None, path: str | None, note: str
) -> dict[str, Any]:
    return {
        "engine": name,
        "available": available,
        "version": version,
        "path": path,
        "note": note,
        "problem": "",
        "remedy": "",
    }


def _is(row: Mapping[str, Any], used: _Used) -> bool:
    if used.engine.kind == engine_store.KIND:
        return row["path"] is not None and Path(row["path"]) in Path(used.engine.program[0]).parents
    return bool(row["engine"] == used.engine.kind)


@dataclass(frozen=True)
class _Used:
    """What a start of the page would run now; ``target``: None where it would have to be written first."""

    engine: Engine
    target: str | None


def _used(settings: Settings, paths: Paths, env: Mapping[str, str], machine: Machine) -> _Used | None:
    """None, and the reason said, where a start would fail. Writes nothing, the practice pair neither."""
    try:
        if settings.model.value in PRACTICE_MODELS:
            return _practice_used(settings, paths)
        found = resolve_all(settings, paths, env, machine, expect=True)
        if found.on_disk:
            return _Used(found.engine, found.target.path)
        settings = replace(settings, model=Value("practice"))
        return _practice_used(
            settings if found.engine.probed else replace(settings, engine=Value("auto")), paths
        )
    except LauncherError as error:
        console.warn(str(error))
        return None


def _practice_used(settings: Settings, paths: Paths) -> _Used:
    pair = on_disk(paths.practice, settings.model.value.partition("-")[2] or "small")
    return _Used(local_engine(settings, paths), str(pair.target) if pair else None)


def print_engines(rows: list[dict[str, Any]]) -> None:
    """The rows of ``engines`` as a table."""

    def cells(row: Mapping[str, Any]) -> list[str]:
        state = "available" if row["available"] else "unusable" if row["problem"] else "not here"
        return [
            row["engine"],
            state + (", in use" if row.get("in_use") else ""),
            row["version"] or "",
            row["note"],
        ]

    console.table(["engine", "state", "version", "note"], [cells(row) for row in rows])
    for row in rows:
        types = [name for name in row.get("spec_types", ()) if name != "none"]
        if types:
            console.say(f"{row['engine']} can draft with: {', '.join(types)}")


def fetched_engine(paths: Paths, name: str) -> engine_store.Installed:
    """The fetched engine called ``name``. Raises BadInput with the names there are."""
    found = {one.name: one for one in engine_store.all_installed(paths.engines)}
    if name not in found:
        raise BadInput(
            f"No fetched engine is called {name}.",
            f"Those here: {', '.join(found)}." if found else "None was fetched here.",
        )
    return found[name]
