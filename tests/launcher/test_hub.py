"""What is asked of the hub, through its real client, and what its refusals become."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import pytest

from launcher.catalog import HubFile
from launcher.errors import DigestMismatch, FetchProblem, HubProblem, LauncherError, NetworkProblem
from launcher.fetch import Network, fetch
from launcher.hub import Hub
from tests.conftest import clean_environment, free_port
from tests.fakes import certificate
from tests.fakes.file_server import Fault, FileServer, sha256
from tests.fakes.hub_server import HubServer
from tests.fakes.raw_server import RawServer

REPO, NAME, DATA = "owner/Model-27B-gguf", "Model-27B.gguf", b"GGUF" + bytes(range(256)) * 40
FILE = HubFile(REPO, NAME)
PINNED = HubFile(REPO, NAME, bytes=len(DATA), sha256=sha256(DATA))
TOKEN, STALE = "hf_aGoodTokenForTests", "hf_anExpiredTokenForTests"
FAR = "http://hub.test"  # reached through a proxy, so that it is not this machine


@pytest.fixture
def server() -> Iterator[HubServer]:
    repos = {
        REPO: {NAME: DATA, "config.json": b"{}"},
        "owner/private": {NAME: DATA},
        "owner/gated": {NAME: DATA},
    }
    with HubServer(
        repos, tokens=(TOKEN,), private=("owner/private",), gated=("owner/gated",), in_git=("config.json",)
    ) as server:
        yield server


def hub(server: FileServer, folder: Path, token: str | None = None, **env: str) -> Hub:
    return Hub({"HF_ENDPOINT": server.url, "HF_HOME": str(folder), **env}, token, offline=False, waits=())


def through_proxy(server: FileServer) -> dict[str, str]:
    return {"HF_ENDPOINT": FAR, "http_proxy": server.url}


def spoken(problem: LauncherError) -> str:
    assert problem.what.endswith(".")
    assert problem.remedy.endswith(".")
    return f"{problem.what} {problem.remedy}"


# -- what is there ------------------------------------------------------------------------------------------


def test_address_size_and_digest_from_one_request(server: HubServer, tmp_path: Path) -> None:
    remote = hub(server, tmp_path).remote(FILE)
    assert (
        remote.url == f"{server.url}/{REPO}/resolve/{server.commit(REPO)}/{NAME}"
    )  # the commit, not the branch
    assert (remote.what, remote.total, remote.sha256) == (NAME, len(DATA), sha256(DATA))
    assert (dict(remote.headers), remote.plain_headers) == ({}, None)
    assert [it.method for it in server.requests] == ["HEAD"]
    assert not server.store.requests


@pytest.mark.parametrize("token", [None, TOKEN])
def test_from_the_hub_to_the_disk(server: HubServer, tmp_path: Path, token: str | None) -> None:
    """Redirected to the store, which refuses a token beside its own signature."""
    repo = "owner/gated" if token else REPO
    remote = hub(server, tmp_path, token).remote(HubFile(repo, NAME))
    assert fetch(remote, tmp_path / NAME, Network({})) == sha256(DATA)
    assert (tmp_path / NAME).read_bytes() == DATA
    (request,) = server.store.requests
    assert "authorization" not in request.headers


@pytest.mark.case("C-05")
def test_a_slash_at_the_end_of_the_endpoint(server: HubServer, tmp_path: Path) -> None:
    remote = hub(server, tmp_path, HF_ENDPOINT=server.url + "/").remote(FILE)
    assert remote.url.startswith(f"{server.url}/{REPO}/")
    assert [it.path for it in server.requests] == [f"/{REPO}/resolve/main/{NAME}"]


def test_the_pins_agree(server: HubServer, tmp_path: Path) -> None:
    revision = server.commit(REPO)
    pinned = HubFile(REPO, NAME, revision, len(DATA), sha256(DATA))
    remote = hub(server, tmp_path, **through_proxy(server)).remote(pinned)
    assert (remote.url, remote.sha256) == (f"{FAR}/{REPO}/resolve/{revision}/{NAME}", pinned.sha256)


@pytest.mark.parametrize(
    ("size", "digest", "said"),
    [(7, sha256(DATA), "bytes"), (len(DATA), "ab" * 32, "sha256"), (None, "ab" * 32, "sha256")],
)
def test_another_file_than_the_pinned_one(
    server: HubServer, tmp_path: Path, size: int | None, digest: str, said: str
) -> None:
    with pytest.raises(DigestMismatch) as caught:
        hub(server, tmp_path, **through_proxy(server)).remote(HubFile(REPO, NAME, None, size, digest))
    text = spoken(caught.value)
    published, pinned = (len(DATA), size) if said == "bytes" else (sha256(DATA), digest)
    for part in (REPO, NAME, f"{said} {published}", f"instead of {pinned}"):
        assert part in text


def test_a_mirror_on_this_machine_may_have_stand_ins(server: HubServer, tmp_path: Path) -> None:
    asked = hub(server, tmp_path)
    remote = asked.remote(HubFile(REPO, NAME, "0" * 40, 7_000_000_000, "ab" * 32))
    assert (remote.total, remote.sha256) == (len(DATA), sha256(DATA))
    assert [NAME in notice and "another" in notice for notice in asked.notices] == [True]


def test_a_small_file_outside_lfs_needs_a_pin(server: HubServer, tmp_path: Path) -> None:
    with pytest.raises(HubProblem, match="no sha256"):
        hub(server, tmp_path).remote(HubFile(REPO, "config.json"))
    remote = hub(server, tmp_path).remote(HubFile(REPO, "config.json", sha256=sha256(b"{}")))
    assert (remote.total, remote.sha256) == (2, sha256(b"{}"))


# -- tokens -------------------------------------------------------------------------------------------------


def auth(server: HubServer) -> list[str]:
    return [it.headers.get("authorization", "").removeprefix("Bearer ") for it in server.requests]


def test_tokens_from_everywhere_in_their_order(server: HubServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"  {TOKEN}\n")
    private = HubFile("owner/private", NAME)
    for asked in (
        hub(server, tmp_path),
        hub(server, tmp_path / "none", HF_TOKEN_PATH=str(tmp_path / "token")),
        hub(server, tmp_path / "none", HF_TOKEN=TOKEN),
        hub(server, tmp_path, HF_TOKEN=TOKEN, HUGGING_FACE_HUB_TOKEN=STALE),
        hub(server, tmp_path / "none", f"{TOKEN}\n", HF_TOKEN=STALE),
    ):
        remote = asked.remote(private)
        assert remote.headers == {"Authorization": f"Bearer {TOKEN}"}
        assert remote.plain_headers == {}
        assert TOKEN not in repr(remote)
        assert asked.notices == ()
    assert set(auth(server)) == {TOKEN}


def test_a_saved_token_is_not_sent_where_that_is_switched_off(server: HubServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    hub(server, tmp_path, HF_HUB_DISABLE_IMPLICIT_TOKEN="1").remote(FILE)
    assert auth(server) == [""]


@pytest.mark.case("C-07")
@pytest.mark.parametrize("where", ["settings", "environment", "file"])
def test_a_stale_token_and_a_public_repository(server: HubServer, tmp_path: Path, where: str) -> None:
    if where == "file":
        (tmp_path / "token").write_text(STALE)
    env = {"HF_TOKEN": STALE} if where == "environment" else {}
    asked = hub(server, tmp_path, STALE if where == "settings" else None, **env)
    for _ in range(2):
        remote = asked.remote(FILE)
        assert (dict(remote.headers), remote.sha256) == ({}, sha256(DATA))
    (notice,) = asked.notices
    assert "going on without it" in notice
    assert {"settings": "HF_TOKEN", "environment": "HF_TOKEN", "file": str(tmp_path)}[where] in notice
    assert STALE not in notice
    assert auth(server) == [STALE, "", ""]  # said and tried once


@pytest.mark.parametrize("repo", ["owner/private", "owner/gated"])
def test_a_stale_token_and_a_closed_repository(server: HubServer, tmp_path: Path, repo: str) -> None:
    with pytest.raises(HubProblem) as caught:
        hub(server, tmp_path, STALE).remote(HubFile(repo, NAME))
    text = spoken(caught.value)
    assert "the access token that is set" in text
    assert STALE not in text
    assert f"{server.url}/{repo}" in text
    assert ("gated" in text) is (repo == "owner/gated")


@pytest.mark.parametrize("token", ["hf_broken\nX-Evil: 1", "hf_höh", "two words"])
def test_a_token_that_is_none(server: HubServer, tmp_path: Path, token: str) -> None:
    with pytest.raises(HubProblem) as caught:
        hub(server, tmp_path, token).remote(FILE)
    assert "characters" in caught.value.what
    assert token not in spoken(caught.value)
    assert not server.requests


def test_a_login_of_the_hubs_own_program(server: HubServer, tmp_path: Path) -> None:
    """In the product the environment is the process's own, and the client itself reads, and renews, its token."""
    (tmp_path / "token").write_text(TOKEN)
    script = (
        "import os\nfrom launcher.catalog import HubFile\nfrom launcher.hub import Hub\n"
        "remote = Hub(os.environ, None, offline=False).remote(HubFile('owner/private', 'Model-27B.gguf'))\n"
        "print(remote.sha256)"
    )
    env = clean_environment({"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path)})
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == sha256(DATA), done.stderr


# -- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "token", "parts"),
    [
        (HubFile("owner/nothing", NAME), None, ["owner/nothing", "missing or private", "HF_TOKEN"]),
        (HubFile("owner/nothing", NAME), TOKEN, ["owner/nothing", "missing", "does not open it"]),
        (HubFile("owner/private", NAME), None, ["owner/private", "missing or private"]),
        (
            HubFile("owner/gated", NAME),
            None,
            ["gated", "no access token was sent", "Ask for access at http://127"],
        ),
        (HubFile(REPO, "Other.gguf"), None, ["no file Other.gguf", REPO]),
    ],
)
def test_what_is_not_to_be_had(
    server: HubServer, tmp_path: Path, file: HubFile, token: str | None, parts: list[str]
) -> None:
    with pytest.raises(HubProblem) as caught:
        hub(server, tmp_path, token).remote(file)
    text = spoken(caught.value)
    assert [part for part in parts if part not in text] == []
    assert TOKEN not in text


def test_a_revision_that_is_gone(server: HubServer, tmp_path: Path) -> None:
    with pytest.raises(HubProblem, match="no revision 00000"):
        hub(server, tmp_path, **through_proxy(server)).remote(HubFile(REPO, NAME, "0" * 40))


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"RateLimit": '"resolvers";r=0;t=240'}, "4 minutes"),
        ({"Retry-After": "30"}, "30 seconds"),
        ({}, "rate limit"),
    ],
)
def test_a_rate_limit_with_its_waiting_time(
    server: HubServer, tmp_path: Path, headers: dict[str, str], said: str
) -> None:
    server.trouble(REPO, NAME, Fault(status=429, headers=headers))
    with pytest.raises(HubProblem) as caught:
        hub(server, tmp_path).remote(FILE)
    assert said in spoken(caught.value)


