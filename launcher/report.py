"""What the commands plan, models and engines print, as JSON and for people."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher import console, embedded, engine_build
from launcher.errors import BadInput, LauncherError
from launcher.hardware.model import Machine, from_json
from launcher.paths import Paths
from launcher.plan import LaunchPlan
from launcher.practice import SIZES, on_disk
from launcher.provision import find_engine
from launcher.resolved import ModelFile
from launcher.settings import Settings


def plan_json(plan: LaunchPlan, machine: Machine) -> dict[str, object]:
    """The documented form of ``bonsai plan --json``; its "machine" is what ``--machine`` reads."""
    engine, drafts = plan.resolved.engine, plan.spec_type != "none"
    return {
        "argv": list(plan.argv),
        "env": dict(plan.env),
        "reasons": [{"part": reason.part, "why": reason.why} for reason in plan.reasons],
        "engine": {
            "kind": engine.kind,
            "line": engine.line,
            "version": engine.version,
            "program": list(engine.program),
            "why": engine.why,
            "probed": engine.probed,
        },
        "target": _model_json(plan.resolved.target) | {"practice": plan.resolved.practice},
        "drafter": _model_json(plan.resolved.drafter) if drafts and plan.resolved.drafter else None,
        "drafter_reason": plan.speculation_why,
        "context": plan.context,
        "speculation": {
            "requested": plan.speculation_requested,
            "type": plan.spec_type,
            "draft_max": plan.draft_max,
        },
        "machine": machine.to_json(),
        "on_disk": plan.resolved.on_disk,
        "warnings": list(plan.warnings),
    }


def _model_json(model: ModelFile) -> dict[str, object]:
    header = model.header
    return {
        "path": model.path,
        "label": model.label,
        "architecture": header.architecture,
        "bytes": header.file_bytes,
        "context_length": header.context_length,
        "block_size": header.block_size,
    }


def given_machine(path: Path) -> Machine:
    """The machine that a file describes. Raises BadInput with what is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = "it is not text in UTF-8" if isinstance(error, ValueError) else error.strerror
        raise BadInput(
            f"{path} cannot be read: {why}.", "Give a file that `bonsai plan --json` wrote."
        ) from error
    return from_json(text, str(path))


def print_plan(plan: LaunchPlan, machine: Machine) -> None:
    """The command line on stdout, ready to paste; the reasons and the machine below it on stderr."""
    console.data(shlex.join(plan.argv))
    width = max(len(_short(reason.part)) for reason in plan.reasons)
    for reason in plan.reasons:
        console.say(f"  {_short(reason.part):<{width}}  {reason.why}")
    for gpu in machine.gpus:
        console.say(f"GPU: {gpu.describe()}")
    for remark in machine.remarks():
        console.warn(remark)
    for warning in plan.warnings:
        console.warn(warning)


def _short(part: str) -> str:
    words = part.split(" ")
    return " ".join(
        [words[0], *(Path(word).name if "/" in word or "\\" in word else word for word in words[1:])]
    )


def models(settings: Settings, paths: Paths) -> list[dict[str, Any]]:
    """One row for each model that this version knows, and the file that is in use."""
    rows: list[dict[str, Any]] = []
    for size in SIZES:
        name = "practice" if size == "small" else f"practice-{size}"
        found = on_disk(paths.practice, size)
        rows.append(
            {
                "model": name,
                "on_disk": found is not None,
                "in_use": settings.model.value == name,
                "bytes": sum(file.stat().st_size for file in (found.target, found.drafter))
                if found
                else None,
                "drafter": "dspark",
                "path": str(found.target) if found else None,
                "note": "not a language model; written in seconds, without a download",
            }
        )
    if settings.model.value.lower().endswith(".gguf"):
        file = Path(settings.model.value).expanduser().absolute()
        rows.append(
            {
                "model": settings.model.value,
                "on_disk": file.is_file(),
                "in_use": True,
                "bytes": file.stat().st_size if file.is_file() else None,
                "drafter": settings.drafter.value,
                "path": str(file),
                "note": f"named by {settings.model.source}; never moved, changed or deleted",
            }
        )
    return rows


def print_models(rows: list[dict[str, Any]]) -> None:
    """The rows of ``models`` as a table."""

    def cells(row: Mapping[str, Any]) -> list[str]:
        size = "" if row["bytes"] is None else f"{row['bytes'] / 1e6:.0f} MB"
        state = "on disk" if row["on_disk"] else "not yet written"
        return [row["model"], state + (", in use" if row["in_use"] else ""), size, row["note"]]

    console.table(["model", "state", "size", "note"], [cells(row) for row in rows])


def engines(settings: Settings, paths: Paths) -> list[dict[str, Any]]:
    """One row for each way to run a llama-server here; ``in_use`` marks the one that would be taken."""
    rows: list[dict[str, Any]] = []
    missing = embedded.available()
    rows.append(
        {
            "engine": "embedded",
            "available": missing is None,
            "version": embedded.version() if missing is None else None,
            "path": None,
            "note": missing or "llama.cpp's server inside the launcher (xllamacpp)",
        }
    )
    built = engine_build.installed(paths.engines)
    rows.append(
        {
            "engine": "built",
            "available": built is not None,
            "version": engine_build.VERSION if built else None,
            "path": str(engine_build.server_binary(built)) if built else None,
            "note": "compiled on this machine" if built else "`bonsai engines build` compiles it from source",
        }
    )
    own = settings.llama_server.value
    if own:
        rows.append(
            {
                "engine": "own",
                "available": Path(own).expanduser().is_file(),
                "version": None,
                "path": own,
                "note": f"named by {settings.llama_server.source}",
            }
        )
    try:
        chosen = find_engine(settings, paths)
    except LauncherError as error:
        console.warn(str(error))
    else:
        for row in rows:
            row["in_use"] = row["engine"] == chosen.kind
            if row["in_use"]:
                row |= {"version": chosen.version, "spec_types": sorted(chosen.spec_types), "why": chosen.why}
    return rows


def print_engines(rows: list[dict[str, Any]]) -> None:
    """The rows of ``engines`` as a table."""

    def cells(row: Mapping[str, Any]) -> list[str]:
        state = "available" if row["available"] else "not here"
        return [
            row["engine"],
            state + (", in use" if row.get("in_use") else ""),
            row["version"] or "",
            row["note"],
        ]

    console.table(["engine", "state", "version", "note"], [cells(row) for row in rows])
    for row in rows:
        if row.get("spec_types"):
            console.say(f"{row['engine']} can draft with: {', '.join(row['spec_types'])}")
