"""What a launch is made of, as values: an engine that was probed and model files that were read."""

from __future__ import annotations

from dataclasses import dataclass, field

from launcher.gguf_header import GgufHeader


@dataclass(frozen=True)
class Device:
    """A device that the engine itself lists: ``name`` as -dev takes it (CUDA0), memory in bytes."""

    name: str
    description: str
    backend: str
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class Engine:
    """One way to run llama-server on this machine.

    ``program`` is the argv prefix that starts it; ``flags`` are the options that its own
    ``--help`` lists and ``spec_types`` the values it lists for ``--spec-type``. Both come from
    the binary (or, for the embedded engine, from its tested flag table), never from a guess.
    """

    kind: str  # "embedded", "built", "fetched" or "own" (BONSAI_LLAMA_SERVER)
    line: str  # "embedded", "mainline", "prism", "prism-legacy" or "unknown"
    program: tuple[str, ...]
    version: str
    flags: frozenset[str] = field(repr=False)
    spec_types: frozenset[str] = field(repr=False)
    why: str = ""
    probed: bool = True
    backend: str | None = None  # "cpu", "cuda", "metal", "rocm", "vulkan"; None: not known
    # What it computes with by its own word; None: it was not asked. Free memory changes, so plans do not compare it.
    devices: tuple[Device, ...] | None = field(default=None, compare=False)

    def can(self, flag: str) -> bool:
        """Whether the engine's own help lists ``flag``."""
        return flag in self.flags


@dataclass(frozen=True)
class ModelFile:
    """A GGUF on disk with its header; ``label`` is how people call it."""

    path: str
    label: str
    header: GgufHeader = field(repr=False)


@dataclass(frozen=True)
class Resolved:
    """Everything a plan needs to know about files: what runs, on which weights, with which drafter.

    ``drafter`` is None when there is none; ``drafter_why`` then says why.
    ``practice`` marks the built-in pair, which is no language model; ``stands_in_for`` names the model that was
    asked for and is not here yet. ``on_disk``: False for a plan of what would be fetched, ``to_fetch``: the names of
    the files and archives. ``reasons``: (part,
    sentence) of the choice; ``notices``: to be said aloud.
    """

    engine: Engine
    target: ModelFile
    drafter: ModelFile | None
    drafter_why: str
    practice: bool = False
    on_disk: bool = True
    to_fetch: tuple[str, ...] = field(default=(), compare=False)
    stands_in_for: str = field(default="", compare=False)
    reasons: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    notices: tuple[str, ...] = field(default=(), compare=False)
