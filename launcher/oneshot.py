"""``bonsai oneshot``: one answer through llama-speculative-simple, the chat template applied by llama-server itself.

The program takes text, not messages. So a llama-server of the same engine is started first, without the GPU and with
hardly a context, asked what the template makes of the question, and stopped; weights are mapped, not read, for that.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from launcher import console, store_files
from launcher.ask import figure_line
from launcher.child_env import clean_env
from launcher.client.events import Message, Timings
from launcher.client.http import EngineClient
from launcher.errors import BadInput, ContextFull, EngineDied, EngineMissing
from launcher.fetch_command import ensure_here, may_lack
from launcher.hardware.detect import detect
from launcher.methods import PLAIN, Method, default_pair, named
from launcher.oneshot_parse import Answer, Counted, counted
from launcher.paths import Paths, make_folder
from launcher.plan import LaunchPlan, make_plan
from launcher.provision import resolve_all
from launcher.resolved import Engine
from launcher.settings import Settings
from launcher.store_errors import told
from launcher.supervise.server import Server
from launcher.supervise.streamed import Streamed, run_streamed

PROGRAM = "llama-speculative-simple"
# Options of the launch plan that mean the same to it.
SHARED = frozenset(
    {"-m", "-md", "--spec-type", "--spec-draft-n-max", "--spec-draft-p-min", "-ngl", "-ngld", "-devd"}
    | {"-fa", "-c", "-t", "-ctk", "-ctv", "--top-p", "--top-k", "--min-p"}
)
TEMPLATE_CONTEXT = 512  # tokens: the template is applied to text, whatever its length


@dataclass(frozen=True)
class OneShotOptions:
    """``method`` as methods.named takes it; None: what BONSAI_SPECULATIVE=1 would run."""

    prompt: str
    temperature: float = 0.0
    seed: int = 42
    max_tokens: int = 300
    method: str | None = None
    thinking: bool = True


@dataclass(frozen=True)
class OneShot:
    """One answer. ``text`` is all that was written, thoughts and their marks included."""

    text: str
    prompt: str
    method: Method
    counted: Counted
    finish_reason: str

    @property
    def timings(self) -> Timings:
        """Its figures in the form of every other answer."""
        return self.counted.timings


def run_oneshot(
    settings: Settings,
    paths: Paths,
    env: Mapping[str, str],
    options: OneShotOptions,
    *,
    as_json: bool,
    agreed: bool = False,
) -> None:
    """Answer and print. Raises LauncherError. ``agreed``: what is missing is fetched without asking."""
    machine = detect()
    if may_lack(settings):
        ensure_here(settings, paths, env, machine, agreed=agreed)
    resolved = resolve_all(settings, paths, env, machine)
    program = beside(resolved.engine)
    method = (
        named(options.method, settings, resolved) if options.method else default_pair(settings, resolved)[1]
    )
    if method == PLAIN:
        raise BadInput(
            f"{PROGRAM} always speculates.", "Choose a method, or ask without speculation by `bonsai ask`."
        )
    plan = make_plan(settings, machine, resolved, method)
    if resolved.practice:
        console.warn("This is the practice pair: no language model, it knows a few fixed texts.")
    for warning in plan.warnings:
        console.warn(warning)
    prompt = templated(plan, paths, env, options)
    console.say(f"{PROGRAM}: {method.name}", "dim")
    made = answer(plan, program, paths, env, options, prompt, _nothing if as_json else _show)
    if as_json:
        console.data_json(oneshot_json(made, plan))
    else:
        console.data("")
        cut = made.finish_reason == "length"
        console.say(figure_line(made.timings, drafting=True, cut=cut), "dim")


def beside(engine: Engine) -> Path:
    """The llama-speculative-simple of ``engine``. Raises EngineMissing when it has none."""
    ways = (
        "Build one with `bonsai engines build`, or name a llama-server that has it beside it with BONSAI_LLAMA_SERVER. "
        "`bonsai ask` answers without it."
    )
    if engine.kind == "embedded":
        raise EngineMissing(f"The embedded engine has no {PROGRAM}.", ways)
    server = Path(engine.program[0])
    found = server.with_name(PROGRAM + server.suffix)
    if not found.is_file():
        raise EngineMissing(f"There is no {PROGRAM} beside {server}.", ways)
    return found


def templated(plan: LaunchPlan, paths: Paths, env: Mapping[str, str], options: OneShotOptions) -> str:
    """What the target's chat template makes of the question. Raises LauncherError, ContextFull for one that leaves no
    room for an answer: the program itself may end before its message is out."""
    server = Server(_light(plan), paths.logs, paths.run, dict(env))
    try:
        server.start(threading.Event(), lambda _: None)
        client = EngineClient(server.base_url, api_key=server.api_key)
        text, tokens = asyncio.run(_asked(client, options))
    finally:
        server.stop()
    if tokens is not None and tokens >= plan.context:
        raise ContextFull(tokens + 1, plan.context)
    if text is None:
        raise EngineDied(
            "This llama-server cannot apply a chat template by itself (/apply-template).",
            "Use a newer engine, or `bonsai ask`.",
        )
    return text


async def _asked(client: EngineClient, options: OneShotOptions) -> tuple[str | None, int | None]:
    messages = (Message("user", options.prompt),)
    text = await client.apply_template(messages, thinking=options.thinking)
    return text, await client.count_tokens(messages, thinking=options.thinking)


def _light(plan: LaunchPlan) -> LaunchPlan:
    """A server of the same target that costs as little as can be: it will only be asked for a text."""
    engine, address = plan.resolved.engine, plan.argv[-4:]
    words = [
        *engine.program,
        "-m",
        plan.resolved.target.path,
        "-c",
        str(TEMPLATE_CONTEXT),
        "-ngl",
        "0",
        "-np",
        "1",
    ]
    for flag in ("--no-warmup", "--no-repack"):
        if engine.can(flag):
            words.append(flag)
    return replace(plan, argv=(*words, *address), method=PLAIN, port_asked=False)


def answer(
    plan: LaunchPlan,
    program: Path,
    paths: Paths,
    env: Mapping[str, str],
    options: OneShotOptions,
    prompt: str,
    show: Callable[[str], None],
) -> OneShot:
    """Run ``program`` on ``prompt``; ``show`` gets the text as it comes. Raises EngineDied when it breaks off."""
    folder = make_folder(paths.run)
    file = folder / f"oneshot-{secrets.token_hex(6)}.txt"
    text = Answer(prompt)
    try:
        # It drops one line feed at the end of the file, and a template may end with one that counts.
        with told("The prompt cannot be handed over"):
            store_files.write(file, f"{prompt}\n".encode())
        argv = command(plan, program, options, file)
        try:
            done = run_streamed(
                argv, cwd=folder, env=clean_env(env), on_output=lambda piece: show(text.feed(piece))
            )
        except OSError as error:
            raise EngineMissing(f"{program} cannot be started: {error.strerror}.") from error
    finally:
        file.unlink(missing_ok=True)
    show(text.feed(b"", final=True))
    figures = counted(done.errors.decode("utf-8", "replace"))
    if done.returncode or figures is None:
        raise _broken(done)
    reason = "length" if figures.predicted >= options.max_tokens else "stop"
    return OneShot(text.text, prompt, plan.method, figures, reason)


def command(plan: LaunchPlan, program: Path, options: OneShotOptions, file: Path) -> list[str]:
    """The command line: what ``plan`` says of models and memory, and this one request."""
    shared = [word for pair in _shared(plan) for word in pair]
    return [
        str(program),
        *shared,
        "-b",
        str(plan.context),  # it reads the prompt in one batch
        "-n",
        str(options.max_tokens),
        "--temp",
        f"{options.temperature:g}",
        "-s",
        str(options.seed),
        "--no-escape",
        "-f",
        str(file),
    ]


def _shared(plan: LaunchPlan) -> Iterator[tuple[str, str]]:
    words = plan.argv[len(plan.resolved.engine.program) :]
    for at, word in enumerate(words[:-1]):
        if word in SHARED:
            yield word, words[at + 1]


def _broken(done: Streamed) -> EngineDied:
    log = done.errors.decode("utf-8", "replace").splitlines()
    last = next((line for line in reversed(log) if "error" in line.lower() or " E " in line), "")
    last = last or (log[-1] if log else "it said nothing")
    return EngineDied(
        f"{PROGRAM} broke off (exit code {done.returncode}): {last.strip()}",
        "`bonsai ask` asks the same through llama-server.",
        log_tail="\n".join(log[-30:]),
        returncode=done.returncode,
    )


def oneshot_json(made: OneShot, plan: LaunchPlan) -> dict[str, object]:
    """The documented form of ``bonsai oneshot --json``: that of ``bonsai ask --json``, and the program's own counts."""
    timings, counts = made.timings, made.counted
    return {
        "text": made.text,
        "prompt": made.prompt,
        "finish_reason": made.finish_reason,
        "timings": {
            "prompt_tokens": timings.prompt_tokens,
            "prompt_tokens_per_second": timings.prompt_tokens_per_second,
            "predicted_tokens": timings.predicted_tokens,
            "tokens_per_second": timings.tokens_per_second,
            "total_s": timings.total_s,
            "draft_n": timings.draft_n,
            "draft_n_accepted": timings.draft_n_accepted,
            "acceptance": timings.acceptance,
        },
        "speculation": {
            "requested": True,
            "engaged": bool(counts.n_drafted),
            "method": made.method.spec_type,
            "n_max": made.method.draft_max,
            "reason": plan.speculation_why,
        },
    }


def _show(text: str) -> None:
    console.data(text, end="")


def _nothing(_: str) -> None:
    pass
