"""Ways to the network as the environment describes them: proxies and certificates."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import certifi
import httpx

from launcher.errors import NetworkProblem

LOCAL = {"localhost", "127.0.0.1", "::1"}
ANY_IPV4 = "0.0.0.0"  # noqa: S104 - where a connection of ours begins; nothing listens
PORTS = {"http": 80, "https": 443}


def transport(url: httpx.URL, env: Mapping[str, str], *, ipv4: bool = False) -> httpx.HTTPTransport:
    """One connection to ``url``'s host, through a proxy where ``env`` names one; ``ipv4``: by no other way.

    Raises NetworkProblem for a proxy or certificate setting that cannot be used. httpx's own client is not used: it
    writes whole addresses, with the signatures in them, to the log.
    """
    proxy, name = proxy_for(str(url), env)
    verify = certificates(env) if url.scheme == "https" or proxy.startswith("https:") else nobody()
    try:
        return httpx.HTTPTransport(
            verify=verify,
            trust_env=False,
            proxy=httpx.Proxy(proxy, ssl_context=verify if proxy.startswith("https:") else None)
            if proxy
            else None,
            local_address=ANY_IPV4 if ipv4 and not proxy and not _is_ipv6(url.host) else None,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=0),
        )
    except ImportError:
        remedy = "Name an http:// proxy, which most programs of that kind offer too."
        sentence = (
            f"The proxy that {name} names is of the SOCKS kind, which needs a package that is not here."
        )
    except (ValueError, httpx.InvalidURL):
        remedy = "Write it as http://host:port."
        sentence = f"The proxy that {name} names has an address that cannot be used."
    raise NetworkProblem(sentence, remedy)


def proxy_for(url: str, env: Mapping[str, str]) -> tuple[str, str]:
    """The proxy's address for ``url`` and the variable that names it; empty without one.

    ``https_proxy`` or ``http_proxy`` by the scheme, then ``all_proxy``, each in small letters first, as curl has it;
    ``no_proxy`` holds hosts, ``.suffixes``, ``host:port``, networks (10.0.0.0/8) or ``*``. This machine itself is
    always reached directly.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    port = parts.port or PORTS.get(parts.scheme, 0)
    if host in LOCAL or _matches(host, port, env.get("no_proxy") or env.get("NO_PROXY") or ""):
        return "", ""
    for name in (f"{parts.scheme}_proxy", "all_proxy"):
        for spelled in (name, name.upper()):
            if value := env.get(spelled, "").strip():
                return value if "://" in value else f"http://{value}", spelled
    return "", ""


def _matches(host: str, port: int, no_proxy: str) -> bool:
    for entry in no_proxy.lower().replace(",", " ").split():
        if entry == "*":
            return True
        if _in_network(host, entry):
            return True
        name, colon, wanted = entry.rpartition(":")
        if colon and wanted.isdigit() and ":" not in name:
            if int(wanted) != port:
                continue
            entry = name  # noqa: PLW2901
        suffix = entry.removeprefix("*").lstrip(".")
        if suffix and (host == suffix or host.endswith(f".{suffix}")):
            return True
    return False


def _in_network(host: str, entry: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        return False


def _is_ipv6(host: str) -> bool:
    return ":" in host


def certificates(env: Mapping[str, str]) -> ssl.SSLContext:
    """Whom to trust: the file or folder of SSL_CERT_FILE or SSL_CERT_DIR alone where they are set, else the system's
    certificates and the ones that come with the launcher. Nothing switches the check off."""
    file, folder = env.get("SSL_CERT_FILE", ""), env.get("SSL_CERT_DIR", "")
    for name, value in (("SSL_CERT_FILE", file), ("SSL_CERT_DIR", folder)):
        if value and not (Path(value).is_file() if name == "SSL_CERT_FILE" else Path(value).is_dir()):
            kind = "file" if name == "SSL_CERT_FILE" else "folder"
            raise NetworkProblem(
                f"{name} names {value}, but there is no such {kind}.",
                f"Correct {name}, or unset it to use the system's certificates.",
            )
    try:
        if file or folder:
            return ssl.create_default_context(cafile=file or None, capath=folder or None)
        context = ssl.create_default_context()
        context.load_verify_locations(certifi.where())
    except (OSError, ssl.SSLError):  # SSLError: no certificate in it
        pass
    else:
        return context
    raise NetworkProblem(
        f"The certificates in {file or folder or 'the launcher'} cannot be read.",
        "SSL_CERT_FILE must name a file of certificates in PEM form.",
    )


def nobody() -> ssl.SSLContext:
    """For plain HTTP: a context that trusts no certificate at all, and takes no time to make."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
