"""A conversation as Markdown: texts as they are, thoughts folded, figures under each answer. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.amounts import seconds
from launcher.client.events import Timings
from launcher.markdown import closed, fenced
from launcher.store_types import Conversation, Turn

_ENDINGS = {
    "length": "The answer was cut: no tokens were left.",
    "stopped": "The answer was stopped.",
    "failed": "The answer broke off.",
}


def markdown(conversation: Conversation) -> str:
    """The whole conversation, ending with a line feed."""
    title = conversation.title or "Conversation"
    parts = [f"# {title}"]
    for turn in conversation.turns:
        parts += _turn(turn)
    return "\n\n".join(parts) + "\n"


def _turn(turn: Turn) -> Iterator[str]:
    yield "## You" if turn.role == "user" else "## Answer"
    if turn.thinking.strip():
        took = f" ({seconds(turn.thinking_s)})" if turn.thinking_s is not None else ""
        thoughts = fenced(turn.thinking.strip("\n"))
        yield f"<details>\n<summary>Thoughts{took}</summary>\n\n{thoughts}\n\n</details>"
    if turn.content.strip():
        yield closed(turn.content.strip("\n"))
    for remark in (turn.note or _ENDINGS.get(turn.ended, ""), _figures(turn)):
        if remark:
            yield f"*{' '.join(remark.split())}*"


def _figures(turn: Turn) -> str:
    parts = _speeds(turn.timings) if turn.timings is not None else []
    if turn.engine:
        parts.append(turn.engine)
    return " · ".join(parts)


def _speeds(timings: Timings) -> list[str]:
    parts = [f"{timings.predicted_tokens} tokens"]
    if timings.tokens_per_second is not None:
        about = "≈ " if timings.measured_by == "client" else ""
        parts.append(f"{about}{timings.tokens_per_second:.1f} tokens/s")
    if timings.time_to_first_token_s is not None:
        parts.append(f"first token after {seconds(timings.time_to_first_token_s)}")
    if timings.acceptance is not None:
        kept = f"{timings.draft_n_accepted or 0} of {timings.draft_n} drafted tokens accepted"
        parts.append(f"{kept} ({timings.acceptance:.0%})")
    return parts
