"""What a llama-server can do, asked from the program itself: ``--version`` and ``--help``.

Running (``run_tool``) and reading (``parse_version``, ``parse_help``) are separate. Both calls take
about 15 ms each for b11434, so nothing is kept between starts.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from launcher import embedded
from launcher.child_env import clean_env
from launcher.devices import parse_devices
from launcher.errors import EngineMissing, NotAnEngine
from launcher.resolved import Device, Engine
from launcher.supervise.system import tool

# A server's help has about 60,000 characters; more than this is not help.
OUTPUT_LIMIT = 2_000_000
# No server can be told to serve a model without these.
SERVER_FLAGS = frozenset({"--model", "--host", "--port"})
ILLEGAL_INSTRUCTION, MISSING_DLL = 0xC000001D, 0xC0000135
# First bytes of ELF, Mach-O (two byte orders, universal) and scripts.
PROGRAM_STARTS = (b"\x7fE", b"\xcf\xfa", b"\xfe\xed", b"\xca\xfe", b"#!")
# Builds of the Prism fork, by commit: the frozen line reads other files than the one after it.
FORK_COMMITS = {"9fcaed7": "prism-legacy", "adfffbe": "prism"}
ANOTHER = "Build one with `bonsai engines build`, or set BONSAI_LLAMA_SERVER to another llama-server."

_NAME = re.compile(r"(--?[A-Za-z0-9][\w.-]*)(,\s*)?")
_VERSION_OLD = re.compile(r"^version: (\d+) \(([0-9a-f]+)\)", re.MULTILINE)
_VERSION = re.compile(r"^version: (\S+) \(build (\d+), commit (\S+)\)", re.MULTILINE)
_VERSION_ANY = re.compile(r"^version: (\S.*)$", re.MULTILINE)
_LIBRARY = (
    re.compile(r"error while loading shared libraries: ([^:\s]+)"),
    re.compile(r"Library not loaded: (\S+)"),
)
_SYSTEM_TOO_OLD = re.compile(r"version `(GLIBC(?:XX)?_[\d.]+)' not found")


@dataclass(frozen=True)
class EngineFacts:
    """What a binary says of itself. ``build`` and ``commit`` are None where it does not know them."""

    version: str
    build: int | None
    commit: str | None
    flags: frozenset[str] = field(repr=False)
    spec_types: frozenset[str] = field(repr=False)


@dataclass(frozen=True)
class ToolOutput:
    """``text``: stdout and stderr together. ``returncode`` is None when it was stopped by us."""

    returncode: int | None
    text: str
    timed_out: bool = False


def probe(program: Sequence[str], *, timeout_s: float = 20) -> EngineFacts:
    """Ask ``program`` (the words that start it) for its version and help.

    Raises EngineMissing when there is nothing to run and NotAnEngine when it cannot run here or is
    not a llama-server. ``timeout_s``: seconds for each of the two calls.
    """
    path = Path(program[0])
    version_text = _answer(path, program, "--version", timeout_s)
    found = parse_version(version_text)
    if found is None:
        said = next((line.strip() for line in version_text.splitlines() if line.strip()), "")
        raise NotAnEngine(f"{path} is not a llama-server: to --version it answers {said[:80]!r}.", ANOTHER)
    flags, spec_types = parse_help(_answer(path, program, "--help", timeout_s))
    if not flags >= SERVER_FLAGS:
        raise NotAnEngine(
            f"{path} belongs to llama.cpp ({found[0]}), but is not llama-server: it cannot listen.",
            "Give the file llama-server from the same folder.",
        )
    version, build, commit = found
    return EngineFacts(version, build, commit, flags, spec_types)


def engine_from_binary(path: Path, kind: str) -> Engine:
    """Probe the llama-server at ``path`` ("built" or "own" as ``kind``). Raises as ``probe`` does.

    A bare name is looked up on PATH. The returned program is an absolute path.
    """
    found = _locate(path)
    facts = probe((str(found),))
    line = FORK_COMMITS.get((facts.commit or "")[:7]) or ("prism" if "prism" in facts.version else "mainline")
    why = f"{'built from source' if kind == 'built' else 'named by BONSAI_LLAMA_SERVER'}: {found}"
    devices = ask_devices((str(found),)) if "--list-devices" in facts.flags else None
    return Engine(
        kind, line, (str(found),), facts.version, facts.flags, facts.spec_types, why, devices=devices
    )


def ask_devices(program: Sequence[str], *, timeout_s: float = 30) -> tuple[Device, ...] | None:
    """The GPUs that ``program`` itself lists; None when it does not tell. A driver may have to wake up first."""
    try:
        output = run_tool([*program, "--list-devices"], timeout_s=timeout_s)
    except OSError:
        return None
    return parse_devices(output.text) if output.returncode == 0 else None


def embedded_engine() -> Engine:
    """The engine inside the app. Raises EngineMissing when its package is not there."""
    reason = embedded.available()
    if reason is not None:
        raise EngineMissing(reason, ANOTHER)
    return Engine(
        "embedded",
        "embedded",
        embedded.program(),
        embedded.version(),
        embedded.supported_flags(),
        embedded.supported_spec_types(),
        "the engine that comes with the launcher",
    )


# --- reading --------------------------------------------------------------------------------


def parse_version(text: str) -> tuple[str, int | None, str | None] | None:
    """(version, build number, commit) from ``--version``; None when ``text`` is no llama.cpp version.

    Builds outside a git checkout call themselves "build 0, commit unknown": both are then None.
    """
    if match := _VERSION_OLD.search(text):
        build, commit = int(match[1]), match[2]
        return f"b{build} ({commit})", build, commit
    if match := _VERSION.search(text):
        number, sha = int(match[2]), match[3]
        return match[0].removeprefix("version: "), number or None, None if sha == "unknown" else sha
    if (match := _VERSION_ANY.search(text)) and "built with" in text:
        return match[1].strip(), None, None
    return None


def parse_help(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """(options, values of --spec-type) from ``--help``. Options that were removed do not count."""
    flags: set[str] = set()
    spec_types: set[str] = set()
    for entry in _entries(text):
        if "argument has been removed" in " ".join(entry.split()):
            continue
        names, rest = _names(entry)
        flags |= names
        if "--spec-type" in names:
            # "none,draft-simple,..." or, in older builds, "[none|ngram-simple|...]"
            values = re.match(r"\s*[\[{<(]?([\w,|-]+)", rest)
            spec_types |= set(re.split(r"[,|]", values[1])) if values else set()
    return frozenset(flags), frozenset(spec_types - {""})


def _entries(text: str) -> list[str]:
    """One string for each option: the line that names it and the indented lines below."""
    entries: list[str] = []
    for line in text.splitlines():
        if line.startswith("-") and not line.startswith("-----"):
            entries.append(line)
        elif entries and line.startswith(" "):
            entries[-1] += "\n" + line
    return entries


def _names(entry: str) -> tuple[set[str], str]:
    names, position = set(), 0
    while match := _NAME.match(entry, position):
        names.add(match[1])
        position = match.end()
        if not match[2]:
            break
    return names, entry[position:]


# --- running --------------------------------------------------------------------------------


def run_tool(command: Sequence[str], *, timeout_s: float) -> ToolOutput:
    """Run ``command`` to its end, with nothing to read. Raises OSError when it cannot be started.

    After ``timeout_s`` seconds, or when it never stops writing, it is killed with all its children.
    """
    with tool(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=clean_env(os.environ),
    ) as process:
        chunks: list[bytes] = []
        reader = threading.Thread(target=_read, args=(process.stdout, chunks), daemon=True)
        reader.start()
        reader.join(timeout_s)
        timed_out = reader.is_alive()
        if not timed_out:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)
        returncode = process.poll()
        if timed_out or returncode is None:
            _kill(process)
            reader.join(1)
        text = b"".join(chunks).decode("utf-8", "replace")
        return ToolOutput(returncode, text, timed_out)


def _read(pipe: IO[bytes], chunks: list[bytes]) -> None:
    size = 0
    while size < OUTPUT_LIMIT and (chunk := os.read(pipe.fileno(), 65536)):
        chunks.append(chunk)
        size += len(chunk)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)


def _answer(path: Path, program: Sequence[str], flag: str, timeout_s: float) -> str:
    """The output of one call. Translates everything that can go wrong with a foreign program."""
    try:
        output = run_tool([*program, flag], timeout_s=timeout_s)
    except OSError as error:
        raise _cannot_start(path, error) from error
    if output.timed_out:
        raise NotAnEngine(f"{path} did not answer {flag} within {timeout_s:g} s.", ANOTHER)
    code, text = output.returncode, output.text
    for pattern in _LIBRARY:
        if match := pattern.search(text):
            raise NotAnEngine(
                f"{path} cannot start: the shared library {match[1]} is missing.",
                f"Install the package that holds {match[1]}, or take a build without it (CPU). {ANOTHER}",
            )
    if match := _SYSTEM_TOO_OLD.search(text):
        raise NotAnEngine(f"{path} was built for a newer system: it needs {match[1]}.", ANOTHER)
    if code is not None and (code == -getattr(signal, "SIGILL", 4) or code % 2**32 == ILLEGAL_INSTRUCTION):
        raise NotAnEngine(f"{path} needs a newer CPU: it uses instructions that this one lacks.", ANOTHER)
    if code is not None and code % 2**32 == MISSING_DLL:
        raise NotAnEngine(
            f"{path} cannot start: a DLL that it needs is missing.",
            "For a CUDA build, unpack the cudart archive of the same release into its folder.",
        )
    if code is not None and code < 0 and "version" not in text:
        raise NotAnEngine(f"{path} was ended by {_signal_name(-code)} when asked for {flag}.", _after(code))
    if not text.strip():
        raise NotAnEngine(f"{path} printed nothing to {flag} and ended with exit status {code}.", ANOTHER)
    return text


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def _after(code: int) -> str:
    if sys.platform == "darwin" and code == -signal.SIGKILL:
        return "macOS may be blocking it: allow it in System Settings, Privacy & Security."
    return ANOTHER


def _cannot_start(path: Path, error: OSError) -> EngineMissing | NotAnEngine:
    if isinstance(error, FileNotFoundError):
        if path.exists():
            return NotAnEngine(f"{path} cannot start: the program that should run it is missing.", ANOTHER)
        return EngineMissing(f"There is no llama-server at {path}.", ANOTHER)
    if getattr(error, "winerror", None) == 225:
        return NotAnEngine(f"Your antivirus blocked {path}.", "Allow it there, or take another build.")
    start = b""
    with contextlib.suppress(OSError), path.open("rb") as file:
        start = file.read(4)
    if start == b"GGUF":
        return NotAnEngine(f"{path} is a model file, not a llama-server.", "Give it as BONSAI_MODEL.")
    if isinstance(error, PermissionError) and start[:2] in PROGRAM_STARTS:
        return NotAnEngine(f"{path} may not be run by you.", f"If you trust it: chmod +x '{path}'")
    return NotAnEngine(f"{path} is no program for this system and processor ({error.strerror}).", ANOTHER)


def _locate(path: Path) -> Path:
    found = path.expanduser()
    if not found.exists() and len(found.parts) == 1 and (on_path := shutil.which(str(found))):
        found = Path(on_path)
    if found.is_dir():
        name = "llama-server.exe" if sys.platform == "win32" else "llama-server"
        inside = next((file for file in (found / name, found / "bin" / name) if file.is_file()), None)
        remedy = f"Give the file: {inside}" if inside else ANOTHER
        raise NotAnEngine(f"{found} is a folder, not a llama-server.", remedy)
    return found.absolute()
