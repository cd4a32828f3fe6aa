"""Text of catalog.toml -> Catalog, with everything checked that can be checked without a network. Pure."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields

from launcher.catalog import (
    DRAFTERS,
    FORMATS,
    Asset,
    Build,
    Catalog,
    Drafter,
    Facts,
    HubFile,
    Line,
    Model,
    Weights,
)
from launcher.catalog_fields import Fields, unique, wrong
from launcher.drafter_kinds import head_misfit, sibling_misfit
from launcher.expected import expected_drafter, expected_header
from launcher.pair import misfit

FAMILIES = ("ternary", "bonsai", "bonsai2")
SYSTEMS = ("Linux", "Darwin", "Windows")
ARCHES = ("x86_64", "arm64")
BACKENDS = ("cpu", "cuda", "metal", "rocm", "vulkan")
DRAFT_METHODS = ("draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark")
NGRAM_METHODS = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
_COUNTS = [item.name for item in fields(Facts) if item.name not in ("architecture", "target_layers")]
_MODEL_NAME = re.compile(r"[0-9A-Za-z][\w.-]*", re.ASCII)


def parse(text: str, where: str) -> Catalog:
    """The catalog in ``text``, called ``where`` in messages. Raises CatalogError with one sentence about the first
    entry that is wrong."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise wrong(where, f"it is no valid TOML: {error}") from None
    top = Fields(table, where)
    models = tuple(_model(item, where) for item in top.tables("model", required=True))
    lines = tuple(_line(item, where) for item in top.tables("line", required=True))
    top.done()
    unique([f"{model.family} {model.name}".strip() for model in models], where, "model")
    unique([line.name for line in lines], where, "line")
    for model in models:
        _check_model(model, lines, f"{where}: model {_called(model.family, model.name)}")
    return Catalog(models, lines)


def _called(family: str, name: str) -> str:
    return f"{family} {name}".strip()


def _model(table: object, where: str) -> Model:
    top = Fields(table, f"{where}: a model")
    family = top.text("family", "")
    if family and family not in FAMILIES:
        raise top.wrong(f"family is {family!r}, but must be one of {', '.join(FAMILIES)} or left out")
    name = top.text("name")
    top.where = where = f"{where}: model {_called(family, name)}"
    if not _MODEL_NAME.fullmatch(name):
        raise top.wrong("name must consist of letters, digits, dots and dashes")
    label = top.text("label")
    repo, revision = top.repo("repo"), top.revision("revision")
    weights = tuple(_weights(item, where, repo, revision) for item in top.tables("weights", required=True))
    drafters = tuple(_drafter(item, where, repo, revision) for item in top.tables("drafter"))
    no_drafter, notice = top.text("no_drafter", ""), top.text("notice", "")
    methods = top.texts("methods", NGRAM_METHODS)
    licence = top.text("licence")
    facts = _facts(top.table("facts", f"{where}, facts"))
    top.done()
    return Model(family, name, label, weights, drafters, facts, no_drafter, notice, methods, licence)


def _weights(table: object, where: str, repo: str, revision: str | None) -> Weights:
    top = Fields(table, f"{where}, weights")
    file = _file(top, where, repo, revision)
    found = Weights(file, top.one_of("format", FORMATS))
    top.done()
    return found


def _drafter(table: object, where: str, repo: str, revision: str | None) -> Drafter:
    top = Fields(table, f"{where}, drafter")
    file = _file(top, where, repo, revision)
    method = top.one_of("method", DRAFT_METHODS)
    facts = _facts(top.table("facts", f"{top.where}, facts"))
    top.done()
    return Drafter(file, method, facts)


def _file(top: Fields, where: str, repo: str, revision: str | None) -> HubFile:
    """A file's own repo leaves the model's revision behind: revisions belong to repositories."""
    name = top.name("name", (".gguf",))
    top.where = f"{where}, {name}"
    own = top.repo("repo", "")
    own_revision = top.revision("revision")
    if own_revision is None and own in ("", repo):
        own_revision = revision
    return HubFile(own or repo, name, own_revision, top.whole("bytes"), top.digest("sha256"))


def _facts(top: Fields) -> Facts:
    architecture = top.text("architecture")
    counts = {key: top.whole(key) for key in _COUNTS}
    layers = top.wholes("target_layers")
    top.done()
    return Facts(architecture, **counts, target_layers=layers)


