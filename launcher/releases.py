"""GitHub releases: where an asset's bytes are and what its digest is."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from launcher.amounts import waiting
from launcher.catalog import Asset, Line
from launcher.errors import DigestMismatch, FetchProblem, NetworkProblem, ReleaseProblem
from launcher.fetch_values import Network, Remote
from launcher.mirror import is_here
from launcher.net_problem import TRY_AGAIN, network_problem

GITHUB = "https://api.github.com"
DOWNLOADS = "https://github.com"
ANSWER_S = 15.0
LARGEST_LIST = 8 << 20  # bytes of the list of a release; real ones have about 100 kB
HEADERS = {"Accept": "application/vnd.github+json", "User-Agent": "bonsai-launcher"}


class _Passing(Exception):
    """The list cannot be had now, whatever is in it; ``problem`` says why."""

    def __init__(self, problem: FetchProblem, *, again: bool = False) -> None:
        super().__init__(problem.what)
        self.problem, self.again = problem, again


class _Answer(NamedTuple):
    """``headers`` with names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def find_assets(
    line: Line,
    assets: tuple[Asset, ...],
    network: Network,
    releases_url: str | None,
    *,
    api: str = GITHUB,
    waits: Sequence[float] = (0.5, 2.0),
) -> list[Remote]:
    """Where to fetch ``assets`` of ``line``'s release, in their order: one request for
    ``<releases_url>/repos/<repo>/releases/tags/<tag>``, then exact names only. A pinned sha256 wins and must agree with the
    published one (DigestMismatch); an asset with neither is refused. Raises ReleaseProblem with a remedy (no
    such tag, no such asset, rate limit with its waiting time), NetworkProblem (no network, proxy, certificate).

    Without a mirror, assets that all have a pinned sha256 do not depend on the list: when it cannot be had, their
    usual address is taken. ``api``: GitHub's; ``waits``: seconds before each further try.
    """
    if network.offline:
        raise NetworkProblem(
            f"The engine {line.tag} is not on this machine, and BONSAI_OFFLINE forbids to fetch it.",
            "Unset BONSAI_OFFLINE once, or name a llama-server with BONSAI_LLAMA_SERVER.",
        )
    base = (releases_url or api).strip().rstrip("/")
    url = f"{base}/repos/{line.repo}/releases/tags/{quote(line.tag, safe='')}"
    try:
        published = _published(_ask(url, network, waits), line, base)
    except _Passing as passing:
        if releases_url or not all(asset.sha256 for asset in assets):
            raise passing.problem from None
        return [_usual(line, asset) for asset in assets]
    return [_remote(line, asset, published, own=is_here(base)) for asset in assets]


# --- asking -----------------------------------------------------------------------------------------------------


def _ask(url: str, network: Network, waits: Sequence[float]) -> _Answer:
    """Any answer; _Passing when there is none, or only trouble, after some tries."""
    for wait in (*waits, None):
        try:
            return _ask_once(url, network)
        except _Passing as passing:
            if wait is None or not passing.again:
                raise
        time.sleep(wait)
    raise AssertionError("the last try returns or raises")


def _ask_once(url: str, network: Network) -> _Answer:
    import httpx

    from launcher.fetch_net import proxy_for, transport

    host = _host(url)
    try:
        with ExitStack() as stack:
            client = stack.enter_context(
                httpx.Client(
                    transport=transport(httpx.URL(url), network.env),
                    trust_env=False,
                    follow_redirects=True,
                    timeout=ANSWER_S,
                    headers=HEADERS,
                )
            )
            response = stack.enter_context(client.stream("GET", url))
            body = bytearray()
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > LARGEST_LIST:
                    raise _Passing(_nonsense(host, "it never ends"))
            answer = _Answer(response.status_code, dict(response.headers), bytes(body))
    except NetworkProblem as problem:  # a proxy or a certificate file that cannot be used
        raise _Passing(problem) from None
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
        trouble = network_problem(error, host, proxy_for(url, network.env)[1])
        raise _Passing(trouble, again="broke off" in trouble.what) from error
    if answer.status >= 500:
        said = f"{host} is in trouble (HTTP status {answer.status})."
        raise _Passing(ReleaseProblem(said, TRY_AGAIN), again=True)
    return answer


def _host(url: str) -> str:
    """Host and port, for messages. NetworkProblem for an address that is none."""
    if not _is_address(url):
        raise NetworkProblem(
            "BONSAI_RELEASES_URL is no address.", "Write it as https://host, or unset it to use GitHub."
        )
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


# --- reading ----------------------------------------------------------------------------------------------------


