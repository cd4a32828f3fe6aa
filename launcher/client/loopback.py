"""HTTP/1.1 to a server on this machine, as an httpx transport with a tenth of the usual cost a chunk.

A token stream is hundreds of tiny chunks a second. Through httpx's own transport each costs about half a
millisecond of this process's time, most of it in layers that a plain connection to loopback has no use for.
This one opens one connection a request, reads only when somebody asks for more (so that a reader who waits a
little gets many chunks in one go), and closes it with the response. No TLS, no proxies, no reuse.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import httpx

READ_BYTES = 256 * 1024
LARGEST_HEAD = 64 * 1024  # bytes of status line and headers, or of one chunk-size line


class LoopbackTransport(httpx.AsyncBaseTransport):
    """Use as ``httpx.AsyncClient(transport=LoopbackTransport())``; raises httpx's own exceptions."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send ``request``; the response comes with its body unread."""
        if request.url.scheme != "http":
            raise httpx.UnsupportedProtocol("only http:// goes over the loopback transport", request=request)
        limits = request.extensions.get("timeout", {})
        content = await request.aread()
        connection = _Connection(limits.get("read"))
        try:
            await connection.open(request.url.host, request.url.port or 80, limits.get("connect"))
            await connection.write(_head(request) + content)
            body = _Body(connection)
            status, headers = await body.read_head()
        except BaseException:
            connection.close()
            raise
        return httpx.Response(status, headers=headers, stream=body)


def _head(request: httpx.Request) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += [b"%b: %b" % (name, value) for name, value in request.headers.raw]
    return b"\r\n".join([*lines, b"", b""])


