"""One start of an engine: attempt, diagnosis, next rung of the ladder, until it is ready or nothing is left to try."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from launcher.errors import (
    AnswerProblem,
    EngineDied,
    EngineProblem,
    EngineUnreachable,
    LauncherError,
    PlanRefused,
)
from launcher.ladder import (
    AGAIN,
    Rescue,
    Rung,
    changes_engine,
    once_more,
    upon,
    without_drafter,
)
from launcher.lifecycle_types import Prepare, stood_still
from launcher.plan import LaunchPlan
from launcher.proof import Proof
from launcher.supervise.diagnose import Diagnosis
from launcher.supervise.server import Server

LOG_LINES = 400  # that a diagnosis sees: a crash may print its whole stack after the line that tells
FORGIVEN_AFTER_S = 60.0  # an engine that worked for so long since its restart starts with a clean slate
MOST_STEPS = 20  # the last ones are kept
POLL_S = 0.05
SERVED_S = 3.0  # an answer that ended so shortly before a death was not served: it broke off

NO_REMARKS: Mapping[str, object] = {"warnings": (), "inactive": False}

Prove = Callable[[Server, Callable[[], bool]], Proof]


@dataclass
class Climb:
    """What was learnt since somebody asked for an engine. ``rungs`` are in force, ``tried`` their names and those that
    did not help; ``failed`` the programs of the engines that another took the place of, ``engines`` the names of those
    that did; ``steps`` sentences for people; ``cause`` of the last failure."""

    speculative: bool | None = None
    rungs: tuple[Rung, ...] = ()
    tried: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    cause: str = ""
    said: str = ""  # the diagnosis in the last step

    def in_force(self) -> tuple[str, ...]:
        """The names of the rungs that the running engine stands on: for another start, others may be tried again."""
        return tuple(rung.name for rung in self.rungs)

    def note(self, rung: Rung) -> None:
        """It was tried."""
        if rung.name not in self.tried:
            self.tried = (*self.tried, rung.name)


class Setbacks:
    """Pure: how often an engine that was ready has died without having worked in between. Times in seconds."""

    def __init__(self) -> None:
        self._deaths = 0
        self._restarted = 0.0
        self._served: float | None = None

    def ready(self, now: float) -> None:
        """It answers (again)."""
        self._restarted, self._served = now, None

    def served(self, now: float) -> None:
        """Somebody's use of it ended."""
        if self._served is None:
            self._served = now

    def died(self, now: float) -> int:
        """The how-many-th death this is: 1 again once it has worked for a while and served somebody."""
        worked = self._served is not None and now - self._served > SERVED_S
        if worked and now - self._restarted > FORGIVEN_AFTER_S:
            self._deaths = 0
        self._deaths += 1
        return self._deaths


