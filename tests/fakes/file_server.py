"""Serves files on loopback with correct ranges and ETags, and goes wrong on order.

    with FileServer({"weights.gguf": data}) as server:
        server.fault("weights.gguf", Fault(cut_after=1000), Fault(status=503))  # the next two answers
        server.always["weights.gguf"] = Fault(rate=1e6)  # every answer after those
        ... server.url_of("weights.gguf"), server.sent["weights.gguf"], server.requests ...

A server with routes of its own overrides ``answer``; names in ``fault``, ``always`` and ``sent`` are paths without
the first slash and without a query. It also takes requests as a proxy does (``GET http://host/name``): the host
is noted in the request, and the name is served. With ``tls`` it speaks HTTPS.
"""

from __future__ import annotations

import hashlib
import select
import socket
import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

PIECE = 64 * 1024  # bytes written at once
HTML = b"<!DOCTYPE html>\n<html><head><title>Sign in to the network</title></head><body>Hello</body></html>\n"


@dataclass(frozen=True)
class Content:
    """``size`` bytes that need not be in memory: ``read(start, length)`` gives some. ``etag`` without quotes."""

    size: int
    read: Callable[[int, int], bytes]
    etag: str = ""

    @classmethod
    def of(cls, data: bytes) -> Content:
        """What ``data`` holds; its ETag is its sha256."""
        view = memoryview(data)
        return cls(len(data), lambda start, length: bytes(view[start : start + length]), sha256(data))


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one answer. Counts are bytes of the body of that answer."""

    methods: tuple[str, ...] = ("GET",)  # requests of other methods are answered properly and use nothing up
    status: int | None = None  # answer so, with ``headers`` and ``body``, instead of the file
    headers: Mapping[str, str] = field(
        default_factory=dict
    )  # added to the answer, or in place of the usual ones
    body: bytes = b""
    html: bool = False  # 200 and a web page
    redirect: str = ""  # 302 to there
    refuse_auth: bool = False  # 401 where the request carries Authorization, the file where not
    silent: bool = False  # the request is taken, and nothing is ever said
    hang_up: bool = False  # the connection ends without an answer
    stall_after: int | None = None  # then nothing more comes, and the connection stays
    cut_after: int | None = None  # then the connection ends
    wrong_at: int | None = None  # the byte of the file at that place is another one
    extra: bytes = b""  # follows the body, and is counted in the length
    no_length: bool = False  # the end of the connection ends the body
    ignore_range: bool = False  # 200 and everything
    range_shift: int = 0  # Content-Range and bytes begin so many bytes later than asked for
    rate: float | None = None  # bytes a second
    gate: Callable[[int], bool] | None = (
        None  # asked with the place in the file before every 4 KiB; False ends it
    )


@dataclass(frozen=True)
class Request:
    """``path`` as sent, with its query; ``name``: without them; ``headers`` with names in lower case; ``host``:
    of the Host header; ``proxied``: came with a whole URL, as to a proxy."""

    method: str
    path: str
    name: str
    query: str
    headers: Mapping[str, str]
    host: str
    proxied: bool
    body: bytes = b""


@dataclass(frozen=True)
class Reply:
    """``content`` is served in ranges where ``status`` is 200 and a range is asked for."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content: Content | bytes = b""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class FileServer:
    """Runs on threads of its own between ``with`` and its end. ``tls``: files of a certificate and its key."""

    def __init__(
        self, files: Mapping[str, Content | bytes] | None = None, *, tls: tuple[str, str] | None = None
    ) -> None:
        self.files: dict[str, Content | bytes] = dict(files or {})
        self.always: dict[str, Fault] = {}
        self.requests: list[Request] = []
        self.sent: dict[str, int] = defaultdict(int)  # bytes of bodies, by name
        self.open_connections = 0
        self.ending = threading.Event()
        self._faults: dict[str, list[Fault]] = defaultdict(list)
        self._lock = threading.Lock()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.files = self
        if tls:
            self._http.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._http.context.load_cert_chain(*tls)
        self.port: int = self._http.server_address[1]
        self.scheme = "https" if tls else "http"
        self.url = f"{self.scheme}://127.0.0.1:{self.port}"
        # The same server under another name, for what must not cross hosts.
        self.other_url = f"{self.scheme}://localhost:{self.port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> FileServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(10)

    def url_of(self, name: str) -> str:
        return f"{self.url}/{name}"

    def fault(self, name: str, *faults: Fault) -> None:
        """The next answers for ``name`` go wrong so, one each, in this order."""
        with self._lock:
            self._faults[name] += faults

    def forget(self, name: str) -> None:
        """No fault waits for ``name`` any more."""
        with self._lock:
            self._faults[name].clear()

    def answer(self, request: Request) -> Reply | None:
        """What is served for ``request``; None: 404. For servers with routes of their own to override."""
        content = self.files.get(request.name)
        return None if content is None else Reply(content=content)

    def asked(self, name: str, method: str = "GET") -> list[Request]:
        """The requests for ``name`` so far."""
        return [it for it in list(self.requests) if it.name == name and it.method == method]

    def take_fault(self, request: Request) -> Fault:
        """The fault for this answer; one that does nothing when all is to go well."""
        with self._lock:
            waiting = self._faults[request.name]
            if waiting and request.method in waiting[0].methods:
                return waiting.pop(0)
        fault = self.always.get(request.name)
        return fault if fault and request.method in fault.methods else Fault()

    def count(self, name: str, size: int) -> None:
        with self._lock:
            self.sent[name] += size

    def connections(self, change: int) -> None:
        with self._lock:
            self.open_connections += change


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    files: FileServer
    context: ssl.SSLContext | None = None

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.context is None:
            return connection, address
        # The handshake is left to the connection's own thread.
        return self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that leave, or that refuse the certificate, are what is tested here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def setup(self) -> None:
        self.server.files.connections(1)
        super().setup()

    def finish(self) -> None:
        try:
            super().finish()
        finally:
            self.server.files.connections(-1)

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        files = self.server.files
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length") or 0))
        name = unquote(parts.path.lstrip("/"))
        host = headers.get("host", "")
        request = Request(self.command, self.path, name, parts.query, headers, host, bool(parts.scheme), body)
        files.requests.append(request)
        fault = files.take_fault(request)
        reply = self._faulty(request, fault) or files.answer(request)
        if fault.silent:
            self._wait_for_end()
        elif fault.hang_up:
            self.close_connection = True
        else:
            self._send(request, fault, reply or Reply(404, content=b"not found"))

    do_HEAD = do_GET  # noqa: N815 - the names that http.server looks for
    do_POST = do_GET  # noqa: N815

    def _faulty(self, request: Request, fault: Fault) -> Reply | None:
        if fault.redirect:
            return Reply(302, {"Location": fault.redirect})
        if fault.html:
            return Reply(200, {"Content-Type": "text/html"}, HTML)
        if fault.refuse_auth and "authorization" in request.headers:
            return Reply(401, {"Content-Type": "application/json"}, b'{"error":"Invalid credentials"}')
        return None if fault.status is None else Reply(fault.status, content=fault.body)

    def _send(self, request: Request, fault: Fault, reply: Reply) -> None:
        content = Content.of(reply.content) if isinstance(reply.content, bytes) else reply.content
        status, start, length = reply.status, 0, content.size
        headers = {"Content-Type": "application/octet-stream"}
        if status == 200 and not fault.html:
            headers |= {"Accept-Ranges": "bytes", "ETag": f'"{content.etag}"'}
            if not fault.ignore_range:
                status, start, length = _ranged(request, content)
            if status == 206:
                start, length = start + fault.range_shift, length - fault.range_shift
                headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{content.size}"
            elif status == 416:
                headers["Content-Range"] = f"bytes */{content.size}"
        if not fault.no_length:
            headers["Content-Length"] = str(length + len(fault.extra))
        headers |= dict(reply.headers) | dict(fault.headers)
        self.send_response(status, HTTPStatus(status).phrase)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if request.method != "HEAD":
            self._body(request.name, fault, content, start, length)
        if fault.no_length or fault.cut_after is not None:
            self.close_connection = True

    def _body(self, name: str, fault: Fault, content: Content, start: int, length: int) -> None:
        files = self.server.files
        stop = min(it for it in (fault.stall_after, fault.cut_after, length) if it is not None)
        # A throttled answer goes out in small pieces, so that the rate holds from its first byte.
        piece = PIECE if fault.rate is None else max(1, min(PIECE, int(fault.rate / 100)))
        if fault.gate is not None:
            piece = 4096
        began, at = time.monotonic(), 0
        while at < stop and not files.ending.is_set():
            if fault.gate is not None and not fault.gate(start + at):
                self.close_connection = True
                return
            data = content.read(start + at, min(piece, stop - at))
            if fault.wrong_at is not None and start + at <= fault.wrong_at < start + at + len(data):
                changed = bytearray(data)
                changed[fault.wrong_at - start - at] ^= 0xFF
                data = bytes(changed)
            self.wfile.write(data)
            at += len(data)
            files.count(name, len(data))
            if fault.rate is not None:
                files.ending.wait(max(0.0, began + at / fault.rate - time.monotonic()))
        if fault.stall_after is not None and at >= fault.stall_after:
            self._wait_for_end()
        elif fault.cut_after is None and fault.extra:
            self.wfile.write(fault.extra)

    def _wait_for_end(self) -> None:
        """Say nothing until the client leaves or the server ends."""
        self.close_connection = True
        while not self.server.files.ending.is_set():
            readable, _, _ = select.select([self.connection], [], [], 0.05)
            if readable and not self.connection.recv(1024):
                return


def _ranged(request: Request, content: Content) -> tuple[int, int, int]:
    """(status, start, length) for the request's Range, as RFC 9110 has it for a single range ``bytes=N-[M]``."""
    wanted = request.headers.get("range", "")
    if_range = request.headers.get("if-range")
    if not wanted.startswith("bytes=") or (if_range is not None and if_range != f'"{content.etag}"'):
        return 200, 0, content.size
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    if not first.isdigit():
        return 200, 0, content.size
    start, end = int(first), min(int(last) + 1 if last else content.size, content.size)
    if start >= end:
        return 416, 0, 0
    return 206, start, end - start