class _Connection:
    """A socket that is read only on demand: in between, the kernel gathers what comes."""

    def __init__(self, seconds: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._socket: socket.socket | None = None

    async def open(self, host: str, port: int, seconds: float | None) -> None:
        """Connect to the first of the host's addresses that accepts."""
        try:
            async with asyncio.timeout(seconds):
                await self._open(host, port)
        except TimeoutError as error:
            raise httpx.ConnectTimeout("no connection in time") from error
        except (OSError, OverflowError, UnicodeError) as error:  # the last two: a port or a name that is none
            raise httpx.ConnectError(str(error)) from error

    async def _open(self, host: str, port: int) -> None:
        trouble: OSError | None = None
        for family, address in await self._addresses(host, port):
            self._socket = socket.socket(family, socket.SOCK_STREAM)
            self._socket.setblocking(False)
            try:
                await self._loop.sock_connect(self._socket, address)
            except OSError as error:
                self.close()
                trouble = error
                continue
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return
        raise trouble or OSError(f"{host} has no address")

    async def _addresses(self, host: str, port: int) -> list[tuple[int, Any]]:
        with suppress(ValueError):  # a number needs no look-up, which would go through a thread
            version = ipaddress.ip_address(host).version
            return [(socket.AF_INET if version == 4 else socket.AF_INET6, (host, port))]
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(family, address) for family, _, _, _, address in found]

    async def write(self, data: bytes) -> None:
        """Send all of it."""
        assert self._socket is not None  # noqa: S101 - open() comes first
        try:
            async with asyncio.timeout(self._seconds):
                await self._loop.sock_sendall(self._socket, data)
        except TimeoutError as error:
            raise httpx.WriteTimeout("the request was not taken in time") from error
        except OSError as error:
            raise httpx.WriteError(str(error)) from error

    async def pull(self) -> bytes:
        """What came since the last pull, waiting for something if need be; empty at the end."""
        assert self._socket is not None  # noqa: S101 - open() comes first
        try:
            async with asyncio.timeout(self._seconds):
                return await self._loop.sock_recv(self._socket, READ_BYTES)
        except TimeoutError as error:
            raise httpx.ReadTimeout("nothing came in time") from error
        except OSError as error:
            raise httpx.ReadError(str(error)) from error

    def close(self) -> None:
        """At once: the other side notices now."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class _Body(httpx.AsyncByteStream):
    """The answer's head, then its body with the transfer's framing taken off."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._rest = b""
        self._chunked: Chunked | None = None
        self._left: int | None = None  # bytes still to come; None: until the connection ends

    async def read_head(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Status and headers; answers of the 1xx kind are passed over."""
        received = b""
        while True:
            while b"\r\n\r\n" not in received:
                if len(received) > LARGEST_HEAD:
                    raise httpx.RemoteProtocolError("the head of the answer does not end")
                more = await self._connection.pull()
                if not more:
                    raise httpx.ReadError("the connection ended before an answer")
                received += more
            head, _, received = received.partition(b"\r\n\r\n")
            status, headers = _parse_head(head)
            if status >= 200:
                break
        self._rest = received
        self._frame(status, headers)
        return status, headers

    def _frame(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        named = {name.lower(): value for name, value in headers}
        if b"chunked" in named.get(b"transfer-encoding", b"").lower():
            self._chunked = Chunked()
        elif status in {204, 304}:
            self._left = 0
        elif b"content-length" in named:
            try:
                self._left = int(named[b"content-length"])
            except ValueError:
                raise httpx.RemoteProtocolError("a content length that is no number") from None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        received, self._rest = self._rest, b""
        while True:
            if received:
                content = self._unframed(received)
                if content:
                    yield content
            if self._left == 0 or (self._chunked is not None and self._chunked.done):
                return
            received = await self._connection.pull()
            if not received:
                if self._left is None and self._chunked is None:
                    return
                raise httpx.ReadError("the connection ended in the middle of an answer")

    def _unframed(self, received: bytes) -> bytes:
        if self._chunked is not None:
            return self._chunked.feed(received)
        if self._left is not None:
            received = received[: self._left]
            self._left -= len(received)
        return received

    async def aclose(self) -> None:
        """Close the connection, however much of the body is left."""
        self._connection.close()


def _parse_head(head: bytes) -> tuple[int, list[tuple[bytes, bytes]]]:
    first, *lines = head.split(b"\r\n")
    parts = first.split(None, 2)
    if len(parts) < 2 or not parts[0].startswith(b"HTTP/1.") or not parts[1].isdigit():
        raise httpx.RemoteProtocolError("not an HTTP answer")
    headers = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name:
            raise httpx.RemoteProtocolError("a header line without a name")
        headers.append((name.strip(), value.strip()))
    return int(parts[1]), headers


class Chunked:
    """Takes the chunked transfer coding (RFC 9112, section 7.1) off a stream of bytes, cut anywhere."""

    def __init__(self) -> None:
        self.done = False
        self._line = b""  # of a size line or a trailer that has not ended yet
        self._left = 0  # bytes of the current chunk still to come, with its CR LF
        self._last = False  # the chunk of size 0 was seen: trailers follow

    def feed(self, received: bytes) -> bytes:
        """The content in ``received``; httpx.RemoteProtocolError when the coding is broken."""
        content = []
        at = 0
        while at < len(received) and not self.done:
            if self._left:
                end = min(at + self._left, len(received))
                data = received[at : max(at, min(end, at + self._left - 2))]
                content.append(data)
                self._left -= end - at
                at = end
                continue
            end = received.find(b"\n", at)
            self._line += received[at : len(received) if end < 0 else end]
            if len(self._line) > LARGEST_HEAD:
                raise httpx.RemoteProtocolError("a chunk's size line does not end")
            if end < 0:
                break
            at = end + 1
            line, self._line = self._line.strip(b"\r"), b""
            self._start(line)
        return b"".join(content)

    def _start(self, line: bytes) -> None:
        if self._last:
            self.done = not line
            return
        try:
            size = int(line.partition(b";")[0], 16)
        except ValueError:
            size = -1
        if size < 0:
            raise httpx.RemoteProtocolError("a chunk without a size")
        self._last = size == 0
        self._left = size + 2 if size else 0
