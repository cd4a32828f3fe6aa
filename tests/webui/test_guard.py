"""Who may talk to the page. Every case is a real request to a real port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.conftest import wait_until
from tests.webui.conftest import TOKEN, Running, StartPage, run_page
from webui.guard import Guard


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with ExitStack() as stack:
        page = run_page(stack, tmp_path_factory.mktemp("guard"), text="Hello.", rate=200)
        wait_until(lambda: page.ready, 60, "the page")
        yield page


@pytest.fixture(autouse=True)
def _fresh(page: Running) -> None:
    page.lifecycle.started.clear()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}", "127.0.0.1:1", "localhost", "",
             "0.0.0.0:{port}", "[::2]:{port}", "127.0.0.1:{port}.evil.example", "127.0.0.1:{port}, evil.example"],
)  # fmt: skip
def test_a_foreign_host_is_refused(page: Running, host: str) -> None:
    with page.client() as client:
        answer = client.get("/", headers={"Host": host.format(port=page.port)})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
def test_our_own_names_are_taken(page: Running, host: str) -> None:
    with page.client() as client:
        assert client.get("/", headers={"Host": host.format(port=page.port)}).status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://127.0.0.1:1",
        "null",
        "https://127.0.0.1:{port}",
        "http://localhost:{port}",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/", "/bonsai/conversations", "/bonsai/engine", "/gradio_api/queue/join"])
def test_a_foreign_origin_is_refused_whatever_it_knows(page: Running, origin: str, path: str) -> None:
    headers = {"Origin": origin.format(port=page.port), "X-Bonsai-Token": TOKEN}
    with page.client() as client:
        for method in ("GET", "POST"):
            assert client.request(method, path, headers=headers, json={}).status_code == 403
    assert page.lifecycle.started == []


def test_our_own_origin_is_taken(page: Running) -> None:
    with page.client(headers={"X-Bonsai-Token": TOKEN, "Origin": page.url}) as client:
        assert client.post("/bonsai/engine", json={"speculative": False}).status_code == 200
    assert page.lifecycle.started == [False]


STATE_CHANGING = [
    ("POST", "/bonsai/chat", {"text": "hi"}),
    ("POST", "/bonsai/engine", {"speculative": True}),
    ("POST", "/bonsai/quit", {}),
    ("PUT", "/bonsai/settings", {"temperature": 1}),
    ("POST", "/bonsai/conversations/import", {}),
    ("DELETE", "/bonsai/conversations/x", None),
    ("PATCH", "/bonsai/conversations/x", {"title": "y"}),
    ("POST", "/gradio_api/queue/join", {}),
    ("POST", "/gradio_api/upload", {}),
    ("OPTIONS", "/bonsai/engine", None),
]
TELLING = ["/bonsai/conversations", "/bonsai/events", "/bonsai/machine", "/bonsai/settings",
           "/gradio_api/info", "/config"]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body"), STATE_CHANGING)
@pytest.mark.parametrize("token", [None, "wrong", ""])
def test_changing_anything_needs_the_token_of_this_run(
    page: Running, method: str, path: str, body: Any, token: str | None
) -> None:
    headers = {} if token is None else {"X-Bonsai-Token": token}
    with page.client(headers=headers) as client:
        assert client.request(method, path, json=body).status_code == 403
    assert page.lifecycle.started == []
    assert page.quits == []
    assert page.engine.chats == []


@pytest.mark.parametrize("path", TELLING)
def test_reading_what_is_private_needs_it_too(page: Running, path: str) -> None:
    with page.client() as client:
        assert client.get(path).status_code == 403
        # The cookie of a run on another port, or of an earlier run, is none of ours.
        cookie = f"bonsai-token-{page.port + 1}={TOKEN}; bonsai-token-{page.port}=old"
        assert client.get(path, headers={"Cookie": cookie}).status_code == 403


def test_the_page_hands_out_a_cookie_that_scripts_and_other_sites_cannot_use(page: Running) -> None:
    with page.client() as client:
        cookie = client.get("/").headers["set-cookie"]
    assert cookie.startswith(f"bonsai-token-{page.port}={TOKEN};")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))


def test_with_the_cookie_everything_works(page: Running) -> None:
    with page.client() as client:
        client.get("/")
        assert client.get("/bonsai/conversations").json() == {
            "conversations": [],
            "set_aside": [],
            "unreadable": [],
        }
        assert client.put("/bonsai/settings", json={"temperature": 1}).json()["temperature"] == 1
        assert client.get("/config").status_code == 200


@pytest.mark.parametrize("path", ["/", "/bonsai/ready", "/bonsai/machine", "/nowhere"])
def test_every_answer_carries_the_security_headers(page: Running, path: str) -> None:
    with page.client() as client:
        headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    ("auth", "status"),
    [
        (None, 401),
        (("bonsai", "wrong"), 401),
        (("admin", "sesame"), 401),
        (("bonsai", ""), 401),
        (("bonsai", "sesame"), 200),
    ],
)
def test_a_page_for_other_machines_wants_the_password(
    start_page: StartPage, auth: tuple[str, str] | None, status: int
) -> None:
    page = start_page(page={"password": "sesame", "host": "0.0.0.0"})
    with page.client(auth=auth) as client:
        # Its name in the network is not known beforehand.
        answer = client.get("/", headers={"Host": f"my-machine.local:{page.port}"})
        assert answer.status_code == status
        assert client.get("/", headers={"Host": "my-machine.local:1"}).status_code == 403
        if status == 401:
            assert answer.headers["www-authenticate"].startswith("Basic ")
            assert "set-cookie" not in answer.headers
        # The password does not stand for the token, which comes with the page's cookie.
        client.cookies.clear()
        assert client.post("/bonsai/quit", json={}).status_code in {401, 403}


def test_nonsense_instead_of_a_password(start_page: StartPage) -> None:
    page = start_page(page={"password": "sesame", "host": "0.0.0.0"})
    with page.client() as client:
        for given in ("Basic", "Basic ???", "Bearer sesame", "Basic " + "é".encode().hex()):
            assert client.get("/", headers={"Authorization": given}).status_code == 401


def test_a_websocket_is_held_to_the_same() -> None:
    import asyncio

    reached: list[str] = []
    closed: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001
        reached.append(scope["path"])

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        closed.append(message)

    guard = Guard(app, host="127.0.0.1", port=7860, token=TOKEN)
    headers = [(b"host", b"127.0.0.1:7860")]
    asyncio.run(guard({"type": "websocket", "path": "/x", "headers": headers}, receive, send))
    assert reached == []
    assert closed == [{"type": "websocket.close", "code": 1008}]
    headers.append((b"cookie", f"bonsai-token-7860={TOKEN}".encode()))
    asyncio.run(guard({"type": "websocket", "path": "/x", "headers": headers}, receive, send))
    assert reached == ["/x"]
