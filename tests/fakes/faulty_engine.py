"""An engine that goes wrong in one way on order, and is a good one before and after: for the fault campaign.

``install(folder, Orders(...))`` writes the executable. It streams as the paced server does. What each start does is
noted in ``starts`` beside it, one JSON line each.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.fakes import paced_engine
from tests.fakes.paced_server import PacedConfig, PacedServer, Request
from tests.fakes.paced_stream import head

ROOT = Path(__file__).parents[2]
STUBBORN = "trap '' TERM HUP INT; while :; do sleep 60; done"
# What stands at our port instead of us: one that speaks HTTP, one that says nothing, one that says something else.
STRANGER = """
import socket, sys, time
kind, listener = sys.argv[1], socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
    listener.bind(("127.0.0.1", int(sys.argv[2])))
except OSError:
    sys.exit(1)
listener.listen()
print("there", flush=True)
body = b'{"data": [{"id": "somebody"}], "status": "ok"}'
http = b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n" % len(body) + body
kept = []
while True:
    connection, _ = listener.accept()
    if kind == "silent":
        kept.append(connection)
        continue
    try:
        connection.settimeout(1)
        connection.recv(4096)
        connection.sendall(http if kind == "http" else b"SSH-2.0-OpenSSH_9.9\\r\\n")
    except OSError:
        pass
    connection.close()
"""
# Answers that are no chat stream, by name: (content type, body in pieces).
WRONG: dict[str, tuple[str, list[bytes]]] = {
    "a web page": ("text/html", [b"<html><body>Please log in.</body></html>"]),
    "nothing": ("text/event-stream", []),
    "only comments": ("text/event-stream", [b": ping\n\n", b": ping\n\n"]),
    "no JSON": ("text/event-stream", [b"data: {half of\n\n", b"data: nonsense\n\n"]),
    "JSON of another kind": (
        "text/event-stream",
        [b"data: [1, 2]\n\n", b'data: "text"\n\n', b"data: null\n\n"],
    ),
    "bytes that are no text": ("text/event-stream", [b"data: \xff\xfe\x00\x80\n\n", bytes(range(256)) * 4]),
    "wrong types": (
        "text/event-stream",
        [b'data: {"choices": 5}\n\n', b'data: {"choices": [{"delta": {"content": 7}}]}\n\n'],
    ),
    "one line without an end": ("text/event-stream", [b"data: " + b"x" * 100_000] * 5),
    "deep nesting": ("text/event-stream", [b"data: " + b"[" * 200_000 + b"\n\n"]),
}
CUTS = ("reset", "ends", "half a chunk", "an error", "refused 500", "refused 503")


@dataclass(frozen=True)
class Orders:
    """``bad``: so many first starts go wrong, 0: all. ``at``: "load", "chat" (the ``chat``-th one of the process, after
    ``tokens`` of its answer) or "" (what is ordered besides is all). ``how``: an exit status, a negative signal,
    "stop" (by SIGSTOP), "sleep" (alive, and deaf), "loading" (503 for ever), one of WRONG or of CUTS.

    ``log``: a file whose text is written when it goes wrong. ``flood``: bytes of log at each start; ``flood_on``: and on.
    ``fork``: so many stubborn children; ``hold``: they hold the listening port. ``deaf``: SIGTERM does not end it.
    ``close_s``: that long from SIGTERM to the end. ``lock``: held while it runs; who finds it held is out of memory.
    ``stranger``: who takes the port in a bad start a moment before we would. ``alias``: the name that a bad start gives.
    """

    bad: int = 1
    at: str = ""
    chat: int = 2
    tokens: int = 0
    how: int | str = 1
    log: str = ""
    flood: int = 0
    flood_on: bool = False
    fork: int = 0
    hold: bool = False
    deaf: bool = False
    close_s: float = 0.0
    lock: str = ""
    stranger: str = ""
    alias: str = ""


def install(folder: Path, orders: Orders, **config: Any) -> Path:
    """Write the executable into ``folder``; ``config``: fields of PacedConfig. A second call replaces it."""
    folder.mkdir(parents=True, exist_ok=True)
    program, part = folder / "llama-server", folder / "llama-server.part"
    plain = dataclasses.asdict(PacedConfig(**{**config, "blocks": ()}))
    settings = json.dumps([plain, dataclasses.asdict(PacedConfig(**config))])
    part.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        f"from tests.fakes.faulty_engine import main\n"
        f"main({json.dumps(dataclasses.asdict(orders))!r}, {settings!r}, {str(folder)!r}, sys.argv[1:])\n"
    )
    part.chmod(part.stat().st_mode | stat.S_IXUSR)
    part.replace(program)
    return program


def starts(program: Path) -> list[dict[str, Any]]:
    """What each start has noted: pid, argv, children, stranger (None: there is none)."""
    with contextlib.suppress(FileNotFoundError):
        return [json.loads(line) for line in (program.parent / "starts").read_text().splitlines()]
    return []


def wrapped(folder: Path, real: Path, stranger: str) -> Path:
    """A wrapper that runs ``real``, whose port somebody else takes a moment before its first start binds it."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "llama-server"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        f"from tests.fakes.faulty_engine import wrap\nwrap({str(real)!r}, {str(folder)!r}, {stranger!r}, sys.argv[1:])\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def wrap(real: str, folder: str, stranger: str, argv: list[str]) -> None:
    """What the wrapper runs."""
    if "--port" in argv and "--version" not in argv and "--help" not in argv:
        begin(Path(folder), argv, Orders(stranger=stranger))
    os.execv(real, [real, *argv])  # noqa: S606 -- the wrapper becomes the real one


