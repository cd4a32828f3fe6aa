"""What was learned and counted, for a page whose test looks at it afterwards."""

from __future__ import annotations

import time

from launcher.advise_run import Findings
from launcher.client.events import Timings
from launcher.lab_advice import advise
from launcher.lab_types import Lab
from launcher.learned_page import Taken, TimeLedger
from launcher.plan import LaunchPlan


class Memory:
    """Keeps what was learned as long as the test lasts."""

    def __init__(self) -> None:
        self.taken: Taken | None = None
        self.saved: TimeLedger | None = None
        self.counted: list[tuple[str, int, int]] = []
        self.plain: list[tuple[float, str]] = []

    def use(self, measured: Lab | Findings, purpose: str) -> None:
        if isinstance(measured, Findings):
            found = measured.of(purpose)
            self.taken = Taken(found.advice.method, purpose, found.text, time.time())
            return
        advice = next(one for one in advise(measured) if one.purpose == purpose)
        self.taken = Taken(advice.method, purpose, advice.text, time.time())

    def undo(self) -> None:
        self.taken = None

    def learned(self) -> Taken | None:
        return self.taken

    def ledger(self) -> TimeLedger | None:
        return self.saved

    def count(self, plan: LaunchPlan, timings: Timings, before_tokens: int) -> None:
        self.counted.append((plan.spec_type, timings.predicted_tokens, before_tokens))

    def know_plain(self, plan: LaunchPlan, tokens_per_second: float, source: str) -> None:
        assert plan.spec_type == "none"
        self.plain.append((tokens_per_second, source))
