"""What is known of models, drafters and engine builds, and what fits what. Reads catalog.toml; no network."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib import resources

# Formats of weights that an engine line may or may not read. "common": every quantization of llama.cpp that is
# not Bonsai's own (Q8_0, Q4_K, ...). Q2_0 exists twice under one type id: groups of 128 (legacy) and of 64.
FORMATS = ("q2_0-g128", "q2_0-g64", "pq2_0", "ptq1_0", "q1_0", "common")
# Architectures that are no model of their own; "model" in Line.drafters stands for every other one.
DRAFTERS = ("dspark", "dflash", "eagle3", "gemma4-assistant")


@dataclass(frozen=True)
class HubFile:
    """One file of a hub repository. ``revision`` None: the newest; ``bytes`` and ``sha256`` None: not pinned,
    so that the hub's own metadata is the only truth."""

    repo: str
    name: str
    revision: str | None = None
    bytes: int | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class Facts:
    """What a model's header will say, as far as it is known before the file is here. Sizes in tokens or values.

    ``attention_interval``: in hybrid models every n-th layer is attention; their recurrent layers keep a state of
    ``ssm_*`` sizes. ``feed_forward``: width of the inner layer, for the compute buffers.
    """

    architecture: str
    layers: int | None = None
    feed_forward: int | None = None
    ssm_inner: int | None = None
    ssm_state: int | None = None
    ssm_groups: int | None = None
    ssm_conv: int | None = None
    hidden_size: int | None = None
    context_length: int | None = None
    head_count: int | None = None
    head_count_kv: int | None = None
    key_length: int | None = None
    value_length: int | None = None
    vocab_size: int | None = None
    attention_interval: int | None = None
    block_size: int | None = None
    target_layers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Weights:
    """A model's weights in one format (of FORMATS)."""

    file: HubFile
    format: str


@dataclass(frozen=True)
class Drafter:
    """A file that drafts for a model. ``method``: llama-server's name, such as draft-dspark."""

    file: HubFile
    method: str
    facts: Facts

    @property
    def kind(self) -> str:
        """What Line.drafters must hold for a line to load it: a drafter's architecture, or "model"."""
        return self.facts.architecture if self.facts.architecture in DRAFTERS else "model"


@dataclass(frozen=True)
class Model:
    """A model that can be fetched. ``family``: ternary, bonsai, bonsai2, or "" for others; ``name``: what
    BONSAI_MODEL says (27B, qwen2.5-coder-7b). ``weights`` and ``drafters`` in order of preference.
    ``no_drafter``: why there is none (empty when there is one). ``notice``: to be said aloud, or empty.
    ``methods``: ways to speculate that need no drafter's file, such as ngram-simple, worth offering.
    ``licence``: of the weights and the drafter, as their publisher names it.
    """

    family: str
    name: str
    label: str
    weights: tuple[Weights, ...]
    drafters: tuple[Drafter, ...]
    facts: Facts
    no_drafter: str = ""
    notice: str = ""
    methods: tuple[str, ...] = ()
    licence: str = ""


@dataclass(frozen=True)
class Asset:
    """One archive of a release. ``sha256`` None: to be taken from the release's own list."""

    name: str
    sha256: str | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class Build:
    """A line's engine for one system ("Linux", "Darwin", "Windows"), processor ("x86_64", "arm64") and backend
    ("cpu", "cuda", "metal", "rocm", "vulkan"). ``cuda``: toolkit version, "12.4". ``assets`` are unpacked into one
    folder in this order. ``note``: to be said aloud, or empty.
    """

    system: str
    arch: str
    backend: str
    assets: tuple[Asset, ...]
    cuda: str | None = None
    note: str = ""


@dataclass(frozen=True)
class Line:
    """A line of engine releases: GitHub ``repo`` and ``tag``, what its llama-server reads and can do.

    ``repo`` is empty for lines that are not fetched (embedded). ``flags``: options known to be there, for a plan
    before the binary can be asked. ``drafters``: drafter architectures that it loads ("model": whole models).
    """

    name: str
    repo: str
    tag: str
    formats: frozenset[str]
    drafters: frozenset[str]
    spec_types: frozenset[str]
    flags: frozenset[str]
    builds: tuple[Build, ...]
    note: str = ""

    def reads(self, weights: Weights) -> bool:
        """Whether its llama-server reads ``weights``."""
        return weights.format in self.formats

    def drafts_with(self, drafter: Drafter) -> bool:
        """Whether it loads ``drafter`` and knows the way to draft with it."""
        return drafter.kind in self.drafters and drafter.method in self.spec_types


@dataclass(frozen=True)
class Catalog:
    """Everything, in the file's order."""

    models: tuple[Model, ...]
    lines: tuple[Line, ...]

    def line(self, name: str) -> Line:
        """The line called ``name``; KeyError when there is none."""
        return {line.name: line for line in self.lines}[name]


@functools.cache
def load() -> Catalog:
    """The catalog that comes with the launcher, validated. Raises CatalogError."""
    from launcher.catalog_parse import parse as read

    name = "catalog.toml"
    return read((resources.files("launcher") / name).read_text(encoding="utf-8"), name)


def parse(text: str, where: str) -> Catalog:
    """The catalog in ``text``; CatalogError with ``where``, the entry and what is wrong with it."""
    from launcher.catalog_parse import parse as read

    return read(text, where)
