"""What the page is given when it is made; everything else it asks the lifecycle and the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from launcher.lifecycle import Lifecycle
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
class PageContext:
    """``run_token`` is this run's secret; ``password`` is set when other machines may connect."""

    lifecycle: Lifecycle
    store: Store
    run_token: str
    host: str
    port: int
    version: str
    settings_rows: tuple[Row, ...] = ()
    machine_rows: tuple[Row, ...] = ()
    notices: tuple[str, ...] = ()
    password: str | None = field(default=None, repr=False)
    on_quit: Callable[[], None] = _nothing
