"""The only downloader: HTTP ranges into ``<name>.part``, hashed while written; resumes after any end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Remote:
    """A file to fetch. ``url`` is asked for with ``headers`` (which may hold a token, never shown or sent to
    another host than ``url``'s). ``total`` bytes and ``sha256`` as known beforehand; None: not known. ``what``: the name
    for people. ``plain_headers``: what to ask with when ``headers`` are refused with 401 (a stale token); None: give up.
    """

    what: str
    url: str
    total: int | None
    sha256: str | None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    plain_headers: Mapping[str, str] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Progress:
    """``have`` of ``total`` bytes; ``phase``: "checking" (an older part is read), "running", "waiting"
    (``note`` says for what). ``rate``: bytes a second over the last seconds, or None."""

    have: int
    total: int | None
    phase: str
    rate: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Network:
    """How to reach the network: a mapping of environment variables (proxies, SSL_CERT_FILE), seconds without a
    byte until another way is tried, and how often. ``offline``: never."""

    env: Mapping[str, str]
    stall_s: float = 90
    tries: int = 6
    offline: bool = False


class Control:
    """Pause, resume and cancel from another thread."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self._going = threading.Event()
        self._going.set()

    def pause(self) -> None:
        self._going.clear()

    def resume(self) -> None:
        self._going.set()

    @property
    def paused(self) -> bool:
        return not self._going.is_set()

    def cancel(self) -> None:
        self.cancelled.set()
        self._going.set()


def fetch(
    remote: Remote,
    target: Path,
    network: Network,
    progress: Callable[[Progress], None] = lambda progress: None,  # noqa: ARG005
    control: Control | None = None,
) -> str:
    """Bring ``remote`` to ``target``; returns its sha256 (hex). Raises a FetchProblem (see errors.py).

    What an earlier call or process left in ``<target>.part`` is read again, hashed and gone on from. ``target`` gets its
    name only when size and sha256 are right; a file of other content under that name is an error of the caller.
    """
    raise NotImplementedError