def test_trouble_that_passes_is_waited_out(server: HubServer, tmp_path: Path) -> None:
    env = {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path)}
    server.trouble(REPO, NAME, Fault(status=503), Fault(hang_up=True))
    assert Hub(env, None, offline=False, waits=(0.01, 0.01)).remote(FILE).sha256 == sha256(DATA)
    server.trouble(REPO, NAME, *[Fault(status=503)] * 3)
    with pytest.raises(HubProblem, match="503"):
        Hub(env, None, offline=False, waits=(0.01, 0.01)).remote(FILE)


FAULTS = {
    **{
        str(status): Fault(status=status)
        for status in (400, 401, 403, 404, 407, 410, 416, 418, 429, 500, 504)
    },
    "disabled": Fault(status=403, headers={"X-Error-Message": "Access to this resource is disabled."}),
    "a web page": Fault(html=True),
    "hangs up": Fault(hang_up=True),
    "leads in a circle": Fault(redirect=f"/{REPO}/resolve/main/{NAME}"),
    "leads to nowhere": Fault(redirect="http://["),
    "leads to another host": Fault(redirect="http://portal.test/sign-in"),
    "leads to another protocol": Fault(redirect="gopher://x/y"),
    "a size that is no number": Fault(headers={"X-Linked-Size": "many", "X-Repo-Commit": "c"}, html=True),
    "an odd commit": Fault(headers={"X-Repo-Commit": "../..", "ETag": '"x"'}, html=True),
    "an odd link": Fault(headers={"Link": "<<<>>>;;;", "X-Xet-Hash": "x", "X-Repo-Commit": "c"}, html=True),
}


