"""What the page is given when it is made; everything else it asks the lifecycle and the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from launcher import fetch_types
from launcher.advise_run import Findings, Search
from launcher.client.events import Timings
from launcher.hardware.model import Machine
from launcher.lab_store import LabStore
from launcher.lab_types import Lab, LabPlan, LabSpec, Subject
from launcher.lifecycle import Lifecycle
from launcher.methods import Method, Offer
from launcher.plan import LaunchPlan
from launcher.race_store import RaceStore
from launcher.store import Store


@dataclass(frozen=True)
class Row:
    """One line of a table on the Machine tab; ``source`` says where a setting's value comes from.

    ``pending``: it is still being looked for, so that the page asks again.
    """

    name: str
    value: str
    source: str = ""
    pending: bool = False


def _nothing() -> None:
    """No way to quit was given."""


@dataclass(frozen=True)
class RaceRoom:
    """What races need. The callables may be slow and raise LauncherError.

    ``offers``: every way to run the target, each with what stands against it; ``default``: the two that a race
    begins with; ``plans``: the plans for two of them; ``look``: this machine.
    """

    store: RaceStore
    offers: Callable[[], tuple[Offer, ...]]
    default: Callable[[], tuple[Method, Method]]
    plans: Callable[[Method, Method], tuple[LaunchPlan, LaunchPlan]]
    look: Callable[[], Machine] | None = None

    @property
    def machine(self) -> Machine | None:
        """This machine, for the race's record. May wait until it is known."""
        return self.look() if self.look else None


class FetchRoom(Protocol):
    """What the first-run view needs: what could be fetched, how the fetching stands, and the models to choose among.

    Calls may take a second and raise LauncherError; nothing is fetched before ``begin``.
    """

    def offer(self) -> fetch_types.Offer | None:
        """What could be fetched. None: nothing, all is there or other files were asked for."""
        ...

    def state(self) -> fetch_types.FetchState:
        """How it stands; at once."""
        ...

    def on_change(self, callback: Callable[[fetch_types.FetchState], None]) -> Callable[[], None]:
        """Call ``callback`` with every change, from any thread; the result ends that."""
        ...

    def begin(self) -> None:
        """Fetch what ``offer`` says: the person has agreed. Goes on from what is kept."""
        ...

    def pause(self) -> None:
        """Stand still; ``resume`` goes on."""
        ...

    def resume(self) -> None:
        """Go on after ``pause``."""
        ...

    def cancel(self) -> None:
        """Stop; what was fetched is kept."""
        ...

    def retry(self) -> None:
        """Try again after a failure, from what is kept."""
        ...

    def use(self) -> None:
        """Run the fetched model from now on."""
        ...

    def models(self) -> fetch_types.ModelList:
        """What can be chosen."""
        ...

    def choose(self, name: str) -> None:
        """Run the model called ``name`` from now on ("auto": the one that is taken by itself), once it is here."""
        ...


class LabHere(Protocol):
    """What a lab can measure here: ``offers`` are all methods, each with what stands against it; ``quick`` and ``whole``
    the two ready-made plans; ``subject`` what the figures would be about; ``wanted`` for each purpose (coding, chat) the
    kind of text and the temperature that advice is found with."""

    @property
    def offers(self) -> tuple[Offer, ...]: ...

    @property
    def quick(self) -> LabPlan: ...

    @property
    def whole(self) -> LabPlan: ...

    @property
    def subject(self) -> Subject: ...

    @property
    def wanted(self) -> Mapping[str, tuple[str, float]]: ...

    def fresh(self, method: Method) -> bool:
        """Whether each of its answers needs an engine that was started for it."""
        ...


class Learned(Protocol):
    """What a person took over from a lab or a search. ``purpose``: coding or chat; ``why`` explains it; ``since`` in
    seconds since 1970. ``stale`` has a sentence for everything that is another now: then it is not in use.
    ``overruled`` is one on what comes before it, or empty."""

    @property
    def method(self) -> Method: ...

    @property
    def purpose(self) -> str: ...

    @property
    def why(self) -> str: ...

    @property
    def since(self) -> float: ...

    @property
    def stale(self) -> tuple[str, ...]: ...

    @property
    def overruled(self) -> str: ...


class TimeLedger(Protocol):
    """What speculation saved or cost over all chats: ``sentence`` sums it up, ``rows`` are (what, value) lines."""

    @property
    def sentence(self) -> str: ...

    @property
    def rows(self) -> tuple[tuple[str, str], ...]: ...


class LabRoom(Protocol):
    """What labs need. All calls may be slow and raise LauncherError."""

    @property
    def store(self) -> LabStore: ...

    def here(self) -> LabHere:
        """Look at engine and files anew."""
        ...

    def spec(self, plan: LabPlan) -> LabSpec:
        """``plan`` with all that is needed to run it."""
        ...

    def search(self, language: str) -> Search:
        """What finds the best method here, by texts in ``language`` ("en", "it", "de")."""
        ...

    def again(self, lab_id: str) -> tuple[LabSpec, Lab]:
        """A kept lab that is to be gone on with, with its budget of time anew."""
        ...


class LearnedRoom(Protocol):
    """What was learned on this machine by measuring and by chatting. Calls may be slow and raise LauncherError."""

    def use(self, measured: Lab | Findings, purpose: str) -> None:
        """Run the model from now on as ``measured`` advises for ``purpose`` (coding or chat), on this machine with these
        files."""
        ...

    def undo(self) -> None:
        """Forget what ``learned`` shows: what was chosen before it, or the settings, hold again."""
        ...

    def learned(self) -> Learned | None:
        """What is in use by ``use``, or was until something changed."""
        ...

    def ledger(self) -> TimeLedger | None:
        """The time ledger of this data folder; None where there is none."""
        ...

    def count(self, plan: LaunchPlan, timings: Timings, before_tokens: int) -> None:
        """Enter an answer of a chat into the ledger. ``before_tokens``: prompt and answer of the turn before in its
        conversation, 0 for the first."""
        ...

    def know_plain(self, plan: LaunchPlan, tokens_per_second: float, source: str) -> None:
        """Plain decoding of the target of ``plan`` was measured by ``source`` ("a race")."""
        ...


@dataclass(frozen=True)
class PageContext:
    """``run_token`` is this run's secret; ``password`` is set when other machines may connect. ``look`` returns at
    once with the rows on the machine: looking at it may take longer than making the page. ``prove``: what a second
    start is answered, from its challenge. ``report``: a report on this run to copy, as Markdown."""

    lifecycle: Lifecycle
    store: Store
    run_token: str
    host: str
    port: int
    version: str
    settings_rows: Callable[[], tuple[Row, ...]] = tuple
    look: Callable[[], tuple[Row, ...]] = tuple
    notices: tuple[str, ...] = ()
    password: str | None = field(default=None, repr=False)
    on_quit: Callable[[], None] = _nothing
    races: RaceRoom | None = None
    fetching: FetchRoom | None = None
    prove: Callable[[str], str] | None = None
    report: Callable[[], str] | None = None
    lab: LabRoom | None = None
    learned: LearnedRoom | None = None

    @property
    def machine_rows(self) -> tuple[Row, ...]:
        """What is known of this machine by now."""
        return self.look()
