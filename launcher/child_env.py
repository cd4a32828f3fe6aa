"""The environment that engines and tools are started with."""

from __future__ import annotations

import sys
from collections.abc import Mapping

# llama-server reads options from LLAMA_ARG_*: what a plan prints would not be what runs. LLAMA_SERVER_* makes it take
# orders from a surrounding service, the other LLAMA_* switch parts of the computation off or on. GGML_* likewise:
# GGML_BACKEND_PATH even loads another library.
DROPPED_PREFIXES = ("LLAMA_", "GGML_")
# Where files lie, and what a person has set for the hardware: which devices, and ways round their faults. No plan
# decides about these, so they are the person's own choice and reach the engine.
KEPT = frozenset({"LLAMA_CACHE"})
KEPT_PREFIXES = ("GGML_CUDA_", "GGML_HIP_", "GGML_METAL_", "GGML_SYCL_", "GGML_VK_")
TOKENS = ("LLAMA_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "BONSAI_TOKEN")
# AIP_*: a cloud's way to give it a port and paths. MTMD_*: the device of a projector that no plan has.
DROPPED = frozenset({*TOKENS, "MTMD_BACKEND_DEVICE", "AIP_MODE", "AIP_HTTP_PORT"})
LOOPBACK = ("localhost", "127.0.0.1", "::1")
# A packaged app's start program puts its own folder first and keeps the person's value beside it.
LIBRARY_PATHS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


def clean_env(base: Mapping[str, str], *, frozen: bool | None = None) -> dict[str, str]:
    """``base`` without what would change an engine behind the plan's back, and without tokens; this machine is never
    asked through a proxy.

    ``frozen``: whether this is the packaged app (None: ask the interpreter). There the library search
    path is the person's own again, because our libraries do not fit other programs.
    """
    env = {name: value for name, value in base.items() if _reaches_children(name)}
    for name in ("NO_PROXY", "no_proxy"):
        hosts = [host.strip() for host in env.get(name, "").split(",") if host.strip()]
        env[name] = ",".join([*hosts, *(host for host in LOOPBACK if host not in hosts)])
    if getattr(sys, "frozen", False) if frozen is None else frozen:
        for name in LIBRARY_PATHS:
            env.pop(name, None)
            original = env.pop(f"{name}_ORIG", None)
            if original:
                env[name] = original
    return env


def _reaches_children(name: str) -> bool:
    if name in DROPPED:
        return False
    return name in KEPT or name.startswith(KEPT_PREFIXES) or not name.startswith(DROPPED_PREFIXES)
