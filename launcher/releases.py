"""GitHub releases: where an asset's bytes are and what its digest is."""

from __future__ import annotations

from launcher.catalog import Asset, Line
from launcher.fetch import Network, Remote

GITHUB = "https://api.github.com"


def find_assets(
    line: Line, assets: tuple[Asset, ...], network: Network, releases_url: str | None
) -> list[Remote]:
    """Where to fetch ``assets`` of ``line``'s release, in their order: one request for
    ``<releases_url>/repos/<repo>/releases/tags/<tag>``, then exact names only. A pinned sha256 wins and must agree with the
    published one (DigestMismatch); an asset with neither is refused. Raises ReleaseProblem with a remedy (no
    such tag, no such asset, rate limit with its waiting time, no network)."""
    raise NotImplementedError
