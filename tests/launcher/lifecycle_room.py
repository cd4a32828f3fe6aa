"""A Lifecycle on a program of the test's choice, with everything that the product gives it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil

from launcher import ladder
from launcher.client.events import ChatRequest, Event, Message
from launcher.health import Patience
from launcher.ladder import Rescue, Rung
from launcher.lifecycle import Lifecycle, Status
from launcher.plan import LaunchPlan, make_plan
from launcher.proof import prove_server
from launcher.settings import Settings, resolve
from launcher.supervise import vital
from launcher.supervise.server import Server
from tests import plans
from tests.conftest import free_port, wait_until

LINE = "prism"  # reads what the tests' target is said to hold


class Room:
    """``env``: what a person has set. ``patience``: when a silent engine counts as hung. ``faults``: what the making of
    the next plans raises."""

    def __init__(
        self,
        folder: Path,
        program: Path,
        *,
        patience: Patience | None = None,
        proven: bool = True,
        lenient: bool = True,
        server: type[Server] = Server,
        **env: str,
    ) -> None:
        self.folder, self.program, self.server = folder, program, server
        self.faults: list[Exception] = []
        # Its own: where others take the usual port meanwhile, an engine that dies is taken to have lost it.
        self.port = free_port()
        self.settings: Settings = resolve({}, env)
        self.seen: list[Status] = []
        self.owner = Lifecycle(
            self.prepare,
            self.serve,
            rescue=Rescue(lambda: self.settings, lambda: "Linux", lenient=lenient),
            prove=prove_server if proven else None,
            patience=patience or Patience(),
        )
        self.owner.on_change(self.seen.append)

    def prepare(self, speculative: bool | None, rungs: tuple[Rung, ...]) -> LaunchPlan:
        if self.faults:
            raise self.faults.pop()
        chosen = self.settings
        if speculative is not None:
            chosen = chosen.with_speculative(speculative, "the page's switch")
        chosen = ladder.apply(chosen, rungs)
        engine = replace(plans.ENGINE, program=(str(self.program),), line=LINE)
        plan = make_plan(chosen, plans.MACHINE, plans.resolved(engine=engine))
        return ladder.marked(replace(plan, port=self.port), rungs)

    def serve(self, plan: LaunchPlan) -> Server:
        return self.server(
            plan,
            self.folder / "logs",
            self.folder / "run",
            dict(os.environ),
            patience=vital.Patience(stop=0.5),
        )

    def settled(self, seconds: float = 25) -> Status:
        """The state after a start: ready or failed, with nothing under way."""
        wait_until(lambda: self.owner.status().phase in ("ready", "failed"), seconds, "a start to end")
        return self.owner.status()

    def started(self, speculative: bool | None = None) -> Status:
        """Ask for a start and wait for its end."""
        before = len(self.seen)
        self.owner.start(speculative)
        wait_until(lambda: any(it.phase == "preparing" for it in self.seen[before:]), 5, "the start to begin")
        return self.settled()

    def ask(self, text: str = "hello", tokens: int = 40) -> list[Event]:
        """One answer, waiting for the engine as a chat does."""
        return asyncio.run(asyncio.wait_for(self.answer(text, tokens), 30))

    async def answer(self, text: str = "hello", tokens: int = 40) -> list[Event]:
        async with self.owner.lease("chat") as lease:
            request = ChatRequest((Message("user", text),), max_tokens=tokens)
            return [event async for event in lease.client.chat(request)]

    def close(self) -> None:
        """Nothing of it may be left."""
        pids = {it.pid for it in self.seen if it.pid is not None}
        self.owner.close()
        assert not [pid for pid in pids if psutil.pid_exists(pid)]
        assert not list((self.folder / "run").glob("*.key"))


MakeRoom = Callable[..., Room]
