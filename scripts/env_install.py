"""Runs venv and pip for environment.py: progress in plain words, and one clear sentence when they fail."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

import env_packages

SOURCES = ("launcher", "webui")

MISLEADING = (
    "PYTHONHOME",
    "PYTHONPATH",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_CONSTRAINT",
    "PIP_DRY_RUN",
)

CAUSES = (
    (
        r"CERTIFICATE_VERIFY_FAILED|SSLError|SSLCertVerification",
        "The package index's certificate cannot be verified.",
        "Behind a company proxy, set PIP_CERT to its CA file; elsewhere check the clock.",
    ),
    (
        r"ProxyError|Cannot connect to proxy|Tunnel connection failed",
        "The proxy does not let pip through to the package index.",
        "Check HTTPS_PROXY (and its user name and password), then start again.",
    ),
    (
        r"NewConnectionError|[Nn]ame ?[Rr]esolution|Failed to establish a new connection|getaddrinfo"
        r"|ConnectTimeout|ReadTimeout|ConnectionReset|Network is unreachable",
        "The package index cannot be reached, and the packages are not installed yet.",
        "Connect to the network and start again (behind a proxy, set HTTPS_PROXY first). "
        "Once installed, no network is needed.",
    ),
    (
        r"DO NOT MATCH THE HASHES",
        "A downloaded package is not the one that requirements.lock names, so it was not installed.",
        "Run `python -m pip cache purge` and start again; if it happens again, do not trust that index.",
    ),
    (
        r"No space left on device|Errno 28\b|Errno 122\b",
        "The disk is full.",
        "Free about 700 MB and start again.",
    ),
    (
        r"No matching distribution found|Failed to build|Failed building wheel",
        "A package has no build for this Python and system.",
        "Install CPython 3.11 to 3.14 (64 bit) from python.org or your system's packages.",
    ),
)


def say(text: str) -> None:
    """Talk goes to stderr: stdout belongs to the program that is started."""
    print(text, file=sys.stderr, flush=True)


def fail(what: str, remedy: str) -> NoReturn:
    say(f"{what}\n{remedy}")
    raise SystemExit(1)


def explain(output: str, log: Path) -> NoReturn:
    """End with one clear sentence for what pip or venv printed."""
    for pattern, what, remedy in CAUSES:
        if re.search(pattern, output):
            fail(what, f"{remedy} pip's own words are in {log}.")
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "no output")
    fail(f"Installing the Python packages failed: {last}", f"The whole output is in {log}.")


def child_environment() -> dict[str, str]:
    """Ours, without settings that would make pip install elsewhere or Python look elsewhere."""
    kept = {name: value for name, value in os.environ.items() if name not in MISLEADING}
    return kept | {
        "PIP_USER": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8:replace",
    }


def run(arguments: list[str], log: Path, *, progress: bool = False) -> str:
    """Run a tool and keep its output in ``log``; returns the output when it failed, else nothing."""
    lines: list[str] = []
    count = 0
    terminal = progress and sys.stderr.isatty()
    with (
        log.open("a", encoding="utf-8") as file,
        subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env=child_environment(),
        ) as child,
    ):
        for line in child.stdout or ():
            file.write(line)
            lines.append(line)
            collecting = re.match(r"Collecting ([A-Za-z0-9._-]+)", line)
            count += bool(collecting)
            if terminal and collecting:
                print(f"\r  {count} packages: {collecting[1][:40]:40}", end="", file=sys.stderr, flush=True)
            elif progress and line.startswith("Installing collected packages"):
                start = "\r" if terminal else ""
                say(f"{start}  {count} packages fetched, unpacking them …{'':24}".rstrip())
    if child.returncode == 0:
        return ""
    if terminal and count:
        say("")
    return "".join(lines) or f"{arguments[0]} ended with status {child.returncode}."


def install_packages(root: Path, python: Path, extras: set[str], log: Path) -> None:
    """pip, with every hash checked. The embedded engine may have no build for this system; the rest must."""
    lock = (root / "requirements.lock").read_text(encoding="utf-8")
    pyproject = (root / "pyproject.toml").read_text(encoding="utf-8")
    wanted = log.with_name("requirements.txt")
    pip = [str(python), "-m", "pip", "install", "--progress-bar=off", "--retries=2", "--no-compile"]
    pip += ["--require-hashes", "--only-binary=xllamacpp", "-r", str(wanted)]
    wanted.write_text(env_packages.subset(lock, env_packages.roots(pyproject, extras)), encoding="utf-8")
    failed = run(pip, log, progress=True)
    if "No matching distribution found for xllamacpp" in failed:
        say("The embedded engine has no build for this Python and system: going on without it.")
        without = env_packages.roots(pyproject, extras - {"embedded"})
        wanted.write_text(env_packages.subset(lock, without), encoding="utf-8")
        failed = run(pip, log, progress=True)
    if failed:
        explain(failed, log)
    # On all cores, which pip does not use. What cannot be compiled is never imported either.
    run([str(python), "-m", "compileall", "-q", "-j0", str(log.parent)], log)


def install_project(root: Path, python: Path, log: Path, *, editable: bool) -> None:
    """The checkout itself: pointed at where pip may write beside it, else copied into the environment."""
    pip = [str(python), "-m", "pip", "install", "--no-deps", "--no-build-isolation"]
    if editable:
        failed = run([*pip, "-e", str(root)], log)
    else:
        with tempfile.TemporaryDirectory() as folder:
            for name in SOURCES:
                shutil.copytree(root / name, Path(folder, name), ignore=shutil.ignore_patterns("__pycache__"))
            for name in ("pyproject.toml", "README.md", "LICENSE"):
                shutil.copy(root / name, folder)
            failed = run([*pip, "--force-reinstall", folder], log)
    if failed:
        explain(failed, log)
