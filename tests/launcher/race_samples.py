"""Whole values of a race for tests that need no engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from launcher.client.events import Timings
from launcher.methods import PLAIN, Method
from launcher.race_types import Mark, Prompt, Race, Run, Side, Step
from launcher.race_verdict import judge

DSPARK = Method("draft-dspark", 4)


def side(method: Method = PLAIN) -> Side:
    return Side(
        name=method.name,
        method=method,
        argv=(
            "/home/person/bin/llama-server",
            "-m",
            "/home/person/models/target.gguf",
            "--spec-type",
            method.spec_type,
        ),
        engine="own b1",
        model="target",
        model_path="/home/person/models/target.gguf",
        drafter_path="C:\\Users\\person\\drafter.gguf" if method.drafter_needed else None,
        practice=False,
        context=16384,
    )


SIDES = (side(), side(DSPARK))


def run(
    number: int,
    round_: int,
    rate: float,
    *,
    text: str = "one two three four",
    tokens: int = 100,
    blocks: Sequence[tuple[int, int]] = (),
    ended: str = "length",
    total_s: float | None = None,
    cached: int = 0,
    measured_by: str = "server",
    thinking: str = "",
) -> Run:
    """A run whose words are its tokens, one every ``1/rate`` seconds."""
    words = [word + " " for word in text.split(" ")]
    words[-1] = words[-1].rstrip()
    marks = [Mark(0.0, len(thinking), 1, "target", True)] if thinking else []
    marks += [
        Mark(round(at / rate, 6), len(word), 1, "draft" if blocks and at % 2 else "target", False)
        for at, word in enumerate(words)
    ]
    return Run(
        side=number,
        round=round_,
        timings=Timings(
            prompt_tokens=20,
            cached_tokens=cached,
            prompt_tokens_per_second=1000.0,
            predicted_tokens=tokens,
            tokens_per_second=rate,
            time_to_first_token_s=0.1,
            total_s=0.1 + tokens / rate if total_s is None else total_s,
            draft_n=sum(drafted for drafted, _ in blocks) or None,
            draft_n_accepted=sum(accepted for _, accepted in blocks) if blocks else None,
            measured_by=measured_by,
        ),
        text=text,
        thinking=thinking,
        marks=tuple(marks),
        steps=tuple(Step(round(at / rate, 6), *block) for at, block in enumerate(blocks)),
        ended=ended,
        started=1.7e9 + round_,
    )


def rounds(*rates: tuple[float, float]) -> list[Run]:
    """Runs in the order A B B A of the given speeds (side 0, side 1)."""
    out = []
    for number, pair in enumerate(rates, start=1):
        order = (0, 1) if number % 2 else (1, 0)
        out += [run(at, number, pair[at], blocks=((4, 3),) * 20 if at else ()) for at in order]
    return out


def race(runs: Sequence[Run] | None = None, **changes: object) -> Race:
    """A race over three rounds, with its verdict."""
    made = tuple(rounds((100, 150), (101, 149), (100, 151)) if runs is None else runs)
    whole = Race(
        id="0123456789abcdef",
        created=1.7e9,
        prompt=Prompt("Say | something.\nPlease.", "code", "en"),
        sides=SIDES,
        runs=made,
        verdict=judge(made, SIDES, 0.0),
        ended="rounds",
        machine=(("Processor", "a processor"), ("Memory", "32.0 GiB, 16.0 GiB free")),
    )
    return replace(whole, **changes)  # type: ignore[arg-type]
