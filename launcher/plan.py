"""Pure: Settings + Machine + Resolved -> LaunchPlan, with a reason for every part of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher.resolved import Resolved


@dataclass(frozen=True)
class Reason:
    """``part`` is the piece of the command line (or "target", "engine", ...); ``why`` a sentence."""

    part: str
    why: str


@dataclass(frozen=True)
class LaunchPlan:
    """The exact llama-server command line and why. Plans that start the same server compare equal.

    ``argv`` includes the program and ends with --host and --port; ``env`` holds only what differs
    from the launcher's own environment. ``context`` is in tokens. ``spec_type`` is llama-server's
    name ("draft-dspark", ...) or "none"; ``draft_max`` the draft length in tokens.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(hash=False)
    resolved: Resolved
    host: str
    port: int
    port_asked: bool
    context: int
    spec_type: str
    draft_max: int | None
    speculation_requested: bool
    speculation_why: str
    reasons: tuple[Reason, ...] = field(compare=False)
    warnings: tuple[str, ...] = field(compare=False)
