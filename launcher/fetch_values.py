"""What goes into a fetch, what it tells while it runs, and how it is paused and ended."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Remote:
    """A file to fetch. ``url`` is asked for with ``headers`` (which may hold a token, never shown or sent to
    another host than ``url``'s). ``total`` bytes and ``sha256`` as known beforehand; None: not known. ``what``: the name
    for people. ``plain_headers``: what to ask with when ``headers`` are refused with 401 (a stale token); None: give up.
    """

    what: str
    url: str = field(repr=False)  # a signed one is a credential itself
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
    byte until another way is tried, and how often. ``offline``: never. ``backoff_s``: the first wait between two
    tries, doubled each time; ``longest_wait_s``: a server that asks for more is not waited for."""

    env: Mapping[str, str] = field(repr=False)  # may hold the password of a proxy
    stall_s: float = 90
    tries: int = 6
    offline: bool = False
    backoff_s: float = 1.0
    longest_wait_s: float = 300.0


class Control:
    """Pause, resume and cancel from another thread."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self._going = threading.Event()
        self._going.set()

    def pause(self) -> None:
        """Let no more bytes come until ``resume``; the connection is closed."""
        self._going.clear()

    def resume(self) -> None:
        """Go on after ``pause``."""
        self._going.set()

    @property
    def paused(self) -> bool:
        """Whether it has to wait for ``resume``; after ``cancel`` it has not."""
        return not self._going.is_set()

    def cancel(self) -> None:
        """End it for good: ``fetch`` raises Cancelled, also where it was paused. The part is kept."""
        self.cancelled.set()
        self._going.set()

    def wait_resumed(self, seconds: float) -> None:
        """Return when it goes on or was cancelled, at the latest after ``seconds``."""
        self._going.wait(seconds)