@pytest.mark.parametrize("name", FAULTS)
def test_no_error_of_the_client_gets_past(server: HubServer, tmp_path: Path, name: str) -> None:
    """Whatever goes wrong is one of our sentences, and no token is in it."""
    server.always[f"{REPO}/resolve/main/{NAME}"] = replace(FAULTS[name], methods=("HEAD", "GET"))
    for token in (None, TOKEN):
        with pytest.raises(FetchProblem) as caught:
            hub(server, tmp_path, token).remote(FILE)
        assert TOKEN not in spoken(caught.value)


@pytest.mark.parametrize(
    "answer",
    [b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b"\x00" * 100, b""],
)
def test_something_that_is_no_web_server(tmp_path: Path, answer: bytes) -> None:
    with RawServer(answer) as raw, pytest.raises(FetchProblem) as caught:
        Hub({"HF_ENDPOINT": raw.url, "HF_HOME": str(tmp_path)}, None, offline=False, waits=()).remote(FILE)
    spoken(caught.value)


@pytest.mark.parametrize(
    "endpoint", ["huggingface.co", "ftp://x", "http://", "http://[", "http://h:port", "no"]
)
def test_an_endpoint_that_is_none(tmp_path: Path, endpoint: str) -> None:
    with pytest.raises(NetworkProblem, match="HF_ENDPOINT"):
        Hub({"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path)}, None, offline=False, waits=()).remote(FILE)


# -- the network --------------------------------------------------------------------------------------------


@pytest.mark.case("C-08")
def test_no_network_at_all(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(NetworkProblem, match="cannot be reached"):
        Hub({"HF_ENDPOINT": url, "HF_HOME": str(tmp_path)}, None, offline=False, waits=()).remote(FILE)
    env = {"HF_ENDPOINT": FAR, "http_proxy": url, "HF_HOME": str(tmp_path)}
    with pytest.raises(NetworkProblem, match="the proxy that http_proxy names"):
        Hub(env, None, offline=False, waits=()).remote(FILE)


@pytest.mark.case("C-08")
@pytest.mark.parametrize("env", [{}, {"HF_HUB_OFFLINE": "1"}])
def test_offline_asks_nobody(server: HubServer, tmp_path: Path, env: dict[str, str]) -> None:
    asked = Hub({"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path), **env}, None, offline=not env)
    with pytest.raises(NetworkProblem, match="HF_HUB_OFFLINE" if env else "BONSAI_OFFLINE"):
        asked.remote(FILE)
    assert asked.cached(FILE) is None
    assert not server.requests


def test_a_proxy_is_used_and_a_host_can_be_left_out(server: HubServer, tmp_path: Path) -> None:
    assert hub(server, tmp_path, **through_proxy(server)).remote(PINNED).url.startswith(FAR)
    assert [it.proxied for it in server.requests] == [True]
    with pytest.raises(NetworkProblem, match=r"hub\.test"):
        hub(server, tmp_path, **through_proxy(server), NO_PROXY="hub.test").remote(PINNED)
    assert len(server.requests) == 1


def test_a_proxy_that_wants_a_password(tmp_path: Path) -> None:
    denied = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
    with RawServer(denied) as raw:
        for endpoint, variable in (("http://hub.test", "HTTP_PROXY"), ("https://hub.test", "HTTPS_PROXY")):
            env = {"HF_ENDPOINT": endpoint, variable: raw.url, "HF_HOME": str(tmp_path)}
            with pytest.raises(NetworkProblem, match="proxy") as caught:
                Hub(env, None, offline=False, waits=()).remote(FILE)
            assert "password" in spoken(caught.value)


@pytest.mark.case("C-05")
@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "gopher://x", "http://["])
def test_a_proxy_that_cannot_be_used(tmp_path: Path, proxy: str) -> None:
    env = {"HF_ENDPOINT": FAR, "HTTP_PROXY": proxy, "HF_HOME": str(tmp_path)}
    with pytest.raises(NetworkProblem) as caught:
        Hub(env, None, offline=False, waits=()).remote(FILE)
    spoken(caught.value)


@pytest.mark.case("C-05")
def test_certificates(tmp_path: Path) -> None:
    tls = certificate.write(tmp_path)
    with HubServer({REPO: {NAME: DATA}}, tls=tls) as server:
        with pytest.raises(NetworkProblem) as caught:
            hub(server, tmp_path).remote(FILE)
        assert "CERTIFICATE_VERIFY_FAILED" in caught.value.what
        assert "SSL_CERT_FILE" in caught.value.remedy
        remote = hub(server, tmp_path, SSL_CERT_FILE=tls[0]).remote(FILE)
        assert remote.sha256 == sha256(DATA)
        with pytest.raises(NetworkProblem, match=r"SSL_CERT_FILE names .*missing"):
            hub(server, tmp_path, SSL_CERT_FILE=str(tmp_path / "missing.pem")).remote(FILE)


def test_the_process_gets_its_client_back(server: HubServer, tmp_path: Path) -> None:
    """huggingface_hub keeps one for all: neither our proxy nor our certificates may stay in it."""
    hub(server, tmp_path, **through_proxy(server)).remote(PINNED)
    with pytest.raises(NetworkProblem):
        hub(server, tmp_path, HF_ENDPOINT="https://hub.test", SSL_CERT_FILE="missing").remote(PINNED)
    name = huggingface_hub.hf_hub_download(REPO, NAME, endpoint=server.url, cache_dir=tmp_path, token=False)
    assert Path(name).read_bytes() == DATA


# -- start-up -----------------------------------------------------------------------------------------------


def test_nothing_of_the_client_is_loaded_before_it_is_asked(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom launcher.catalog import HubFile\n"
        "from launcher.found import Folders, candidates\nfrom launcher.hub import Hub\n"
        f"hub = Hub({{'HF_HOME': {str(tmp_path)!r}}}, None, offline=False)\n"
        "list(candidates(HubFile('o/m', 'f', sha256='0' * 64), Folders(), hub))\n"
        "print([name for name in ('huggingface_hub', 'httpx2', 'httpx', 'requests') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr
