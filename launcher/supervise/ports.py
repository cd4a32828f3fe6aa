"""Finds a free port, or says who has the one that was asked for."""

from __future__ import annotations

import socket

import psutil

from launcher.errors import BadInput, PortTaken

_TRIES = 5  # several launchers that start at once look at the same ports


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen on ``host``:``port`` now. Binds without SO_REUSEPORT, so that a
    second listener of an older llama-server, which sets it, is noticed as well."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):  # Windows, where SO_REUSEADDR would steal the port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def choose(host: str, port: int, *, asked_by: str | None) -> int:
    """``port`` when it is free; else another free one, unless a person asked for that very port
    (``asked_by`` names how), which raises PortTaken with who answers there. BadInput: no port of ``host`` can
    be had, because it is no address of this machine."""
    if is_free(host, port):
        return port
    free = _any_free(host)
    if asked_by is not None:
        raise PortTaken(
            f"{asked_by} asks for port {port}, but {holder(port)} answers there.",
            "Stop it, or ask for another port.",
        )
    return free


def reserve(host: str, port: int, *, asked_by: str | None) -> socket.socket:
    """As ``choose``, but the port is held from now on: a listening socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for _ in range(_TRIES):
        chosen = choose(host, port, asked_by=asked_by)
        try:
            return socket.create_server((host, chosen), family=family, backlog=2048)
        except OSError:
            continue  # somebody was faster between the look and the taking
    raise PortTaken(f"Port {port} cannot be had on {host}.", "Ask for another port.")


def _any_free(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError as error:
            raise BadInput(
                f"No server can listen on {host}: {error.strerror or error}.",
                "Give an address of this machine as BONSAI_HOST, such as 127.0.0.1.",
            ) from error
        free: int = probe.getsockname()[1]
    return free


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
