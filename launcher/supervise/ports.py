"""Finds a free port, or says who has the one that was asked for."""

from __future__ import annotations

import contextlib
import enum
import socket

import psutil

from launcher.errors import BadInput, PortTaken

_TRIES = 5  # several launchers that start at once look at the same ports


class Look(enum.Enum):
    """What binding to a port says of it. ``FORBIDDEN``: the system keeps it from this user."""

    FREE = enum.auto()
    TAKEN = enum.auto()
    FORBIDDEN = enum.auto()


def look(host: str, port: int) -> Look:
    """Binds without SO_REUSEPORT, so that a second listener of an older llama-server, which sets it, is noticed
    as well."""
    with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):  # Windows, where SO_REUSEADDR would steal the port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except PermissionError:
            # Windows says this also of a port that another user's program has for itself.
            return Look.TAKEN if answers(host, port) else Look.FORBIDDEN
        except OSError:
            return Look.TAKEN
    return Look.FREE


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen on ``host``:``port`` now."""
    return look(host, port) is Look.FREE


def choose(host: str, port: int, *, asked_by: str | None) -> int:
    """``port`` when it is free; else another free one, unless a person asked for that very port
    (``asked_by`` names how), which raises PortTaken with who answers there. BadInput: no port of ``host`` can
    be had, because it is no address of this machine."""
    found = look(host, port)
    if found is Look.FREE:
        return port
    free = another(host)
    if asked_by is not None:
        raise taken(port, asked_by, forbidden=found is Look.FORBIDDEN)
    return free


def taken(port: int, asked_by: str, *, forbidden: bool = False) -> PortTaken:
    """The error that says who has the port that was asked for."""
    if forbidden:
        return PortTaken(
            f"{asked_by} asks for port {port}, but it may not be used by this user: the system reserves it.",
            "Ask for another port, above 1023.",
        )
    return PortTaken(
        f"{asked_by} asks for port {port}, but {holder(port)} answers there.",
        "Stop it, or ask for another port.",
    )


def reserve(host: str, port: int, *, asked_by: str | None) -> socket.socket:
    """As ``choose``, but the port is held from now on: a listening socket."""
    for _ in range(_TRIES):
        chosen = choose(host, port, asked_by=asked_by)
        try:
            return socket.create_server((host, chosen), family=_family(host), backlog=2048)
        except OSError:
            continue  # somebody was faster between the look and the taking
    raise PortTaken(f"Port {port} cannot be had on {host}.", "Ask for another port.")


def another(host: str) -> int:
    """A free port of ``host``. BadInput: none can be had, because it is no address of this machine."""
    with socket.socket(_family(host), socket.SOCK_STREAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError as error:
            raise BadInput(
                f"No server can listen on {host}: {error.strerror or error}.",
                "Give an address of this machine as BONSAI_HOST, such as 127.0.0.1.",
            ) from error
        free: int = probe.getsockname()[1]
    return free


def answers(host: str, port: int, timeout_s: float = 1.0) -> bool:
    """Whether somebody accepts connections there."""
    # What listens on every address answers on loopback.
    at = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    with contextlib.suppress(OSError), socket.create_connection((at, port), timeout=timeout_s):
        return True
    return False


def loopback_works(host: str) -> bool:
    """Whether a program of this machine can reach another one on ``host`` at all: a firewall may forbid it."""
    with contextlib.suppress(OSError), socket.create_server((host, 0), family=_family(host)) as listener:
        return answers(host, listener.getsockname()[1])
    return False


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def holder(port: int) -> str:
    """Who listens on ``port``, as words for a sentence: "llama-server (process 123)" or "another program"."""
    try:
        connections = psutil.net_connections("tcp")
    except (psutil.Error, OSError):  # macOS tells only an administrator
        return "another program"
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
            if connection.pid is None:
                return "a program of another user"
            try:
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid})"
            except psutil.Error:
                return f"process {connection.pid}"
    return "another program"
