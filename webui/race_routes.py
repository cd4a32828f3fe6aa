"""The routes of the Race tab: what can be raced, running and stopping it, and the races that were kept."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from launcher.errors import BadInput, StoreError
from launcher.race_export import race_json, race_markdown
from launcher.race_types import Race
from webui.exchange import Handler, attachment, needed_text, read_json
from webui.race_card import card
from webui.race_form import setup_view, specs_for
from webui.race_run import RaceOutbox, RunningRace
from webui.race_views import races_view, result_view, title
from webui.state import PageContext, RaceRoom
from webui.stream import send_outbox

_KINDS = {
    "markdown": ("text/markdown", "md"),
    "json": ("application/json", "json"),
    "html": ("text/html", "html"),
}


class RaceRoutes:
    """The handlers of one page; ``close`` ends its races so that the server can stop."""

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._running: dict[str, RunningRace] = {}

    def table(self) -> list[tuple[str, str, Handler]]:
        """(method, path, handler)"""
        one = "/bonsai/races/{id}"
        return [
            ("GET", "/bonsai/race", self._setup),
            ("POST", "/bonsai/race", self._race),
            ("POST", "/bonsai/race/stop", self._stop),
            ("GET", "/bonsai/races", self._list),
            ("GET", one, self._load),
            ("DELETE", one, self._delete),
            ("GET", one + "/export", self._export),
        ]

    def close(self) -> None:
        """Stop every race at once; what was measured is kept."""
        for race in list(self._running.values()):
            race.stop(now=True)

    def _room(self) -> RaceRoom:
        if self._context.races is None:
            raise StoreError("Nothing can be raced on this page.", "Start it with `bonsai`.")
        return self._context.races

    async def _setup(self, _: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(setup_view, self._room()))

    async def _race(self, request: Request) -> Response:
        room = self._room()
        specs = await asyncio.to_thread(specs_for, room, await read_json(request))
        outbox = RaceOutbox()
        race = RunningRace(specs, self._context.lifecycle, room.store, outbox, self._context.learned)
        return _Racing(self._running, race, outbox)

    async def _stop(self, request: Request) -> Response:
        body = await read_json(request)
        race = self._running.get(needed_text(body, "race", "A race"))
        if race is not None:
            race.stop(now=bool(body.get("now")))
        return JSONResponse({"found": race is not None})

    async def _list(self, _: Request) -> Response:
        return JSONResponse(races_view(await asyncio.to_thread(self._room().store.list)))

    async def _load(self, request: Request) -> Response:
        return JSONResponse(result_view(await self._kept(request)))

    async def _delete(self, request: Request) -> Response:
        await asyncio.to_thread(self._room().store.delete, request.path_params["id"])
        return JSONResponse({})

    async def _export(self, request: Request) -> Response:
        form = request.query_params.get("form", "markdown")
        if form not in _KINDS:
            raise BadInput("An export is markdown, json or html.")
        race = await self._kept(request)
        kind, ending = _KINDS[form]
        return Response(
            exported(race, form, with_texts=request.query_params.get("texts") != "0"),
            media_type=f"{kind}; charset=utf-8",
            headers={"Content-Disposition": attachment(title(race), ending, "race")},
        )

    async def _kept(self, request: Request) -> Race:
        return await asyncio.to_thread(self._room().store.load, request.path_params["id"])


def exported(race: Race, form: str, *, with_texts: bool) -> str:
    """``race`` as markdown, json or html, in UTF-8 without half surrogate pairs."""
    if form == "html":
        made = card(race, with_texts=with_texts)
    elif form == "json":
        made = json.dumps(race_json(race, with_texts=with_texts), ensure_ascii=False, indent=2) + "\n"
    else:
        made = race_markdown(race, with_texts=with_texts)
    return made.encode("utf-8", "replace").decode()


class _Racing(Response):
    """Streams a race to its tab; it ends with the tab."""

    def __init__(self, running: dict[str, RunningRace], race: RunningRace, outbox: RaceOutbox) -> None:
        super().__init__()
        self._of = running, race, outbox

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        running, race, outbox = self._of
        running[race.id] = race
        worker = asyncio.ensure_future(race.run())
        try:
            await send_outbox(outbox, receive, send, lambda: race.stop(now=True))
        finally:
            race.stop(now=True)
            await worker
            del running[race.id]
