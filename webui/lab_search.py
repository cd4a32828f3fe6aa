"""Runs a search for advice for the page, and shows every tab that looks what is asked now and what is known so far."""

from __future__ import annotations

import secrets
from typing import Any

from launcher.advise import Trial
from launcher.advise_run import (
    AdviseEvent,
    Answering,
    Began,
    Ended,
    Findings,
    Known,
    LeftOut,
    Preparing,
    Search,
    find,
)
from launcher.lifecycle import Lifecycle, Workshop
from launcher.methods import PLAIN
from launcher.plan import LaunchPlan
from webui.lab_search_views import Part, found_view, part_view
from webui.lab_watch import PATIENCE_S, Watched
from webui.stream import Frame


class RunningSearch(Watched):
    """Frames: ``search`` is how it stands as a whole, then come ``ask`` (what is measured next), ``prepare`` (sentences),
    ``answer`` (its measured answer begins), ``part`` (what is known for one purpose), and ``found`` with the result at
    the end."""

    name = "search"
    source = "the advisor"

    def __init__(self, search: Search, lifecycle: Lifecycle, *, patience_s: float = PATIENCE_S) -> None:
        super().__init__(secrets.token_hex(8), lifecycle, patience_s)
        self.findings: Findings | None = None
        self._search = search
        self._parts = {purpose: Part(purpose, spec) for purpose, spec in search.specs.items()}
        self._part = next(iter(self._parts.values()))
        self._now |= {"asked": None, "answering": False}

    @property
    def view(self) -> dict[str, Any] | None:
        """The result; None before something is known for sure."""
        if self.findings is None or not self.findings.found:
            return None
        return {"id": self.id, **found_view(self.findings), "notes": list(self._now["notes"])}

    def plain_speed(self) -> tuple[LaunchPlan, float] | None:
        speed = self.findings.plain_speed if self.findings else None
        return (self._part.spec.launches[PLAIN], speed) if speed else None

    async def _measure(self, workshop: Workshop) -> None:
        self.findings = await find(workshop, self._search, self._take, self._stop)

    async def _result(self) -> Frame:
        view = self.view
        if view is None:
            return {"broken": {"error": "Stopped before anything was known.", "remedy": ""}}
        return {"found": view}

    def _take(self, event: AdviseEvent) -> None:
        now, part = self._now, self._part
        match event:
            case Began(purpose, _):
                self._part = self._parts[purpose]
                self._tell(self._standing())
            case Trial():
                now |= {"asked": self._asked(event), "answering": False}
                self._tell({"ask": now["asked"]})
            case Preparing(message):
                now["phase"] = message
                self._tell({"prepare": message})
            case Answering():
                now |= {"phase": "", "answering": True}
                self._tell({"answer": now["asked"]})
            case Known(advice, limit_s):
                part.know(advice, limit_s)
                now |= {"asked": None, "answering": False}
                self._tell_part(part)
            case LeftOut(method, why):
                part.left_out.add(method)
                self._note(f"{method.name} is left out. {why}")
                self._tell_part(part)
            case Ended(found):
                part.end(found)
                self._tell_part(part)

    def _asked(self, trial: Trial) -> dict[str, Any]:
        return {"purpose": self._part.purpose, "name": trial.method.name, "tokens": trial.tokens}

    def _tell_part(self, part: Part) -> None:
        self._tell({"part": part_view(part), **self._progress()})

    def _standing(self) -> Frame:
        whole = {
            "id": self.id,
            "practice": self._search.subject.practice,
            "parts": [part_view(part) for part in self._parts.values()],
            **self._now,
            "notes": list(self._now["notes"]),
            **self._progress(),
        }
        return {"search": whole}

    def _progress(self) -> dict[str, Any]:
        """How far it is: ``share`` by purposes, and within one by the engine time that it keeps to; ``limit_s`` of all,
        where those that have not begun are taken to be as long as the others."""
        parts = list(self._parts.values())
        limits = [part.limit_s for part in parts if part.limit_s]
        return {
            "share": sum(part.share for part in parts) / len(parts),
            "spent_s": sum(part.spent_s for part in parts),
            "limit_s": sum(limits) / len(limits) * len(parts) if limits else None,
        }
