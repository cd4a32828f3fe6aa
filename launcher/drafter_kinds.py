"""Pure: whether a file can draft by the older kinds of speculation (DSpark: see pair.py), from its header."""

from __future__ import annotations

from launcher.gguf_header import GgufHeader

# llama.cpp lets the vocabularies of target and sibling differ by so many tokens (common/speculative.cpp).
VOCABULARY_SLACK = 128
_HEADS_ALONE = ("eagle3", "gemma4-assistant")  # architectures that are no model of their own


def sibling_misfit(target: GgufHeader, drafter: GgufHeader) -> str | None:
    """What keeps ``drafter``, a smaller model, from drafting with draft-simple; None when nothing is known to.

    A sentence about the drafter ("its ..."). Facts that a header lacks are not held against it.
    """
    if drafter.is_drafter or drafter.architecture in _HEADS_ALONE:
        return f"its architecture is {drafter.architecture}; draft-simple needs a whole model."
    ours, its = target.vocab_size, drafter.vocab_size
    if ours is not None and its is not None and abs(ours - its) > VOCABULARY_SLACK:
        return f"its vocabulary has {its} tokens, but the target's has {ours}."
    if ours == its and _differ(target.vocab_fingerprint, drafter.vocab_fingerprint):
        return "its vocabulary is as long as the target's, but the tokens differ."
    return None


def head_misfit(target: GgufHeader, drafter: GgufHeader, spec_type: str) -> str | None:
    """The same for prediction heads in a file of their own: ``spec_type`` draft-mtp or draft-eagle3."""
    if spec_type == "draft-eagle3":
        if drafter.architecture != "eagle3":
            return f"its architecture is {drafter.architecture}, not eagle3."
        wrong = [layer for layer in drafter.target_layers if layer > (target.layers or layer)]
        if wrong:
            return f"it reads layer {wrong[0]} of its target, but this target has {target.layers} layers."
        return None
    has_heads = drafter.architecture == "gemma4-assistant" or any(
        tensor.name.endswith("nextn.eh_proj.weight") for tensor in drafter.tensors
    )
    if not has_heads:
        return f"it has no prediction heads (architecture {drafter.architecture})."
    ours, its = target.vocab_size, drafter.vocab_size
    if ours is not None and its is not None and ours != its:
        return f"its vocabulary has {its} tokens, but the target's has {ours}."
    return None


def _differ(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other
