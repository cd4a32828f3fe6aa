"""The environment that engines and tools are started with."""

from __future__ import annotations

import sys
from collections.abc import Mapping

# llama-server reads options from LLAMA_ARG_*: what a plan prints would not be what runs.
# LLAMA_SERVER_* and AIP_MODE make it take orders (a port, a mode) from a surrounding service.
DROPPED_PREFIXES = ("LLAMA_ARG_", "LLAMA_SERVER_")
DROPPED = frozenset({"LLAMA_API_KEY", "HF_TOKEN", "BONSAI_TOKEN", "MTMD_BACKEND_DEVICE", "AIP_MODE"})
# A packaged app's start program puts its own folder first and keeps the person's value beside it.
LIBRARY_PATHS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


def clean_env(base: Mapping[str, str], *, frozen: bool | None = None) -> dict[str, str]:
    """``base`` without what would change an engine behind the plan's back, and without tokens.

    ``frozen``: whether this is the packaged app (None: ask the interpreter). There the library search
    path is the person's own again, because our libraries do not fit other programs.
    """
    env = {
        name: value
        for name, value in base.items()
        if name not in DROPPED and not name.startswith(DROPPED_PREFIXES)
    }
    if getattr(sys, "frozen", False) if frozen is None else frozen:
        for name in LIBRARY_PATHS:
            env.pop(name, None)
            original = env.pop(f"{name}_ORIG", None)
            if original:
                env[name] = original
    return env
