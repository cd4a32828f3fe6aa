"""Pure: the catalog as a page of Markdown tables (docs/models.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from launcher.catalog import Build, Catalog, HubFile, Line, Model
from launcher.markdown import table

_SYSTEMS = {"Darwin": "macOS"}
_BACKENDS = {"cpu": "processor", "cuda": "CUDA", "metal": "Metal", "rocm": "ROCm", "vulkan": "Vulkan"}
_INTRO = """\
# Models and engine builds

Made from `launcher/catalog.toml` by `python -m tests.test_docs`; change that file, not this page.

What is fetched is checked against the size and the sha256 that stand there. Where there is none (marked
"published"), the digest is the one that the hub or the release itself publishes. Besides these there is the
practice pair, which is built in, needs no download and is no language model.
"""


def page_markdown(catalog: Catalog) -> str:
    """The whole page, ending in a newline."""
    models = table(
        ("model", "file", "format", "size (GB)", "sha256", "read by", "licence"),
        (row for model in catalog.models for row in _weights(catalog, model)),
    )
    drafters = table(
        ("model", "drafter", "method", "size (GB)", "loaded by", "without a drafter's file"),
        (row for model in catalog.models for row in _drafters(catalog, model)),
    )
    lines = table(
        ("line", "release", "reads", "loads as drafter", "speculates by", "note"), map(_line, catalog.lines)
    )
    builds = table(
        ("line", "system", "computes on", "archives, in the order of unpacking", "note"),
        (_build(line, build) for line in catalog.lines for build in line.builds),
    )
    parts = (
        ("Weights", "In order of preference.", models),
        ("Drafters", "", drafters),
        ("Engine lines", "", lines),
        ("Engine builds", "", builds),
    )
    sections = (
        f"\n## {title}\n{f'{chr(10)}{text}{chr(10)}' if text else ''}\n{rows}\n"
        for title, text, rows in parts
    )
    return _INTRO + "".join(sections)


def _weights(catalog: Catalog, model: Model) -> Iterable[Sequence[str]]:
    for item in model.weights:
        readers = (line.name for line in catalog.lines if line.reads(item))
        yield (
            _name(model),
            _hub(item.file),
            item.format,
            _size(item.file.bytes),
            _pin(item.file.sha256),
            _list(readers),
            model.licence,
        )


def _drafters(catalog: Catalog, model: Model) -> Iterable[Sequence[str]]:
    methods = _list(model.methods) or "nothing"
    for item in model.drafters:
        loaders = (line.name for line in catalog.lines if line.drafts_with(item))
        yield _name(model), _hub(item.file), item.method, _size(item.file.bytes), _list(loaders), methods
    if not model.drafters:
        yield _name(model), f"none: {model.no_drafter}", "", "", "", methods


def _line(line: Line) -> Sequence[str]:
    release = "comes with the launcher"
    if line.repo:
        release = f"[{line.tag}](https://github.com/{line.repo}/releases/tag/{line.tag})"
    drafters = _list(sorted(line.drafters)).replace("model", "whole models")
    return (
        line.name,
        release,
        _list(sorted(line.formats)),
        drafters,
        _list(sorted(line.spec_types)),
        line.note,
    )


def _build(line: Line, build: Build) -> Sequence[str]:
    system = f"{_SYSTEMS.get(build.system, build.system)} {build.arch}"
    backend = f"{_BACKENDS[build.backend]} {build.cuda or ''}".strip()
    archives = "<br>".join(f"`{item.name}`{'' if item.sha256 else ' (published)'}" for item in build.assets)
    return line.name, system, backend, archives, build.note


def _name(model: Model) -> str:
    return f"{model.label} (`{f'{model.family} {model.name}'.strip()}`)"


def _hub(file: HubFile) -> str:
    return f"[{file.name}](https://huggingface.co/{file.repo})"


def _size(size: int | None) -> str:
    return "" if size is None else f"{size / 1e9:.2f}"


def _pin(digest: str | None) -> str:
    return "published" if digest is None else f"`{digest[:12]}…`"


def _list(words: Iterable[str]) -> str:
    return ", ".join(words)