def _published(answer: _Answer, line: Line, base: str) -> dict[str, dict[str, Any]]:
    """The assets of the answer by name. ReleaseProblem when there is no such release; _Passing when nobody can tell."""
    host = _host(base)
    if answer.status in (403, 429) and (said := _rate_limit(answer, host)):
        raise _Passing(said)
    if answer.status == 404:
        raise ReleaseProblem(
            f"{line.repo} has no release {line.tag} at {host}.",
            "Update the launcher, choose another line with BONSAI_ENGINE, or set BONSAI_LLAMA_SERVER.",
        )
    if answer.status != 200:
        refused = f"{host} refused to list the release {line.tag} (HTTP status {answer.status})."
        raise _Passing(ReleaseProblem(refused, TRY_AGAIN))
    try:
        release = json.loads(answer.body)
        assets = release["assets"]
        return {
            asset["name"]: asset
            for asset in assets
            if isinstance(asset["name"], str) and asset.get("state", "uploaded") == "uploaded"
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        start = answer.body[:512].lower()
        page = b"<html" in start or b"<!doctype" in start
        raise _Passing(_nonsense(host, "it is a web page" if page else "it is no list of assets")) from None


def _nonsense(host: str, why: str) -> ReleaseProblem:
    return ReleaseProblem(
        f"What {host} says of the release cannot be used: {why}.",
        "Sign in to the network with a browser if it wants that, or correct BONSAI_RELEASES_URL; then try again.",
    )


def _rate_limit(answer: _Answer, host: str, clock: Callable[[], float] = time.time) -> ReleaseProblem | None:
    """The error where the answer is one; a 403 may be another refusal."""
    after = answer.headers.get("retry-after", "")
    reset = answer.headers.get("x-ratelimit-reset", "")
    wait = None
    if after.isdigit():
        wait = float(after)
    elif reset.isdigit() and answer.headers.get("x-ratelimit-remaining") == "0":
        wait = max(0.0, float(reset) - clock())
    if wait is None and answer.status != 429:
        return None
    when = f" It asks to wait {waiting(wait)}." if wait is not None else ""
    return ReleaseProblem(
        f"{host} takes no more requests from here for now (rate limit).{when}",
        "Try again then; what is here already stays.",
    )


def _remote(line: Line, asset: Asset, published: Mapping[str, Mapping[str, Any]], *, own: bool) -> Remote:
    """``own``: the list comes from this machine, and what it says counts before the pins."""
    found = published.get(asset.name)
    if found is None:
        raise ReleaseProblem(
            f"The release {line.tag} of {line.repo} has no asset {asset.name}.",
            "Update the launcher, choose another line with BONSAI_ENGINE, or set BONSAI_LLAMA_SERVER.",
        )
    digest, size, url = _digest(found.get("digest")), found.get("size"), found.get("browser_download_url")
    size = size if isinstance(size, int) and size >= 0 else None
    if own and digest:
        asset = Asset(asset.name, digest, size)
    pinned = asset.sha256.lower() if asset.sha256 else None
    for kind, pin, other in (("sha256", pinned, digest), ("bytes", asset.bytes, size)):
        if pin is not None and other is not None and pin != other:
            raise DigestMismatch(
                f"The release {line.tag} of {line.repo} now has another {asset.name} than the one this launcher "
                f"knows: {kind} {other} instead of {pin}.",
                "Nothing was fetched. Update the launcher, or look at the release's page.",
            )
    sha256 = pinned or digest
    if sha256 is None:
        raise ReleaseProblem(
            f"Nobody publishes a sha256 of {asset.name} (release {line.tag}), so it could not be checked.",
            "Choose another line with BONSAI_ENGINE, or build an engine with `bonsai engines build`.",
        )
    if not isinstance(url, str) or not _is_address(url):
        raise ReleaseProblem(
            f"The list of the release {line.tag} has no address for {asset.name}.",
            "Correct BONSAI_RELEASES_URL.",
        )
    return Remote(asset.name, url, asset.bytes if asset.bytes is not None else size, sha256)


def _usual(line: Line, asset: Asset) -> Remote:
    """Where GitHub has every asset; the pinned sha256 says whether it is the right one."""
    url = f"{DOWNLOADS}/{line.repo}/releases/download/{quote(line.tag, safe='')}/{quote(asset.name)}"
    return Remote(asset.name, url, asset.bytes, asset.sha256)


def _digest(text: object) -> str | None:
    """From ``sha256:<hex>``; None for another kind, or none."""
    found = re.fullmatch(r"sha256:([0-9a-f]{64})", text.lower()) if isinstance(text, str) else None
    return found[1] if found else None
