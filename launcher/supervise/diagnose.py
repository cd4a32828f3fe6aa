"""Pure: how an engine ended and what its log says -> the cause, a sentence and what to do."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from launcher.supervise.cause import Cause, compiled
from launcher.supervise.causes import CAUSES, SUSPICIONS
from launcher.supervise.exits import exit_name, in_brief, in_words

# A log line is looked at this far: every message that tells something is shorter, and no pattern gets slow.
LINE_CHARS = 1000
LOG_LINES = 5000
SHOWN_CHARS = 160
LAST_LINES = 3

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_STAMP = re.compile(r"^\d+\.\d\d\.\d{3}\.\d{3} (?P<level>[A-Z]) ?")
_READY = re.compile(r"(?:listening on http|: model loaded$)")
_DRAFT_BEGINS = re.compile(r"loading draft model '")
_DRAFT_FAILS = re.compile(r"failed to load draft model|failed to create MTP context")
_FILES = (
    re.compile(r"failed to load (?:draft )?model,? '(?P<file>[^']+)'"),
    re.compile(r"failed to load model from (?P<file>\S.*)"),
    re.compile(r"failed to open (?:GGUF file )?'?(?P<file>[^':]+)"),
    re.compile(r"loading (?:draft )?model '(?P<file>[^']+)'"),
)
# What a debugger, a backtrace or a usage text adds says nothing about the cause.
_NOISE = re.compile(
    r"^(?:\[New LWP|\[Thread debugging|\[Inferior|Using host libthread_db|#\d+ |0x[0-9a-f]+ in |\d+\s+\S+\.c: No such"
    r"|\d+\s+in \.\./|usage:|to show complete usage|-----|WARNING: |See: |\s)"
)
_DULL = re.compile(r"cleaning up before exit|exiting due to|security: no API key|common_params_print_info")


@dataclass(frozen=True)
class Diagnosis:
    """``cause``: a name of CAUSES. ``sentence``: what happened, for people. ``remedy``: what to do. ``evidence``: the line
    of the log (or the exit status) that tells, empty where none does. ``again``: whether the same start, unchanged, can
    succeed. ``drafter``: it was the drafter that failed, so that a start without it may succeed."""

    cause: str
    sentence: str
    remedy: str
    evidence: str = ""
    again: bool = False
    drafter: bool = False


@dataclass(frozen=True)
class _Exit:
    name: str
    brief: str
    words: str


@dataclass(frozen=True)
class _Log:
    lines: tuple[str, ...]  # of the whole log
    telling: tuple[str, ...]  # since it last became ready, without what is only informative
    drafter: bool  # the drafter was being loaded
    file: str  # the name of the file that was being loaded, may be empty


def diagnose(returncode: int | None, log_tail: str, *, with_drafter: bool, system: str) -> Diagnosis:
    """``returncode`` as subprocess gives it (negative: ended by that signal; on Windows the NTSTATUS), None where the
    engine still lives but stands still. ``log_tail``: its last lines; 400 of them hold the cause even where a debugger
    writes its backtrace after it. ``with_drafter``: whether a drafter was loaded. ``system``: as platform.system()
    calls it. An engine that we killed ourselves is for the caller to know: SIGKILL counts as the system's."""
    log = _read(log_tail, with_drafter)
    status = _Exit(exit_name(returncode, system), in_brief(returncode, system), in_words(returncode, system))
    for cause in CAUSES:
        found = _judge(cause, log, status, with_drafter, system)
        if found:
            return found
    return _unknown(log, status.words)


def suspicions(log_text: str) -> tuple[Diagnosis, ...]:
    """What the log of an engine that runs on hints at, each cause once: no speculation, no GPU, a Metal trouble."""
    log = _read(log_text, with_drafter=True)
    # Here the time before it was ready counts as well: that is when it says what it goes without.
    log = _Log(log.lines, log.lines, drafter=False, file=log.file)
    found: dict[str, Diagnosis] = {}
    for cause in SUSPICIONS:
        hint = _judge(cause, log, _Exit("alive", "", ""), with_drafter=True, system="")
        if hint and hint.cause not in found:
            found[hint.cause] = hint
    if "metal-shader" in found:
        found.pop("metal-tensor-off", None)  # then it is not harmless
        found.pop("metal-oom", None)
    if "old-driver" in found:
        found.pop("cpu-fallback", None)  # is its consequence
    return tuple(found.values())


