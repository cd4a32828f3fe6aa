"""Pure: the header that a file of the catalog will have, so that plans and memory can be made before it is here."""

from __future__ import annotations

from launcher.catalog import Drafter, Facts, HubFile, Model, Weights
from launcher.gguf_header import GgufHeader


def expected_header(model: Model, weights: Weights) -> GgufHeader:
    """The header of ``model``'s ``weights``, from the catalog's facts. ``path`` is the file's name, ``file_bytes``
    0 where the size is not pinned; what the catalog does not tell is None, the list of tensors is empty."""
    return _header(weights.file, model.facts, model.label)


def expected_drafter(drafter: Drafter) -> GgufHeader:
    """The same for a drafter's file."""
    return _header(drafter.file, drafter.facts, None)


def _header(file: HubFile, facts: Facts, label: str | None) -> GgufHeader:
    arch = facts.architecture
    metadata: dict[str, object] = {"general.architecture": arch}
    for name, value in (
        ("full_attention_interval", facts.attention_interval),
        ("feed_forward_length", facts.feed_forward),
        ("ssm.inner_size", facts.ssm_inner),
        ("ssm.state_size", facts.ssm_state),
        ("ssm.group_count", facts.ssm_groups),
        ("ssm.conv_kernel", facts.ssm_conv),
    ):
        if value is not None:
            metadata[f"{arch}.{name}"] = value
    return GgufHeader(
        path=file.name,
        file_bytes=file.bytes or 0,
        version=3,
        architecture=arch,
        name=label,
        layers=facts.layers,
        hidden_size=facts.hidden_size,
        context_length=facts.context_length,
        head_count=facts.head_count,
        head_count_kv=facts.head_count_kv,
        key_length=facts.key_length,
        value_length=facts.value_length,
        vocab_size=facts.vocab_size,
        vocab_fingerprint=None,
        chat_template=None,
        block_size=facts.block_size,
        target_layers=facts.target_layers,
        metadata=metadata,
        tensors=(),
    )
