"""Timings from what a server says, or from our own clock where it says nothing. Pure."""

from __future__ import annotations

import math
from typing import Any

from launcher.client.events import Timings


def number(value: object) -> float | None:
    """A finite JSON number, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def count(value: object) -> int | None:
    """A JSON number that can count something (0 or more), else None."""
    found = number(value)
    return int(found) if found is not None and found >= 0 else None


def rate(tokens: int, seconds: float | None) -> float | None:
    """Tokens a second from the first to the last of ``tokens``; None where there is no span to divide by."""
    if tokens < 2 or seconds is None or seconds <= 0:
        return None
    return (tokens - 1) / seconds


def from_server(timings: dict[str, Any], first_s: float | None, total_s: float) -> Timings:
    """llama-server's ``timings`` object, with the times (s) that only the client can see.

    ``prompt_n`` there counts what was processed and ``cache_n`` what was not: together they are the prompt.
    ``draft_n`` is there only once something was drafted.
    """
    processed, cached = count(timings.get("prompt_n")), count(timings.get("cache_n"))
    predicted = count(timings.get("predicted_n")) or 0
    speed = number(timings.get("predicted_per_second"))
    if predicted < 2 or not speed or speed < 0:
        spent = number(timings.get("predicted_ms"))
        speed = rate(predicted, None if spent is None else spent / 1000)
    prompt_speed = number(timings.get("prompt_per_second"))
    drafted = count(timings.get("draft_n"))
    return Timings(
        prompt_tokens=None if processed is None else processed + (cached or 0),
        cached_tokens=cached,
        prompt_tokens_per_second=prompt_speed if prompt_speed and prompt_speed > 0 else None,
        predicted_tokens=predicted,
        tokens_per_second=speed,
        time_to_first_token_s=first_s,
        total_s=total_s,
        draft_n=drafted,
        draft_n_accepted=None if drafted is None else count(timings.get("draft_n_accepted")) or 0,
    )


def from_client(
    *,
    pieces: int,
    span_s: float,
    usage: dict[str, Any] | None,
    prompt_total: int | None,
    first_s: float | None,
    total_s: float,
) -> Timings:
    """Our own measure: ``pieces`` seen over ``span_s`` seconds from the first to the last.

    Reading the prompt is outside that span, so it is not charged to decoding.
    """
    usage = usage or {}
    details = usage.get("prompt_tokens_details")
    predicted = count(usage.get("completion_tokens")) or pieces
    return Timings(
        prompt_tokens=count(usage.get("prompt_tokens")) or prompt_total,
        cached_tokens=count(details.get("cached_tokens")) if isinstance(details, dict) else None,
        predicted_tokens=predicted,
        tokens_per_second=rate(predicted, span_s),
        time_to_first_token_s=first_s,
        total_s=total_s,
        measured_by="client",
    )
