"""What an engine says when it will not answer, as one of our errors. Pure."""

from __future__ import annotations

import json

from launcher.errors import AnswerProblem, ContextFull, ServerRefused

LONGEST = 500  # characters of a foreign message that a person has to read


def refusal(body: object, status: int) -> AnswerProblem:
    """``body`` is a parsed JSON answer or its ``error`` member, or text; ``status`` is HTTP's, 0 in a stream.

    llama-server sends ``{"error": {"code", "message", "type", ...}}``; others send an error that is a plain
    string, or no JSON at all.
    """
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        error = {"message": error}
    kind = error.get("type")
    kind = kind if isinstance(kind, str) else ""
    if kind == "exceed_context_size_error":
        return ContextFull(_tokens(error.get("n_prompt_tokens")), _tokens(error.get("n_ctx")))
    said = _sentence(error.get("message"))
    if status == 401:
        return ServerRefused(
            f"The engine does not accept our API key: {said}",
            "Check who listens on this port; an engine that we started knows our key.",
            status=status,
            kind=kind,
        )
    if status == 503:
        return ServerRefused(
            f"The engine is not ready: {said}",
            "Wait until the model is loaded, then ask again.",
            status=status,
            kind=kind,
        )
    did = f"refused (HTTP {status})" if status else "ended the answer with an error"
    return ServerRefused(
        f"The engine {did}: {said}",
        "Ask again; if it stays so, look at the engine's log.",
        status=status,
        kind=kind,
    )


def refusal_from_bytes(body: bytes, status: int) -> AnswerProblem:
    """The same from the body of an HTTP answer, whatever it holds."""
    text = body.decode("utf-8", "replace")
    try:
        parsed: object = json.loads(text)
    except (ValueError, RecursionError):
        parsed = text
    return refusal(parsed, status)


def _sentence(message: object) -> str:
    said = " ".join(message.split()) if isinstance(message, str) else ""
    if len(said) > LONGEST:
        said = said[: LONGEST - 1] + "…"
    said = said or "it gave no reason"
    return said if said[-1] in ".!?…" else said + "."


def _tokens(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
