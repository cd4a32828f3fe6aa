"""Where a release's assets are, and what is refused."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.catalog import Asset, Line
from launcher.errors import DigestMismatch, FetchProblem, LauncherError, NetworkProblem, ReleaseProblem
from launcher.fetch import Network, Remote, fetch
from launcher.releases import find_assets
from tests.conftest import free_port
from tests.fakes import certificate
from tests.fakes.file_server import Fault, sha256
from tests.fakes.raw_server import RawServer
from tests.fakes.release_server import ReleaseServer

REPO, TAG = "owner/llama.cpp", "prism-b1-abc"
ENGINE, RUNTIME = "llama-bin-linux-x64.tar.gz", "cudart.zip"
DATA = {ENGINE: b"engine" * 1000, RUNTIME: b"runtime" * 500}
NOTHING: frozenset[str] = frozenset()
LINE = Line("prism", REPO, TAG, NOTHING, NOTHING, NOTHING, NOTHING, ())
PINNED = tuple(Asset(name, sha256(data), len(data)) for name, data in DATA.items())
LOOSE = tuple(Asset(name) for name in DATA)
FAR = "http://mirror.test"  # reached through a proxy, so that it is not this machine
USUAL = f"https://github.com/{REPO}/releases/download/{TAG}/"


@pytest.fixture
def server() -> Iterator[ReleaseServer]:
    with ReleaseServer({(REPO, TAG): DATA}) as server:
        yield server


def find(
    server: ReleaseServer,
    assets: tuple[Asset, ...] = LOOSE,
    *,
    mirror: str | None = FAR,
    line: Line = LINE,
    **more: Any,
) -> list[Remote]:
    """``mirror`` None: the server plays GitHub itself."""
    network = Network({"http_proxy": server.url})
    return find_assets(line, assets, network, mirror, api=server.url, **{"waits": ()} | more)


def spoken(problem: LauncherError) -> str:
    assert problem.what.endswith(".")
    assert problem.remedy.endswith(".")
    return f"{problem.what} {problem.remedy}"


def go_wrong(server: ReleaseServer, fault: Fault) -> None:
    server.always[server.list_name(REPO, TAG)] = fault


# -- what is there ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mirror", [None, FAR, FAR + "/"])
@pytest.mark.parametrize("assets", [LOOSE, PINNED, LOOSE[::-1]])
def test_one_request_gives_all_in_their_order(
    server: ReleaseServer, mirror: str | None, assets: tuple[Asset, ...]
) -> None:
    remotes = find(server, assets, mirror=mirror)
    assert [it.what for it in remotes] == [asset.name for asset in assets]
    for remote in remotes:
        assert remote.url == server.url_of(f"{REPO}/releases/download/{TAG}/{remote.what}")
        assert (remote.total, remote.sha256) == (len(DATA[remote.what]), sha256(DATA[remote.what]))
        assert not remote.headers
    assert [it.name for it in server.requests] == [server.list_name(REPO, TAG)]


def test_from_the_release_to_the_disk(server: ReleaseServer, tmp_path: Path) -> None:
    for remote in find(server, PINNED):
        assert fetch(remote, tmp_path / remote.what, Network({})) == sha256(DATA[remote.what])
        assert (tmp_path / remote.what).read_bytes() == DATA[remote.what]


def test_a_mirror_on_this_machine_may_have_stand_ins(server: ReleaseServer) -> None:
    other = (Asset(ENGINE, "ab" * 32, 500_000_000),)
    (remote,) = find(server, other, mirror=server.url)
    assert (remote.total, remote.sha256) == (len(DATA[ENGINE]), sha256(DATA[ENGINE]))
    server.change[REPO, TAG, ENGINE] = {"digest": None, "size": 500_000_000}
    (remote,) = find(server, other, mirror=server.url)
    assert remote.sha256 == "ab" * 32  # nothing published: the pin counts


# -- digests ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pin", "parts"),
    [
        (Asset(ENGINE, "ab" * 32), ["sha256", "ab" * 32, sha256(DATA[ENGINE])]),
        (Asset(ENGINE, sha256(DATA[ENGINE]), 5), ["bytes", "6000", "5"]),
    ],
)
def test_another_asset_than_the_pinned_one(server: ReleaseServer, pin: Asset, parts: list[str]) -> None:
    with pytest.raises(DigestMismatch) as caught:
        find(server, (pin,))
    assert [part for part in [*parts, ENGINE, TAG] if part not in spoken(caught.value)] == []


@pytest.mark.parametrize("digest", [None, "", "sha512:ab", "sha256:short", 7, ["sha256"]])
def test_a_digest_is_pinned_or_published(server: ReleaseServer, digest: object) -> None:
    server.change[REPO, TAG, ENGINE] = {"digest": digest}
    with pytest.raises(ReleaseProblem, match="Nobody publishes a sha256"):
        find(server)
    assert find(server, PINNED)[0].sha256 == sha256(DATA[ENGINE])


@pytest.mark.parametrize("size", [None, -1, "many", 1.5])
def test_a_size_that_is_none_is_not_believed(server: ReleaseServer, size: object) -> None:
    server.change[REPO, TAG, ENGINE] = {"size": size}
    assert find(server)[0].total is None


@pytest.mark.parametrize("url", [None, "", "file:///etc/passwd", "ftp://x/y", "http://[", "//host/x", 5])
def test_an_address_that_is_none(server: ReleaseServer, url: object) -> None:
    server.change[REPO, TAG, ENGINE] = {"browser_download_url": url}
    with pytest.raises(ReleaseProblem, match="no address"):
        find(server)


# -- what is missing ----------------------------------------------------------------------------------------


def test_exact_names_only(server: ReleaseServer) -> None:
    for name in ("llama-bin-linux", ENGINE.upper(), f"{ENGINE}.sha256", "*"):
        with pytest.raises(ReleaseProblem) as caught:
            find(server, (Asset(name),))
        assert name in spoken(caught.value)


def test_an_asset_whose_upload_never_ended(server: ReleaseServer) -> None:
    server.change[REPO, TAG, ENGINE] = {"state": "starter"}
    with pytest.raises(ReleaseProblem, match="no asset"):
        find(server)


@pytest.mark.parametrize("assets", [LOOSE, PINNED])
def test_a_release_that_is_not_there(server: ReleaseServer, assets: tuple[Asset, ...]) -> None:
    """Nothing to fall back to: the release is known to be gone."""
    line = Line("prism", REPO, "other", NOTHING, NOTHING, NOTHING, NOTHING, ())
    with pytest.raises(ReleaseProblem, match="no release other"):
        find(server, assets, mirror=None, line=line)


# -- when the list cannot be had ----------------------------------------------------------------------------

PASSING = {
    "rate limit": Fault(
        status=403, headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time()) + 7200)}
    ),
    "too many": Fault(status=429, headers={"Retry-After": "40"}),
    "too many, for ever": Fault(status=429),
    "forbidden": Fault(status=403),
    "not signed in": Fault(status=401),
    "teapot": Fault(status=418),
    "trouble": Fault(status=502),
    "a web page": Fault(html=True),
    "hangs up": Fault(hang_up=True),
    "cut": Fault(cut_after=20),
    "no JSON": Fault(status=200, body=b"{"),
    "deep": Fault(status=200, body=b"[" * 100_000),
    "a list": Fault(status=200, body=b"[1]"),
    "null": Fault(status=200, body=b"null"),
    "no assets": Fault(status=200, body=b"{}"),
    "odd assets": Fault(status=200, body=json.dumps({"assets": [5]}).encode()),
    "nameless assets": Fault(status=200, body=json.dumps({"assets": [{}]}).encode()),
    "leads in a circle": Fault(redirect=f"/repos/{REPO}/releases/tags/{TAG}"),
    "leads nowhere": Fault(redirect="http://["),
}


@pytest.mark.parametrize("name", PASSING)
def test_pinned_assets_do_not_depend_on_the_list(server: ReleaseServer, name: str) -> None:
    go_wrong(server, PASSING[name])
    remotes = find(server, PINNED, mirror=None)
    assert [it.url for it in remotes] == [USUAL + asset.name for asset in PINNED]
    assert [(it.what, it.total, it.sha256) for it in remotes] == [
        (it.name, it.bytes, it.sha256) for it in PINNED
    ]


@pytest.mark.parametrize("name", PASSING)
@pytest.mark.parametrize(("assets", "mirror"), [(LOOSE, None), (PINNED, FAR), ((PINNED[0], LOOSE[1]), None)])
def test_others_do_and_it_is_said_in_our_words(
    server: ReleaseServer, name: str, assets: tuple[Asset, ...], mirror: str | None
) -> None:
    go_wrong(server, PASSING[name])
    with pytest.raises(FetchProblem) as caught:
        find(server, assets, mirror=mirror)
    text = spoken(caught.value)
    said = {
        "rate limit": "2 hours",
        "too many": "40 seconds",
        "too many, for ever": "rate limit",
        "a web page": "web page",
    }
    assert said.get(name, "") in text


def test_an_endless_list_is_not_read_to_its_end(server: ReleaseServer) -> None:
    go_wrong(server, Fault(status=200, body=bytes(9 << 20)))
    with pytest.raises(ReleaseProblem, match="never ends"):
        find(server)


def test_trouble_that_passes_is_waited_out(server: ReleaseServer) -> None:
    server.fault(server.list_name(REPO, TAG), Fault(status=503), Fault(hang_up=True))
    assert find(server, waits=(0.01, 0.01))
    server.fault(server.list_name(REPO, TAG), Fault(status=503), Fault(status=503))
    with pytest.raises(ReleaseProblem, match="503"):
        find(server, waits=(0.01,))


# -- the network --------------------------------------------------------------------------------------------


def test_no_network() -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(NetworkProblem, match="cannot be reached"):
        find_assets(LINE, LOOSE, Network({}), nobody, waits=())
    env = {"https_proxy": nobody}
    with pytest.raises(NetworkProblem, match="https_proxy"):
        find_assets(LINE, LOOSE, Network(env), None, waits=())
    assert find_assets(LINE, PINNED, Network(env), None, waits=())[0].url == USUAL + ENGINE


def test_offline_asks_nobody(server: ReleaseServer) -> None:
    with pytest.raises(NetworkProblem, match="BONSAI_OFFLINE"):
        find_assets(LINE, PINNED, Network({}, offline=True), server.url)
    assert not server.requests


@pytest.mark.parametrize("mirror", ["github.com", "ftp://x", "http://", "http://[", "http://h:port"])
def test_a_mirror_that_is_none(mirror: str) -> None:
    with pytest.raises(NetworkProblem, match="BONSAI_RELEASES_URL"):
        find_assets(LINE, PINNED, Network({}), mirror, waits=())


@pytest.mark.parametrize(
    "answer", [b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b""]
)
def test_something_that_is_no_web_server(answer: bytes) -> None:
    with RawServer(answer) as raw, pytest.raises(FetchProblem) as caught:
        find_assets(LINE, LOOSE, Network({}), raw.url, waits=())
    spoken(caught.value)


@pytest.mark.case("C-05")
def test_certificates(tmp_path: Path) -> None:
    tls = certificate.write(tmp_path)
    with ReleaseServer({(REPO, TAG): DATA}, tls=tls) as server:
        with pytest.raises(NetworkProblem, match="CERTIFICATE_VERIFY_FAILED"):
            find_assets(LINE, LOOSE, Network({}), server.url, waits=())
        assert find_assets(LINE, LOOSE, Network({"SSL_CERT_FILE": tls[0]}), server.url, waits=())
        with pytest.raises(NetworkProblem, match="SSL_CERT_FILE names"):
            find_assets(
                LINE, LOOSE, Network({"SSL_CERT_FILE": str(tmp_path / "no.pem")}), server.url, waits=()
            )
