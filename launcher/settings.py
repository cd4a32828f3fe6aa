"""Flags, environment and config file -> Settings. Pure: nobody reads those three after this stage."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

from launcher.errors import SettingsError
from launcher.markdown import table

T = TypeVar("T")

PRACTICE_MODELS = ("practice", "practice-medium", "practice-large", "practice-xlarge")
AUTO = "auto"
FAMILIES = ("ternary", "bonsai", "bonsai2")
ENGINES = ("auto", "prism-legacy", "prism", "mainline", "embedded")

# Names of the public demo that concern images, which are not in scope yet: known, answered with a notice.
IMAGE_NAMES = ("BONSAI_MMPROJ_CPU", "BONSAI_IMAGE_MAX_TOKENS")


@dataclass(frozen=True)
class Value(Generic[T]):
    """A setting and where it came from: "default", a flag, a variable, or a line of the config file."""

    value: T
    source: str = "default"

    @property
    def asked(self) -> bool:
        """Whether a person chose it, so that it is never changed in silence."""
        return self.source != "default"


@dataclass(frozen=True)
class Settings:
    """Every value with its source; the fields' order is the order of the documented table."""

    model: Value[str]
    drafter: Value[str | None]
    family: Value[str]
    speculative: Value[bool]
    spec_nmax: Value[int | None]
    ctx: Value[int]
    ngl: Value[int | None]
    kv4: Value[bool]
    engine: Value[str]
    llama_server: Value[str | None]
    host: Value[str]
    port: Value[int]
    ui_port: Value[int]
    allow_remote: Value[bool]
    home: Value[str | None]
    models_dir: Value[str | None]
    offline: Value[bool]
    token: Value[str | None]
    releases_url: Value[str | None]
    notices: tuple[str, ...] = ()

    def with_speculative(self, on: bool, source: str) -> Settings:
        """The same settings with the drafter switched by ``source`` (for instance the page's switch)."""
        return replace(self, speculative=Value(on, source))

    def rows(self) -> list[tuple[str, str, str]]:
        """(name, value, source) of every setting for people; secrets are not shown."""
        out = []
        for spec in SPECS:
            setting: Value[object] = getattr(self, spec.name)
            shown = "" if setting.value is None else str(setting.value)
            if spec.secret and shown:
                shown = "(set)"
            out.append((spec.env, shown, setting.source))
        return out


def _truth(text: str) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False}
    word = text.strip().lower()
    if word == "off":
        return False
    if word not in words:
        raise ValueError("a truth value: 1/0, true/false, yes/no or on/off")
    return words[word]


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,12}", text.strip()) or not low <= int(text) <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return int(text)

    return parse


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        for name in allowed:
            if text.strip().lower() == name.lower():
                return name
        raise ValueError("one of " + ", ".join(allowed))

    return parse


def _model(text: str) -> str:
    """Names of the catalog are judged where it is known; ours are spelt in lower case."""
    name = _text(text).strip()
    return name.lower() if name.lower() in (*PRACTICE_MODELS, AUTO) else name


def is_path(model: str) -> bool:
    """Whether BONSAI_MODEL names a file rather than a model."""
    return model.lower().endswith(".gguf") or "/" in model or "\\" in model


def _text(text: str) -> str:
    if any(ord(letter) < 32 for letter in text):
        raise ValueError("a text without control characters")
    return text


@dataclass(frozen=True)
class Spec:
    """One setting's name, reader, default and description; the README's table is made from these."""

    name: str
    parse: Callable[[str], object]
    default: object
    default_text: str
    help: str
    secret: bool = False

    @property
    def env(self) -> str:
        """Its environment variable."""
        return "BONSAI_" + self.name.upper()

    @property
    def flag(self) -> str:
        """Its option on the command line."""
        return "--" + self.name.replace("_", "-")


