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
    """Tokens of a conversation that an engine had read or written when its last answer ended; 0 before the first and
    where that is not known. ``turns`` end with the prompt that is to be answered."""
    for turn in reversed(turns[:-1]):
        if turn.role == "assistant" and turn.timings is not None:
            return (turn.timings.prompt_tokens or 0) + turn.timings.predicted_tokens
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
