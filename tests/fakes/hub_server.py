"""A hub on loopback as huggingface_hub uses it: metadata by HEAD on ``resolve``, bytes from a store on another port.

    with HubServer({"owner/model": {"weights.gguf": data}}) as hub:
        env = {"HF_ENDPOINT": hub.url, "HF_HOME": ...}
        hub.trouble("owner/model", "weights.gguf", Fault(status=503), ...)   # the next answers to HEAD or GET

Large files are kept "in LFS": their answer is a redirect to a signed address of the store, with X-Linked-Etag (sha256)
and X-Linked-Size; a file in ``in_git`` comes from the hub itself with its git hash as ETag. As the real one, the hub tells
strangers of a missing repository what it tells them of a private one, and refuses every request with a token that it
does not know.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from tests.fakes.file_server import Content, Fault, FileServer, Reply, Request, sha256

Files = Mapping[str, Mapping[str, bytes]]


class Store(FileServer):
    """Where the bytes are, by sha256. Takes only addresses that the hub signed, and no token beside the signature."""

    def __init__(self) -> None:
        super().__init__()
        self.key = secrets.token_hex(8)
        self.lives_s = 3600.0

    def signed(self, digest: str) -> str:
        return f"{self.url}/{digest}?Expires={int(time.time() + self.lives_s)}&Signature={self.key}"

    def answer(self, request: Request) -> Reply | None:
        query = parse_qs(request.query)
        if "authorization" in request.headers:
            return Reply(400, content=b"Only one way of signing in, please")
        if query.get("Signature") != [self.key] or int(query.get("Expires", ["0"])[0]) < time.time():
            return Reply(403, content=b"<Error><Code>AccessDenied</Code></Error>")
        return super().answer(request)


class HubServer(FileServer):
    """``repos``: {repository: {name: bytes}}; ``private`` and ``gated`` repositories open to the ``tokens``.

    Every repository has one commit (``commit(repo)``; ``commits`` gives some their name), and the branch main.
    """

    def __init__(
        self,
        repos: Files,
        *,
        tokens: tuple[str, ...] = (),
        private: tuple[str, ...] = (),
        gated: tuple[str, ...] = (),
        in_git: tuple[str, ...] = (),
        commits: Mapping[str, str] | None = None,
        tls: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(tls=tls)
        self.repos = {repo: dict(files) for repo, files in repos.items()}
        self.tokens, self.private, self.gated, self.in_git = (
            set(tokens),
            set(private),
            set(gated),
            set(in_git),
        )
        self._commits = dict(commits or {})
        self.store = Store()

    def __enter__(self) -> HubServer:
        self.store.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.store.__exit__()

    def commit(self, repo: str) -> str:
        if repo in self._commits:
            return self._commits[repo]
        listed = json.dumps({name: sha256(data) for name, data in sorted(self.repos[repo].items())})
        return hashlib.sha1(listed.encode(), usedforsecurity=False).hexdigest()

    def trouble(self, repo: str, name: str, *faults: Fault, revision: str = "main") -> None:
        """The next answers about that file go wrong so, whatever the method."""
        every = [dataclasses.replace(fault, methods=("HEAD", "GET")) for fault in faults]
        self.fault(f"{repo}/resolve/{revision}/{name}", *every)

    def answer(self, request: Request) -> Reply | None:
        parts = request.name.split("/")
        if parts[:2] == ["api", "models"]:
            return self._api(request, "/".join(parts[2:4]), parts[4:])
        if len(parts) >= 5 and parts[2] == "resolve":
            repo, revision, name = "/".join(parts[:2]), parts[3], "/".join(parts[4:])
            return self._refused(request, repo, revision) or self._resolve(repo, name)
        return None

    # --- who may ---

    def _refused(self, request: Request, repo: str, revision: str) -> Reply | None:
        sent = request.headers.get("authorization", "").removeprefix("Bearer ")
        if sent and sent not in self.tokens:
            return _error(401, "", "Invalid credentials in Authorization header")
        if repo not in self.repos or (repo in self.private and not sent):
            return _error(404 if sent else 401, "RepoNotFound", "Repository not found")
        if repo in self.gated and not sent:
            return _error(
                401, "GatedRepo", f"Access to model {repo} is restricted. You must be authenticated."
            )
        if revision not in ("main", self.commit(repo)):
            return _error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return None

    # --- what there is ---

    def _resolve(self, repo: str, name: str) -> Reply:
        head = {"X-Repo-Commit": self.commit(repo)}
        data = self.repos[repo].get(name)
        if data is None:
            return _error(404, "EntryNotFound", "Entry not found", head)
        if name in self.in_git:
            return Reply(200, head | {"ETag": f'"{_git_hash(data)}"'}, data)
        digest = sha256(data)
        self.store.files[digest] = Content.of(data)
        return Reply(
            302,
            head
            | {
                "X-Linked-Etag": f'"{digest}"',
                "X-Linked-Size": str(len(data)),
                "ETag": f'"{_git_hash(_pointer(data))}"',
                "Location": self.store.signed(digest),
            },
            b"Found. Redirecting",
        )

    def _api(self, request: Request, repo: str, rest: list[str]) -> Reply:
        """``/api/models/<repo>[/revision/<rev>]``, ``/tree/<rev>`` and ``/paths-info/<rev>``."""
        kind, revision = (rest[0], rest[1]) if len(rest) > 1 else ("revision", "main")
        if refused := self._refused(request, repo, revision):
            return refused
        entries = [self._entry(name, data) for name, data in self.repos[repo].items()]
        if kind == "tree":
            return _json(entries)
        if kind == "paths-info":
            asked = parse_qs(request.body.decode()).get("paths", [])
            if request.headers.get("content-type", "").startswith("application/json"):
                asked = json.loads(request.body)["paths"]
            return _json([entry for entry in entries if entry["path"] in asked])
        siblings = [{"rfilename": name} for name in self.repos[repo]]
        info = {"id": repo, "modelId": repo, "sha": self.commit(repo), "siblings": siblings}
        return _json(
            info | {"private": repo in self.private, "gated": "manual" if repo in self.gated else False}
        )

    def _entry(self, name: str, data: bytes) -> dict[str, Any]:
        entry: dict[str, Any] = {"type": "file", "path": name, "size": len(data), "oid": _git_hash(data)}
        if name not in self.in_git:
            entry["oid"] = _git_hash(_pointer(data))
            entry["lfs"] = {"oid": sha256(data), "size": len(data), "pointerSize": len(_pointer(data))}
        return entry


def _json(value: object) -> Reply:
    return Reply(200, {"Content-Type": "application/json"}, json.dumps(value).encode())


def _error(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Reply:
    head = {"Content-Type": "application/json", "X-Error-Message": message, **(headers or {})}
    if code:
        head["X-Error-Code"] = code
    return Reply(status, head, json.dumps({"error": message}).encode())


def _git_hash(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\x00" % len(data) + data, usedforsecurity=False).hexdigest()


def _pointer(data: bytes) -> bytes:
    """What git keeps of a file that is in LFS."""
    text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256(data)}\nsize {len(data)}\n"
    return text.encode()
