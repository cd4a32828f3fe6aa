"""The first-run view: what could be fetched for this machine, agreeing to it, how it goes, and another model."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from launcher.errors import BadInput, LauncherError
from launcher.fetch_types import FetchState
from webui.exchange import Handler, needed_text, read_json
from webui.state import FetchRoom, PageContext
from webui.views import row_view

# Seconds between two pieces of news to the page: progress comes far more often than eyes need it.
NEWS_S = 0.25


class FetchRoutes:
    """The handlers of one page."""

    def __init__(self, context: PageContext) -> None:
        self._context = context

    def table(self) -> list[tuple[str, str, Handler]]:
        """(method, path, handler)"""
        return [
            ("GET", "/bonsai/fetch", self._look),
            ("POST", "/bonsai/fetch/{act}", self._act),
            ("GET", "/bonsai/models", self._models),
            ("POST", "/bonsai/models", self._choose),
        ]

    async def _look(self, _: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(fetch_page_view, self._context))

    def _room(self) -> FetchRoom:
        if self._context.fetching is None:
            raise BadInput("Nothing can be fetched on this page.", "Start it with `bonsai`.")
        return self._context.fetching

    async def _models(self, _: Request) -> Response:
        room = self._room()
        try:
            return JSONResponse(asdict(await asyncio.to_thread(room.models)))
        except LauncherError as error:  # of an engine that somebody named: looking is no failure
            return JSONResponse({"problem": {"error": error.what, "remedy": error.remedy}})

    async def _choose(self, request: Request) -> Response:
        name = needed_text(await read_json(request), "model", "A model to choose")
        await asyncio.to_thread(self._room().choose, name)
        return JSONResponse({})

    async def _act(self, request: Request) -> Response:
        room = self._room()
        acts = {
            "begin": room.begin,
            "pause": room.pause,
            "resume": room.resume,
            "cancel": room.cancel,
            "retry": room.retry,
            "use": room.use,
        }
        act = acts.get(request.path_params["act"])
        if act is None:
            raise BadInput("Fetching knows begin, pause, resume, cancel, retry and use.", "Reload the page.")
        await asyncio.to_thread(act)
        return JSONResponse({})


def fetch_page_view(context: PageContext) -> dict[str, Any]:
    """What the card needs. ``offer`` None with a ``problem``: what stands against fetching. May take a second."""
    room = context.fetching
    offer, problem = None, None
    if room is not None:
        try:
            offer = room.offer()
        except LauncherError as error:
            problem = {"error": error.what, "remedy": error.remedy}
    rows = context.machine_rows  # after the offer, which waits for them where it has to
    return {
        "offer": asdict(offer) if offer is not None else None,
        "problem": problem,
        "state": fetch_view(room.state()) if room is not None else None,
        "machine": [row_view(row) for row in rows],
        "looking": any(row.pending for row in rows),
    }


def fetch_view(state: FetchState) -> dict[str, Any]:
    """How the fetching stands, as plain values."""
    return asdict(state)


class FetchNews:
    """Passes on how the fetching stands: the newest state, at most every ``NEWS_S`` seconds.

    Made on the event loop on which ``tell`` is to be called; the room calls from any thread.
    """

    def __init__(self, room: FetchRoom, tell: Callable[[dict[str, Any]], None]) -> None:
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._waiting: FetchState | None = None
        self._told_at = self._loop.time() - NEWS_S
        self.close = room.on_change(self._changed)

    def _changed(self, state: FetchState) -> None:
        with self._lock:
            on_the_way, self._waiting = self._waiting is not None, state
        # Only the first of many wakes the loop up.
        if not on_the_way and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):  # it was closed this very moment
                self._loop.call_soon_threadsafe(self._arrange)

    def _arrange(self) -> None:
        self._loop.call_at(max(self._told_at + NEWS_S, self._loop.time()), self._send)

    def _send(self) -> None:
        with self._lock:
            state, self._waiting = self._waiting, None
        self._told_at = self._loop.time()
        if state is not None:
            self._tell({"fetch": fetch_view(state)})
