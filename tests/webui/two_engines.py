"""A page with two paced engines behind it: one plain, one that drafts, each as fast as a test wants it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.paced_server import PacedConfig, PacedServer
from tests.webui.conftest import Running, run_page

TEXT = " ".join(f"word{number}" for number in range(60))
BLOCKS = ((4, 3), (4, 1))


@dataclass
class TwoEngines:
    """``page.engine`` is the plain engine, ``drafting`` the other. ``usual``: tokens a second of both, where a test asks
    for nothing else."""

    page: Running
    drafting: PacedServer
    usual: float


def run_both(
    stack: ExitStack,
    folder: Path,
    usual: float,
    *,
    page: dict[str, Any],
    drafting: dict[str, Any] | None = None,
    **engine: Any,
) -> TwoEngines:
    """Start them; ``page`` changes fields of the PageContext, ``engine`` is for both engines, ``drafting`` only for the
    one that drafts (fields of PacedConfig). ``stack`` ends it all."""
    plain, fast = configs(usual, engine, {**engine, **(drafting or {})})
    second = stack.enter_context(PacedServer(PacedConfig(**fast)))
    running = run_page(stack, folder, page=page, **plain)
    running.lifecycle.drafting = second.url
    return TwoEngines(running, second, usual)


def pace(
    both: TwoEngines, *, plain: dict[str, Any] | None = None, drafting: dict[str, Any] | None = None
) -> None:
    """Change how both engines answer from now on (fields of PacedConfig); nothing may be measured meanwhile."""
    slow, fast = configs(both.usual, plain or {}, drafting or {})
    both.page.engine.config, both.drafting.config = PacedConfig(**slow), PacedConfig(**fast)


def configs(
    usual: float, plain: dict[str, Any], drafting: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of each engine's PacedConfig."""
    base: dict[str, Any] = {"rate": usual, "text": TEXT}
    return base | plain, base | {"alias": "drafting", "blocks": BLOCKS} | drafting