def diagnose_start(error: OSError, *, system: str) -> Diagnosis:
    """Why the engine's program could not even be started. ``error`` is what subprocess raised."""
    evidence = _plain(str(error))
    code = getattr(error, "winerror", None) if system == "Windows" else None
    if code in {225, 226}:
        return Diagnosis(
            "blocked",
            "The antivirus program took the engine for a harmful program and blocked it.",
            "Look into Windows Security, Protection history, and restore llama-server.exe there if you trust it, "
            "or choose BONSAI_ENGINE=embedded; fetching it again would end the same way.",
            evidence,
        )
    if code in {1260, 4551} or isinstance(error, PermissionError):
        return Diagnosis(
            "blocked",
            "This system does not allow the engine's program to run.",
            "Choose a folder from which programs may run with BONSAI_HOME, ask who looks after this machine to allow "
            "llama-server, or choose BONSAI_ENGINE=embedded.",
            evidence,
        )
    if code in {193, 216} or error.errno in {8, 86}:  # ENOEXEC; EBADARCH of macOS
        return Diagnosis(
            "wrong-machine",
            "The engine's program is for another kind of system or processor.",
            "Fetch the build for this machine with `bonsai fetch --engine-only`, or choose BONSAI_ENGINE=embedded.",
            evidence,
        )
    if isinstance(error, FileNotFoundError):
        return Diagnosis(
            "missing-file",
            "The engine's program is no longer where it was; an antivirus program may have removed it.",
            "Look into the antivirus program's history, then fetch the engine again with `bonsai fetch --engine-only`, "
            "or choose BONSAI_ENGINE=embedded.",
            evidence,
        )
    if code in {8, 14, 1455} or error.errno == 12:  # ENOMEM
        return Diagnosis(
            "ram",
            "There is not enough free memory to start another program.",
            "Close other programs, then start the engine again.",
            evidence,
            again=True,
        )
    return Diagnosis(
        "unknown",
        f"The engine could not be started: {evidence}.",
        "Look at `bonsai doctor`, or choose another engine with BONSAI_ENGINE.",
        evidence,
    )


def _judge(cause: Cause, log: _Log, status: _Exit, with_drafter: bool, system: str) -> Diagnosis | None:
    if (
        (cause.exits and status.name not in cause.exits)
        or (cause.systems and system and system not in cause.systems)
        or (cause.part and (cause.part == "drafter") != log.drafter)
        or (cause.with_drafter is not None and cause.with_drafter != with_drafter)
        or (cause.silent and log.lines)
        or (cause.dead and status.name == "alive")
    ):
        return None
    line, groups = "", dict[str, str]()
    if cause.lines:
        hit = _search(cause.lines, log.telling)
        if not hit:
            return None
        line, groups = hit
    if cause.also and not _search(cause.also, log.lines):
        return None
    part = "drafter" if log.drafter else "model"
    if "bytes" in groups:
        groups["bytes"] = f"{int(groups['bytes']) / 2**20:.0f} MiB"
    known = {
        "part": part,
        "file": log.file or f"the {part}'s file",
        "exit": status.brief,
        "status": status.words,
    }
    fields = defaultdict(str, groups | known)
    return Diagnosis(
        cause.name,
        cause.sentence.format_map(fields),
        cause.remedy.format_map(fields),
        _plain(_STAMP.sub("", line)) or status.words,
        again=cause.again,
        drafter=cause.drafter or log.drafter,
    )


def _search(patterns: Iterable[str], lines: Iterable[str]) -> tuple[str, dict[str, str]] | None:
    """The first line that one of the patterns is found in, with the pattern's named groups."""
    matchers = [compiled(pattern) for pattern in patterns]
    for line in lines:
        for matcher in matchers:
            match = matcher.search(line)
            if match:
                return line, {key: _plain(value or "") for key, value in match.groupdict().items()}
    return None


def _read(text: str, with_drafter: bool) -> _Log:
    lines = tuple(
        line
        for line in (_CONTROL.sub("", raw[:LINE_CHARS]).rstrip() for raw in text.split("\n")[-LOG_LINES:])
        if line
    )
    ready = max((at for at, line in enumerate(lines) if _READY.search(line)), default=-1)
    telling = tuple(line for line in lines[ready + 1 :] if _level(line) not in {"I", "D", "T"})
    begins = max((at for at, line in enumerate(lines) if _DRAFT_BEGINS.search(line)), default=-1)
    drafter = any(_DRAFT_FAILS.search(line) for line in lines) or (begins > ready and with_drafter)
    return _Log(lines, telling, drafter, _file(lines))


def _level(line: str) -> str:
    stamp = _STAMP.match(line)
    return stamp["level"] if stamp else ""


def _file(lines: Iterable[str]) -> str:
    """The bare name of the file that was loaded last, as the most telling line has it."""
    lines = tuple(lines)
    for pattern in _FILES:
        for line in reversed(lines):
            match = pattern.search(line)
            if match:
                return _plain(re.split(r"[\\/]", match["file"])[-1])
    return ""


def _plain(text: str) -> str:
    """One line of printable characters, not too long to be read."""
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"


def _unknown(log: _Log, words: str) -> Diagnosis:
    useful = [line for line in log.lines if not _NOISE.match(line) and not _DULL.search(line)]
    errors = [line for line in useful if _level(line) in {"E", "W", ""} and "error" in line.lower()]
    last = [_plain(_STAMP.sub("", line)) for line in (errors or useful)[-LAST_LINES:]]
    said = f" after it wrote: {' · '.join(last)}" if last else " without a word"
    return Diagnosis(
        "unknown",
        f"The engine ended with {words}{said}.",
        "Start it again. If it ends so again, read the end of its log, choose another build with BONSAI_ENGINE, and send "
        "a report with the log.",
        last[-1] if last else words,
        again=True,
    )
