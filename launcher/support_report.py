"""A report to copy when something failed: versions, hardware, plan, steps, the log's end. No token, no prompt text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from launcher.hardware.model import Machine
from launcher.lifecycle_types import Status
from launcher.plan import LaunchPlan

LOG_LINES = 150
_SECRETS = (
    re.compile(r"\bhf_[A-Za-z0-9]{6,}"),
    re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}"),
    re.compile(r"(?<=[Bb]earer )\S+"),
    re.compile(r"(?<=://)[^/\s@]+(?=@)"),  # user and password in an address
    re.compile(r"(?i)(?<=api-key )\S+|(?<=api-key=)\S+|(?<=token=)[^&\s]+"),
)
# llama-server logs no prompts by default; it prints answers that its parser gave up on, and all of it at -lv 9.
_CONVERSATION = re.compile(
    r"(?i)\b((?:formatted )?prompt|request|response|(?:unparsed \S* ?|effective )?(?:out|in)put|content|messages"
    r"|generated)(?: text)?: .*|\btoken +\d+: .*"
)
_LOG_LINE = re.compile(
    r"^(?:\d+\.\d\d\.\d{3}\.\d{3} |(?:srv|slot|que|res|main|init|load|print_info|common|llama|ggml|gguf|sched|set|clip"
    r"|embedded|error|warning|terminate|GGML|CUDA|#\d)\w*\b)"
)


def make_report(
    status: Status, machine: Machine | None, version: str, log_tail: str, *, home: str | None = None
) -> str:
    """The report as Markdown. ``machine`` None: not looked at yet. ``version``: the launcher's. ``home``: the folder
    that is written as ~; None: this user's."""
    home = str(Path.home()) if home is None else home
    lines = [f"# Bonsai Launcher {version}", ""]
    lines += _state(status)
    if machine is not None:
        lines += ["", "## Machine", ""]
        lines += [f"- {name}: {value}" for name, value in machine.rows()]
        lines += [f"- {remark}" for remark in machine.remarks()]
    if status.plan is not None:
        lines += ["", "## Plan", "", *_plan(status.plan)]
    log = "\n".join(_without_conversation(log_tail.splitlines()[-LOG_LINES:]))
    lines += ["", "## The log's end", "", *_fenced(log or "(empty)")]
    return _private("\n".join(lines), home) + "\n"


def _state(status: Status) -> Iterator[str]:
    message = "" if status.message == status.error else status.message
    yield f"State: {status.phase}. {_cut(message)}".strip()
    if status.error:
        yield ""
        error = _cut(status.error)
        yield f"**{error}** {status.remedy} (cause: {status.cause or 'not diagnosed'})"
    warnings = dict.fromkeys((*status.warnings, *(status.plan.warnings if status.plan else ())))
    for title, sentences in (("Tried", status.steps), ("Warnings", warnings)):
        if sentences:
            yield from ("", f"## {title}", "", *(f"- {_cut(sentence)}" for sentence in sentences))


def _plan(plan: LaunchPlan) -> Iterator[str]:
    resolved = plan.resolved
    engine = resolved.engine
    yield f"- Engine: {engine.kind}, {engine.line}, {engine.version} ({engine.backend or 'backend not known'})"
    for name, file in (("Target", resolved.target), ("Drafter", resolved.drafter)):
        if file is not None:
            header = file.header
            yield f"- {name}: {file.label}, architecture {header.architecture}, {header.file_bytes} bytes"
    yield f"- Speculation: {plan.speculation} ({plan.speculation_why})"
    yield f"- Context: {plan.context} tokens"
    environment = "".join(f"{name}={shlex.quote(value)} " for name, value in plan.env.items())
    yield from ("", *_fenced(environment + shlex.join(plan.argv)))


def _fenced(text: str) -> list[str]:
    """A block of code whose fence is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return [fence, text, fence]


def _without_conversation(lines: list[str]) -> Iterator[str]:
    """Log lines, cut where they begin to repeat what was asked or answered; the lines it goes on over are left out."""
    inside = False
    for line in lines:
        if inside and not _LOG_LINE.match(line):
            continue
        cut = _cut(line)
        inside = cut != line
        yield cut


def _cut(line: str) -> str:
    """Without what was asked or answered; a sentence about a failure may end with the log's last lines."""
    return _CONVERSATION.sub(
        lambda found: f"{found[0].split(':')[0]}: (left out)" if ":" in found[0] else "(left out)", line
    )


def _private(text: str, home: str) -> str:
    for secret in _SECRETS:
        text = secret.sub("(hidden)", text)
    if len(home) > 1:
        for spelling in {home, home.replace("\\", "/"), home.replace("\\", "\\\\")}:
            text = re.sub(re.escape(spelling) + r"(?![\w.-])", "~", text)
    return text