def main(orders_json: str, settings: str, folder: str, argv: list[str]) -> None:
    """What the executable runs."""
    if "--version" in argv or "--help" in argv:
        paced_engine.main(settings, argv)
        return
    orders = Orders(**json.loads(orders_json))
    if orders.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: _close(orders))
    bad = begin(Path(folder), argv, orders)
    _flood(orders.flood)
    if orders.flood_on:
        threading.Thread(target=_flood, args=(1 << 40,), daemon=True).start()
    if orders.lock:
        _take(Path(orders.lock))
    if bad and orders.at == "load":
        _go_wrong(orders)
    config = paced_engine.config(settings, argv)
    if bad and orders.alias:
        config = dataclasses.replace(config, alias=orders.alias, api_key="")
    if bad and orders.at == "load":  # "loading"
        config = dataclasses.replace(config, loading_s=1e9)
    asyncio.run(_Faulty(config, orders, bad, int(dict(pairwise(argv))["--port"])).serve())


def begin(folder: Path, argv: list[str], orders: Orders) -> bool:
    """Note this start, with the children and the stranger that are ordered; whether it is a bad one."""
    port = dict(pairwise(argv))["--port"]
    bad = not orders.bad or len(starts(folder / "llama-server")) < orders.bad
    stranger = _stranger(orders.stranger, port) if bad and orders.stranger else None
    children = [] if orders.hold else _children(orders.fork)
    noted = {"pid": os.getpid(), "argv": argv, "children": children, "stranger": stranger}
    with (folder / "starts").open("a") as file:
        file.write(json.dumps(noted) + "\n")
    return bad


def _stranger(kind: str, port: str) -> int | None:
    """Somebody in a session of their own, who is nobody's child of ours."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", STRANGER, kind, port],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    return process.pid if process.stdout.readline() else None


def _children(count: int, *, holding: socket.socket | None = None) -> list[int]:
    fds = (holding.fileno(),) if holding else ()
    return [subprocess.Popen(["/bin/sh", "-c", STUBBORN], pass_fds=fds).pid for _ in range(count)]


def _flood(size: int) -> None:
    line = b"x" * 99 + b"\n"
    with contextlib.suppress(OSError):
        for _ in range(size // 10_000):
            os.write(2, line * 100)


def _take(lock: Path) -> None:
    try:
        lock.touch(exist_ok=False)
    except FileExistsError:
        sys.stderr.write(
            "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9.00 MiB on device 0: cudaMalloc failed: "
        )
        sys.stderr.write("out of memory\n")
        sys.stderr.flush()
        os._exit(1)


def _close(orders: Orders) -> None:
    time.sleep(orders.close_s)
    if orders.lock:
        Path(orders.lock).unlink(missing_ok=True)
    os._exit(0)


def _go_wrong(orders: Orders) -> None:
    """Returns only for "loading"."""
    if orders.log:
        sys.stderr.write(Path(orders.log).read_text(encoding="utf-8") + "\n")
        sys.stderr.flush()
    if orders.how == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif orders.how == "sleep":
        time.sleep(1e6)
    elif isinstance(orders.how, int) and orders.how < 0:
        signal.signal(-orders.how, signal.SIG_DFL) if -orders.how != signal.SIGKILL else None
        os.kill(os.getpid(), -orders.how)
        time.sleep(60)
    elif isinstance(orders.how, int):
        os._exit(orders.how)


class _Faulty(PacedServer):
    def __init__(self, config: PacedConfig, orders: Orders, bad: bool, port: int) -> None:
        super().__init__(config, port=port)
        self._orders, self._bad, self._count = orders, bad, 0

    async def serve(self) -> None:
        listening = asyncio.ensure_future(self._listening())
        await super().serve()
        listening.cancel()

    async def _listening(self) -> None:
        while not self._ready.is_set():
            await asyncio.sleep(0.01)
        sys.stderr.write(f"main: server is listening on http://127.0.0.1:{self.port}\n")
        if self._orders.hold:
            self._hold()

    def _hold(self) -> None:
        """Children get the listening socket: the port stays taken while one of them lives."""
        for number in range(3, 64):
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as found:
                if found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    _children(self._orders.fork, holding=found)
                    return

    async def _answer(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        orders = self._orders
        if request.path.startswith("/v1/chat/completions") and "input_tokens" not in request.path:
            self._count += 1
            if self._bad and orders.at == "chat" and self._count == orders.chat:
                if orders.how in WRONG:
                    await _wrong(str(orders.how), writer)
                    return
                if orders.how in CUTS:
                    await self._cut(str(orders.how), request, reader, writer)
                    return
                if not orders.tokens:
                    _go_wrong(orders)
                asyncio.get_running_loop().call_later(orders.tokens / self.config.rate, _go_wrong, orders)
        await super()._answer(request, reader, writer)

    async def _cut(
        self, how: str, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        whole, after = self.config, self._orders.tokens
        changed: dict[str, Any] = {
            "reset": {"die_after": after},
            "ends": {"cut_after": after},
            "an error": {"error_after": after},
            "refused 500": {"refuse": 500},
            "refused 503": {"refuse": 503},
        }
        if how == "half a chunk":
            writer.write(head(200, "Transfer-Encoding: chunked", "text/event-stream") + b"fff\r\ndata: {")
            await writer.drain()
            return
        self.config = dataclasses.replace(whole, **changed[how])
        try:
            await super()._answer(request, reader, writer)
        finally:
            self.config = whole


async def _wrong(name: str, writer: asyncio.StreamWriter) -> None:
    kind, pieces = WRONG[name]
    writer.write(head(200, "Transfer-Encoding: chunked", kind))
    for piece in pieces:
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()
