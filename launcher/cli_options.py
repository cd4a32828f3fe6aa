"""What every command begins with: a flag for each setting, and the settings, folders and environment behind it.

Beside cli.py the only reader of the environment.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from launcher.paths import Paths, locate, read_config
from launcher.settings import SPECS, Settings, resolve

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Fetch what is missing without asking.")]

Question = Annotated[str | None, typer.Argument(help="The question; - or nothing reads it from stdin.")]
Thinking = Annotated[bool, typer.Option(help="Let the model think first, where it can.")]
Temperature = Annotated[float, typer.Option(min=0, max=5, help="0 always takes the likeliest token.")]


@dataclass(frozen=True)
class Start:
    """What every command begins with."""

    settings: Settings
    paths: Paths
    env: dict[str, str]


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give ``command`` a flag for every setting (from the one table in settings.py) and, as its first
    argument, the Start made from them. A secret has no flag: argv can be read by others."""
    specs = [spec for spec in SPECS if not spec.secret]

    def run(**given: Any) -> None:
        flags: dict[str, str | None] = {}
        for spec in specs:
            value = given.pop(spec.name)
            flags[spec.name] = ("1" if value else "0") if isinstance(value, bool) else value
        env = dict(os.environ)
        paths = locate(flags["home"] or env.get("BONSAI_HOME") or None)
        settings = resolve(flags, env, read_config(paths), str(paths.config_file))
        command(Start(settings, paths, env), **given)

    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    added = []
    for spec in specs:
        is_bool = isinstance(spec.default, bool)
        option = typer.Option(
            f"{spec.flag}/--no-{spec.flag[2:]}" if is_bool else spec.flag,
            help=f"{spec.help} [{spec.env}]",
            show_default=False,
            rich_help_panel="Settings",
        )
        kind = bool | None if is_bool else str | None
        added.append(
            inspect.Parameter(
                spec.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option]
            )
        )
    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature([*keyword_only, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in [*keyword_only, *added]}
    return run


def question(given: str | None) -> str:
    """What was asked: as given, or piped in where it is "-" or nothing. Raises BadParameter when there is none."""
    if given in (None, "-"):
        if given is None and sys.stdin.isatty():
            raise typer.BadParameter("give a question, or pipe one in")
        given = sys.stdin.read()
    if not given or not given.strip():
        raise typer.BadParameter("the question is empty")
    return given
