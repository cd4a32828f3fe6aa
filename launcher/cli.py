"""Declares the commands. The only reader of argv and the environment; everything behind it gets values."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from launcher import __version__, cli_measure, console
from launcher.cli_options import Json, Question, Start, Temperature, Thinking, Yes, question, with_settings

app = typer.Typer(
    name="bonsai",
    help="Run, see and trust speculative decoding at home.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
engines_app = typer.Typer(help="The engines on this machine; build one, remove one.", rich_markup_mode=None)
app.add_typer(engines_app, name="engines")
models_app = typer.Typer(help="The models that are known and on disk; remove one.", rich_markup_mode=None)
app.add_typer(models_app, name="models")

MachineFile = Annotated[
    Path | None,
    typer.Option("--machine", help="For the machine in this file, as --json writes it.", show_default=False),
]


def _version(wanted: bool) -> None:
    if wanted:
        console.data(f"bonsai {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
@with_settings
def page(
    start: Start,
    context: typer.Context,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the page.")] = False,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Start everything and open the page."""
    if context.invoked_subcommand is None:
        from launcher.page import run_page

        run_page(start.settings, start.paths, start.env, browser=not no_browser)


@app.command(context_settings={"ignore_unknown_options": False, "allow_extra_args": True})
@with_settings
def serve(
    start: Start,
    extra: Annotated[
        list[str] | None, typer.Argument(help="Arguments for llama-server, after --.", show_default=False)
    ] = None,
    yes: Yes = False,
) -> None:
    """Run llama-server alone in the foreground, on 127.0.0.1:8080 unless asked otherwise."""
    from launcher.serve import run_server

    run_server(start.settings, start.paths, start.env, extra or [], agreed=yes)


@app.command()
@with_settings
def plan(start: Start, as_json: Json = False, machine: MachineFile = None) -> None:
    """Print the exact llama-server command line, with a reason for every part. Starts nothing."""
    from launcher import report
    from launcher.hardware.detect import detect
    from launcher.in_use import plan_here
    from launcher.provision import resolve_all

    found = report.given_machine(machine) if machine else detect()
    resolved = resolve_all(
        start.settings, start.paths, start.env, found, expect=True, elsewhere=machine is not None
    )
    launch = plan_here(start.settings, start.paths, found, resolved)
    if as_json:
        console.data_json(report.plan_json(launch, found))
    else:
        report.print_plan(launch, found)


@app.command()
@with_settings
def ask(
    start: Start,
    prompt: Question = None,
    system: Annotated[str, typer.Option(help="System prompt.")] = "",
    temperature: Temperature = 0.7,
    seed: Annotated[int | None, typer.Option(help="Makes sampling repeatable.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Most tokens to answer with.")] = None,
    thinking: Thinking = True,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Answer one question on the terminal, with its speed and acceptance."""
    from launcher.ask import AskOptions, run_ask

    options = AskOptions(question(prompt), system, temperature, seed, max_tokens, thinking)
    run_ask(start.settings, start.paths, start.env, options, as_json=as_json, agreed=yes)


cli_measure.register(app)


@app.command()
@with_settings
def doctor(start: Start, as_json: Json = False, machine: MachineFile = None) -> None:
    """What is wrong on this machine and what to do; exit code 1 when something would stop a start."""
    from launcher import report
    from launcher.doctor import examine, print_report, report_json
    from launcher.hardware.detect import detect

    found = report.given_machine(machine) if machine else detect()
    result = examine(start.settings, start.paths, start.env, found, elsewhere=machine is not None)
    if as_json:
        console.data_json(report_json(result))
    else:
        print_report(result)
    if not result.healthy:
        raise typer.Exit(1)


@app.command()
@with_settings
def fetch(
    start: Start,
    engine_only: Annotated[bool, typer.Option("--engine-only", help="Leave the models alone.")] = False,
) -> None:
    """Bring engine, weights and drafter to disk; goes on where an earlier fetch ended."""
    from launcher.fetch_command import run_fetch

    run_fetch(start.settings, start.paths, start.env, engine_only=engine_only)


@models_app.callback(invoke_without_command=True)
@with_settings
def models(
    start: Start,
    context: typer.Context,
    use: Annotated[
        str | None,
        typer.Option("--use", help="Run this one from now on; auto: none in particular.", metavar="NAME"),
    ] = None,
    as_json: Json = False,
) -> None:
    """What models are known, on disk and in use; --use chooses one."""
    if context.invoked_subcommand is not None:
        return
    from launcher import inventory
    from launcher.hardware.detect import detect

    if use is not None:
        from launcher.chosen import choose_here

        said, settings = choose_here(start.settings, start.paths, detect, use)
        console.say(said)
        if not as_json:
            return
        start = replace(start, settings=settings)
    rows = inventory.models(start.settings, start.paths, start.env, detect())
    if as_json:
        console.data_json(rows)
    else:
        inventory.print_models(rows)


@models_app.command("remove")
@with_settings
def models_remove(
    start: Start,
    name: Annotated[str, typer.Argument(help="27B, bonsai/8B, practice-large, ... (see bonsai models).")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Without asking.")] = False,
) -> None:
    """Delete what was fetched of a model. Files that were here before are never touched."""
    from launcher import inventory

    files = inventory.removable(start.settings, start.paths, name)
    if _sure(yes, [str(file) for file in files]):
        console.say(f"{inventory.remove(files):,} bytes are free again.")


@engines_app.callback(invoke_without_command=True)
@with_settings
def engines(start: Start, context: typer.Context, as_json: Json = False) -> None:
    """The engines on this machine and the one that would be used."""
    if context.invoked_subcommand is not None:
        return
    from launcher import inventory
    from launcher.hardware.detect import detect

    rows = inventory.engines(start.settings, start.paths, start.env, detect())
    if as_json:
        console.data_json(rows)
    else:
        inventory.print_engines(rows)


@engines_app.command("remove")
@with_settings
def engines_remove(
    start: Start,
    name: Annotated[str, typer.Argument(help="As `bonsai engines` calls it.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Without asking.")] = False,
) -> None:
    """Delete an engine that was fetched."""
    from launcher import engine_store, inventory

    found = inventory.fetched_engine(start.paths, name)
    if _sure(yes, [str(found.folder)]):
        console.say(f"{engine_store.remove(found):,} bytes are free again.")


def _sure(yes: bool, what: list[str]) -> bool:
    """Whether the person agrees that ``what`` is deleted; without a terminal only --yes says so."""
    for path in what:
        console.say(f"  {path}")
    if yes:
        return True
    if not sys.stdin.isatty():
        raise typer.BadParameter("--yes is needed without a terminal")
    if console.agreed("Delete this?"):
        return True
    console.say("Nothing was deleted.")
    return False


@engines_app.command("build")
@with_settings
def engines_build(
    start: Start,
    jobs: Annotated[int | None, typer.Option(min=1, help="Compile this many files at once.")] = None,
    quantize: Annotated[bool, typer.Option("--quantize", help="Also build llama-quantize.")] = False,
) -> None:
    """Build llama-server and llama-speculative-simple from source, for exactly this machine."""
    from launcher.build_command import run_build

    run_build(start.settings, start.paths, jobs=jobs, quantize=quantize)


def commands() -> set[str]:
    """The names of the commands; without one, the page is meant."""
    return set(command().commands)


def command() -> Any:
    """The click command behind the app, for tools that document it."""
    return cast("Any", typer.main.get_command(app))
