"""What the scripts in the page are given: plain values made from ours. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from launcher.lifecycle import Status
from launcher.methods import PLAIN, Offer, offered
from launcher.plan import LaunchPlan
from launcher.store import Conversation, ConversationSummary, Listing, Turn
from webui.blocks import utf16
from webui.figures import figures, number
from webui.render import markdown
from webui.state import PageContext, Row

PRACTICE = (
    "Practice pair: not a language model, it knows a few fixed texts. "
    "Real DSpark speculation, on a real engine."
)
COSTS = (
    "Experimental. The engine restarts; every turn then reads the whole conversation again, and it answers one "
    "request at a time. Code gains most, prose may get slower, and on a Mac it may be slower altogether."
)


def turn_view(turn: Turn) -> dict[str, Any]:
    """One message. ``runs`` are [characters, origin] with UTF-16 lengths and origins as in the stream."""
    view: dict[str, Any] = {
        "id": turn.id,
        "role": turn.role,
        "content": turn.content,
        "created": turn.created,
        "ended": turn.ended,
        "note": turn.note,
    }
    if turn.role == "assistant":
        view["html"] = markdown(turn.content)
        view["thinking"] = markdown(turn.thinking) if turn.thinking else ""
        view["thinking_s"] = turn.thinking_s
        view["runs"] = _runs(turn)
        view["engine"] = turn.engine
        view["figures"] = [asdict(figure) for figure in figures(turn)]
    return view


def conversation_view(conversation: Conversation) -> dict[str, Any]:
    """A whole conversation."""
    return {
        "id": conversation.id,
        "title": conversation.title,
        "turns": [turn_view(turn) for turn in conversation.turns],
    }


def summary_view(summary: ConversationSummary) -> dict[str, Any]:
    """One line of the list."""
    return asdict(summary)


def listing_view(listing: Listing) -> dict[str, Any]:
    """The list, and what had to be set aside."""
    return {
        "conversations": [summary_view(it) for it in listing.conversations],
        "set_aside": list(listing.set_aside),
        "unreadable": list(listing.unreadable),
    }


def status_view(status: Status) -> dict[str, Any]:
    """The engine's state for the strip at the top."""
    plan = status.plan
    view: dict[str, Any] = {
        "phase": status.phase,
        "message": status.message,
        "error": status.error,
        # Where the log lies stands with the log, which the page opens.
        "remedy": status.remedy.removesuffix(f"The whole log is in {status.log_path}.").rstrip(),
        "cause": status.cause,
        "steps": list(status.steps),
        "warnings": list(status.warnings),
        "inactive": status.inactive,
        "busy_with": status.busy_with,
        "log_path": status.log_path,
        "practice": "",
        "engine": "",
        "model": "",
        "context": None,
        "speculation": _speculation(status),
    }
    if plan is not None:
        engine = plan.resolved.engine
        view |= {
            "practice": PRACTICE if plan.resolved.practice else "",
            "engine": f"{engine.kind} {engine.version}".strip(),
            "model": plan.resolved.target.label,
            "context": plan.context,
        }
    return view


def _speculation(status: Status) -> dict[str, Any]:
    plan = status.plan
    if plan is None:
        return {
            "on": status.speculative,
            "possible": status.speculative
            and status.phase == "failed",  # the way back from a refused drafter
            "why": "Known once the engine has been chosen.",
            "costs": COSTS,
            "label": "",
            "reason": "",
        }
    # What was asked for and refused counts as on, so that the switch offers the way back.
    on = plan.method != PLAIN or (status.phase == "failed" and status.speculative)
    drafter = plan.resolved.drafter
    offers = offered(plan.resolved)
    drafts = [offer for offer in offers if offer.method.drafter_needed]
    possible = on or any(offer.why_not is None for offer in drafts)
    why = plan.resolved.drafter_why if drafter is None else plan.speculation_why
    reason = ""
    if not possible:
        if drafter is not None:  # there is one, and it fits neither target nor engine
            why = drafts[0].why_not or why
        reason = _why_off(why, [offer.method.name for offer in offers if _by_lookup(offer)])
    return {
        "on": on,
        "possible": possible,
        "why": why,
        "costs": COSTS,
        "label": "" if plan.method == PLAIN else plan.speculation,
        "reason": reason,
    }


def _by_lookup(offer: Offer) -> bool:
    """A way to speculate that needs no drafter: drafts are looked up in the text so far."""
    return offer.why_not is None and offer.method.spec_type.startswith("ngram-")


def _why_off(why: str, lookups: list[str]) -> str:
    """Sentences that stand beside the switch: why it is off, and what can be had instead."""
    said = f"Speculation is off: {why.removesuffix('.')}."
    if not lookups:
        return said
    return f"{said} {lookups[0]} needs no drafter, it looks drafts up in the text so far: the Race tab can run it."


def machine_view(context: PageContext, status: Status, log: str) -> dict[str, Any]:
    """Everything for the Machine tab. ``looking``: some of the machine's rows are not known yet."""
    rows = context.machine_rows
    return {
        "version": context.version,
        "notices": list(context.notices),
        "machine": [row_view(row) for row in rows],
        "looking": any(row.pending for row in rows),
        "settings": [row_view(row) for row in context.settings_rows()],
        "status": status_view(status),
        "plan": _plan(status.plan) if status.plan is not None else None,
        "log": log,
    }


def _plan(plan: LaunchPlan) -> dict[str, Any]:
    resolved = plan.resolved
    rows = [
        {
            "name": "Engine",
            "value": f"{resolved.engine.kind} {resolved.engine.version}",
            "source": resolved.engine.why,
        },
        {"name": "Target", "value": resolved.target.label, "source": resolved.target.path},
        {
            "name": "Drafter",
            "value": resolved.drafter.label if resolved.drafter else "none",
            "source": resolved.drafter.path if resolved.drafter else resolved.drafter_why,
        },
        {"name": "Speculation", "value": plan.speculation, "source": plan.speculation_why},
        {"name": "Context", "value": f"{number(plan.context)} tokens", "source": ""},
        {"name": "Address", "value": f"{plan.host}:{plan.port}", "source": ""},
    ]
    return {
        "rows": rows,
        "argv": list(plan.argv),
        "env": dict(plan.env),
        "reasons": [asdict(reason) for reason in plan.reasons],
        "warnings": list(plan.warnings),
    }


def row_view(row: Row) -> dict[str, str]:
    """One line of a table."""
    return {"name": row.name, "value": row.value, "source": row.source}


def _runs(turn: Turn) -> list[list[int]]:
    origins = {"draft": 1, "target": 0}
    runs: list[list[int]] = []
    at = 0
    for length, origin in turn.runs:
        piece = turn.content[at : at + length]
        at += length
        runs.append([utf16(piece), origins.get(origin, -1)])
    return runs
