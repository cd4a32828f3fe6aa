"""What happens to a conversation when a person sends, edits, deletes; and what the engine is told of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from launcher.client.events import Message
from launcher.errors import StoreError
from launcher.store import Conversation, Turn, title_for


def index_of(conversation: Conversation, turn_id: str) -> int:
    """Where the turn is. Raises StoreError when it is not there (any more)."""
    for index, turn in enumerate(conversation.turns):
        if turn.id == turn_id:
            return index
    raise StoreError(
        "This message is no longer in the conversation.", "Reload the page: another tab may have changed it."
    )


def with_prompt(conversation: Conversation, prompt: Turn) -> Conversation:
    """``prompt`` added at the end; a conversation without a title gets one."""
    title = conversation.title or title_for(prompt.content)
    return replace(conversation, title=title, turns=(*conversation.turns, prompt))


def with_edited_prompt(conversation: Conversation, turn_id: str, prompt: Turn) -> Conversation:
    """The person's turn replaced by ``prompt``, and everything after it dropped."""
    at = index_of(conversation, turn_id)
    if conversation.turns[at].role != "user":
        raise StoreError("Only a message of yours can be sent again.", "Edit the text of the answer instead.")
    title = conversation.title
    if at == 0 and title == title_for(conversation.turns[0].content):
        title = title_for(prompt.content)
    return replace(conversation, title=title, turns=(*conversation.turns[:at], prompt))


def with_answer(conversation: Conversation, prompt_id: str, answer: Turn) -> Conversation:
    """``answer`` right after the prompt it belongs to, in place of an earlier answer to it.

    Prompts that came in meanwhile (from another tab) stay behind it. An answer that failed or was stopped
    before its first token does not push out one that has text.
    """
    at = index_of(conversation, prompt_id) + 1
    turns = conversation.turns
    rest = turns[at:]
    if rest and rest[0].role == "assistant":
        if not (answer.content or answer.thinking) and rest[0].content:
            return conversation
        rest = rest[1:]
    return replace(conversation, turns=(*turns[:at], answer, *rest))


def with_text(conversation: Conversation, turn_id: str, text: str) -> Conversation:
    """The text of a turn changed by hand; what was known of its tokens no longer holds."""
    at = index_of(conversation, turn_id)
    changed = replace(conversation.turns[at], content=text, runs=())
    return replace(conversation, turns=(*conversation.turns[:at], changed, *conversation.turns[at + 1 :]))


def without(conversation: Conversation, turn_id: str) -> Conversation:
    """The turn removed; a person's turn takes its answer with it."""
    at = index_of(conversation, turn_id)
    end = at + 1
    turns = conversation.turns
    if turns[at].role == "user" and end < len(turns) and turns[end].role == "assistant":
        end += 1
    return replace(conversation, turns=(*turns[:at], *turns[end:]))


def messages_for(turns: Sequence[Turn], system_prompt: str) -> tuple[Message, ...]:
    """What the engine is told: role and text alone, no thoughts, no empty answers.

    Neighbours of one role are joined, since many chat templates refuse two in a row.
    """
    messages = [Message("system", system_prompt.strip())] if system_prompt.strip() else []
    for turn in turns:
        if turn.role not in {"user", "assistant"} or not turn.content.strip():
            continue
        if messages and messages[-1].role == turn.role:
            messages[-1] = Message(turn.role, f"{messages[-1].content}\n\n{turn.content}")
        else:
            messages.append(Message(turn.role, turn.content))
    return tuple(messages)


def without_oldest(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """``turns`` without the oldest exchange (up to the next message of the person), or () if only one is left."""
    for index, turn in enumerate(turns):
        if index and turn.role == "user":
            return tuple(turns[index:])
    return ()
