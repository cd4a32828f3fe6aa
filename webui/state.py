"""What the page is given when it is made; everything else it asks the lifecycle and the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from launcher.hardware.model import Machine
from launcher.lifecycle import Lifecycle
from launcher.methods import Method, Offer
from launcher.plan import LaunchPlan
from launcher.race_store import RaceStore
from launcher.store import Store


@dataclass(frozen=True)
class Row:
    """One line of a table on the Machine tab; ``source`` says where a setting's value comes from."""

    name: str
    value: str
    source: str = ""


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


@dataclass(frozen=True)
class PageContext:
    """``run_token`` is this run's secret; ``password`` is set when other machines may connect. ``look`` returns at
    once with the rows on the machine: looking at it may take longer than making the page."""

    lifecycle: Lifecycle
    store: Store
    run_token: str
    host: str
    port: int
    version: str
    settings_rows: tuple[Row, ...] = ()
    look: Callable[[], tuple[Row, ...]] = tuple
    notices: tuple[str, ...] = ()
    password: str | None = field(default=None, repr=False)
    on_quit: Callable[[], None] = _nothing
    races: RaceRoom | None = None

    @property
    def machine_rows(self) -> tuple[Row, ...]:
        """What is known of this machine by now."""
        return self.look()
