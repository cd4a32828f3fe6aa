"""Enters the answers of chats into the time ledger, and what was measured of plain decoding."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from launcher.errors import LauncherError
from launcher.plan import LaunchPlan
from launcher.store import Turn
from webui.state import LearnedRoom


def before_tokens(turns: Sequence[Turn]) -> int:
    """Tokens at the beginning of a conversation that a prompt cache would have kept from its last answer; 0 before the
    first and where that is not known. ``turns`` end with the prompt that is to be answered.

    Thoughts are not sent again: after an answer with thoughts, the new prompt is like the old one up to its end only.
    """
    for turn in reversed(turns[:-1]):
        if turn.role == "assistant" and turn.timings is not None:
            timings = turn.timings
            return (timings.prompt_tokens or 0) + (0 if turn.thinking else timings.predicted_tokens)
    return 0


async def count(room: LearnedRoom | None, plan: LaunchPlan | None, turn: Turn, before: int) -> None:
    """Count ``turn``, which was answered by an engine of ``plan``; a ledger that cannot be written ends no answer."""
    if room is None or plan is None or turn.timings is None:
        return
    with suppress(LauncherError):
        await asyncio.to_thread(room.count, plan, turn.timings, before)


async def know_plain(room: LearnedRoom | None, plan: LaunchPlan, speed: float | None, source: str) -> None:
    """Tell the ledger that ``source`` measured plain decoding at ``speed`` tokens a second, if it did."""
    if room is not None and speed:
        with suppress(LauncherError):
            await asyncio.to_thread(room.know_plain, plan, speed, source)
