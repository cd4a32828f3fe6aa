"""Names, revisions, sizes, digests, tokens and cache of the hub, through huggingface_hub. Fetches no file's bytes."""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from launcher import hub_cache
from launcher.catalog import HubFile
from launcher.errors import DigestMismatch, FetchProblem, HubProblem, NetworkProblem
from launcher.fetch_values import Remote
from launcher.hub_refusal import refusal
from launcher.mirror import is_here
from launcher.net_problem import network_problem

if TYPE_CHECKING:
    import httpx2
    from huggingface_hub import HfFileMetadata

ENDPOINT = "https://huggingface.co"
TRUE = {"1", "on", "yes", "true"}  # as the client itself reads its switches
ANSWER_S = 15.0
PLAIN_TOKEN = re.compile(r"[\x21-\x7e]+")
# huggingface_hub has one HTTP client for the whole process; it is ours while we ask.
_CLIENT = threading.Lock()


class Hub:
    """``env``: the launcher's environment (HF_ENDPOINT, HF_HOME, HF_TOKEN, proxies); ``token``: from the settings;
    ``offline``: never ask, as HF_HUB_OFFLINE. A token that the hub refuses for a public repository is said once and
    left out. ``waits``: seconds before each further try when the hub is in trouble. Making one costs nothing."""

    def __init__(
        self, env: Mapping[str, str], token: str | None, *, offline: bool, waits: Sequence[float] = (0.5, 2.0)
    ) -> None:
        self._env, self._given, self._waits = env, token, tuple(waits)
        self._offline = (
            "BONSAI_OFFLINE" if offline else "HF_HUB_OFFLINE" if _on(env, "HF_HUB_OFFLINE") else ""
        )
        self._endpoint = (env.get("HF_ENDPOINT") or ENDPOINT).strip().rstrip("/")
        self._refused = ""  # whose token the hub did not take
        self._notices: list[str] = []
        self._trust: ssl.SSLContext | None = None

    def remote(self, file: HubFile) -> Remote:
        """Where and how to fetch ``file``: asks for its metadata. Raises HubProblem (missing, gated, private, expired
        token, rate limit with its waiting time), NetworkProblem (no network, wrong certificate, proxy), each with a
        remedy; and DigestMismatch when size or sha256 differ from the catalog's pins."""
        if self._offline:
            raise NetworkProblem(
                f"{file.name} is not on this machine, and {self._offline} forbids to fetch it.",
                f"Unset {self._offline} once, or put the file where the launcher looks for it.",
            )
        host = self._host()
        token, source = self._token(host)
        try:
            found = self._ask_here(file, token)
        except _Refused as refused:
            if token and refused.status in (401, 403):
                found = self._without(file, refused, source)
                token = ""
            else:
                used = source if token else self._refused
                raise refusal(refused.status, refused.headers, file, self._endpoint, used) from None
        return self._checked(file, found, token)

    def cached(self, file: HubFile) -> Path | None:
        """The file in the hub's shared cache, where it is complete; asks no network."""
        return hub_cache.cached(file, hub_cache.folder(self._env))

    @property
    def notices(self) -> tuple[str, ...]:
        """What is to be said aloud, such as a saved token that was refused. Never holds a token."""
        return tuple(self._notices)

    def _say(self, notice: str) -> None:
        if notice not in self._notices:
            self._notices.append(notice)

    # --- asking ---

    def _without(self, file: HubFile, refused: _Refused, source: str) -> HfFileMetadata:
        """A public repository needs no token, and an expired one closes it: ask again without."""
        try:
            found = self._ask_here(file, "")
        except _Refused as again:
            # To a token that it does not know, the hub says nothing about the repository.
            tells = refused if refused.code else again
            raise refusal(tells.status, tells.headers, file, self._endpoint, source) from None
        self._refused = source
        self._say(
            f"The hub refuses {source}, which may have expired. {file.repo} is public: going on without it."
        )
        return found

    def _ask_here(self, file: HubFile, token: str) -> HfFileMetadata:
        """``_ask``; a hub on this machine need not have the pinned revision."""
        try:
            return self._ask(file, token)
        except _Refused as refused:
            if not (file.revision and refused.code == "RevisionNotFound" and is_here(self._endpoint)):
                raise
        return self._ask(replace(file, revision=None), token)

    def _ask(self, file: HubFile, token: str) -> HfFileMetadata:
        """The metadata; tries again when the hub is in trouble. Raises _Refused and NetworkProblem."""
        for wait in (*self._waits, None):
            try:
                return self._ask_once(file, token)
            except _Refused as refused:
                if wait is None or refused.status < 500:
                    raise
            except NetworkProblem as problem:
                if wait is None or "broke off" not in problem.what:
                    raise
            time.sleep(wait)
        raise AssertionError("the last try returns or raises")

    def _ask_once(self, file: HubFile, token: str) -> HfFileMetadata:
        from launcher.fetch_net import proxy_for

        host, (_, proxy) = self._host(), proxy_for(self._endpoint, self._env)
        try:
            import huggingface_hub as hub
            from huggingface_hub.errors import HfHubHTTPError
        except ImportError as error:
            raise HubProblem(
                f"The package huggingface_hub is not usable here ({error.name}).",
                "Install the launcher again.",
            ) from error
        url = hub.hf_hub_url(file.repo, file.name, revision=file.revision, endpoint=self._endpoint)
        with _CLIENT:
            try:
                hub.set_client_factory(self._client)
                return hub.get_hf_file_metadata(
                    url, token=token or False, timeout=ANSWER_S, endpoint=self._endpoint
                )
            except HfHubHTTPError as error:
                raise _Refused(error.response.status_code, error.response.headers) from error
            except FetchProblem:
                raise
            except Exception as error:  # the seam: nothing of the client's own kind gets past it
                if isinstance(error, OSError) or type(error).__module__.startswith("httpx"):
                    raise network_problem(error, host, proxy) from error
                raise HubProblem(
                    f"{host} gave an answer about {file.name} that makes no sense ({type(error).__name__}).",
                    "Try again later, or correct HF_ENDPOINT.",
                ) from error
            finally:
                hub.set_client_factory(_for_others)  # closes ours

    def _client(self) -> httpx2.Client:
        """What the client would make for itself, but from the environment that we were given."""
        import httpx2

        from launcher.fetch_net import certificates, nobody, proxy_for

        proxy, name = proxy_for(self._endpoint, self._env)
        plain = self._endpoint.startswith("http://") and is_here(self._endpoint)  # leads to no other host
        self._trust = self._trust or (nobody() if plain else certificates(self._env))
        try:
            return httpx2.Client(trust_env=False, verify=self._trust, proxy=proxy or None, timeout=ANSWER_S)
        except (ImportError, ValueError, httpx2.InvalidURL) as error:  # ImportError: SOCKS needs a package
            raise NetworkProblem(
                f"The proxy that {name} names cannot be used.", "Write it as http://host:port."
            ) from error

    # --- what it says ---

    def _checked(self, file: HubFile, found: HfFileMetadata, token: str) -> Remote:
        host = self._host()
        if not found.commit_hash:
            raise HubProblem(
                f"{host} does not answer as the hub does when asked for {file.name}; perhaps a sign-in page or a "
                "filter of this network answered.",
                "Sign in to the network with a browser, or correct HF_ENDPOINT, then try again.",
            )
        digest = found.etag if found.etag and re.fullmatch(r"[0-9a-f]{64}", found.etag) else None
        for kind, pinned, published in (
            ("bytes", file.bytes, found.size),
            ("sha256", file.sha256, digest),
        ):
            if None in (pinned, published) or pinned == published:
                continue
            if is_here(self._endpoint):
                self._say(f"{host} has another {file.name} than the catalog: {kind} {published}.")
                file = replace(file, bytes=None, sha256=None)
                break
            raise DigestMismatch(
                f"{file.repo} now has another {file.name} than the one this launcher knows: "
                f"{kind} {published} instead of {pinned}.",
                "Nothing was fetched. Update the launcher, or look at the repository's history.",
            )
        if digest is None and file.sha256 is None:
            raise HubProblem(
                f"The hub publishes no sha256 for {file.name} in {file.repo}, so it could not be checked.",
                "Choose another model with BONSAI_MODEL, or give a file of your own by its path.",
            )
        import huggingface_hub as hub

        return Remote(
            what=file.name,
            # The commit, not the branch: what is fetched in parts must be one file.
            url=hub.hf_hub_url(file.repo, file.name, revision=found.commit_hash, endpoint=self._endpoint),
            total=file.bytes if file.bytes is not None else found.size,
            sha256=file.sha256 or digest,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            plain_headers={} if token else None,
        )

    def _host(self) -> str:
        """The endpoint's host, for messages. NetworkProblem for an address that is none."""
        try:
            parts = urlsplit(self._endpoint)
            if parts.scheme in ("http", "https") and parts.hostname:
                return parts.hostname if parts.port is None else f"{parts.hostname}:{parts.port}"
        except ValueError:
            pass
        raise NetworkProblem("HF_ENDPOINT is no address of a hub.", f"Write it as {ENDPOINT}, or unset it.")

    def _token(self, host: str) -> tuple[str, str]:
        """(token, where it is from); empty when there is none or the hub refused it before."""
        if self._refused:
            return "", ""
        token, source = self._find_token()
        if token and not PLAIN_TOKEN.fullmatch(token):
            raise HubProblem(
                f"{source[0].upper()}{source[1:]} for {host} holds characters that no token has.",
                "Copy it again, without quotes and spaces, or unset it: public models need none.",
            )
        return token, source

    def _find_token(self) -> tuple[str, str]:
        if self._given and self._given.strip():
            return self._given.strip(), "the access token that is set (HF_TOKEN or BONSAI_TOKEN)"
        for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
            if found := self._env.get(name, "").strip():
                return found, f"the access token in {name}"
        path = hub_cache.token_file(self._env)
        if _on(self._env, "HF_HUB_DISABLE_IMPLICIT_TOKEN") or not path.is_file():
            return "", ""
        try:
            from huggingface_hub import constants, get_token

            # The client renews the token of a browser login; it knows the process's own environment only.
            own = Path(constants.HF_TOKEN_PATH) == path
            saved = (get_token() if own else path.read_text(encoding="utf-8")) or ""
        except Exception:  # the seam again; a public model needs no token
            self._say(f"The access token saved in {path} cannot be read: going on without it.")
            return "", ""
        return saved.strip(), f"the access token saved in {path}"


class _Refused(Exception):
    """The hub's answer was an HTTP error."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(f"HTTP status {status}")
        self.status, self.headers = status, {name.lower(): value for name, value in headers.items()}
        self.code = self.headers.get("x-error-code", "")


def _for_others() -> httpx2.Client:
    """What whoever else asks the hub in this process gets: the client that huggingface_hub makes by itself."""
    import httpx2

    return httpx2.Client(follow_redirects=True, timeout=None)


def _on(env: Mapping[str, str], name: str) -> bool:
    return env.get(name, "").strip().lower() in TRUE
