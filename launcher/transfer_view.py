"""How a fetch looks on the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn

from launcher.amounts import rate, size, so_far, waiting
from launcher.console import say
from launcher.fetch_types import FetchState, Item


def say_readings() -> Callable[[FetchState], None]:
    """To be called with each FetchState: says once what is read to its end, for whoever sees no page."""
    said: set[str] = set()

    def told(state: FetchState) -> None:
        for item in state.items:
            if item.state == "checking" and state.phase == "checking" and item.where not in said:
                said.add(item.where)
                amount = size(item.total or 0)
                say(f"Reading {item.where} once ({amount}), to be sure that it is the right file ...")

    return told


class TransferView:
    """Called with each FetchState: bars on a terminal, else a plain line at each tenth of a file and each step."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._said: dict[str, tuple[str, int, str]] = {}
        self._tasks: dict[str, TaskID] = {}
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[note]}"),
            console=Console(file=sys.stderr, highlight=False),
        )

    def __enter__(self) -> TransferView:
        if self._live:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._bars.stop()

    def __call__(self, state: FetchState) -> None:
        for item in state.items:
            if item.in_place and item.part not in self._tasks and item.part not in self._said:
                continue  # nothing had to be done
            if self._live:
                self._draw(item)
            else:
                self._line(item)

    def _draw(self, item: Item) -> None:
        if item.part not in self._tasks:
            self._tasks[item.part] = self._bars.add_task("", total=item.total, rate="", note="")
        left = "" if item.left_s is None else f", {waiting(item.left_s)} left"
        speed = "" if item.rate is None else f"{rate(item.rate)}{left}"
        step = item.note or ("" if item.state in ("running", "done") else item.state)
        self._bars.update(
            self._tasks[item.part],
            description=escape(item.name),
            total=item.total,
            completed=item.have,
            rate=speed,
            note=escape(step),
        )

    def _line(self, item: Item) -> None:
        tenth = 10 * item.have // item.total if item.total else item.have // 100_000_000
        # No line for every second of a countdown.
        news = (item.state, tenth, re.sub(r"\d+( seconds?)?", "", item.note))
        before = self._said.get(item.part, ("", 0, ""))
        if item.state in ("waiting", "found") or before == news:
            return
        self._said[item.part] = news
        speed = "" if item.rate is None else f", {rate(item.rate)}"
        note = f" ({item.note})" if item.note and news[2] != before[2] else ""
        say(f"{item.name}: {item.state}, {so_far(item.have, item.total)}{speed}{note}")
