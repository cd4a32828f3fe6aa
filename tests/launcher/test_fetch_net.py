"""Proxies and certificates, as the environment names them."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.errors import FetchProblem, NetworkProblem
from launcher.fetch_net import certificates, proxy_for
from tests.conftest import free_port
from tests.fakes.file_server import Fault, FileServer, sha256
from tests.fakes.tunnel import Tunnel
from tests.launcher.fetching_samples import DATA, NAME, TOKEN, Room


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A self-signed certificate for this machine, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1,DNS:files.example",
         "-keyout", key, "-out", cert], check=True, capture_output=True)  # fmt: skip
    return cert, key


@pytest.fixture
def secure(tmp_path: Path, tls: tuple[str, str]) -> Iterator[Room]:
    with FileServer({NAME: DATA}, tls=tls) as server:
        yield Room(tmp_path, server)


# --- certificates ---


@pytest.mark.case("C-05")
def test_a_certificate_of_ones_own_is_trusted_through_ssl_cert_file(
    secure: Room, tls: tuple[str, str]
) -> None:
    secure.server.fault(NAME, Fault(cut_after=300_000), Fault(stall_after=100_000))
    assert secure.fetch(env={"SSL_CERT_FILE": tls[0]}) == sha256(DATA)
    assert secure.server.sent[NAME] == len(DATA)


@pytest.mark.case("C-05")
def test_an_unknown_certificate_is_explained_and_nothing_is_asked(secure: Room) -> None:
    with pytest.raises(NetworkProblem, match="CERTIFICATE_VERIFY_FAILED") as error:
        secure.fetch()
    assert "127.0.0.1 cannot be trusted: self-signed certificate" in error.value.what
    assert "SSL_CERT_FILE" in error.value.remedy
    assert secure.server.requests == []


@pytest.mark.case("C-05")
def test_a_certificate_for_another_name(secure: Room, tls: tuple[str, str]) -> None:
    url = f"{secure.server.other_url}/{NAME}"
    with pytest.raises(NetworkProblem, match=r"localhost cannot be trusted: .*ostname mismatch"):
        secure.fetch(url=url, env={"SSL_CERT_FILE": tls[0]})


@pytest.mark.case("C-05")
@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_a_certificate_file_that_is_missing_is_named(secure: Room, name: str) -> None:
    with pytest.raises(NetworkProblem, match=f"{name} names /no/such/ca.pem, but there is no such") as error:
        secure.fetch(env={name: "/no/such/ca.pem"})
    assert name in error.value.remedy


@pytest.mark.case("C-05")
@pytest.mark.parametrize("content", [b"", b"not a certificate", b"-----BEGIN CERTIFICATE-----\nAA\n"])
def test_a_certificate_file_without_a_certificate(secure: Room, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(content)
    with pytest.raises(NetworkProblem, match=r"ca\.pem cannot be read"):
        secure.fetch(env={"SSL_CERT_FILE": str(file)})


def test_without_a_setting_the_system_and_certifi_are_trusted_and_names_are_checked() -> None:
    context = certificates({})
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) > 50


def test_encryption_is_not_given_up_on_the_way(secure: Room, tls: tuple[str, str], room: Room) -> None:
    secure.server.always["start"] = Fault(redirect=room.server.url_of(NAME))
    with pytest.raises(FetchProblem, match="without encryption"):
        secure.fetch(url=secure.server.url_of("start"), env={"SSL_CERT_FILE": tls[0]})
    assert room.server.requests == []


def test_plain_http_where_https_is_spoken(secure: Room) -> None:
    with pytest.raises(NetworkProblem):
        secure.fetch(url=secure.server.url_of(NAME).replace("https:", "http:"))


# --- proxies ---


@pytest.mark.parametrize(("url", "env", "proxy"), [
    ("http://files.example/x", {}, ""),
    ("http://files.example/x", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
    ("http://files.example/x", {"HTTP_PROXY": "http://p:1", "http_proxy": "http://q:2"}, "http://q:2"),
    ("http://files.example/x", {"HTTPS_PROXY": "http://p:1"}, ""),
    ("https://files.example/x", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
    ("https://files.example/x", {"ALL_PROXY": "p:1"}, "http://p:1"),
    ("https://files.example/x", {"HTTPS_PROXY": "", "ALL_PROXY": " "}, ""),
    ("https://files.example/x", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "example"}, ""),
    ("https://files.example/x", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a.b, .example"}, ""),
    ("https://files.example/x", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*.example"}, ""),
    ("https://files.example/x", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, ""),
    ("https://files.example/x", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "iles.example"}, "http://p:1"),
    ("https://files.example/x", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "FILES.example:443"}, ""),
    ("https://files.example/x", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "files.example:80"}, "http://p:1"),
    ("http://10.1.2.3/x", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, ""),
    ("http://11.1.2.3/x", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8,,"}, "http://p:1"),
    ("http://127.0.0.1:5/x", {"HTTP_PROXY": "http://p:1"}, ""),
    ("http://localhost:5/x", {"ALL_PROXY": "http://p:1"}, ""),
    ("http://[::1]:5/x", {"ALL_PROXY": "http://p:1"}, ""),
])  # fmt: skip
def test_which_proxy_is_used(url: str, env: dict[str, str], proxy: str) -> None:
    assert proxy_for(url, env)[0] == proxy


@pytest.mark.case("C-05")
def test_a_file_comes_through_the_proxy_that_the_environment_names(room: Room) -> None:
    proxy = room.server.url.replace("http://", "http://me:secret@")
    room.server.fault(NAME, Fault(cut_after=300_000))
    assert room.fetch(url=f"http://files.example/{NAME}?sig=1", env={"http_proxy": proxy}) == sha256(DATA)
    assert room.server.sent[NAME] == len(DATA)
    for request in room.server.asked(NAME):
        assert request.proxied
        assert request.host == "files.example"
        assert request.headers["proxy-authorization"].startswith("Basic ")


@pytest.mark.case("C-05")
def test_https_goes_through_a_tunnel_that_sees_no_token(secure: Room, tls: tuple[str, str]) -> None:
    secure.server.fault(NAME, Fault(cut_after=300_000), Fault(stall_after=100_000))
    with Tunnel(secure.server.port) as tunnel:
        digest = secure.fetch(
            url=f"https://files.example/{NAME}",
            env={"HTTPS_PROXY": tunnel.url.replace("//", "//me:pw@"), "SSL_CERT_FILE": tls[0]},
            headers={"Authorization": f"Bearer {TOKEN}"},
        )
    assert digest == sha256(DATA)
    assert len(tunnel.heads) == 3
    assert all(head.startswith(b"CONNECT files.example:443 ") for head in tunnel.heads)
    assert all(b"Basic bWU6cHc=" in head and TOKEN.encode() not in head for head in tunnel.heads)
    assert secure.server.requests[-1].headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(("env", "words"), [
    ({"HTTPS_PROXY": "http://user:secret@127.0.0.1:{closed}"}, "The proxy 127.0.0.1 cannot be reached"),
    ({"HTTPS_PROXY": "{server}"}, "The proxy 127.0.0.1 makes no connection to files.example"),
    ({"HTTPS_PROXY": "gopher://secret"}, "HTTPS_PROXY names has an address that cannot be used"),
    ({"all_proxy": "http://secret:port"}, "all_proxy names has an address that cannot be used"),
])  # fmt: skip
def test_proxies_that_do_not_work_are_named_without_their_secrets(
    room: Room, env: dict[str, str], words: str
) -> None:
    named = {name: value.format(closed=free_port(), server=room.server.url) for name, value in env.items()}
    with pytest.raises(NetworkProblem, match=words) as error:
        room.fetch(url=f"https://files.example/{NAME}", env=named)
    assert "secret" not in str(error.value)


def test_a_proxy_that_wants_a_password(room: Room) -> None:
    room.server.always[NAME] = Fault(status=407)
    with pytest.raises(FetchProblem, match="proxy wants a name and password"):
        room.fetch(url=f"http://files.example/{NAME}", env={"http_proxy": room.server.url})
    assert len(room.server.requests) == 1


# --- no network ---


def test_nobody_there_is_said_after_few_tries(room: Room) -> None:
    with pytest.raises(NetworkProblem, match=r"127\.0\.0\.1 cannot be reached: connection refused"):
        room.fetch(url=f"http://127.0.0.1:{free_port()}/{NAME}")
    assert room.names() == []


def test_a_name_that_nobody_knows(room: Room) -> None:
    with pytest.raises(
        NetworkProblem, match=r"name of nowhere\.invalid is not known here: is there a network"
    ):
        room.fetch(url=f"http://nowhere.invalid/{NAME}", stall_s=20)


@pytest.mark.parametrize("url", ["", "no address", "file:///etc/passwd", "http://", "http://host:port/x"])
def test_addresses_that_make_no_sense(room: Room, url: str) -> None:
    with pytest.raises(FetchProblem, match="makes no sense"):
        room.fetch(url=url or "?")
