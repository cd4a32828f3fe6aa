"""What the head of an answer means for a file of which some bytes are here. Same input, same verdict."""

from __future__ import annotations

import email.utils
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from launcher.amounts import waiting
from launcher.errors import DigestMismatch, FetchProblem, NetworkProblem
from launcher.net_problem import PROXY_HELP

CONTENT_RANGE = re.compile(r"bytes (?:(\d{1,19})-(\d{1,19})|\*)/(\d{1,19}|\*)")
KEPT = "What was fetched stays; start again later."
LOGIN = "Open any web page in a browser and sign in to this network, or check the proxy; then start again."
PAGE_STARTS = (b"<!doctype html", b"<html", b"<head", b"<body")


class Again(Exception):
    """To be tried again, after ``wait_s`` seconds where the server asks for that; ``problem`` when that was all.

    ``no_range``: ask for the whole file next time.
    """

    def __init__(self, problem: FetchProblem, wait_s: float | None = None, *, no_range: bool = False) -> None:
        super().__init__(problem.what)
        self.problem, self.wait_s, self.no_range = problem, wait_s, no_range


class Wrong(Again):
    """An answer that is something else than the file. It may be better once; then it is the ``problem``."""


class StartOver(Exception):
    """The file is another one now than what is here was a part of."""


class PlainHeaders(Exception):
    """The server refuses the headers' token."""


@dataclass(frozen=True)
class Wanted:
    """What is asked for and known: ``have`` bytes are here. ``total``: of the file, ``pinned`` when that is known for
    certain and not from an earlier answer; ``digest``: a published digest judges the file in the end. ``etag``: of
    the file that ``have`` came from. ``ranged``: the request asked for the bytes from ``have`` on; ``hops``: how many
    redirects led here; ``stale_token``: other headers could be tried."""

    what: str
    host: str
    have: int
    total: int | None
    pinned: bool
    digest: bool
    etag: str
    ranged: bool
    hops: int = 0
    stale_token: bool = False
    longest_wait_s: float = 300.0


@dataclass(frozen=True)
class Body:
    """What follows begins at byte ``start`` of a file of ``total`` bytes (None: not said). ``fresh``: what is here is
    of another file. ``page``: it says that it is a web page. ``nothing_left``: all bytes are here already."""

    start: int
    total: int | None
    etag: str
    fresh: bool = False
    page: bool = False
    nothing_left: bool = False


def judge(status: int, headers: Mapping[str, str], wanted: Wanted, now: float) -> Body:
    """How to go on after ``status`` and ``headers`` (names in lower case). ``now``: seconds since 1970, for servers
    that name a time. Raises Again, Wrong, StartOver, PlainHeaders, or the FetchProblem that ends it."""
    if status in (200, 206) and headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise Wrong(NetworkProblem(f"{wanted.host} sends {wanted.what} compressed, which was not asked for."))
    if status == 200:
        return _whole(headers, wanted)
    if status == 206:
        return _range(headers, wanted)
    if status == 416 and wanted.ranged:
        return _beyond(headers, wanted)
    raise _refusal(status, headers, wanted, now)


def _whole(headers: Mapping[str, str], wanted: Wanted) -> Body:
    length = headers.get("content-length", "")
    total = int(length) if length.isdigit() and "transfer-encoding" not in headers else None
    etag = strong(headers.get("etag", ""))
    page = headers.get("content-type", "").lower().startswith("text/html")
    differs = total is not None and wanted.total is not None and total != wanted.total
    if differs and wanted.pinned:
        raise Wrong(_page(wanted) if page else _other_size(total, wanted))
    changed = bool(etag and wanted.etag and etag != wanted.etag)
    # Nothing would tell a file that changed meanwhile from the one that is half here.
    unsure = not wanted.digest and not (etag and etag == wanted.etag)
    fresh = bool(wanted.have) and (differs or changed or unsure) and not page
    return Body(0, total if fresh or wanted.total is None else wanted.total, etag, fresh, page)


def _range(headers: Mapping[str, str], wanted: Wanted) -> Body:
    match = CONTENT_RANGE.fullmatch(headers.get("content-range", "").strip().lower())
    if not wanted.ranged or match is None or match[1] is None or int(match[1]) > wanted.have:
        raise Again(
            NetworkProblem(
                f"{wanted.host} answers with another piece of {wanted.what} than it was asked for."
            ),
            no_range=True,
        )
    etag = strong(headers.get("etag", ""))
    total = wanted.total if match[3] == "*" else int(match[3])
    if wanted.total is not None and total != wanted.total:
        if wanted.pinned:
            raise Wrong(_other_size(total, wanted))
        raise StartOver
    if etag and wanted.etag and etag != wanted.etag:
        raise StartOver
    page = headers.get("content-type", "").lower().startswith("text/html")
    return Body(int(match[1]), total, etag or wanted.etag, page=page)


def _beyond(headers: Mapping[str, str], wanted: Wanted) -> Body:
    match = CONTENT_RANGE.fullmatch(headers.get("content-range", "").strip().lower())
    total = int(match[3]) if match and match[3] != "*" else None
    if total == wanted.have and (not wanted.pinned or total == wanted.total):
        return Body(wanted.have, total, wanted.etag, nothing_left=True)
    if total is not None and (total < wanted.have or (total != wanted.total and not wanted.pinned)):
        raise StartOver
    raise Again(
        NetworkProblem(f"{wanted.host} refuses to go on with {wanted.what} in its middle (416)."),
        no_range=True,
    )


def _refusal(status: int, headers: Mapping[str, str], wanted: Wanted, now: float) -> Exception:
    what, host = wanted.what, wanted.host
    if status == 401 and wanted.stale_token:
        return PlainHeaders()
    if status in (429, 503):
        return _rate_limit(status, headers, wanted, now)
    if status >= 500 or status in (408, 425):
        if status == 511:
            return Wrong(_page(wanted))
        return Again(NetworkProblem(f"{host} answers with an error of its own ({status}) for {what}.", KEPT))
    if status in (403, 410) and wanted.hops:  # a signed address that has run out: the first one gives another
        return Wrong(FetchProblem(f"{host} refuses to give {what} ({status}).", "Try again later."))
    return FetchProblem(*_refusal_words(status, what, host))


def _refusal_words(status: int, what: str, host: str) -> tuple[str, str]:
    if status == 401:
        return (
            f"{host} wants to know who asks for {what} (401), and the token it got, if any, is not accepted.",
            "Set HF_TOKEN to a valid token for it, or unset an old one.",
        )
    if status == 403:
        return (
            f"{host} refuses to give {what} (403).",
            "The file may need an account that agreed to its terms (HF_TOKEN), or a proxy forbids the address.",
        )
    if status == 407:
        return "The proxy wants a name and password (407).", PROXY_HELP
    if status in (404, 410):
        return f"{host} has no {what} ({status}).", "Look for a newer version of the launcher."
    return f"{host} does not give {what}: it answers {status}.", "Try again later."


def _rate_limit(status: int, headers: Mapping[str, str], wanted: Wanted, now: float) -> Exception:
    seconds = retry_after(headers, now)
    why = "too many requests" if status == 429 else "the server is busy"
    if seconds is not None and seconds > wanted.longest_wait_s:
        return FetchProblem(
            f"{wanted.host} gives {wanted.what} only after {waiting(seconds)} ({why}, {status}).",
            "What was fetched stays; start again after that time.",
        )
    return Again(
        NetworkProblem(f"{wanted.host} does not give {wanted.what} now ({why}, {status}).", KEPT), seconds
    )


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds that ``Retry-After`` asks to wait, from a number or a date; None: it does not say.

    A date is compared with the answer's own ``Date``, because this machine's clock may be wrong.
    """
    text = headers.get("retry-after", "").strip()
    if text.isdigit():
        return float(text[:9])
    until, since = _date(text), _date(headers.get("date", ""))
    return None if until is None else max(0.0, until - (now if since is None else since))


def _date(text: str) -> float | None:
    try:
        parsed = email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return (parsed if parsed.tzinfo else datetime.replace(parsed, tzinfo=UTC)).timestamp()


def strong(etag: str) -> str:
    """The entity tag where it promises the same bytes (RFC 9110, section 8.8.3); empty for a weak or broken one."""
    etag = etag.strip()
    return etag if len(etag) > 2 and etag.startswith('"') and etag.endswith('"') and etag.isascii() else ""


def is_page(start: bytes, *, says_so: bool) -> bool:
    """Whether ``start`` begins a web page: no model and no archive begins so."""
    start = start.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return start.startswith(PAGE_STARTS) or (says_so and start.startswith(b"<"))


def page_problem(what: str, host: str) -> NetworkProblem:
    """A web page came in place of the file."""
    return NetworkProblem(f"Instead of {what}, {host} sent a web page: a login page of the network?", LOGIN)


def _page(wanted: Wanted) -> NetworkProblem:
    return page_problem(wanted.what, wanted.host)


def _other_size(total: int | None, wanted: Wanted) -> DigestMismatch:
    return DigestMismatch(
        f"{wanted.host} has {wanted.what} with {total} bytes, but it must have {wanted.total}.",
        "The file was changed there, or something on the way changes it: try another network, or later.",
    )
