"""Our own routes: everything that changes something or streams. Gradio only draws the frame around them."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from launcher.errors import BadInput, LauncherError, StoreError
from launcher.store import Conversation, Turn
from webui.answer import Answer, Ask
from webui.assets import asset
from webui.book import Book
from webui.conversation import index_of, with_edited_prompt, with_prompt, with_text, without
from webui.exchange import Handler, attachment, needed_text, read_body, read_json, told
from webui.first_run import FetchNews, FetchRoutes, fetch_view
from webui.hub import Hub
from webui.lab_routes import LabRoutes
from webui.race_routes import RaceRoutes
from webui.settings_form import changed_settings, settings_view
from webui.state import PageContext
from webui.stream import Outbox, Receive, Send, send_outbox
from webui.trouble import TroubleRoutes
from webui.views import conversation_view, listing_view, machine_view, status_view, turn_view

_DOWNLOADS = {"markdown": ("text/markdown", "md"), "json": ("application/json", "json")}


class Routes:
    """The handlers of one page; ``close`` ends its streams so that the server can stop."""

    def __init__(self, context: PageContext, quit_page: Callable[[], None]) -> None:
        self._context = context
        self._quit_page = quit_page
        self._hub = Hub(status_view)
        self._book = Book(context.store, self._changed)
        self._answers: dict[str, Answer] = {}
        self._attached = False
        self._races = RaceRoutes(context)
        self._lab = LabRoutes(context)
        self._fetch_news: FetchNews | None = None

    def all(self) -> list[Route]:
        """Routes under ``/bonsai/``."""
        one = "/bonsai/conversations/{id}"
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/bonsai/static/{version}/{name}", self._static),
            ("GET", "/bonsai/events", self._events),
            ("GET", "/bonsai/machine", self._machine),
            ("POST", "/bonsai/engine", self._engine),
            ("POST", "/bonsai/quit", self._quit),
            ("GET", "/bonsai/settings", self._settings),
            ("PUT", "/bonsai/settings", self._save_settings),
            ("POST", "/bonsai/chat", self._chat),
            ("POST", "/bonsai/stop", self._stop),
            ("GET", "/bonsai/conversations", self._list),
            ("POST", "/bonsai/conversations/import", self._import),
            ("GET", one, self._load),
            ("PATCH", one, self._rename),
            ("DELETE", one, self._delete),
            ("GET", one + "/export", self._export),
            ("PATCH", one + "/turns/{turn}", self._edit_text),
            ("DELETE", one + "/turns/{turn}", self._delete_turn),
        ]
        table += self._races.table() + self._lab.table() + FetchRoutes(self._context).table()
        table += TroubleRoutes(self._context).table()
        return [Route(path, told(handler), methods=[method]) for method, path, handler in table]

    def close(self) -> None:
        """Stop every answer, race and lab (what came is kept) and let go of every open tab."""
        for answer in list(self._answers.values()):
            answer.stop()
        self._races.close()
        self._lab.close()
        if self._fetch_news is not None:
            self._fetch_news.close()
        self._hub.close()

    def _changed(self, conversation_id: str, exists: bool) -> None:
        self._hub.tell({"changed": conversation_id} if exists else {"gone": conversation_id})

    async def _static(self, request: Request) -> Response:
        return asset(request.path_params["name"])

    async def _events(self, _: Request) -> Response:
        if not self._attached:
            self._attached = True
            self._hub.attach(self._context.lifecycle)
            if self._context.fetching is not None:
                self._fetch_news = FetchNews(self._context.fetching, self._hub.tell)
        return _Events(self._hub, self._first_news)

    def _first_news(self) -> dict[str, Any]:
        room = self._context.fetching
        news: dict[str, Any] = {"status": status_view(self._context.lifecycle.status())}
        return news if room is None else {**news, "fetch": fetch_view(room.state())}

    async def _machine(self, _: Request) -> Response:
        status = self._context.lifecycle.status()
        log = await asyncio.to_thread(self._context.lifecycle.log_tail)
        return JSONResponse(machine_view(self._context, status, log))

    async def _engine(self, request: Request) -> Response:
        wanted = (await read_json(request)).get("speculative")
        if wanted is not None and not isinstance(wanted, bool):
            raise BadInput("Speculation is on or off.")
        self._context.lifecycle.start(speculative=wanted)
        return JSONResponse({})

    async def _quit(self, _: Request) -> Response:
        # The answer must reach the browser before the server goes away.
        asyncio.get_running_loop().call_later(0.3, self._quit_page)
        return JSONResponse({})

    async def _settings(self, _: Request) -> Response:
        return JSONResponse(settings_view(await self._book.settings()))

    async def _save_settings(self, request: Request) -> Response:
        changes = await read_json(request)
        settings = await self._book.change_settings(lambda before: changed_settings(before, changes))
        return JSONResponse(settings_view(settings))

    async def _list(self, _: Request) -> Response:
        return JSONResponse(listing_view(await self._book.listing()))

    async def _load(self, request: Request) -> Response:
        return _conversation(await self._book.load(request.path_params["id"]))

    async def _rename(self, request: Request) -> Response:
        title = " ".join(needed_text(await read_json(request), "title", "A title").split())[:200]
        return _conversation(await self._book.rename(request.path_params["id"], title))

    async def _delete(self, request: Request) -> Response:
        conversation_id = request.path_params["id"]
        await self._end_answers(lambda ask: ask.conversation_id == conversation_id)
        await self._book.delete(conversation_id)
        return JSONResponse({})

    async def _import(self, request: Request) -> Response:
        body = await read_body(request)
        try:
            text = body.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise StoreError("This file is not text.", "Choose a JSON export of a conversation.") from None
        return _conversation(await self._book.take_in(text))

    async def _export(self, request: Request) -> Response:
        form = request.query_params.get("form", "markdown")
        if form not in _DOWNLOADS:
            raise BadInput("An export is markdown or json.")
        conversation = await self._book.load(request.path_params["id"])
        kind, ending = _DOWNLOADS[form]
        return Response(
            await self._book.export(conversation.id, form),
            media_type=f"{kind}; charset=utf-8",
            headers={"Content-Disposition": attachment(conversation.title, ending, "conversation")},
        )

    async def _edit_text(self, request: Request) -> Response:
        text = needed_text(await read_json(request), "text", "A message")
        turn = request.path_params["turn"]
        await self._end_answers(lambda ask: ask.answer_id == turn)  # it would write over the change
        return _conversation(
            await self._book.change(request.path_params["id"], lambda it: with_text(it, turn, text))
        )

    async def _delete_turn(self, request: Request) -> Response:
        turn = request.path_params["turn"]
        await self._end_answers(lambda ask: turn in (ask.prompt_id, ask.answer_id))
        return _conversation(await self._book.change(request.path_params["id"], lambda it: without(it, turn)))

    async def _end_answers(self, meant: Callable[[Ask], bool]) -> None:
        """Stop the answers to what is about to be deleted or changed: the engine would work on for nobody."""
        ending = [answer for answer in self._answers.values() if meant(answer.ask)]
        for answer in ending:
            answer.stop()
        for answer in ending:
            await answer.ended.wait()

    async def _chat(self, request: Request) -> Response:
        body = await read_json(request)
        action = body.get("action", "send")
        conversation_id = body.get("conversation")
        if action == "again":
            prompt_id = needed_text(body, "turn", "A message to answer")
            conversation = await self._book.load(str(conversation_id))
            index_of(conversation, prompt_id)
        else:
            prompt = Turn(uuid.uuid4().hex, "user", needed_text(body, "text", "A message"), time.time())
            prompt_id = prompt.id
            if action == "edit":
                turn = needed_text(body, "turn", "A message to change")
                conversation = await self._book.change(
                    str(conversation_id), lambda it: with_edited_prompt(it, turn, prompt)
                )
            elif conversation_id:
                conversation = await self._book.change(
                    str(conversation_id), lambda it: with_prompt(it, prompt)
                )
            else:
                conversation = await self._book.begin(lambda it: with_prompt(it, prompt))
        ask = Ask(conversation.id, prompt_id, uuid.uuid4().hex, bool(body.get("leave_out_oldest")))
        return _Chat(self, conversation, ask)

    async def _stop(self, request: Request) -> Response:
        answer = self._answers.get(needed_text(await read_json(request), "answer", "An answer"))
        if answer is not None:
            answer.stop()
        return JSONResponse({"found": answer is not None})

    async def stream(self, conversation: Conversation, ask: Ask, receive: Receive, send: Send) -> None:
        """Run one answer and stream it to its tab; it ends with the tab."""
        outbox = Outbox()
        answer = Answer(ask, self._context.lifecycle, self._book, outbox, self._context.learned)
        self._answers[ask.answer_id] = answer
        prompt = conversation.turns[index_of(conversation, ask.prompt_id)]
        outbox.put(
            {
                "begin": {"id": conversation.id, "title": conversation.title},
                "prompt": turn_view(prompt),
                "answer": ask.answer_id,
            }
        )
        worker = asyncio.ensure_future(self._work(answer, outbox))
        try:
            await send_outbox(outbox, receive, send, answer.stop)
        finally:
            answer.stop()
            await worker

    async def _work(self, answer: Answer, outbox: Outbox) -> None:
        try:
            turn = await answer.run()
            # Drawing a long answer takes a moment, in which other tabs' streams go on.
            outbox.put({"done": await asyncio.to_thread(turn_view, turn)})
        except LauncherError as problem:
            outbox.put({"broken": {"error": problem.what, "remedy": problem.remedy}})
        finally:
            self._answers.pop(answer.ask.answer_id, None)
            outbox.close()


class _Chat(Response):
    def __init__(self, routes: Routes, conversation: Conversation, ask: Ask) -> None:
        super().__init__()
        self._of = (routes, conversation, ask)

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        routes, conversation, ask = self._of
        await routes.stream(conversation, ask, receive, send)


class _Events(Response):
    def __init__(self, hub: Hub, first: Callable[[], dict[str, Any]]) -> None:
        super().__init__()
        self._hub = hub
        self._first = first

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        outbox = Outbox()
        listener = asyncio.ensure_future(self._listen(outbox))
        try:
            await send_outbox(outbox, receive, send, outbox.close)
        finally:
            listener.cancel()

    async def _listen(self, outbox: Outbox) -> None:
        async for news in self._hub.listen(self._first):
            outbox.put(news)
        outbox.close()


def _conversation(conversation: Conversation) -> Response:
    return JSONResponse(conversation_view(conversation))
