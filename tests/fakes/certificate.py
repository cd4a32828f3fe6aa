"""A certificate for 127.0.0.1 and localhost that signs itself, for servers of the tests: nobody trusts it by itself."""

from __future__ import annotations

import textwrap
from pathlib import Path

# Valid until 2126. The key is no secret: everybody has it.
CERTIFICATE = (
    "MIIBmTCCAT+gAwIBAgIUEuWQM0gTPuN/zFm9gtQh6mQvyoQwCgYIKoZIzj0EAwIwEzERMA8GA1UEAwwIbG9vcGJhY2swIBcNMjYx"
    "MTI5MTYxMjAwWhgPMjEyNjExMDUxNjEyMDBaMBMxETAPBgNVBAMMCGxvb3BiYWNrMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE"
    "vfP2qkefg6Cqbws8g8OQsWE4JNk30vwjj+ZHBzyF4g+i26BY65DmpQeiyPP+txTJqgc6cwVPJPB37r/hm87XfKNvMG0wHQYDVR0O"
    "BBYEFGh5jKTA04xS3Vp5aNkshhHTSY1wMB8GA1UdIwQYMBaAFGh5jKTA04xS3Vp5aNkshhHTSY1wMBoGA1UdEQQTMBGCCWxvY2Fs"
    "aG9zdIcEfwAAATAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCICP3GMnOICVoB1Il4YyKRxg8tTaANIteDogv3it5"
    "5ZmVAiEAxDRaJHQNtQDPc5dFfYV7CMfiodss0pyGWT+VpxaJy9c="
)
KEY = (
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQguZu5feApRVMnFh0TE25E5VfwsBR+ArNv1b6ev8rblD+hRANCAAS9"
    "8/aqR5+DoKpvCzyDw5CxYTgk2TfS/COP5kcHPIXiD6LboFjrkOalB6LI8/63FMmqBzpzBU8k8Hfuv+Gbztd8"
)


def write(folder: Path) -> tuple[str, str]:
    """The files of certificate and key, as a server of the tests takes them."""
    files = []
    for name, kind, text in (("certificate", "CERTIFICATE", CERTIFICATE), ("key", "PRIVATE KEY", KEY)):
        path = folder / f"loopback-{name}.pem"
        lines = "\n".join(textwrap.wrap(text, 64))
        path.write_text(f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n")
        files.append(str(path))
    return files[0], files[1]
