"""What a person takes along when the engine fails: its log and a report to copy."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from launcher.errors import BadInput
from webui.exchange import Handler
from webui.state import PageContext

LOG_LINES = 200


class TroubleRoutes:
    """The handlers of one page."""

    def __init__(self, context: PageContext) -> None:
        self._context = context

    def table(self) -> list[tuple[str, str, Handler]]:
        """(method, path, handler)"""
        return [("GET", "/bonsai/log", self._log), ("GET", "/bonsai/report", self._report)]

    async def _log(self, _: Request) -> Response:
        lifecycle = self._context.lifecycle
        text = await asyncio.to_thread(lifecycle.log_tail, LOG_LINES)
        return JSONResponse({"path": lifecycle.status().log_path, "text": text})

    async def _report(self, _: Request) -> Response:
        make = self._context.report
        if make is None:
            raise BadInput("This page makes no reports.", "Start it with `bonsai`.")
        return JSONResponse({"text": await asyncio.to_thread(make)})
