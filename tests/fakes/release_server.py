"""Releases on loopback in the form of GitHub's API, as a mirror (BONSAI_RELEASES_URL) has it.

with ReleaseServer({("owner/engine", "b1"): {"engine.tar.gz": data}}) as releases:
    releases.url                                  # the mirror's address
    releases.fault(releases.list_name("owner/engine", "b1"), Fault(status=403))   # the next answer to the list
    releases.change[("owner/engine", "b1", "engine.tar.gz")] = {"digest": None}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.fakes.file_server import FileServer, Reply, Request, sha256


class ReleaseServer(FileServer):
    """``releases``: {(repository, tag): {asset: bytes}}. Assets lie under ``<repo>/releases/download/<tag>/<asset>``."""

    def __init__(
        self, releases: Mapping[tuple[str, str], Mapping[str, bytes]], *, tls: tuple[str, str] | None = None
    ) -> None:
        super().__init__(tls=tls)
        self.releases = {key: dict(assets) for key, assets in releases.items()}
        self.change: dict[tuple[str, str, str], dict[str, Any]] = {}
        for (repo, tag), assets in self.releases.items():
            for name, data in assets.items():
                self.files[f"{repo}/releases/download/{tag}/{name}"] = data

    def __enter__(self) -> ReleaseServer:
        super().__enter__()
        return self

    def list_name(self, repo: str, tag: str) -> str:
        """The path of a release's list, as ``fault`` and ``asked`` want it."""
        return f"repos/{repo}/releases/tags/{tag}"

    def answer(self, request: Request) -> Reply | None:
        for (repo, tag), assets in self.releases.items():
            if request.name == self.list_name(repo, tag):
                listed = [self._asset(repo, tag, name, data) for name, data in assets.items()]
                body = json.dumps({"tag_name": tag, "draft": False, "assets": listed})
                return Reply(200, {"Content-Type": "application/json; charset=utf-8"}, body.encode())
        if request.name.startswith("repos/"):
            head = {"Content-Type": "application/json; charset=utf-8"}
            return Reply(404, head, b'{"message":"Not Found","status":"404"}')
        return super().answer(request)

    def _asset(self, repo: str, tag: str, name: str, data: bytes) -> dict[str, Any]:
        asset = {
            "name": name,
            "state": "uploaded",
            "size": len(data),
            "digest": f"sha256:{sha256(data)}",
            "browser_download_url": self.url_of(f"{repo}/releases/download/{tag}/{name}"),
        }
        return asset | self.change.get((repo, tag, name), {})
