"""Pure: how an engine ended and what its log says -> the cause, a sentence and what to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Diagnosis:
    """``cause``: a name of CAUSES. ``sentence``: what happened, for people. ``remedy``: what to do. ``evidence``: the line
    of the log (or the exit status) that tells, empty where none does."""

    cause: str
    sentence: str
    remedy: str
    evidence: str = ""


def diagnose(returncode: int | None, log_tail: str, *, with_drafter: bool, system: str) -> Diagnosis:
    """``returncode`` as subprocess gives it (negative: ended by that signal; on Windows the NTSTATUS), None where the
    engine still lives but stands still. ``log_tail``: its last lines. ``with_drafter``: whether a drafter was loaded.
    ``system``: as platform.system() calls it."""
    raise NotImplementedError
