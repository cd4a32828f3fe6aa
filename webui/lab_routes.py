"""The routes of the Lab tab: what can be measured, running and stopping a lab or a search for advice, kept labs, and using
what came of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from launcher.advise_run import Findings
from launcher.errors import BadInput, StoreError
from launcher.lab import new_lab
from launcher.lab_export import lab_csv, lab_json, lab_markdown
from launcher.lab_store import differences
from launcher.lab_types import Lab, Subject
from webui.counting import know_plain
from webui.exchange import Handler, attachment, needed_text, read_json
from webui.lab_form import find_view, plan_for, setup_view
from webui.lab_pace import pace
from webui.lab_run import RunningLab
from webui.lab_search import RunningSearch
from webui.lab_views import labs_view, learned_view, ledger_view, result_view, title
from webui.lab_watch import Watched
from webui.state import LabRoom, LearnedRoom, PageContext
from webui.stream import Outbox, send_outbox

_KINDS = {
    "markdown": ("text/markdown", "md"),
    "csv": ("text/csv", "csv"),
    "json": ("application/json", "json"),
}
_PURPOSES = ("coding", "chat")


class LabRoutes:
    """The handlers of one page; ``close`` ends what it measures so that the server can stop."""

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._running: Watched | None = None
        # The last one that came to something; it is not kept on disk.
        self._found: RunningSearch | None = None
        self._worker: asyncio.Task[None] | None = None
        self._subject: Subject | None = None

    def table(self) -> list[tuple[str, str, Handler]]:
        """(method, path, handler)"""
        one = "/bonsai/labs/{id}"
        return [
            ("GET", "/bonsai/lab", self._setup),
            ("POST", "/bonsai/lab", self._start),
            ("POST", "/bonsai/lab/resume", self._resume),
            ("POST", "/bonsai/lab/find", self._find),
            ("POST", "/bonsai/lab/watch", self._watch),
            ("POST", "/bonsai/lab/stop", self._stop),
            ("GET", "/bonsai/labs", self._list),
            ("GET", one, self._load),
            ("DELETE", one, self._delete),
            ("GET", one + "/export", self._export),
            ("GET", "/bonsai/learned", self._learned),
            ("POST", "/bonsai/learned", self._use),
            ("POST", "/bonsai/learned/undo", self._undo),
        ]

    def close(self) -> None:
        """Stop what is measured at once; the answers of a lab are kept."""
        if self._running is not None:
            self._running.stop(now=True)

    def _room(self) -> LabRoom:
        if self._context.lab is None:
            raise StoreError("Nothing can be measured on this page.", "Start it with `bonsai`.")
        return self._context.lab

    def _learned_room(self) -> LearnedRoom:
        if self._context.learned is None:
            raise StoreError("Nothing can be taken over on this page.", "Start it with `bonsai`.")
        return self._context.learned

    async def _setup(self, _: Request) -> Response:
        view = await asyncio.to_thread(self._look)
        found = self._found.view if self._found else None
        return JSONResponse(view | {"running": self._running.id if self._running else "", "found": found})

    def _look(self) -> dict[str, Any]:
        room = self._room()
        here = room.here()
        self._subject = here.subject
        races = self._context.races.store if self._context.races is not None else None
        known = pace(room.store, races, here.subject)
        return setup_view(here) | {"pace": known, "find": find_view(here, known)}

    async def _start(self, request: Request) -> Response:
        body = await read_json(request)
        room = self._free_room()
        spec = await asyncio.to_thread(lambda: room.spec(plan_for(room.here(), body)))
        return self._begin(RunningLab(spec, new_lab(spec), self._context.lifecycle, room.store))

    async def _resume(self, request: Request) -> Response:
        lab_id = needed_text(await read_json(request), "lab", "A lab")
        room = self._free_room()
        spec, lab = await asyncio.to_thread(room.again, lab_id)
        return self._begin(RunningLab(spec, lab, self._context.lifecycle, room.store))

    async def _find(self, request: Request) -> Response:
        language = needed_text(await read_json(request), "language", "A search")
        room = self._free_room()
        search = await asyncio.to_thread(room.search, language)
        return self._begin(RunningSearch(search, self._context.lifecycle))

    def _free_room(self) -> LabRoom:
        if self._running is not None:
            raise BadInput(
                f"A {self._running.name} is running already.", "Wait until it has ended, or stop it."
            )
        return self._room()

    def _begin(self, one: Watched) -> Response:
        self._free_room()  # another tab may have begun one meanwhile
        self._running = one
        self._worker = asyncio.ensure_future(self._work(one))
        return JSONResponse({"id": one.id})

    async def _work(self, one: Watched) -> None:
        try:
            await one.run()
            if isinstance(one, RunningSearch) and one.view is not None:
                self._found = one
            plain = one.plain_speed()
            if plain is not None:
                await know_plain(self._context.learned, *plain, one.source)
        finally:
            self._running = None

    async def _watch(self, _: Request) -> Response:
        if self._running is None:
            raise BadInput("Nothing is being measured.", "Start a lab or a search.")
        return _Watching(self._running)

    async def _stop(self, request: Request) -> Response:
        body = await read_json(request)
        one = self._running
        if one is not None:
            one.stop(now=bool(body.get("now")))
        return JSONResponse({"found": one is not None})

    async def _list(self, _: Request) -> Response:
        listing = await asyncio.to_thread(self._room().store.list)
        ours = self._subject
        other = {it.id: differences(it.subject, ours) for it in listing.labs} if ours is not None else {}
        return JSONResponse(labs_view(listing, other, self._running.id if self._running else ""))

    async def _load(self, request: Request) -> Response:
        return JSONResponse(result_view(await self._kept(request)))

    async def _delete(self, request: Request) -> Response:
        lab_id = request.path_params["id"]
        if self._running is not None and self._running.id == lab_id:
            raise BadInput("This lab is running.", "Stop it first.")
        await asyncio.to_thread(self._room().store.delete, lab_id)
        return JSONResponse({})

    async def _export(self, request: Request) -> Response:
        form = request.query_params.get("form", "markdown")
        if form not in _KINDS:
            raise BadInput("An export is markdown, csv or json.")
        lab = await self._kept(request)
        kind, ending = _KINDS[form]
        return Response(
            exported(lab, form),
            media_type=f"{kind}; charset=utf-8",
            headers={"Content-Disposition": attachment(title(lab), ending, "lab")},
        )

    async def _kept(self, request: Request) -> Lab:
        return await asyncio.to_thread(self._room().store.load, request.path_params["id"])

    async def _learned(self, _: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(self._what_is_learned))

    async def _use(self, request: Request) -> Response:
        body = await read_json(request)
        purpose = body.get("purpose")
        if purpose not in _PURPOSES:
            raise BadInput("Advice is for coding or for chat.", "Reload the page.")
        store, learned = self._room().store, self._learned_room()
        if "search" in body:
            findings = self._findings(needed_text(body, "search", "A search"))
            await asyncio.to_thread(learned.use, findings, purpose)
        else:
            lab_id = needed_text(body, "lab", "A lab")
            await asyncio.to_thread(lambda: learned.use(store.load(lab_id), purpose))
        return JSONResponse(await asyncio.to_thread(self._what_is_learned))

    def _findings(self, id_: str) -> Findings:
        """Of the search that has just ended, or of the last one before."""
        for one in (self._running, self._found):
            if isinstance(one, RunningSearch) and one.id == id_ and one.findings is not None:
                return one.findings
        raise BadInput("This search is not known any more.", "Search again.")

    async def _undo(self, _: Request) -> Response:
        await asyncio.to_thread(self._learned_room().undo)
        return JSONResponse(await asyncio.to_thread(self._what_is_learned))

    def _what_is_learned(self) -> dict[str, Any]:
        room = self._context.learned
        return {
            "can": room is not None,
            "learned": learned_view(room.learned(), self._context.lifecycle.status().plan)
            if room is not None
            else None,
            "ledger": ledger_view(room.ledger()) if room is not None else None,
        }


def exported(lab: Lab, form: str) -> str:
    """``lab`` as markdown, csv or json."""
    if form == "json":
        return json.dumps(lab_json(lab), ensure_ascii=False, indent=2) + "\n"
    return lab_csv(lab) if form == "csv" else lab_markdown(lab)


class _Watching(Response):
    """Streams how it goes to one tab, which it outlives."""

    def __init__(self, one: Watched) -> None:
        super().__init__()
        self._one = one

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        outbox: Outbox = self._one.watch()
        try:
            await send_outbox(outbox, receive, send, outbox.close)
        finally:
            self._one.leave(outbox)
