"""Pure: whether a drafter fits a target, judged from their headers before anything is started.

llama-server does not: with another hidden size it starts, reports to be healthy and aborts on the first
question; with another vocabulary it drafts nonsense without a word.
"""

from __future__ import annotations

from launcher.gguf_header import GgufHeader

_OWN_DRAFTER = "Use the drafter that was trained for exactly this target."
_ANOTHER_FILE = "Give a DSpark drafter's file instead, or run without speculation."
_FETCH_AGAIN = "Fetch the drafter again; its file is incomplete or was converted wrongly."


def misfit(target: GgufHeader, drafter: GgufHeader) -> str | None:
    """What keeps ``drafter`` from drafting for ``target`` with draft-dspark; None when nothing is known to.

    One sentence about the drafter ("its ..."), to be read after the names of both files. Facts that a
    header lacks are not held against it. Which engine loads which architecture is not judged here.
    """
    found = _judge(target, drafter)
    return found[0] if found else None


def remedy(target: GgufHeader, drafter: GgufHeader) -> str:
    """What to do about the misfit; empty when there is none."""
    found = _judge(target, drafter)
    return found[1] if found else ""


def _judge(target: GgufHeader, drafter: GgufHeader) -> tuple[str, str] | None:
    return _is_drafter(drafter) or _same_model(target, drafter) or _layers(target, drafter) or _block(drafter)


def _is_drafter(drafter: GgufHeader) -> tuple[str, str] | None:
    if not drafter.is_drafter:
        return (
            f"its architecture is {drafter.architecture}, which makes it a model of its own, not a drafter.",
            _ANOTHER_FILE,
        )
    names = [tensor.name for tensor in drafter.tensors]
    if names and not any("markov" in name for name in names):
        return (
            f"it has no Markov head, so it is a plain {drafter.architecture} drafter, not a DSpark one.",
            _ANOTHER_FILE,
        )
    return None


def _same_model(target: GgufHeader, drafter: GgufHeader) -> tuple[str, str] | None:
    ours, its = target.hidden_size, drafter.hidden_size
    if ours is not None and its is not None and ours != its:
        return f"its hidden size is {its}, but the target's is {ours}.", _OWN_DRAFTER
    ours, its = target.vocab_size, drafter.vocab_size
    if ours is not None and its is not None and ours != its:
        return f"its vocabulary has {its} tokens, but the target's has {ours}.", _OWN_DRAFTER
    if (
        target.vocab_fingerprint is not None
        and drafter.vocab_fingerprint is not None
        and target.vocab_fingerprint != drafter.vocab_fingerprint
    ):
        return "its vocabulary is as long as the target's, but the tokens differ.", _OWN_DRAFTER
    return None


def _layers(target: GgufHeader, drafter: GgufHeader) -> tuple[str, str] | None:
    """llama.cpp takes the input of layers 0 to n, where n stands for the output of the last one."""
    if not drafter.target_layers:
        # Only mainline's key is known for sure; the published dspark files may spell theirs otherwise.
        if drafter.architecture == "dflash":
            return "its file does not say which layers of the target it reads.", _FETCH_AGAIN
        return None
    wrong = [layer for layer in drafter.target_layers if layer < 0 or layer > (target.layers or layer)]
    if wrong:
        listed = ", ".join(str(layer) for layer in wrong)
        return (
            f"it reads layer {listed} of its target, but this target has {target.layers} layers.",
            _OWN_DRAFTER,
        )
    return None


def _block(drafter: GgufHeader) -> tuple[str, str] | None:
    if drafter.block_size is None:
        if drafter.architecture == "dflash":
            return "its file names no block size.", _FETCH_AGAIN
        return None
    if drafter.block_size < 1:
        return f"its block size is {drafter.block_size}.", _FETCH_AGAIN
    return None
