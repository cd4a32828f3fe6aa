"""The campaign's table, for the terminal and for the documents."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence

import psutil

from tests.campaign.running import Result
from tests.campaign.trial import IN_TIME, KEPT, NAMED, NO_ORPHAN, WORKS, Kind

HEAD = ("kind", "what goes wrong", "faults", "passed", "bound", "worst time to recovery", "looked at")
SHORT = {NO_ORPHAN: "orphans", IN_TIME: "time", KEPT: "conversations", NAMED: "cause", WORKS: "next message"}


def rows(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """A line for each kind, in the order in which they are listed, and one for all."""
    kinds: dict[str, Kind] = {result.kind.name: result.kind for result in results}
    made: list[tuple[str, ...]] = []
    for kind in kinds.values():
        mine = [result for result in results if result.kind == kind]
        looked = [short for name, short in SHORT.items() if any(name in result.looked for result in mine)]
        made.append(
            (
                kind.name,
                kind.what,
                str(len(mine)),
                str(sum(not result.problems for result in mine)),
                f"{kind.bound_s:g} s",
                f"{worst(mine):.1f} s",
                ", ".join(looked),
            )
        )
    good = sum(not result.problems for result in results)
    made.append(("**all**", "", str(len(results)), str(good), "", f"{worst(results):.1f} s", ""))
    return made


def worst(results: Sequence[Result]) -> float:
    """The longest recovery in seconds, 0 where there was none."""
    return max((result.recovery_s or 0.0 for result in results), default=0.0)


def lines(results: Sequence[Result]) -> str:
    """The table in Markdown."""
    text = [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    return "\n".join([*text, *(f"| {' | '.join(row)} |" for row in rows(results))])


def failures(results: Sequence[Result]) -> str:
    """Each that went wrong, with how to repeat it."""
    return "".join(
        f"\n- `{result.label}` ({result.way}): {problem}" for result in results for problem in result.problems
    )


def table(results: Sequence[Result], seconds: float) -> str:
    """For the terminal."""
    looks = sum(sum(result.looked.values()) for result in results)
    return f"\n{lines(results)}\n\n{looks} looks in {seconds:.0f} s.\n{failures(results)}\n"


def markdown(results: Sequence[Result], seed: int, seconds: float) -> str:
    """The page for the documents."""
    looks = sum(sum(result.looked.values()) for result in results)
    wrong = failures(results)
    return f"""# Fault campaign

Engines, streams, ports, files and the launcher itself go wrong on purpose, one fault after the other, with a person at
the page who had asked something; afterwards it is looked at what is left. Made by `python -m tests.campaign --markdown`;
`python -m tests.campaign --only KIND:NUMBER --seed {seed}` repeats one fault.

{len(results)} faults, {looks:,} looks, seed {seed}, {time.strftime("%Y-%m-%d")}, {seconds / 60:.0f} minutes on {machine()}.

{lines(results)}

After each fault:

- **orphans**: five seconds after it nobody is left whose command line or environment names this launcher's folder, and
  no key and no record of a process; strangers at a port are still alive.
- **time**: from the fault until the next message is answered or, where only a person can help, until the page says what
  is wrong, within the bound; pressing Stop is obeyed within 3 s, and the launcher ends within 12 s of being asked, 4 s
  of being asked twice, 1 s of SIGKILL. So that hundreds of faults take minutes, three of the product's own patiences
  are shorter here: a silent engine counts as hung after about 4 s instead of 30 s, one that does not load after 2 s
  (real ones 6 s) instead of 2 to 10 minutes, and from SIGTERM to SIGKILL pass 0.6 s (real ones 3 s) instead of 10 s.
- **conversations**: the folder loads whole; every message is there; of an answer there is at least what had been shown,
  marked with how it ended. Where the launcher itself is killed, what came in its last 3.5 s may be missing.
- **cause**: what the page says names this very cause; a captured log must give its own sentence.
- **next message**: it is answered whole; where the engine always fails, once it has been mended.

Real engines (llama-server built from source, and the embedded one) run the practice pair; all others are a program
that misbehaves on order ([tests/fakes/faulty_engine.py](../tests/fakes/faulty_engine.py)).
{f"{chr(10)}## What went wrong{chr(10)}{wrong}{chr(10)}" if wrong else ""}"""


def machine() -> str:
    """What kind of machine this is, without names."""
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{platform.system()} on {platform.machine()}, {os.cpu_count()} cores, {memory:.1f} GiB of memory, "
        f"Python {platform.python_version()}"
    )
