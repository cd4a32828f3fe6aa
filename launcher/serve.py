"""``bonsai serve``: llama-server alone in the foreground, as the person would start it by hand."""

from __future__ import annotations

import itertools
import os
import secrets
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from launcher import console
from launcher.child_env import clean_env
from launcher.errors import EngineMissing
from launcher.fetch_command import ensure_here
from launcher.hardware.detect import detect
from launcher.in_use import plan_here
from launcher.paths import Paths, make_folder, write_private
from launcher.plan import LOOPBACK
from launcher.provision import resolve_all
from launcher.settings import Settings, check_host
from launcher.supervise import ports, records


def run_server(
    settings: Settings, paths: Paths, env: Mapping[str, str], extra: Sequence[str], *, agreed: bool = False
) -> None:
    """Become llama-server (on Windows: run it and pass its exit code on). ``extra`` arguments follow
    ours, so that they win. Raises PortTaken instead of moving to another port. ``agreed``: what is missing is
    fetched without asking."""
    records.sweep(paths.run)
    machine = detect()
    ensure_here(settings, paths, env, machine, agreed=agreed)
    plan = plan_here(settings, paths, machine, resolve_all(settings, paths, env, machine))
    for warning in plan.warnings:
        console.warn(warning)
    if plan.host in LOOPBACK and not plan.resolved.engine.can("--cors-origins"):
        console.warn("This engine has no --cors-origins: web pages in your browser could read its answers.")
    argv = [*plan.argv, *extra]
    port = _port_in(extra) or plan.port
    host = _value_of(extra, "--host") or plan.host
    check_host(host, "--host", allowed=settings.allow_remote.value)
    ports.choose(host, port, asked_by=settings.port.source if settings.port.asked else "bonsai serve")
    if host not in LOOPBACK:
        argv += ["--api-key-file", str(_new_key(paths.run))]
    console.say(f"Model: {plan.resolved.target.label}. {plan.resolved.engine.why}.")
    console.say(f"Speculation: {plan.speculation} ({plan.speculation_why}).")
    console.say(shlex.join(argv), "dim")
    console.say(f"OpenAI-compatible API: http://{host}:{port}/v1 — Ctrl+C ends it.")
    child_env = clean_env(env) | dict(plan.env)
    if sys.platform == "win32":
        from launcher.supervise.system import foreground

        sys.exit(foreground(argv, env=child_env))
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(argv[0], argv, child_env)  # noqa: S606
    except OSError as error:
        raise EngineMissing(f"The engine {argv[0]} cannot be started: {error.strerror}.") from error


def _value_of(arguments: Sequence[str], *names: str) -> str | None:
    """The last value given for one of ``names``, as llama-server would take it."""
    found = None
    for name, value in itertools.pairwise(arguments):
        if name in names:
            found = value
    return found


def _port_in(extra: Sequence[str]) -> int | None:
    text = _value_of(extra, "--port")
    return int(text) if text and text.isdigit() else None


def _new_key(folder: Path) -> Path:
    """A key for a server that other machines can reach, shown once; in a file, never in argv."""
    key = secrets.token_urlsafe(24)
    path = make_folder(folder) / "serve.key"
    write_private(path, key)
    records.before_exec(folder, path)
    console.warn("Other machines can connect. HTTP is not encrypted: use it in a network that you trust.")
    console.say(f"API key (shown once): {key}")
    return path
