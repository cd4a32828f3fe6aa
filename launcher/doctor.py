"""``bonsai doctor``: what would stop a start on this machine, what is only worth knowing, and what to do."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from launcher import __version__, console
from launcher.amounts import size
from launcher.disk import existing, free_bytes, no_space
from launcher.engine_store import all_installed
from launcher.errors import BadInput, LauncherError
from launcher.fetch_command import may_lack
from launcher.hardware.model import Machine
from launcher.in_use import plan_here
from launcher.offer import make_offer
from launcher.paths import Paths
from launcher.plan import LaunchPlan
from launcher.provision import resolve_all
from launcher.report import plan_json
from launcher.settings import Settings
from launcher.supervise import ports
from launcher.supervise.system import guard

MARKS = {"ok": "ok  ", "note": "note", "bad": "BAD "}


@dataclass(frozen=True)
class Check:
    """``state``: "ok", "note" (worth knowing, a start is possible) or "bad" (it would stop a start)."""

    name: str
    state: str
    what: str
    remedy: str = ""


@dataclass(frozen=True)
class Report:
    """``plan`` is None where none can be made; its reason stands among the checks."""

    checks: tuple[Check, ...]
    plan: LaunchPlan | None
    machine: Machine

    @property
    def healthy(self) -> bool:
        """Whether a start would not be stopped by anything that was looked at."""
        return all(check.state != "bad" for check in self.checks)


def examine(
    settings: Settings, paths: Paths, env: Mapping[str, str], machine: Machine, *, elsewhere: bool
) -> Report:
    """Look at everything that a start needs; starts nothing and asks no network. ``elsewhere``: ``machine`` is another
    one, so that folders, ports and files of this one say nothing about it."""
    checks = [Check("Launcher", "ok", f"version {__version__}, Python {sys.version.split()[0]}")]
    checks += _machine(machine)
    if not elsewhere:
        checks += [_folder(paths.data), *_ports(settings), *_engines(paths), *_guard()]
    plan: LaunchPlan | None = None
    try:
        resolved = resolve_all(settings, paths, env, machine, expect=True, elsewhere=elsewhere)
        plan = plan_here(settings, paths, machine, resolved)
    except LauncherError as error:
        checks.append(Check("Plan", "bad", error.what, error.remedy))
    else:
        checks += _plan(plan, elsewhere=elsewhere)
        if may_lack(settings) and not elsewhere:
            checks += _to_fetch(settings, paths, env, machine)
    checks += [Check("Setting", "note", notice) for notice in settings.notices]
    return Report(tuple(checks), plan, machine)


def _machine(machine: Machine) -> Iterator[Check]:
    for name, value in machine.rows():
        yield Check(name, "ok", value)
    for remark in machine.remarks():
        yield Check("Hardware", "note", remark)


def _folder(data: Path) -> Check:
    place = existing(data)
    if not os.access(place, os.W_OK | os.X_OK) or not place.is_dir():
        return Check("Data folder", "bad", f"{data} cannot be written.", "Choose another with BONSAI_HOME.")
    free = free_bytes(data)
    return Check("Data folder", "ok", f"{data}" + ("" if free is None else f", {size(free)} free"))


def _ports(settings: Settings) -> Iterator[Check]:
    host = settings.host.value
    for name, port, instead in (
        ("Port of the page", settings.ui_port, "the page will take another one"),
        (
            "Port of llama-server",
            settings.port,
            "the page's engine will take another one; `bonsai serve` needs one by --port",
        ),
    ):
        try:
            free = ports.choose(host, port.value, asked_by=port.source if port.asked else None)
        except BadInput as error:
            yield Check(name, "bad", error.what, error.remedy)
        else:
            taken = f"{port.value} is taken by {ports.holder(port.value)}: {instead}."
            yield Check(name, "ok", str(free)) if free == port.value else Check(name, "note", taken)
    if not ports.loopback_works("127.0.0.1"):
        yield Check(
            "Loopback",
            "bad",
            "Programs of this machine cannot reach one another on 127.0.0.1.",
            "Allow that in the firewall or the antivirus.",
        )


def _engines(paths: Paths) -> Iterator[Check]:
    for found in all_installed(paths.engines):
        if found.missing:
            gone = found.folder / found.missing[0]
            yield Check(
                "Fetched engine",
                "note",
                f"{gone} is gone or changed, perhaps by an antivirus: {found.name} is not used.",
                "Allow it there, then `bonsai fetch`; or name a llama-server with BONSAI_LLAMA_SERVER.",
            )


def _guard() -> Iterator[Check]:
    found = guard()
    if found:
        yield Check("Engine's end", "note", found, "What it left is ended at the next start.")


def _plan(plan: LaunchPlan, *, elsewhere: bool) -> Iterator[Check]:
    resolved = plan.resolved
    engine = resolved.engine
    yield Check("Engine", "ok" if engine.probed or elsewhere else "note", engine.why or engine.version)
    yield Check("Target", "ok", f"{resolved.target.label}: {resolved.target.path}")
    drafts = plan.spec_type != "none"
    state = "note" if plan.speculation_requested and not drafts else "ok"
    yield Check("Speculation", state, f"{plan.speculation}: {plan.speculation_why}")
    if plan.fit is not None:
        yield Check("Memory", {"no": "bad", "unknown": "note"}.get(plan.fit.verdict, "ok"), plan.fit.says)
    for warning in plan.warnings:
        yield Check("Plan", "note", warning)


def _to_fetch(settings: Settings, paths: Paths, env: Mapping[str, str], machine: Machine) -> Iterator[Check]:
    offer = make_offer(settings, paths, env, machine)
    if offer is None:
        return
    lacking = ", ".join(item.name for item in offer.items if item.state not in ("done", "found"))
    if not lacking:
        return
    amount = "" if offer.to_fetch is None else f" ({size(offer.to_fetch)}, as far as sizes are known)"
    yield Check("Files", "note", f"Not here yet: {lacking}{amount}.", "Run `bonsai fetch`.")
    if not offer.disk_ok and offer.disk_needed is not None and offer.disk_free is not None:
        full = no_space(offer.folder, offer.disk_needed, offer.disk_free, about=offer.disk_about)
        yield Check("Disk", "bad", full.what, full.remedy)


def report_json(report: Report) -> dict[str, object]:
    """The documented form of ``bonsai doctor --json``; its "machine" is what ``--machine`` reads."""
    return {
        "healthy": report.healthy,
        "version": __version__,
        "checks": [check.__dict__ for check in report.checks],
        "plan": plan_json(report.plan, report.machine) if report.plan else None,
        "machine": report.machine.to_json(),
    }


def print_report(report: Report) -> None:
    """One line for each check on stdout, what to do below it."""
    width = max(len(check.name) for check in report.checks)
    for check in report.checks:
        console.data(f"{MARKS[check.state]} {check.name:<{width}}  {check.what}")
        if check.remedy and check.state != "ok":
            console.data(f"     {'':<{width}}  -> {check.remedy}")
    console.say(
        "Nothing stands against a start." if report.healthy else "Something would stop a start: see BAD."
    )
