"""Declares the commands that measure: oneshot, race, lab."""

from __future__ import annotations

from typing import Annotated

import typer

from launcher.cli_options import Json, Question, Start, Temperature, Thinking, Yes, question, with_settings

Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown.")]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``, in the order of its help."""
    for command in (oneshot, race, lab):
        app.command()(command)


@with_settings
def oneshot(
    start: Start,
    prompt: Question = None,
    temperature: Temperature = 0.0,
    seed: Annotated[int, typer.Option(help="Makes sampling repeatable.")] = 42,
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens to answer with.")] = 300,
    method: Annotated[
        str | None,
        typer.Option(
            help="How to draft, such as dspark:2; else what the settings ask for.", show_default=False
        ),
    ] = None,
    thinking: Thinking = True,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Answer one question through llama-speculative-simple, chat template applied, with its figures."""
    from launcher.oneshot import OneShotOptions, run_oneshot

    options = OneShotOptions(question(prompt), temperature, seed, max_tokens, method, thinking)
    run_oneshot(start.settings, start.paths, start.env, options, as_json=as_json, agreed=yes)


@with_settings
def race(
    start: Start,
    prompt: Annotated[str | None, typer.Option(help="Your own prompt.", show_default=False)] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="One of ours: code (the default), prose, maths, chat, rewrite, thinking.", show_default=False
        ),
    ] = None,
    language: Annotated[str, typer.Option(help="Of our prompts: en, it, de.")] = "en",
    whole_set: Annotated[bool, typer.Option("--set", help="Race on every kind; a table by kind.")] = False,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100,
            help="Exactly so many; else until the answer is sure, at most 6.",
            show_default=False,
        ),
    ] = None,
    a: Annotated[
        str | None, typer.Option("--a", help="First way to run it, such as plain.", show_default=False)
    ] = None,
    b: Annotated[
        str | None, typer.Option("--b", help="Second way, such as dspark:2 or ngram-mod.", show_default=False)
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=2, help="Most tokens of an answer.")] = 300,
    temperature: Temperature = 0.0,
    seed: Annotated[int, typer.Option(help="The same on both sides.")] = 42,
    thinking: Annotated[
        bool | None,
        typer.Option(help="Let the model think first (else: for kind thinking only).", show_default=False),
    ] = None,
    texts: Annotated[bool, typer.Option(help="Prompts and answers in JSON and Markdown.")] = True,
    yes: Yes = False,
    as_json: Json = False,
    as_markdown: Markdown = False,
) -> None:
    """Measure plain against speculative decoding, fairly, on one prompt or a whole set."""
    from launcher.race_command import run_race_command
    from launcher.race_setup import RaceOptions

    if as_json and as_markdown:
        raise typer.BadParameter("choose --json or --markdown")
    if prompt is not None and (whole_set or not prompt.strip()):
        raise typer.BadParameter("the prompt is empty" if not prompt.strip() else "choose --prompt or --set")
    options = RaceOptions(
        prompt=prompt,
        kind=kind,
        language=language,
        whole_set=whole_set,
        rounds=rounds,
        a=a,
        b=b,
        max_tokens=max_tokens,
        temperature=temperature,
        seed=seed,
        thinking=thinking,
    )
    form = "json" if as_json else "markdown" if as_markdown else "text"
    run_race_command(start.settings, start.paths, start.env, options, form=form, with_texts=texts, agreed=yes)


@with_settings
def lab(
    start: Start,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small useful part of it, in under five minutes.")
    ] = False,
    kinds: Annotated[
        str | None,
        typer.Option(
            help="Of code, prose, maths, chat, rewrite, thinking; by comma (default: all).",
            show_default=False,
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Such as none,dspark:2,ngram-mod+dspark:4; dspark alone is all its lengths (default: all).",
            show_default=False,
        ),
    ] = None,
    language: Annotated[str, typer.Option(help="Of our prompts: en, it, de.")] = "en",
    temperature: Annotated[
        list[float] | None,
        typer.Option(min=0, max=5, help="May be given several times (default: 0 and 1).", show_default=False),
    ] = None,
    p_min: Annotated[
        list[float] | None,
        typer.Option(
            min=0, max=1, help="Least probability of a drafted token, also with this.", show_default=False
        ),
    ] = None,
    draft_on: Annotated[
        list[str] | None,
        typer.Option(help="Where the drafter runs, also there: cpu or ngld0.", show_default=False),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(min=2, help="Most tokens of an answer (default: 300; quick: 128).", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the requests and of the order.")] = 42,
    runs: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100,
            help="Exactly so many of each; else until it is known well enough.",
            show_default=False,
        ),
    ] = None,
    precision: Annotated[
        float, typer.Option(min=0.01, max=0.5, help="How narrow a ratio's interval has to be: 0.05 is ±5 %.")
    ] = 0.05,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.05, help="No answer begins after so many (default: 60; quick: 3).", show_default=False
        ),
    ] = None,
    thinking: Annotated[
        bool | None,
        typer.Option(help="Let the model think first (else: for kind thinking only).", show_default=False),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the latest lab; what it has is not measured again.")
    ] = False,
    record: Annotated[
        str | None, typer.Option(help="With --resume: the id of the lab to go on with.", show_default=False)
    ] = None,
    advise: Annotated[
        bool,
        typer.Option("--advise", help="Only find what to use, with a part of the answers; no table of all."),
    ] = False,
    use: Annotated[
        str | None,
        typer.Option(help="Use from now on what is advised for coding or chat.", show_default=False),
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Measure nothing: forget what was last chosen to be used.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
    as_markdown: Markdown = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Measure every way to run the model on every kind of text; say what to use for coding and for chat."""
    from launcher.advise_command import run_advise_command, run_undo
    from launcher.lab_command import run_lab_command
    from launcher.lab_setup import LabOptions
    from launcher.lab_types import TEMPERATURES
    from launcher.learned import KINDS as PURPOSES
    from launcher.methods import DRAFT_ON

    forms = [name for name, on in (("json", as_json), ("markdown", as_markdown), ("csv", as_csv)) if on]
    if len(forms) > 1:
        raise typer.BadParameter("choose one of --json, --markdown and --csv")
    if record is not None and not resume:
        raise typer.BadParameter("--record needs --resume")
    if use not in (None, *PURPOSES):
        raise typer.BadParameter(f"--use is one of {', '.join(PURPOSES)}")
    if advise and (resume or runs is not None or as_markdown or as_csv):
        raise typer.BadParameter("--advise goes with neither --resume, --runs, --markdown nor --csv")
    if undo:
        run_undo(start.settings, start.paths, start.env)
        return
    for place in draft_on or ():
        if place not in DRAFT_ON:
            raise typer.BadParameter(f"--draft-on is one of {', '.join(DRAFT_ON)}")
    options = LabOptions(
        quick=quick,
        kinds=kinds,
        language=language,
        methods=methods,
        temperatures=tuple(temperature or TEMPERATURES),
        p_mins=tuple(p_min or ()),
        places=tuple(draft_on or ()),
        max_tokens=max_tokens,
        seed=seed,
        runs=runs,
        minutes=minutes,
        precision=precision,
        thinking=thinking,
    )
    if advise:
        run_advise_command(
            start.settings, start.paths, start.env, options, as_json=as_json, use=use, agreed=yes
        )
        return
    form = forms[0] if forms else "text"
    run_lab_command(
        start.settings,
        start.paths,
        start.env,
        options,
        form=form,
        resume=resume,
        record=record,
        use=use,
        agreed=yes,
    )
