"""What the hub's HTTP errors mean for a person, so that no text of the hub's client is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping

from launcher.amounts import waiting
from launcher.catalog import HubFile
from launcher.errors import FetchProblem, HubProblem, NetworkProblem
from launcher.net_problem import TRY_AGAIN

_RESET = re.compile(r"r\s*=\s*(\d+)\s*;\s*t\s*=\s*(\d+)")


def refusal(
    status: int, headers: Mapping[str, str], file: HubFile, endpoint: str, refused: str
) -> FetchProblem:
    """The error for an answer of ``status``. ``headers`` in any case; ``refused``: the token that was sent and did not
    help, for people ("the access token in HF_TOKEN"), or empty."""
    heads = {name.lower(): value for name, value in headers.items()}
    page = f"{endpoint}/{file.repo}"
    said = _by_code(heads, file, page, refused)
    if said is not None:
        return said
    if status in (401, 403, 404):
        return _no_entry(status, file, page, refused)
    if status == 429:
        return _too_often(heads, refused)
    if status == 407:
        return NetworkProblem(
            f"The proxy on the way to {file.name} wants a name and a password.",
            "Write them into HTTPS_PROXY: http://name:password@host:port.",
        )
    if status >= 500:
        return HubProblem(f"The hub is in trouble (HTTP status {status}).", TRY_AGAIN)
    return HubProblem(f"The hub refused {file.name} with HTTP status {status}.", f"Look at {page}.")


def _by_code(heads: Mapping[str, str], file: HubFile, page: str, refused: str) -> HubProblem | None:
    """Where the hub itself says what is wrong."""
    code = heads.get("x-error-code", "")
    if code == "GatedRepo":
        token = f"{refused} does not open it" if refused else "no access token was sent"
        return HubProblem(
            f"{file.repo} is gated: its owner wants to be asked first, and {token}.",
            f"Ask for access at {page}, make a token that may read gated repositories, and set HF_TOKEN to it.",
        )
    if code == "RevisionNotFound":
        revision = file.revision or "main"
        return HubProblem(
            f"{file.repo} has no revision {revision} (any more).", f"Look at {page}, or update the launcher."
        )
    if code == "EntryNotFound":
        where = f"revision {file.revision[:12]}" if file.revision else "its newest revision"
        return HubProblem(
            f"{file.repo} has no file {file.name} in {where}.", f"Look at {page}, or update the launcher."
        )
    if heads.get("x-error-message") == "Access to this resource is disabled.":
        return HubProblem(
            f"The hub has disabled {file.repo}.", f"Read why at {page}, or choose another model."
        )
    return None


def _too_often(heads: Mapping[str, str], refused: str) -> HubProblem:
    wait = seconds_to_wait(heads)
    when = f" It asks to wait {waiting(wait)}." if wait is not None else ""
    more = "" if refused else " With a free account's token in HF_TOKEN it takes more."
    return HubProblem(
        f"The hub takes no more requests from here for now (rate limit).{when}",
        f"Try again then; what is here already stays.{more}",
    )


def _no_entry(status: int, file: HubFile, page: str, refused: str) -> HubProblem:
    """The hub tells strangers alike of what is missing and of what is private."""
    if refused:
        return HubProblem(
            f"{file.repo} is missing, or private and {refused} does not open it (HTTP status {status}).",
            f"See with a browser whether {page} is there for you, then set HF_TOKEN to a valid token that may read it.",
        )
    return HubProblem(
        f"{file.repo} is missing or private (HTTP status {status}).",
        f"Check the name at {page}; for a private one set HF_TOKEN to a token that may read it.",
    )


def seconds_to_wait(headers: Mapping[str, str]) -> float | None:
    """From ``RateLimit: "api";r=0;t=55`` or ``Retry-After: 55``; names in lower case. None: it does not say."""
    if (found := _RESET.search(headers.get("ratelimit", ""))) and int(found[1]) == 0:
        return float(found[2])
    after = headers.get("retry-after", "").strip()
    return float(after) if after.isdigit() else None
