"""One page a home: a second start finds the first one and brings it forward.

Whoever holds the lock file serves the page. The lock is the operating system's and goes with its holder, however that
ended, so that nothing a crash leaves behind is in anybody's way. Where the page is stands in a private record; that
the program at that address really is the one that wrote the record is proved by asking it, each time anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.client
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from launcher import store_files
from launcher.errors import LauncherError
from launcher.fetch_lock import only_one
from launcher.paths import make_folder, write_private

ROUTE = "/bonsai/instance"
PATIENCE_S = 30.0  # the first may still be starting, on a slow disk and for the first time
ANSWER_S = 3.0
LOOK_S = 0.1
MOST_BYTES = 4096
WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - listened on, but nobody's address


@dataclass(frozen=True)
class Record:
    """``url``: where the page is, as this machine reaches it; ``token``: what only it and this file know."""

    pid: int
    url: str
    token: str


@dataclass(frozen=True)
class Other:
    """The page that runs already."""

    pid: int
    url: str


class Mine:
    """The right to serve this home's page."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._token = secrets.token_urlsafe(24)

    def announce(self, url: str) -> None:
        """Write down where the page is; its port must be bound. Raises FolderError."""
        parts = urlsplit(url)
        host = WILDCARDS.get((parts.hostname or "").strip("[]"))
        if host is not None:
            url = f"{parts.scheme}://{host}:{parts.port}"
        part = self._file.with_suffix(f".{os.getpid()}.part")
        write_private(part, json.dumps(asdict(Record(os.getpid(), url, self._token))))
        store_files.replace(part, self._file)  # a second start may be reading it

    def prove(self, challenge: str) -> str:
        """What only the writer of the record can answer to ``challenge``."""
        return proof(self._token, challenge)


@contextlib.contextmanager
def the_page(run: Path, *, patience_s: float = PATIENCE_S) -> Iterator[Mine | Other]:
    """Mine while nobody else serves this home's page, else the Other that does. ``run``: the folder of running
    processes. Waits up to ``patience_s`` seconds for one that starts or ends just now.

    Raises FolderError, and LauncherError when there is another that does not answer.
    """
    file = make_folder(run) / "page.json"
    wait = _Wait(file, time.monotonic() + patience_s)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(only_one(run / "page.lock", wait))
        except _Found as found:
            yield found.other
            return
        if other := running(file):  # only on a file system without locks
            yield other
            return
        mine = Mine(file)
        try:
            yield mine
        finally:
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)


class _Found(Exception):
    def __init__(self, other: Other) -> None:
        super().__init__(other.url)
        self.other = other


@dataclass(frozen=True)
class _Wait:
    """Called while somebody else has the lock. Raises _Found as soon as that one answers."""

    file: Path
    end: float

    def __call__(self) -> None:
        if other := running(self.file):
            raise _Found(other)
        if time.monotonic() > self.end:
            record = read(self.file)
            number = f" (process {record.pid})" if record else ""
            raise LauncherError(
                f"Bonsai Launcher is running already{number}, but its page does not answer.",
                "End that process, or restart this machine, and start again.",
            )
        time.sleep(LOOK_S)


def running(file: Path, ask: Callable[[str, str], str] | None = None) -> Other | None:
    """The page that the record in ``file`` names, if it answers and proves that it wrote it."""
    record = read(file)
    if record is None:
        return None
    challenge = secrets.token_hex(16)
    answer = (ask or answer_of)(record.url, challenge)
    if not hmac.compare_digest(answer.encode(), proof(record.token, challenge).encode()):
        return None
    return Other(record.pid, record.url)


def proof(token: str, challenge: str) -> str:
    """HMAC-SHA-256 of ``challenge``, as hexadecimal digits: tells nothing about ``token``."""
    return hmac.new(token.encode(), challenge.encode(), hashlib.sha256).hexdigest()


def read(file: Path) -> Record | None:
    """None when there is no record, or a damaged one."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        record = Record(int(values["pid"]), str(values["url"]), str(values["token"]))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return record if record.token else None


def answer_of(url: str, challenge: str) -> str:
    """What the page at ``url`` answers to ``challenge``, empty when it does not. Goes through no proxy."""
    try:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=ANSWER_S)
        with contextlib.closing(connection):
            connection.request("GET", f"{ROUTE}?{challenge}", headers={"Host": parts.netloc})
            reply = connection.getresponse()
            text = reply.read(MOST_BYTES).decode("ascii")
    except (OSError, ValueError, http.client.HTTPException):
        return ""
    return text if reply.status == 200 else ""
