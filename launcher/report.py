"""What ``bonsai plan`` prints, as JSON and for people."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path

from launcher import console
from launcher.errors import BadInput
from launcher.fit import Fit
from launcher.hardware.model import Machine, from_json
from launcher.plan import LaunchPlan
from launcher.resolved import ModelFile


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
            "backend": engine.backend,
        },
        "target": _model_json(plan.resolved.target) | {"practice": plan.resolved.practice},
        "drafter": _model_json(plan.resolved.drafter) if drafts and plan.resolved.drafter else None,
        "drafter_reason": plan.speculation_why,
        "context": plan.context,
        "memory": _memory_json(plan.fit) if plan.fit else None,
        "speculation": {
            "requested": plan.speculation_requested,
            "type": plan.method.spec_type,
            "draft_max": plan.method.draft_max,
            "p_min": plan.method.p_min,
            "draft_on": plan.method.draft_on,
            "name": plan.method.name,
        },
        "machine": machine.to_json(),
        "on_disk": plan.resolved.on_disk,
        "to_fetch": list(plan.resolved.to_fetch),
        "warnings": list(plan.warnings),
    }


def _memory_json(found: Fit) -> dict[str, object]:
    """Bytes; ``room`` is what may be used, ``need`` None where the header does not tell all sizes."""
    need = found.need
    return {
        "verdict": found.verdict,
        "room": found.room,
        "need": {**asdict(need), "total": need.total} if need else None,
        "layers": found.layers,
        "says": found.says,
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
    console.say(f"Speculation: {plan.speculation} ({plan.speculation_why})")
    width = max(len(_short(reason.part)) for reason in plan.reasons)
    for reason in plan.reasons:
        console.say(f"  {_short(reason.part):<{width}}  {reason.why}")
    if plan.fit:
        console.say(f"Memory: {plan.fit.says}")
    if not plan.resolved.on_disk:
        console.warn(f"`bonsai fetch` has to bring this first: {', '.join(plan.resolved.to_fetch)}.")
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
