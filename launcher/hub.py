"""Names, revisions, sizes, digests, tokens and cache of the hub, through huggingface_hub. Fetches no file's bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from launcher.catalog import HubFile
from launcher.fetch import Remote


class Hub:
    """``env``: the launcher's environment (HF_ENDPOINT, HF_HOME, HF_TOKEN, proxies); ``token``: from the settings;
    ``offline``: never ask. A token that the hub refuses for a public repository is said once and left out."""

    def __init__(self, env: Mapping[str, str], token: str | None, *, offline: bool) -> None:
        raise NotImplementedError

    def remote(self, file: HubFile) -> Remote:
        """Where and how to fetch ``file``: asks for its metadata. Raises HubProblem (missing, gated, private, expired
        token, rate limit with its waiting time, no network, wrong certificate), each with a remedy; and
        DigestMismatch when size or sha256 differ from the catalog's pins."""
        raise NotImplementedError

    def cached(self, file: HubFile) -> Path | None:
        """The file in the hub's shared cache, where it is complete; asks no network."""
        raise NotImplementedError

    @property
    def notices(self) -> tuple[str, ...]:
        """What is to be said aloud, such as a saved token that was refused. Never holds a token."""
        raise NotImplementedError
