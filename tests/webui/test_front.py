"""Something to look at from the first moment, whatever the real page does."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import uvicorn

from tests.conftest import ROOT, free_port, wait_until
from webui.front import Front
from webui.gradio_seam import calm_queue, gradio_environment, import_gradio


class Late:
    """An application that notes its lifespan."""

    def __init__(self) -> None:
        self.events: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                self.events.append((await receive())["type"])
                await send({"type": f"lifespan.{kind}.complete"})
            return
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}
        )
        await send({"type": "http.response.body", "body": b"the real page"})


@contextmanager
def served(front: Front) -> Iterator[str]:
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(front, port=port, log_config=None, lifespan="on", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started, 10, "the server")
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(10)


def get(url: str) -> httpx.Response:
    return httpx.get(url, trust_env=False)


def test_the_first_page_then_the_real_one() -> None:
    go, late = threading.Event(), Late()

    def build() -> Late:
        go.wait(20)
        return late

    with served(Front(build)) as url:
        first = get(url + "/")
        assert (first.status_code, "Setting up the page" in first.text) == (200, True)
        assert get(url + "/bonsai/ready").json() == {"ready": False, "problem": ""}
        assert get(url + "/config").status_code == 503
        go.set()
        wait_until(lambda: get(url + "/bonsai/ready").json()["ready"], 10, "the real page")
        assert get(url + "/").text == "the real page"
        assert late.events == ["lifespan.startup"]
    assert late.events == ["lifespan.startup", "lifespan.shutdown"]


def test_a_page_that_cannot_be_made_says_why() -> None:
    def build() -> Late:
        raise ImportError("no module named gradio")

    with served(Front(build)) as url:
        wait_until(lambda: get(url + "/bonsai/ready").json()["problem"], 10, "the problem")
        assert "no module named gradio" in get(url + "/bonsai/ready").json()["problem"]
        assert get(url + "/").status_code == 200


def test_a_websocket_is_told_to_come_later() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    asyncio.run(Front(Late)({"type": "websocket", "path": "/"}, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1013}]


def test_the_first_page_needs_none_of_the_slow_modules() -> None:
    slow = ("gradio", "fastapi", "starlette", "pandas", "numpy", "markdown_it", "latex2mathml")
    code = f"import sys, webui.app; print([name for name in {slow} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.case("E-03")
@pytest.mark.parametrize("current", [{}, {"NO_PROXY": "corp.example", "HTTP_PROXY": "http://proxy:1"}])
def test_the_environment_keeps_proxies_but_never_for_this_machine(current: dict[str, str]) -> None:
    changed = gradio_environment(current)
    for name in ("NO_PROXY", "no_proxy"):
        assert {"localhost", "127.0.0.1", "::1"} <= set(changed[name].split(","))
    assert ("corp.example" in changed["NO_PROXY"]) == bool(current)
    assert changed["GRADIO_ANALYTICS_ENABLED"] == "False"
    assert "HTTP_PROXY" not in changed


@pytest.mark.case("E-03")
def test_a_socks_proxy_for_everything_is_blanked_and_another_is_not() -> None:
    assert gradio_environment({"ALL_PROXY": "socks5://x:1"})["ALL_PROXY"] == ""
    assert "ALL_PROXY" not in gradio_environment({"ALL_PROXY": "http://x:1"})


def test_the_seam_leaves_the_standard_library_as_it_was() -> None:
    import inspect

    before = inspect.getfile
    gr = import_gradio()
    assert inspect.getfile is before
    with gr.Blocks(analytics_enabled=False) as blocks:
        gr.Markdown("x")
    calm_queue(blocks)
    assert blocks._queue.sleep_when_free >= 0.05
    calm_queue(object())  # a version without such a queue is left alone
