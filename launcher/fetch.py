"""The only downloader: HTTP ranges into ``<name>.part``, hashed while written; resumes after any end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from launcher.amounts import so_far, waiting
from launcher.errors import Cancelled, DigestMismatch, FetchProblem, FolderError, NetworkProblem
from launcher.fetch_answer import (
    KEPT,
    Again,
    Body,
    PlainHeaders,
    StartOver,
    Wanted,
    Wrong,
    is_page,
    judge,
    page_problem,
)
from launcher.fetch_http import Answer, open_answer
from launcher.fetch_lock import only_one
from launcher.fetch_meter import Meter
from launcher.fetch_part import Part, beside, check_folder, disk_errors, file_sha256
from launcher.fetch_patience import TICK_S
from launcher.fetch_values import Control, Network, Progress, Remote

__all__ = ["Control", "Network", "Progress", "Remote", "fetch"]

SNIFF_BYTES = 64  # of a body's start, looked at before anything is written
LONGEST_BACKOFF_S = 30.0
UNREACHED_TRIES = 3  # where no server has answered yet: without a network nobody wants to wait for six
IPV4_TRIES = {1, 3}  # after so many failures


class _Paused(Exception):
    """The person paused it in the middle of an answer."""


def fetch(
    remote: Remote,
    target: Path,
    network: Network,
    progress: Callable[[Progress], None] = lambda progress: None,  # noqa: ARG005
    control: Control | None = None,
    *,
    replace: bool = False,
) -> str:
    """Bring ``remote`` to ``target``; returns its sha256 (hex). Raises a FetchProblem (see errors.py), or FolderError
    where the folder is to blame.

    What an earlier call or process left in ``<target>.part`` is read again, hashed and gone on from. ``target`` gets its
    name only when size and sha256 are right; a file of other content under that name is an error of the caller
    (FolderError), unless it may be replaced (``replace``). Where the right file is there already, nobody is asked.
    ``progress`` is called on this thread, about ten times a second at most; what it raises ends the fetch, and the part
    stays.
    """
    control = control or Control()
    meter = Meter(progress)
    check_folder(target)

    def wait_for_other() -> None:
        _check_cancelled(remote, control)
        part = beside(target, ".part")
        have = part.stat().st_size if part.exists() else 0
        meter.tell(have, remote.total, "waiting", "another Bonsai is fetching this file")
        control.cancelled.wait(TICK_S)

    with only_one(beside(target, ".part.lock"), wait_for_other):
        if target.exists():
            digest = _existing(remote, target, meter, control)
            if digest:
                return digest
            if not replace:
                raise _another(remote, target)
            with disk_errors(target, remote.what):
                target.unlink()
        part = Part(target, remote)
        try:
            return _Fetch(remote, part, network, meter, control).run()
        finally:
            part.close()


def _existing(remote: Remote, target: Path, meter: Meter, control: Control) -> str:
    """The sha256 of the file that has the name already; empty where it is not the right one."""

    def tick(have: int) -> None:
        _check_cancelled(remote, control)
        meter.tell(have, remote.total, "checking")

    if remote.total in (None, _size(target, remote)) and (remote.sha256 or remote.total is not None):
        digest = file_sha256(target, tick)
        if remote.sha256 is None or digest == remote.sha256.lower():
            return digest
    return ""


def _size(target: Path, remote: Remote) -> int:
    """In bytes; -1: it is no file."""
    with disk_errors(target, remote.what):
        return target.stat().st_size if target.is_file() else -1


def _another(remote: Remote, target: Path) -> FolderError:
    have = _size(target, remote)
    if have < 0:
        why = "it is no file."
    elif remote.total in (None, have):
        why = f"it has {have} bytes, but other content."
    else:
        why = f"it has {have} bytes, {remote.total} are right."
    return FolderError(
        f"{target} is there already, but it is not {remote.what}: {why}", "Move it away, and start again."
    )


def _check_cancelled(remote: Remote, control: Control) -> None:
    if control.cancelled.is_set():
        raise Cancelled(
            f"Fetching {remote.what} was cancelled.", "What was fetched stays; start again to go on."
        )


class _Fetch:
    """One call of ``fetch``, with the lock held."""

    def __init__(self, remote: Remote, part: Part, network: Network, meter: Meter, control: Control) -> None:
        self._remote, self._part, self._network = remote, part, network
        self._meter, self._control = meter, control
        self._headers: Mapping[str, str] = remote.headers
        self._stale_token = remote.plain_headers is not None
        self._note = ""
        self._failures = 0  # tries in a row that brought nothing
        self._wrong = 0  # answers that were something else than the file
        self._restarts = 0
        self._reached = False
        self._ranges = True
        self._last_byte = 0.0
        self._complete = False  # the end was reached, as far as the last answer knows

    def run(self) -> str:
        """Fetch until the file stands under its name; its sha256. Raises what ``fetch`` does."""
        part = self._part
        while True:
            try:
                self._recheck()
                if part.total is None or part.have < part.total:
                    self._hold()
                    self._attempt()
                digest = self._finished()
            except _Paused:
                self._hold()
            except PlainHeaders:
                self._headers, self._stale_token = self._remote.plain_headers or {}, False
                self._note = "the saved token was refused; going on without it"
            except StartOver:
                self._start_over(FetchProblem(f"{self._remote.what} changes while it is fetched.", KEPT))
            except Again as trouble:
                self._again(trouble)
            else:
                if digest:
                    return digest

    def _recheck(self) -> None:
        """Read what an earlier call left."""
        part = self._part
        while part.have < part.kept:
            self._hold()
            part.read_kept()
            self._meter.tell(part.have, part.total, "checking")

    def _finished(self) -> str:
        """The sha256 when everything is here and right, after giving the file its name; empty: not yet."""
        part, wanted = self._part, (self._remote.sha256 or "").lower()
        if part.have != part.total and not (part.total is None and self._complete):
            return ""
        self._complete = False
        self._meter.tell(part.have, part.total, "running", self._note, now=True)
        digest = part.sha256()
        if wanted and digest != wanted:
            what = self._remote.what
            part.reset()
            raise Wrong(
                DigestMismatch(
                    f"{what} came with other bytes than published, for {part.target}: its sha256 begins with "
                    f"{digest[:12]}, right is {wanted[:12]}.",
                    "It was thrown away. Something on the way changes it, or the file was changed there: try another "
                    "network, or later.",
                )
            )
        part.finish()
        return digest

    # --- one request ---

    def _attempt(self) -> None:
        part = self._part
        part.check_space()
        ranged = part.have > 0 and self._ranges
        headers = dict(self._headers) | {"Accept-Encoding": "identity", "Connection": "close"}
        if ranged:
            headers["Range"] = f"bytes={part.have}-"
            if part.etag:
                headers["If-Range"] = part.etag
        self._last_byte = time.monotonic()
        # Where IPv6 leads nowhere, nothing but the waiting ends that: some tries go by IPv4 alone.
        answer = open_answer(
            self._remote.url, headers, self._network, self._watch, ipv4=self._failures in IPV4_TRIES
        )
        try:
            self._reached = True
            body = judge(answer.status, answer.headers, self._wanted(answer, ranged), time.time())
            if body.fresh:
                self._start_over(FetchProblem(f"{self._remote.what} changes while it is fetched.", KEPT))
            if body.total is not None and part.have > body.total:
                raise StartOver
            part.learn(body.total, body.etag)
            if body.nothing_left:
                return
            part.check_space()
            self._receive(answer, body)
        finally:
            answer.close()

    def _wanted(self, answer: Answer, ranged: bool) -> Wanted:
        remote, part = self._remote, self._part
        return Wanted(
            what=remote.what,
            host=answer.host,
            have=part.have,
            total=part.total,
            pinned=remote.total is not None,
            digest=remote.sha256 is not None,
            etag=part.etag,
            ranged=ranged,
            hops=answer.hops,
            stale_token=self._stale_token,
            longest_wait_s=self._network.longest_wait_s,
        )

    def _receive(self, answer: Answer, body: Body) -> None:
        """Write the body's bytes; those that are here already are passed over."""
        part = self._part
        skip = part.have - body.start
        start: bytes | None = b"" if body.start == 0 or body.page else None
        while True:
            data = answer.read(self._watch)
            if start is not None:
                start += data
                if data and len(start) < SNIFF_BYTES:
                    self._last_byte = time.monotonic()
                    continue
                if is_page(start, says_so=body.page):
                    raise Wrong(page_problem(self._remote.what, answer.host))
                data, start = start, None
                if not data:
                    break
            elif not data:
                break
            if skip:
                passed = min(skip, len(data))
                skip, data = skip - passed, data[passed:]
            self._take(data, answer.host)
            self._last_byte = time.monotonic()  # a slow disk is no silent server
            self._watch()
        self._ended(answer)

    def _take(self, data: bytes, host: str) -> None:
        part = self._part
        if part.total is not None and part.have + len(data) > part.total:
            what = self._remote.what
            raise Wrong(DigestMismatch(f"{host} sends more than the {part.total} bytes of {what}.", KEPT))
        if data:
            part.write(data)
            self._failures = 0
            self._ranges = True

    def _ended(self, answer: Answer) -> None:
        part = self._part
        if part.total is not None and part.have < part.total:
            raise Again(
                NetworkProblem(
                    f"{answer.host} sent only {part.have} of the {part.total} bytes of {self._remote.what}, for "
                    f"{part.target}.",
                    KEPT,
                )
            )
        if part.total is None:
            # Without a length or chunks, the end of the connection may be the file's or an accident.
            wanted = (self._remote.sha256 or "").lower()
            self._complete = answer.whole if not wanted else answer.whole or part.sha256() == wanted
            if not self._complete:
                raise Again(
                    NetworkProblem(f"{answer.host} does not say how large {self._remote.what} is.", KEPT)
                )

    def _watch(self) -> None:
        """Called all the time: looks at the person's wishes and at the clock."""
        part, network = self._part, self._network
        _check_cancelled(self._remote, self._control)
        if self._control.paused:
            raise _Paused
        self._meter.tell(part.have, part.total, "running", self._note)
        if time.monotonic() - self._last_byte > network.stall_s:
            raise Again(
                NetworkProblem(
                    f"{self._remote.what} stands still at {so_far(part.have, part.total)}: no byte came for "
                    f"{waiting(network.stall_s)}.",
                    "Check the network and the proxy, and start again; what was fetched stays.",
                )
            )

    # --- between requests ---

    def _hold(self) -> None:
        """Return when it may go on; Cancelled when it was ended."""
        while self._control.paused:
            _check_cancelled(self._remote, self._control)
            self._meter.tell(self._part.have, self._part.total, "waiting", "paused")
            self._control.wait_resumed(TICK_S)
        _check_cancelled(self._remote, self._control)

    def _again(self, trouble: Again) -> None:
        """Wait, or give up with what is the matter."""
        if isinstance(trouble, Wrong):
            self._wrong += 1
        if trouble.no_range:
            self._ranges = False
        self._failures += 1
        tries = self._network.tries if self._reached else min(self._network.tries, UNREACHED_TRIES)
        if self._wrong > 1 or self._failures >= tries:
            raise trouble.problem
        wait_s = trouble.wait_s
        if wait_s is None:
            wait_s = min(self._network.backoff_s * 2 ** (self._failures - 1), LONGEST_BACKOFF_S)
        until = time.monotonic() + wait_s
        while (left := until - time.monotonic()) > 0:
            self._hold()
            note = f"{trouble.problem.what} Trying again in {waiting(left)}."
            self._meter.tell(self._part.have, self._part.total, "waiting", note)
            self._control.cancelled.wait(min(TICK_S, left))

    def _start_over(self, problem: FetchProblem) -> None:
        self._restarts += 1
        if self._restarts > self._network.tries:
            raise problem
        self._part.reset()