class Climber:
    """Tries; belongs to the owner's thread. ``start`` makes a plan's server answer or raises LauncherError; ``latest``
    is the server that it made last; ``hung`` tells whether one has stopped to answer; ``tell`` publishes changes of
    the Status."""

    def __init__(
        self,
        prepare: Prepare,
        start: Callable[[LaunchPlan], Server],
        latest: Callable[[], Server | None],
        hung: Callable[[Server], bool],
        tell: Callable[..., None],
        rescue: Rescue,
        prove: Prove | None,
    ) -> None:
        self._prepare, self._start, self._latest, self._hung = prepare, start, latest, hung
        self._tell, self._rescue, self._prove = tell, rescue, prove
        self._proofs: dict[str, Proof] = {}  # by the server's random name

    def run(self, climb: Climb, stop: Callable[[], bool]) -> Server:
        """The server that is ready; when ``stop`` says so, the last one as it is. Raises LauncherError when nothing
        helped: with the diagnosis, the remedy and what was tried."""
        plan = self._first_plan(climb)
        while True:
            try:
                server = self._start(plan)
                server.plan = self._proven(server, plan, stop)
                return server
            except EngineProblem as error:
                if stop():
                    raise
                plan = self._rescued(climb, error, plan, self._latest())

    def remarks(self, climb: Climb, server: Server) -> dict[str, object]:
        """Changes of the Status for a server that is ready: what the ladder changed and the test question showed."""
        proof = self._proofs.get(server.alias) or Proof()
        idle = proof.idle or server.plan.spec_type == "none"
        changed = (rung.warning for rung in climb.rungs if rung.warning)
        return {
            "warnings": (*changed, *proof.problems),
            "inactive": server.plan.speculation_requested and idle,
        }

    def _first_plan(self, climb: Climb) -> LaunchPlan:
        try:
            return self._prepare(climb.speculative, climb.rungs)
        except PlanRefused as refusal:
            if not self._rescue.lenient or any("speculative" in rung.change for rung in climb.rungs):
                raise
            rung = without_drafter(refusal.what)
            try:
                plan = self._prepare(climb.speculative, upon(climb.rungs, rung))
            except LauncherError:
                raise refusal from None  # it was not about the drafter
            self._take(climb, rung)
            self._step(climb, f"{refusal.what} {rung.says}")
            return plan

    def died(self, climb: Climb, count: int, error: EngineDied, server: Server) -> None:
        """An engine that was ready died for the ``count``-th time: once more unchanged, then the ladder. Raises
        EngineDied when it shall not be started again."""
        if count == 1:
            diagnosis, rung = self._judge(error, server.plan, server), once_more()
            climb.cause = diagnosis.cause
            climb.tried = climb.in_force()
            climb.note(rung)
            self._next(climb, diagnosis, rung)
        elif count == 2:
            self._rescued(climb, error, server.plan, server)
        else:
            raise self._failure(climb, error, server.plan, server)

    def explained(self, error: EngineDied, plan: LaunchPlan) -> EngineDied:
        """``error`` of an engine that nobody changes, such as one that is measured, with its diagnosis."""
        return self._failure(Climb(), error, plan, self._latest())

    def _rescued(
        self, climb: Climb, error: LauncherError, plan: LaunchPlan, server: Server | None
    ) -> LaunchPlan:
        """The plan of the next rung after ``plan`` failed with ``error``. Raises EngineDied when there is none."""
        diagnosis = self._judge(error, plan, server)
        climb.cause = diagnosis.cause
        while rung := self._rescue.next(diagnosis, plan, frozenset((*climb.tried, *climb.failed))):
            climb.note(rung)
            self._next(climb, diagnosis, rung)
            try:
                changed = self._prepare(climb.speculative, upon(climb.rungs, rung))
            except LauncherError as problem:
                self._step(climb, f"That is not possible: {problem.what}")
                continue
            if changed.resolved.target.path != plan.resolved.target.path:
                self._step(climb, "That is not possible: it would need another file of this model.")
                continue
            if changes_engine(rung):
                climb.failed = (*climb.failed, plan.resolved.engine.program[0])
                # What did not help the one before may help this one: only engines are not tried twice.
                climb.engines = (*climb.engines, rung.name)
                climb.tried = tuple(name for name in climb.tried if name in (AGAIN, *climb.engines))
            self._take(climb, rung)
            return changed
        raise self._failure(climb, error, plan, server)

    def _judge(self, error: LauncherError, plan: LaunchPlan, server: Server | None) -> Diagnosis:
        return self._rescue.judge(error, server.log_tail(LOG_LINES) if server else "", plan)

    def _failure(
        self, climb: Climb, error: LauncherError, plan: LaunchPlan, server: Server | None
    ) -> EngineDied:
        """The end, for people: the diagnosis, what they can do, what was tried and where the log lies."""
        diagnosis = self._judge(error, plan, server)
        climb.cause = diagnosis.cause
        vain = [name for name in climb.tried if name != AGAIN]
        said = [diagnosis.remedy, *self._rescue.hints(diagnosis, plan)]
        if vain:
            said.append(f"Tried in vain: {', '.join(vain)}.")
        if server and isinstance(error, EngineDied) and str(server.log_path) not in diagnosis.remedy:
            said.append(f"The whole log is in {server.log_path}.")
        return EngineDied(
            diagnosis.sentence,
            " ".join(part for part in said if part),
            log_tail=getattr(error, "log_tail", ""),
            returncode=getattr(error, "returncode", None),
        )

    def _take(self, climb: Climb, rung: Rung) -> None:
        climb.rungs = upon(climb.rungs, rung)
        climb.note(rung)

    def _next(self, climb: Climb, diagnosis: Diagnosis, rung: Rung) -> None:
        """Say why and what is tried next; a reason that stays the same is not said again."""
        again = climb.steps and diagnosis.sentence == climb.said
        climb.said = diagnosis.sentence
        self._step(climb, f"{'That did not help.' if again else diagnosis.sentence} {rung.says}")

    def _step(self, climb: Climb, sentence: str) -> None:
        climb.steps = (*climb.steps, sentence)[-MOST_STEPS:]
        self._tell(phase="starting", message=sentence, steps=climb.steps, pid=None)

    def _proven(self, server: Server, plan: LaunchPlan, stop: Callable[[], bool]) -> LaunchPlan:
        """``plan`` with what the test question brought to light. Raises EngineDied when it killed the engine,
        or made it hang."""
        if self._prove is None or stop():
            return plan
        proof = self._proofs.get(server.alias)
        if proof is None:
            self._tell(message="Asking the engine a short question …")
            try:
                proof = self._prove(server, lambda: stop() or self._hung(server))
            except AnswerProblem as problem:
                if isinstance(problem, EngineUnreachable) and _ends(server):
                    raise server.death() from problem
                proof = Proof(problems=(f"The engine did not answer a test question: {problem.what}",))
            if not stop():
                if self._hung(server):
                    server.stop(at_once=True)
                    raise stood_still(server)
                self._proofs = {server.alias: proof}
        return replace(plan, warnings=(*plan.warnings, *proof.problems))


def _ends(server: Server) -> bool:
    """Whether a server whose connection was cut is on its way out: writing a core dump takes a moment."""
    end = time.monotonic() + SERVED_S
    while server.alive and time.monotonic() < end:
        time.sleep(POLL_S)
    return not server.alive
