"""What was learned, and the time ledger, as the page takes them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from launcher import counted, learned
from launcher.advise_run import Findings
from launcher.advise_setup import learned_of
from launcher.amounts import span
from launcher.client.events import Timings
from launcher.errors import BadInput
from launcher.hardware.model import Machine
from launcher.in_use import key_here
from launcher.lab_advice import advise
from launcher.lab_setup import Parts
from launcher.lab_store import differences
from launcher.lab_types import Lab
from launcher.learned import Key, Learned
from launcher.ledger import Ledger
from launcher.methods import PLAIN, Method
from launcher.paths import Paths
from launcher.plan import LaunchPlan


@dataclass(frozen=True)
class Taken:
    """What a person took over from a lab or a search; ``since`` in seconds since 1970. ``stale`` has a sentence for
    everything that is another now; ``overruled`` is one on what comes before it, or empty."""

    method: Method
    purpose: str
    why: str
    since: float
    stale: tuple[str, ...] = ()
    overruled: str = ""


@dataclass(frozen=True)
class TimeLedger:
    """``sentence`` sums it up, ``rows`` are (what, value) lines."""

    sentence: str
    rows: tuple[tuple[str, str], ...]


def advised(lab: Lab, purpose: str, key: Key) -> Learned:
    """What ``lab`` advises for ``purpose`` ("coding", "chat"), as it is kept for ``key``. Raises BadInput where nothing
    was measured for that."""
    advice = next(one for one in advise(lab) if one.purpose == purpose)
    if advice.ratio is None:
        raise BadInput(
            f"Nothing was measured for {purpose}, so there is no advice to use.", "Measure its texts."
        )
    low, high = advice.spread or (1.0, 1.0)
    return Learned(
        key=key,
        kind=purpose,
        method=advice.method,
        ratio=advice.ratio or 1.0,
        low=low,
        high=high,
        sure="high" if advice.sure else "low",
        text=advice.text,
        learned_at=time.time(),
    )


class LearnedPage:
    """``look`` finds this machine's parts, which may be slow; ``restart`` brings the engine up with or without
    speculation. All methods raise LauncherError."""

    def __init__(
        self,
        paths: Paths,
        machine: Callable[[], Machine],
        look: Callable[[], Parts],
        restart: Callable[[bool], None],
    ) -> None:
        self._paths, self._machine, self._look, self._restart = paths, machine, look, restart
        self._ledger = Ledger(paths.data)

    def use(self, measured: Lab | Findings, purpose: str) -> None:
        """Run from now on what ``measured`` advises for ``purpose``."""
        parts = self._look()
        other = differences(measured.subject, parts.subject)
        if other:
            what = "lab" if isinstance(measured, Lab) else "advice"
            raise BadInput(
                f"This {what} was measured with another {' and another '.join(other)}: it is not for what runs now.",
                "Measure again.",
            )
        key = self._key(parts)
        if isinstance(measured, Lab):
            learned.learn(self._paths, advised(measured, purpose, key))
            counted.know_lab(self._paths, key, measured)
        else:
            learned.learn(self._paths, learned_of(measured.of(purpose), key))
        self._bring_up(parts)

    def undo(self) -> None:
        """Forget what is shown as chosen; what was chosen before it holds again."""
        parts = self._look()
        entry = self._entry(self._key(parts))
        if entry is not None:
            learned.forget(self._paths, entry.key, entry.kind)
            self._bring_up(parts)

    def learned(self) -> Taken | None:
        """What is in use, or was until something changed."""
        parts = self._look()
        key = self._key(parts)
        entry = self._entry(key)
        if entry is None:
            return None
        asked = parts.settings.speculative
        return Taken(
            method=entry.method,
            purpose=entry.kind,
            why=entry.text,
            since=entry.learned_at,
            stale=learned.stale(entry, key),
            overruled=f"{asked.source} says whether to speculate, and comes first." if asked.asked else "",
        )

    def ledger(self) -> TimeLedger:
        """What speculation saved or cost over all chats."""
        found = self._ledger.summary()
        rows = (
            ("Saved in decoding" if found.saved_s >= 0 else "Lost in decoding", span(abs(found.saved_s))),
            ("Lost by reading prompts again", span(found.prompt_lost_s)),
            ("Net", f"{span(abs(found.net_s))} {'saved' if found.net_s >= 0 else 'lost'}"),
            ("Answers counted", f"{found.answers:,}"),
            ("Not counted: plain speed not known", f"{found.not_counted:,}"),
        )
        return TimeLedger(found.sentence, rows if found.answers or found.not_counted else ())

    def count(self, plan: LaunchPlan, timings: Timings, before_tokens: int) -> None:
        """Enter an answer of a chat into the ledger. ``before_tokens``: prompt and answer of the turn before in its
        conversation, 0 for the first."""
        counted.count(self._paths, self._machine(), plan, timings, before_tokens)

    def know_plain(self, plan: LaunchPlan, tokens_per_second: float, source: str) -> None:
        """Plain decoding of the target of ``plan`` was measured."""
        counted.know_plain(self._paths, self._machine(), plan, tokens_per_second, source)

    def _key(self, parts: Parts) -> Key:
        return key_here(self._paths, parts.machine, parts.resolved)

    def _entry(self, key: Key) -> Learned | None:
        return learned.learned(self._paths, key) or learned.outdated(self._paths, key)

    def _bring_up(self, parts: Parts) -> None:
        if parts.settings.speculative.asked:
            return  # nothing changes for what runs
        entry = learned.learned(self._paths, self._key(parts))
        self._restart(entry is not None and entry.method != PLAIN)
