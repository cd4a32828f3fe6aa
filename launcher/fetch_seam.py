"""Every exception of the network's layers becomes one of ours here.

Their texts are not taken over: some hold headers, or addresses with signatures.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import httpx

from launcher.errors import FetchProblem, NetworkProblem
from launcher.fetch_answer import KEPT, Again
from launcher.net_problem import CERTIFICATE_HELP, PROXY_HELP, behind

T = TypeVar("T")

CHECK = "Check the network and the proxy, and start again; what was fetched stays."


@dataclass(frozen=True)
class Peer:
    """Who is talked to: the server's host, and the proxy's host where one is between (else empty)."""

    host: str
    proxy: str = ""

    @property
    def next_hop(self) -> str:
        """Who is connected to, for people: the proxy, or the server itself."""
        return f"the proxy {self.proxy}" if self.proxy else self.host


def seam(call: Callable[[], T], peer: Peer) -> T:
    """``call()``; raises Again for what may pass, a FetchProblem for what will not."""
    try:
        return call()
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        trouble = _trouble(error, peer)
    raise trouble


def cut(peer: Peer) -> NetworkProblem:
    """The connection ended too early."""
    return NetworkProblem(f"The connection to {peer.host} was cut.", KEPT)


def _trouble(error: Exception, peer: Peer) -> Exception:
    causes = list(behind(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = cause.verify_message or "it is for another name"
            return NetworkProblem(
                f"The certificate of {peer.host} cannot be trusted: {reason} (CERTIFICATE_VERIFY_FAILED).",
                CERTIFICATE_HELP,
            )
    if isinstance(error, httpx.ProxyError):
        return _proxy_trouble(error, peer)
    if isinstance(error, httpx.LocalProtocolError | httpx.InvalidURL | ValueError):
        return FetchProblem(
            f"The request to {peer.host} cannot be sent: a token or address has characters that do not belong there.",
            "Check HF_TOKEN for line ends and other strange characters.",
        )
    return Again(_passing(error, causes, peer))


def _passing(error: Exception, causes: list[BaseException], peer: Peer) -> NetworkProblem:
    hop = peer.next_hop
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return NetworkProblem(f"The name of {hop} is not known here: is there a network?", CHECK)
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return NetworkProblem(f"No encrypted connection to {peer.host} comes about.", CHECK)
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        named = (it for it in causes if isinstance(it, OSError) and it.errno and it.strerror)
        reason = next((f": {it.strerror.lower()}" for it in named if it.strerror), "")
        return NetworkProblem(
            f"{hop[:1].upper() if peer.proxy else hop[:1]}{hop[1:]} cannot be reached{reason}.", CHECK
        )
    if isinstance(error, httpx.RemoteProtocolError) and "disconnected" not in str(error):
        return NetworkProblem(f"{peer.host} answers with something that is not HTTP.", CHECK)
    return cut(peer)


def _proxy_trouble(error: httpx.ProxyError, peer: Peer) -> Exception:
    status = str(error)[:3]
    if status == "407":
        return NetworkProblem(
            f"The proxy {peer.proxy} wants a name and password (407).",
            PROXY_HELP,
        )
    said = f" ({status})" if status.isdigit() else ""
    return Again(NetworkProblem(f"The proxy {peer.proxy} makes no connection to {peer.host}{said}.", CHECK))
