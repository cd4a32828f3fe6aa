"""``bonsai ask``: one answer on the terminal, streamed, with its speed and acceptance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace

from launcher import console, counted, in_use, ladder
from launcher.chosen import Now, always
from launcher.client.events import (
    Block,
    ChatRequest,
    Failed,
    Finished,
    Message,
    Progress,
    Sampling,
    Text,
    Thinking,
    Timings,
)
from launcher.client.http import budget
from launcher.errors import AnswerProblem
from launcher.fetch_command import ensure_here, may_lack
from launcher.hardware.detect import detect, in_background
from launcher.hardware.model import Machine
from launcher.health import Patience
from launcher.ladder import Rescue, Rung
from launcher.lifecycle import Lease, Lifecycle
from launcher.memory import may_keep
from launcher.other_engines import other_engines
from launcher.paths import Paths
from launcher.plan import LaunchPlan
from launcher.proof import prove_server
from launcher.provision import resolve_all
from launcher.settings import Settings
from launcher.settle import let_memory_return
from launcher.supervise import records
from launcher.supervise.server import Server


@dataclass(frozen=True)
class AskOptions:
    """``max_tokens`` None: what is left of the context, at most 8,192."""

    prompt: str
    system: str
    temperature: float
    seed: int | None
    max_tokens: int | None
    thinking: bool


@dataclass(frozen=True)
class Answer:
    """A whole answer. ``blocks`` are the verify steps in order."""

    text: str
    thinking: str
    finish_reason: str
    timings: Timings
    plan: LaunchPlan


def run_ask(
    settings: Settings,
    paths: Paths,
    env: Mapping[str, str],
    options: AskOptions,
    *,
    as_json: bool,
    agreed: bool = False,
) -> None:
    """Start the engine, print the answer, stop the engine. Raises LauncherError; what was answered
    before a failure is printed all the same. ``agreed``: what is missing is fetched without asking."""
    looking = in_background()
    if may_lack(settings):
        ensure_here(settings, paths, env, looking.result(), agreed=agreed)
    lifecycle = make_lifecycle(settings, paths, env, looking)
    if not as_json:
        lifecycle.on_change(console.Progress())

    def count(answer: Answer) -> None:
        counted.count(paths, looking.result(), answer.plan, answer.timings)

    try:
        lifecycle.start()
        asyncio.run(_ask(lifecycle, options, count, as_json=as_json))
    finally:
        lifecycle.close()


def make_lifecycle(
    settings: Settings | Now,
    paths: Paths,
    env: Mapping[str, str],
    machine: Future[Machine] | None = None,
    *,
    stand_in: bool = False,
    patience: Patience | None = None,
) -> Lifecycle:
    """The owner of the engine that these settings ask for; those that may change are asked for by each start.
    ``machine``: a look at it that has begun already; the first plan waits for it. ``stand_in``: the practice pair runs
    while the model is not here, and a drafter that is refused is left out. ``patience``: when a silent engine counts as
    hung, where not as usual."""
    records.sweep_once(paths.run)  # what an earlier launcher left holds memory
    looking = machine or in_background()
    now = always(settings)

    def prepare(speculative: bool | None, rungs: tuple[Rung, ...]) -> LaunchPlan:
        asked = chosen = now()
        if speculative is not None and speculative != asked.speculative.value:
            chosen = asked.with_speculative(speculative, "the page's switch")
        chosen = ladder.apply(chosen, rungs)
        machine = looking.result()
        resolved = resolve_all(chosen, paths, env, machine, stand_in=stand_in)
        kept = None
        if not any("speculative" in rung.change for rung in rungs):
            kept = in_use.entry_here(asked, paths, machine, resolved, switch=speculative)
        return ladder.marked(in_use.plan_with(chosen, machine, resolved, kept), rungs)

    def keep(loaded: LaunchPlan, wanted: LaunchPlan) -> bool:  # noqa: ARG001 -- what is loaded is in use already
        return may_keep(wanted, detect())

    return Lifecycle(
        prepare,
        lambda plan: Server(plan, paths.logs, paths.run, dict(env)),
        keep,
        rescue=Rescue(
            now,
            lambda: looking.result().system,
            lenient=stand_in,
            others=lambda plan: other_engines(plan, now(), paths, looking.result()),
        ),
        prove=prove_server,
        patience=patience or Patience(),
        settle=lambda plan, sleep: let_memory_return(plan, detect, sleep),
    )


async def _ask(
    lifecycle: Lifecycle, options: AskOptions, count: Callable[[Answer], None], *, as_json: bool
) -> None:
    async with lifecycle.lease("ask") as lease:
        if not as_json:
            _announce(lease.plan)
        answer, failure = await _answer(lease, options, show=not as_json)
    if as_json:
        console.data_json(answer_json(answer))
    else:
        console.data("")
        console.say(figures(answer), "dim")
    count(answer)
    if failure:
        raise AnswerProblem(failure.what, failure.remedy)


def _announce(plan: LaunchPlan) -> None:
    if plan.resolved.practice:
        console.warn("This is the practice pair: no language model, it knows a few fixed texts.")
    for warning in plan.warnings:
        console.warn(warning)


async def _answer(lease: Lease, options: AskOptions, *, show: bool) -> tuple[Answer, Failed | None]:
    messages = [Message("system", options.system)] if options.system else []
    messages.append(Message("user", options.prompt))
    prompt_tokens = await lease.client.count_tokens(tuple(messages), thinking=options.thinking)
    request = ChatRequest(
        messages=tuple(messages),
        max_tokens=budget(prompt_tokens, lease.plan.context, options.max_tokens),
        sampling=replace(Sampling(), temperature=options.temperature, seed=options.seed),
        thinking=options.thinking,
    )
    text, thoughts = [], []
    reason, timings, failure = "", Timings(), None
    async for event in lease.client.chat(request):
        match event:
            case Text(piece):
                text.append(piece)
                if show:
                    console.data(piece, end="")
            case Thinking(piece):
                thoughts.append(piece)
                if show:
                    console.dim(piece)
            case Timings():
                timings = event
            case Finished(reason, timings):
                pass
            case Failed(timings=timings):
                reason, failure = "failed", event
            case Progress() | Block():
                pass
    return Answer("".join(text), "".join(thoughts), reason, timings, lease.plan), failure


def answer_json(answer: Answer) -> dict[str, object]:
    """The documented form of ``bonsai ask --json``."""
    timings, plan = answer.timings, answer.plan
    engaged = bool(timings.draft_n)
    reason = plan.speculation_why
    if plan.spec_type != "none" and not engaged:
        reason = "speculation was requested, but the engine drafted nothing"
    return {
        "text": answer.text,
        "thinking": answer.thinking,
        "finish_reason": answer.finish_reason,
        "timings": {
            "prompt_tokens": timings.prompt_tokens,
            "predicted_tokens": timings.predicted_tokens,
            "tokens_per_second": timings.tokens_per_second,
            "time_to_first_token_s": timings.time_to_first_token_s,
            "draft_n": timings.draft_n or None,
            "draft_n_accepted": timings.draft_n_accepted if engaged else None,
            "acceptance": timings.acceptance,
        },
        "speculation": {"requested": plan.speculation_requested, "engaged": engaged, "reason": reason},
    }


def figures(answer: Answer) -> str:
    """One line of figures under an answer, for the terminal."""
    drafting = answer.plan.spec_type != "none"
    return figure_line(answer.timings, drafting=drafting, cut=answer.finish_reason == "length")


def figure_line(timings: Timings, *, drafting: bool, cut: bool) -> str:
    """The same from the figures alone. ``drafting``: speculation was on; ``cut``: the limit of tokens ended it."""
    speed = "" if timings.tokens_per_second is None else f", {timings.tokens_per_second:.1f} tokens/s"
    first = (
        ""
        if timings.time_to_first_token_s is None
        else f", first token after {timings.time_to_first_token_s:.2f} s"
    )
    if timings.acceptance is not None:
        drafts = f", drafter {timings.draft_n_accepted}/{timings.draft_n} accepted ({timings.acceptance:.0%})"
    elif drafting:
        drafts = ", speculation requested but not active"
    else:
        drafts = ", without speculation"
    ending = " — cut: the limit of tokens was reached" if cut else ""
    return f"{timings.predicted_tokens} tokens{speed}{first}{drafts}{ending}"
