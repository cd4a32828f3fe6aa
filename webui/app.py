"""Makes the page and serves it."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from webui.front import Front
from webui.gradio_seam import gradio_environment
from webui.guard import App, Guard
from webui.state import PageContext

if TYPE_CHECKING:
    import socket

    import uvicorn

__all__ = ["Page", "PageContext", "create_app", "gradio_environment", "make_server", "serve"]


class Page:
    """The ASGI application, guard included. ``close`` ends its streams; ``quit`` is called by the Quit button."""

    def __init__(self, context: PageContext) -> None:
        self.quit: Callable[[], None] = context.on_quit
        self._context = context
        self._routes: Any = None
        self._app = Guard(
            Front(self._build, context.prove),
            host=context.host,
            port=context.port,
            token=context.run_token,
            password=context.password,
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    def close(self) -> None:
        """Stop running answers (what came is kept) and let go of open tabs. On the server's event loop."""
        if self._routes is not None:
            self._routes.close()

    def _leave(self) -> None:
        # ``quit`` is set by whoever serves the page, after it was made.
        self.quit()

    def _build(self) -> App:
        """The real page. Slow: imports Gradio."""
        from webui.gradio_seam import calm_queue, import_gradio

        gr = import_gradio()
        from fastapi import FastAPI

        from webui.index import Index
        from webui.layout import head, make_blocks
        from webui.routes import Routes
        from webui.theme import make_theme

        blocks = make_blocks(gr)
        calm_queue(blocks)
        app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
        self._routes = Routes(self._context, self._leave)
        app.router.routes.extend(self._routes.all())
        gr.mount_gradio_app(
            app,
            blocks,
            path="/",
            server_name=self._context.host,
            server_port=self._context.port,
            footer_links=[],
            run_history=False,
            ssr_mode=False,
            show_error=False,
            theme=make_theme(gr),
        )
        return Index(app, head())


def create_app(context: PageContext) -> Page:
    """The page as an ASGI application. It answers from the first moment and is complete a little later."""
    return Page(context)


def serve(
    context: PageContext,
    *,
    started: Callable[[], None] | None = None,
    sockets: list[socket.socket] | None = None,
) -> None:
    """Serve the page until it is quit (button, Ctrl+C or SIGTERM); blocks, on the main thread.

    ``started`` is called once the port answers. ``sockets`` may hand over one that is already bound. Raises
    OSError when the port is taken.
    """
    listening = sockets or [_bind(context.host, context.port)]
    make_server(context, started).run(sockets=listening)


def make_server(context: PageContext, started: Callable[[], None] | None = None) -> uvicorn.Server:
    """The server of ``create_app``'s page, not running yet. ``should_exit`` ends it."""
    import uvicorn

    page = create_app(context)
    logging.getLogger("uvicorn.error").addFilter(_is_fault)

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            with super().capture_signals(), _hangup_is(self.handle_exit):
                yield

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            ending = self.should_exit
            super().handle_exit(sig, frame)
            self.force_exit = self.force_exit or ending  # whichever comes second: it is not waited any longer

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if started is not None and self.started:
                started()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # Streams that wait for news would hold the server up.
            page.close()
            await super().shutdown(sockets)
            if self.force_exit:  # a second Ctrl+C; left out there, this would end with a traceback
                await self.lifespan.shutdown()

    server = Server(
        uvicorn.Config(
            page,
            host=context.host,
            port=context.port,
            log_config=None,
            access_log=False,
            lifespan="on",
            loop="asyncio",
            http="h11",
            ws="none",
            server_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=3,
        )
    )

    def leave() -> None:
        context.on_quit()
        server.should_exit = True

    page.quit = leave
    return server


def _is_fault(record: logging.LogRecord) -> bool:
    """Whether ``record`` is to be written. What was still being answered when the page was told twice to end is cut off
    with it: that is no fault, and its traceback would be the last thing that the person reads."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


@contextmanager
def _hangup_is(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """SIGHUP, a terminal that is closed, ends the page in order as SIGTERM does; uvicorn would leave it to break into
    its event loop. What a parent has told us to ignore (nohup) stays ignored."""
    number = getattr(signal, "SIGHUP", None)
    if (
        number is None
        or threading.current_thread() is not threading.main_thread()
        or signal.getsignal(number) is signal.SIG_IGN
    ):
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _bind(host: str, port: int) -> socket.socket:
    """A listening socket. Done here and not by the server, which would end the whole process on failure."""
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host.strip("[]"), port), family=family, backlog=2048)
