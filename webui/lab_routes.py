"""The routes of the Lab tab: what can be measured, running and stopping it, kept labs, and using what came of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from launcher.errors import BadInput, StoreError
from launcher.lab import new_lab
from launcher.lab_export import lab_csv, lab_json, lab_markdown
from launcher.lab_store import differences
from launcher.lab_types import Lab, Subject
from webui.counting import know_plain
from webui.exchange import Handler, attachment, needed_text, read_json
from webui.lab_form import plan_for, setup_view
from webui.lab_pace import pace
from webui.lab_run import RunningLab
from webui.lab_views import labs_view, learned_view, ledger_view, result_view, title
from webui.state import LabRoom, LearnedRoom, PageContext
from webui.stream import Outbox, send_outbox

_KINDS = {
    "markdown": ("text/markdown", "md"),
    "csv": ("text/csv", "csv"),
    "json": ("application/json", "json"),
}
_PURPOSES = ("coding", "chat")


class LabRoutes:
    """The handlers of one page; ``close`` ends its lab so that the server can stop."""

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._running: RunningLab | None = None
        self._worker: asyncio.Task[None] | None = None
        self._subject: Subject | None = None

    def table(self) -> list[tuple[str, str, Handler]]:
        """(method, path, handler)"""
        one = "/bonsai/labs/{id}"
        return [
            ("GET", "/bonsai/lab", self._setup),
            ("POST", "/bonsai/lab", self._start),
            ("POST", "/bonsai/lab/resume", self._resume),
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
        """Stop the lab at once; what was measured is kept."""
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
        return JSONResponse(view | {"running": self._running.id if self._running else ""})

    def _look(self) -> dict[str, Any]:
        room = self._room()
        here = room.here()
        self._subject = here.subject
        races = self._context.races.store if self._context.races is not None else None
        return setup_view(here) | {"pace": pace(room.store, races, here.subject)}

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

    def _free_room(self) -> LabRoom:
        if self._running is not None:
            raise BadInput("A lab is running already.", "Wait until it has ended, or stop it.")
        return self._room()

    def _begin(self, lab: RunningLab) -> Response:
        self._free_room()  # another tab may have begun one meanwhile
        self._running = lab
        self._worker = asyncio.ensure_future(self._work(lab))
        return JSONResponse({"id": lab.id})

    async def _work(self, lab: RunningLab) -> None:
        try:
            await lab.run()
            plain = lab.plain_speed()
            if plain is not None:
                await know_plain(self._context.learned, *plain, "a lab")
        finally:
            self._running = None

    async def _watch(self, _: Request) -> Response:
        if self._running is None:
            raise BadInput("No lab is running.", "Start one.")
        return _Watching(self._running)

    async def _stop(self, request: Request) -> Response:
        body = await read_json(request)
        lab = self._running
        if lab is not None:
            lab.stop(now=bool(body.get("now")))
        return JSONResponse({"found": lab is not None})

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
        lab_id, purpose = needed_text(body, "lab", "A lab"), body.get("purpose")
        if purpose not in _PURPOSES:
            raise BadInput("Advice is for coding or for chat.", "Reload the page.")
        store, learned = self._room().store, self._learned_room()
        await asyncio.to_thread(lambda: learned.use(store.load(lab_id), purpose))
        return JSONResponse(await asyncio.to_thread(self._what_is_learned))

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
    """Streams how the lab goes to one tab; the lab outlives it."""

    def __init__(self, lab: RunningLab) -> None:
        super().__init__()
        self._lab = lab

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        outbox: Outbox = self._lab.watch()
        try:
            await send_outbox(outbox, receive, send, outbox.close)
        finally:
            self._lab.leave(outbox)