def _line(table: object, where: str) -> Line:
    top = Fields(table, f"{where}: a line")
    name = top.text("name")
    top.where = where = f"{where}: line {name}"
    repo, tag = top.repo("repo", ""), top.text("tag", "")
    found = Line(
        name,
        repo,
        tag,
        frozenset(top.texts("formats", FORMATS)),
        frozenset(top.texts("drafters", (*DRAFTERS, "model"))),
        frozenset(top.texts("spec_types", (*DRAFT_METHODS, *NGRAM_METHODS))),
        frozenset(top.texts("flags")),
        tuple(_build(item, where) for item in top.tables("build")),
        top.text("note", ""),
    )
    top.done()
    if not found.formats:
        raise top.wrong("formats is missing")
    for flag in found.flags:
        if not re.fullmatch(r"--?[a-z][a-z0-9-]*", flag):
            raise top.wrong(f"flags holds {flag!r}, which is no option")
    if not bool(repo) == bool(tag) == bool(found.builds):
        raise top.wrong("repo, tag and builds belong together: give all of them or none")
    unique([_build_name(build) for build in found.builds], where, "the build for")
    return found


def _build_name(build: Build) -> str:
    return f"{build.system} {build.arch} {build.backend} {build.cuda or ''}".strip()


def _build(table: object, where: str) -> Build:
    top = Fields(table, f"{where}, a build")
    system, arch = top.one_of("system", SYSTEMS), top.one_of("arch", ARCHES)
    backend = top.one_of("backend", BACKENDS)
    cuda = top.text("cuda", "") or None
    found = Build(system, arch, backend, (), cuda)
    top.where = where = f"{where}, build {_build_name(found)}"
    if (backend == "cuda") != (cuda is not None):
        raise top.wrong(
            "cuda is the toolkit's version: it belongs to builds of backend cuda, and to all of them"
        )
    if cuda is not None and not re.fullmatch(r"\d{2}\.\d", cuda):
        raise top.wrong(f'cuda is {cuda!r}, but must be a version such as "12.4"')
    if backend == "metal" and system != "Darwin":
        raise top.wrong("metal is there on Darwin alone")
    assets = tuple(_asset(item, where) for item in top.tables("assets", required=True))
    if not assets:
        raise top.wrong("assets is empty")
    unique([asset.name for asset in assets], where, "asset")
    note = top.text("note", "")
    top.done()
    return Build(system, arch, backend, assets, cuda, note)


def _asset(table: object, where: str) -> Asset:
    top = Fields(table, f"{where}, an asset")
    name = top.name("name", (".zip", ".tar.gz"))
    top.where = f"{where}, {name}"
    found = Asset(name, top.digest("sha256"), top.whole("bytes"))
    top.done()
    return found


def _check_model(model: Model, lines: tuple[Line, ...], where: str) -> None:
    """Some line reads every file, and the first weights and the first drafter work together on one."""
    if not model.weights:
        raise wrong(where, "weights is empty")
    names = [item.file.name for item in model.weights] + [item.file.name for item in model.drafters]
    unique(names, where, "file")
    if bool(model.drafters) == bool(model.no_drafter):
        raise wrong(where, "no_drafter must say why there is no drafter, and be left out where there is one")
    for item in model.weights:
        if not any(line.reads(item) for line in lines):
            raise wrong(where, f"no line reads {item.format}, the format of {item.file.name}")
    for drafter in model.drafters:
        if problem := _drafter_misfit(model, drafter):
            raise wrong(where, f"{drafter.file.name} does not fit: {problem}")
    for method in model.methods:
        if not any(
            method in line.spec_types and line.reads(item) for item in model.weights for line in lines
        ):
            raise wrong(where, f"no line that reads it does {method}")
    if model.drafters:
        weights, drafter = model.weights[0], model.drafters[0]
        if not any(line.reads(weights) and line.drafts_with(drafter) for line in lines):
            both = f"{weights.file.name} and {drafter.file.name}"
            raise wrong(where, f"no line reads {both} together, which come first")


def _drafter_misfit(model: Model, drafter: Drafter) -> str | None:
    """What the facts alone tell, by the rules that hold for headers."""
    target, header = expected_header(model, model.weights[0]), expected_drafter(drafter)
    if drafter.method == "draft-dspark":
        return misfit(target, header)
    if drafter.method == "draft-simple":
        return sibling_misfit(target, header)
    if drafter.method == "draft-dflash":
        return None if header.architecture == "dflash" else f"its architecture is {header.architecture}."
    return head_misfit(target, header, drafter.method)
