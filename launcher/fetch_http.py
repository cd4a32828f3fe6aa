"""Asks a server and reads its answer, patiently: a look at the clock and at the person's wishes stays possible.

Every answer has a connection of its own, and nothing is reused. A thread opens it, because looking a name up and
waiting for a server's first word cannot be interrupted; it is left behind when nobody waits any more.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpcore
import httpx

from launcher.errors import FetchProblem, NetworkProblem
from launcher.fetch_answer import Again
from launcher.fetch_net import proxy_for, transport
from launcher.fetch_patience import TICK_S, patiently
from launcher.fetch_seam import Peer, cut, seam
from launcher.fetch_values import Network

READ_BYTES = 1 << 20
CONNECT_S = 30.0
REDIRECTS = {301, 302, 303, 307, 308}
MOST_REDIRECTS = 10
ANYWHERE = {"accept", "user-agent", "range", "if-range", "accept-encoding", "connection"}


class _Line:
    """The socket under a request, so that another thread can end it.

    It is shut down, never closed from there: the number of a closed socket may be given to the next connection
    while a thread still reads from it.
    """

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._ended = False

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """httpcore tells its steps here."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._socket = info["return_value"].get_extra_info("socket")
            if self._ended:
                self.end()

    def end(self) -> None:
        """Shut the connection down, now and whenever one is made from here on."""
        self._ended = True
        if self._socket is not None:
            with suppress(OSError):
                # SSLSocket's own shutdown would also take its state away from a thread that reads.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


@dataclass
class Answer:
    """``headers`` with names in lower case; ``hops``: redirects on the way; ``whole``: the end of the body is certain
    (a length or chunks), not just the end of the connection."""

    status: int
    headers: dict[str, str]
    host: str
    hops: int
    _response: httpx.Response
    _transport: httpx.HTTPTransport
    _peer: Peer
    _line: _Line
    _left: int | None = None
    _body: Iterator[bytes] | None = None
    _direct: Any = None
    _busy: bool = False  # a thread may still be reading

    @property
    def whole(self) -> bool:
        """Whether the end of the body can be told from a connection that breaks off."""
        return self._left is not None or "transfer-encoding" in self.headers

    def read(self, watch: Callable[[], None]) -> bytes:
        """Some bytes of the body; empty at its end. ``watch`` is called while nothing comes. Raises Again for a body
        that breaks off.

        The first bytes come through httpx, which may have read them with the head. After them its buffers are empty,
        and a body of known length is read from the connection itself: in larger pieces, at a fraction of the cost.
        """
        if self._left == 0:
            return b""
        if self._direct is not None and self._left is not None:
            data = self._straight(self._left, watch)
        else:
            if self._body is None:
                self._body = iter(self._response.stream)  # type: ignore[arg-type]
            body = self._body
            self._busy = True
            data = patiently(lambda: seam(lambda: next(body, b""), self._peer), watch, lambda _: None)
            self._busy = False
            self._direct = self._response.extensions.get("network_stream")
        if self._left is not None:
            if not data:
                raise Again(cut(self._peer))
            self._left -= len(data)
        return data

    def _straight(self, left: int, watch: Callable[[], None]) -> bytes:
        while True:
            try:
                data: bytes = self._direct.read(min(left, READ_BYTES), TICK_S)
            except httpcore.ReadTimeout:
                watch()
            except (httpcore.NetworkError, httpcore.ProtocolError, OSError, ssl.SSLError):
                return b""
            else:
                return data

    def close(self) -> None:
        """At once."""
        self._line.end()
        if not self._busy:
            _close(self._response, self._transport)


def open_answer(
    url: str,
    headers: Mapping[str, str],
    network: Network,
    watch: Callable[[], None],
    *,
    ipv4: bool = False,
) -> Answer:
    """GET ``url``, following redirects; ``headers`` go to its own host, what may hold a secret to no other.

    Raises Again for what may pass, and a FetchProblem for what will not.
    """
    if network.offline:
        raise NetworkProblem(
            "Nothing is fetched, because the launcher was told to stay offline.", "Unset BONSAI_OFFLINE."
        )
    first = at = _address(url)
    for hops in range(MOST_REDIRECTS + 1):
        own = _origin(at) == _origin(first)
        sent = {name: value for name, value in headers.items() if own or name.lower() in ANYWHERE}
        answer = _ask(at, sent, network, watch, hops, ipv4=ipv4)
        target = answer.headers.get("location", "")
        if answer.status not in REDIRECTS or not target:
            return answer
        answer.close()
        before, at = at, _address(target, at)
        if before.scheme == "https" and at.scheme != "https":
            raise FetchProblem(
                f"{before.host} sends us on to an address without encryption ({at.host}), which is not followed.",
                "Use another network, or another HF_ENDPOINT.",
            )
    raise FetchProblem(f"{first.host} sends us from one address to the next without end.", "Try again later.")


def _address(text: str, base: httpx.URL | None = None) -> httpx.URL:
    try:
        url = httpx.URL(text) if base is None else base.join(text)
        if url.scheme in ("http", "https") and url.host:
            return url
    except (httpx.InvalidURL, ValueError):
        pass
    raise FetchProblem(
        "The address of a file to fetch makes no sense."
        if base is None
        else f"{base.host} sends us on to an address that makes no sense.",
        "Check HF_ENDPOINT and BONSAI_RELEASES_URL.",
    )


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, url.host.lower(), url.port or {"http": 80, "https": 443}[url.scheme]


def _ask(
    url: httpx.URL,
    headers: Mapping[str, str],
    network: Network,
    watch: Callable[[], None],
    hops: int,
    *,
    ipv4: bool,
) -> Answer:
    carrier = transport(url, network.env, ipv4=ipv4)
    proxy = proxy_for(str(url), network.env)[0]
    peer = Peer(url.host, httpx.URL(proxy).host if proxy else "")
    limits = {
        "connect": min(CONNECT_S, network.stall_s),
        "read": network.stall_s + 5,  # whoever waits leaves before that; this ends the thread
        "write": network.stall_s,
        "pool": network.stall_s,
    }

    line = _Line()

    def send() -> httpx.Response:
        extensions = {"timeout": limits, "trace": line.trace}
        return carrier.handle_request(httpx.Request("GET", url, headers=dict(headers), extensions=extensions))

    def ask() -> httpx.Response:
        try:
            return seam(send, peer)
        except BaseException:
            carrier.close()
            raise

    try:
        response = patiently(ask, watch, lambda late: _close(late, carrier))
    except BaseException:
        line.end()
        raise
    named = {name.lower(): value for name, value in response.headers.items()}
    length = named.get("content-length", "")
    left = int(length) if length.isdigit() and "transfer-encoding" not in named else None
    return Answer(response.status_code, named, url.host, hops, response, carrier, peer, line, left)


def _close(response: httpx.Response, carrier: httpx.HTTPTransport) -> None:
    try:
        response.close()
    finally:
        carrier.close()
