"""Settings -> Resolved: finds the engine and the model files on this machine, writes the practice pair."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from launcher import embedded, engine_build
from launcher.engine_probe import embedded_engine, engine_from_binary
from launcher.errors import EngineMissing, GgufError, SettingsError
from launcher.gguf_header import read_header
from launcher.paths import Paths, make_folder
from launcher.practice import ensure_pair
from launcher.resolved import Engine, ModelFile, Resolved
from launcher.settings import PRACTICE_MODELS, Settings

WAYS = "Build one with `bonsai engines build`, or name a llama-server with BONSAI_LLAMA_SERVER."


def resolve_all(settings: Settings, paths: Paths) -> Resolved:
    """Everything a plan needs, read from disk. Raises LauncherError for what is missing or broken."""
    engine = find_engine(settings, paths)
    model = settings.model.value
    if model in PRACTICE_MODELS:
        return _practice(settings, paths, engine)
    if not model.lower().endswith(".gguf") and not Path(model).exists():
        raise SettingsError(
            f"{settings.model.source} asks for {model}, which this version cannot fetch yet.",
            "Set it to practice, or to the path of a .gguf file.",
        )
    drafter = settings.drafter.value
    return Resolved(
        engine=engine,
        target=_model_file(model, settings.model.source),
        drafter=_model_file(drafter, settings.drafter.source) if drafter else None,
        drafter_why=f"given by {settings.drafter.source}"
        if drafter
        else "no drafter was given with BONSAI_DRAFTER",
    )


def find_engine(settings: Settings, paths: Paths) -> Engine:
    """The engine to use and why; EngineMissing names the ways to get one."""
    own, wanted = settings.llama_server.value, settings.engine.value
    if own:
        return _because(
            engine_from_binary(Path(own).expanduser(), "own"), f"named by {settings.llama_server.source}"
        )
    if wanted in ("prism", "prism-legacy"):
        raise EngineMissing(
            f"{settings.engine.source} asks for the {wanted} engine, which this version cannot fetch yet.",
            "Name its llama-server with BONSAI_LLAMA_SERVER.",
        )
    built = engine_build.installed(paths.engines) if wanted in ("auto", "mainline") else None
    if built:
        why = (
            "built on this machine from source" if wanted == "auto" else f"asked by {settings.engine.source}"
        )
        return _because(engine_from_binary(engine_build.server_binary(built), "built"), why)
    if wanted == "mainline":
        raise EngineMissing(
            f"{settings.engine.source} asks for a mainline engine, but none was built here.", WAYS
        )
    missing = embedded.available()
    if missing:
        raise EngineMissing(f"There is no engine on this machine: {missing}", WAYS)
    why = (
        "comes with the launcher; no engine was built or named"
        if wanted == "auto"
        else f"asked by {settings.engine.source}"
    )
    return _because(embedded_engine(), why)


def _because(engine: Engine, why: str) -> Engine:
    return replace(engine, why=f"{engine.kind} engine, version {engine.version}: {why}")


def _practice(settings: Settings, paths: Paths, engine: Engine) -> Resolved:
    size = settings.model.value.partition("-")[2] or "small"
    pair = ensure_pair(make_folder(paths.practice), size)
    label = f"practice pair ({size})"
    drafter = settings.drafter.value
    return Resolved(
        engine=engine,
        target=ModelFile(str(pair.target), label, read_header(pair.target)),
        drafter=_model_file(drafter, settings.drafter.source)
        if drafter
        else ModelFile(str(pair.drafter), label, read_header(pair.drafter)),
        drafter_why=f"given by {settings.drafter.source}" if drafter else "the practice pair's own",
        practice=True,
    )


def _model_file(text: str, source: str) -> ModelFile:
    path = Path(text).expanduser().absolute()
    if not path.exists():
        raise GgufError(f"There is no file {path}.", f"Check what {source} says, or leave it out.")
    header = read_header(path)
    return ModelFile(str(path), header.name or path.name, header)
