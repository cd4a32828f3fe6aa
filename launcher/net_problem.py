"""Says in a sentence why a question to a host got no answer. Pure; knows no HTTP library, only what errors are."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

from launcher.errors import NetworkProblem

CERTIFICATE_HELP = (
    "If a company's proxy or scanner stands between this machine and the network, put its certificate into a "
    "file and name that file with SSL_CERT_FILE. Also check this machine's date and time."
)
PROXY_HELP = "Put them into the proxy's address: http://name:password@host:port."
TRY_AGAIN = "Check the network, then try again; what is here already stays."


def network_problem(error: BaseException, host: str, proxy: str = "") -> NetworkProblem:
    """What ``error``, or an error behind it, means for a request to ``host``. ``proxy``: the variable that names
    the proxy in between, or empty. Of ``error`` itself only the system's and the proxy's own words are shown."""
    chain = list(behind(error))
    names = {type(it).__name__ for it in chain}
    through = f" through the proxy that {proxy} names" if proxy else ""
    distrust = next((it for it in chain if isinstance(it, ssl.SSLCertVerificationError)), None)
    # "407 Proxy Authentication Required" holds no secret of ours.
    answer = next((str(it)[:80] for it in chain if type(it).__name__ == "ProxyError"), "")
    late = any(isinstance(it, TimeoutError) or "Timeout" in type(it).__name__ for it in chain)
    cases: tuple[tuple[object, str, str], ...] = (
        (
            distrust,
            f"The certificate of {host} is not trusted: {getattr(distrust, 'verify_message', '') or distrust} "
            "(CERTIFICATE_VERIFY_FAILED).",
            CERTIFICATE_HELP,
        ),
        (
            "ProxyError" in names,
            f"The proxy that {proxy or 'the environment'} names refused to reach {host} ({answer}).",
            f"Correct {proxy or 'it'}, with name and password where the proxy wants them, or add {host} to NO_PROXY.",
        ),
        (
            any(isinstance(it, ssl.SSLError) for it in chain),
            f"{host} cannot be spoken to over TLS{through}.",
            "Check which of http:// and https:// its address begins with.",
        ),
        ("gaierror" in names, f"No address is known for {host}{through}.", TRY_AGAIN),
        (late, f"{host} did not answer in time{through}.", TRY_AGAIN),
        (
            "ConnectError" in names or "ConnectionRefusedError" in names,
            f"{host} cannot be reached{through}.",
            f"Check {proxy}." if proxy else TRY_AGAIN,
        ),
        (
            names & {"UnsupportedProtocol", "InvalidURL"},
            f"{host} leads to an address that cannot be used.",
            "Try again, or use another network.",
        ),
        ("TooManyRedirects" in names, f"{host} only leads from one address to another.", TRY_AGAIN),
        (True, f"The connection to {host} broke off{through}.", TRY_AGAIN),
    )
    return next(NetworkProblem(what, remedy) for holds, what, remedy in cases if holds)


def behind(error: BaseException | None) -> Iterator[BaseException]:
    """``error`` and what led to it, the nearest first; twenty at most, for a chain may be a ring."""
    for _ in range(20):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__
