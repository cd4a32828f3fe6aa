"""Pure: in which formats a model file's weights are, and whether its chat template can switch thinking on and off."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod

from launcher.gguf_parse import BLOCKS, TensorInfo

# The names that the catalog gives them (catalog.FORMATS); it builds on this module's readers.
FORMATS = ("q2_0-g128", "q2_0-g64", "pq2_0", "ptq1_0", "q1_0", "common")
G128, G64, PQ2_0, PTQ1_0, Q1_0, COMMON = FORMATS
_Q2_0 = 42
# Ids of the Prism builds' own types, and of those that mainline has since taken over.
_BY_ID = {41: Q1_0, 142: PQ2_0, 143: PTQ1_0}
# (values, bytes) of one block: the frozen Prism build's layout and the official one share an id.
_GROUPS = {G128: (128, 34), G64: (64, 18)}
# Not quantized: norms and the like stay so in files of every format. F32, F16, BF16, F64 and whole numbers.
_PLAIN = frozenset((0, 1, 24, 25, 26, 27, 28, 30))
_THINKING = re.compile(r"enable_thinking|</?think(ing)?>|reasoning_content")


def formats_of(
    tensors: Sequence[TensorInfo], metadata: Mapping[str, object], data_bytes: int
) -> tuple[frozenset[str], frozenset[int]]:
    """(formats, of catalog.FORMATS; type ids that are unknown). ``data_bytes``: from the first tensor to the file's end.

    Q2_0 is judged by where the next tensor begins: the space between two is the size of the first, filled up to
    ``general.alignment``. Where one layout fits every Q2_0 tensor and the other does not, that one it is; where
    both do or none does, it stays unknown (its id is then among the unknown ones). A file whose tensors are not
    quantized at all is "common".
    """
    ids = {tensor.type_id for tensor in tensors}
    found = {_BY_ID[kind] for kind in ids if kind in _BY_ID}
    unknown = {kind for kind in ids if kind not in BLOCKS and kind not in _BY_ID}
    if _Q2_0 in ids:
        layouts = _layouts(tensors, metadata, data_bytes)
        found.update(layouts if len(layouts) == 1 else ())
        unknown.update(() if len(layouts) == 1 else (_Q2_0,))
    known = ids & BLOCKS.keys() - _BY_ID.keys() - {_Q2_0}
    if known - _PLAIN or (known and not found and not unknown):
        found.add(COMMON)
    return frozenset(found), frozenset(unknown)


def _layouts(
    tensors: Sequence[TensorInfo], metadata: Mapping[str, object], data_bytes: int
) -> frozenset[str]:
    """The layouts of Q2_0 that fit all spans."""
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1:
        alignment = 32
    by_offset = sorted(tensors, key=lambda tensor: tensor.offset)
    possible = set(_GROUPS)
    for tensor, end in zip(by_offset, [*(it.offset for it in by_offset[1:]), data_bytes], strict=True):
        if tensor.type_id != _Q2_0:
            continue
        span, last = end - tensor.offset, tensor is by_offset[-1]
        values = prod(tensor.shape)
        for layout in tuple(possible):
            group, size = _GROUPS[layout]
            exact = values // group * size
            padded = -(-exact // alignment) * alignment
            # Behind the last one the padding may be missing; a row is whole blocks.
            fits = span == padded or (last and exact <= span <= padded)
            if not fits or not tensor.shape or tensor.shape[0] % group:
                possible.discard(layout)
    return frozenset(possible)


def thinks(template: str | None) -> bool | None:
    """Whether a chat template knows of thinking; None without one."""
    return None if template is None else _THINKING.search(template) is not None