SPECS = (
    Spec(
        "model",
        _model,
        AUTO,
        "the 27B, or the largest of its family that fits",
        "27B, 8B, 4B, 1.7B of the family; another of docs/models.md; practice, practice-medium, -large, -xlarge; "
        "or a .gguf file's path",
    ),
    Spec("drafter", _text, None, "the model's own", "path of a drafter .gguf trained for exactly this model"),
    Spec("family", _one_of(*FAMILIES), "ternary", "ternary", "ternary, bonsai or bonsai2"),
    Spec(
        "speculative", _truth, False, "0", "1 drafts with the model's drafter; off everywhere until asked for"
    ),
    Spec(
        "spec_nmax",
        _whole(1, 1024),
        None,
        "the drafter's block size",
        "draft length in tokens, 1 to the block size",
    ),
    Spec(
        "ctx",
        _whole(0, 2**31 - 1),
        0,
        "0",
        "context in tokens; 0 = automatic (at most 16384; less where memory is short)",
    ),
    Spec(
        "ngl",
        _whole(0, 9999),
        None,
        "as many as fit",
        "layers on the GPU; an engine without a GPU ignores it",
    ),
    Spec("kv4", _truth, False, "0", "1 keeps the KV cache as q4_0: less memory, slightly less exact"),
    Spec(
        "engine",
        _one_of(*ENGINES),
        "auto",
        "auto",
        "auto, embedded, mainline (a built engine counts as it), prism, prism-legacy (see docs/models.md)",
    ),
    Spec("llama_server", _text, None, "none", "path of a llama-server to use"),
    Spec(
        "host",
        _text,
        "127.0.0.1",
        "127.0.0.1",
        "address to listen on; another than loopback needs BONSAI_ALLOW_REMOTE=1",
    ),
    Spec("port", _whole(1, 65535), 8080, "8080", "port of llama-server"),
    Spec("ui_port", _whole(1, 65535), 7860, "7860", "port of the page"),
    Spec("allow_remote", _truth, False, "0", "1 lets other machines connect, with a password"),
    Spec("home", _text, None, "the system's folders", "one folder for data, cache and logs"),
    Spec("models_dir", _text, None, "none", "a folder with model files that are here already; only read"),
    Spec("offline", _truth, False, "0", "1 never asks the network"),
    Spec("token", _text, None, "none", "access token of the hub; an alias of HF_TOKEN", secret=True),
    Spec("releases_url", _text, None, "none", "a mirror of the release server, for fetching engines"),
)
_BY_ENV = {spec.env: spec for spec in SPECS}
_BY_NAME = {spec.name: spec for spec in SPECS}


def resolve(
    flags: Mapping[str, str | None],
    env: Mapping[str, str],
    config_text: str = "",
    config_name: str = "config.toml",
) -> Settings:
    """Settings from flags (by field name), environment and config file; the first that speaks wins.

    An empty variable counts as unset. Raises SettingsError for an unknown ``BONSAI_*`` name, key or
    value, naming where it stands and the nearest known name.
    """
    values: dict[str, Value[Any]] = {spec.name: Value(spec.default) for spec in SPECS}
    for name, (text, line) in _read_config(config_text, config_name).items():
        values[name] = _parse(_BY_NAME[name], text, f"{config_name}, line {line}", name)
    notices = []
    for name, text in env.items():
        if not name.startswith("BONSAI_"):
            continue
        if name in IMAGE_NAMES:
            notices.append(f"{name} is set, but images are not supported yet: it changes nothing.")
        elif name not in _BY_ENV:
            raise SettingsError(f"{name} is not a known variable.{_nearest(name, [*_BY_ENV, *IMAGE_NAMES])}")
        elif text != "":
            values[_BY_ENV[name].name] = _parse(_BY_ENV[name], text, name)
    for name, given in flags.items():
        if given is not None:
            values[name] = _parse(_BY_NAME[name], given, _BY_NAME[name].flag)
    if values["token"].value is None and env.get("HF_TOKEN"):
        values["token"] = Value(env["HF_TOKEN"], "HF_TOKEN")
    settings = Settings(**values, notices=tuple(notices))
    check_host(settings.host.value, settings.host.source, allowed=settings.allow_remote.value)
    return settings


def _parse(spec: Spec, text: str, where: str, key: str = "") -> Value[object]:
    """``where`` the value stands is its source; ``key`` is its name there, where that does not say it."""
    try:
        return Value(spec.parse(text), where)
    except ValueError as error:
        shown = "(hidden)" if spec.secret else repr(text[:60])
        name = f"{where}: {key}" if key else where
        raise SettingsError(f"{name} is {shown}, but must be {error}.") from None


def _nearest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f" Did you mean {close[0]}?" if close else ""


def check_host(host: str, source: str, *, allowed: bool) -> None:
    """SettingsError when ``host``, asked for by ``source``, is open to other machines and that is not allowed."""
    if host not in ("127.0.0.1", "localhost", "::1") and not allowed:
        raise SettingsError(
            f"{source} asks to listen on {host}, where other machines can connect.",
            "Set BONSAI_ALLOW_REMOTE=1 to allow that, or leave the host at 127.0.0.1.",
        )


def _read_config(text: str, name: str) -> dict[str, tuple[str, int]]:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{name} is not valid TOML: {error}.") from None
    out = {}
    for key, value in table.items():
        line = _line_of(key, text)
        if key not in _BY_NAME:
            raise SettingsError(
                f"{name}, line {line}: {key} is not a known key.{_nearest(key, list(_BY_NAME))}"
            )
        if not isinstance(value, str | int):
            raise SettingsError(f"{name}, line {line}: {key} must be a text, a number or true/false.")
        out[key] = (str(value), line)  # a TOML truth value becomes "True" or "False"
    return out


def _line_of(key: str, text: str) -> int:
    pattern = re.compile(rf"\s*\[*\s*[\"']?{re.escape(key)}[\"']?\s*[=.\]]")
    for number, line in enumerate(text.splitlines(), start=1):
        if pattern.match(line):
            return number
    return 1


def table_markdown() -> str:
    """The environment table of the README."""
    rows = [(f"`{spec.env}`", spec.default_text, spec.help) for spec in SPECS]
    return table(("variable", "default", "meaning"), rows)


assert [spec.name for spec in SPECS] == [field.name for field in fields(Settings)][:-1]  # noqa: S101
