"""Which formats a file's weights are in: by type id, and for Q2_0 by the space between tensors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher import catalog, gguf_formats
from launcher.gguf_formats import G64, G128, formats_of
from launcher.gguf_header import GgufHeader, TensorInfo, read_header
from launcher.gguf_parse import BLOCKS
from launcher.practice import ensure_pair
from tests.launcher.gguf_bytes import ARCH, STR, U32, entry, gguf, tensor

Q2_0, Q8_0, F32 = 42, 8, 0
BYTES = {G128: 34 / 128, G64: 18 / 64}


def sized(values: int, kind: int, layout: str, alignment: int) -> int:
    group, size = BLOCKS[kind]
    exact = round(values * BYTES[layout]) if kind == Q2_0 else values // group * size
    return -(-exact // alignment) * alignment


def write(
    path: Path,
    kinds: list[tuple[tuple[int, ...], int]],
    layout: str,
    alignment: int = 32,
    *,
    trimmed: bool = False,
    backwards: bool = False,
) -> GgufHeader:
    """A real file with tensors of these shapes and types, one behind another; its header."""
    infos, at = [], 0
    for index, (shape, kind) in enumerate(kinds):
        infos.append(tensor(f"t{index}", shape, kind, at))
        values = 1
        for length in shape:
            values *= length
        end = at + sized(values, kind, layout, 1)
        at += sized(values, kind, layout, alignment)
    entries = [ARCH, entry("general.alignment", U32, alignment)]
    data = end if trimmed else at
    path.write_bytes(gguf(entries, infos[::-1] if backwards else infos, data, pad=alignment))
    return read_header(path)


BONSAI = [((2560, 4), Q2_0), ((2560,), F32), ((2560, 8), Q2_0), ((2560,), F32)]


@pytest.mark.case("A-02")
@pytest.mark.parametrize("layout", [G128, G64])
@pytest.mark.parametrize("alignment", [32, 64, 256])
@pytest.mark.parametrize("backwards", [False, True])
def test_the_two_layouts_of_q2_0_are_told_apart(
    tmp_path: Path, layout: str, alignment: int, *, backwards: bool
) -> None:
    header = write(tmp_path / "m.gguf", BONSAI, layout, alignment, backwards=backwards)
    assert header.formats == {layout}
    assert header.unknown_types == frozenset()


@pytest.mark.parametrize("layout", [G128, G64])
@pytest.mark.parametrize("trimmed", [False, True])
def test_the_last_tensor_counts_too_with_or_without_padding(
    tmp_path: Path, layout: str, *, trimmed: bool
) -> None:
    header = write(tmp_path / "m.gguf", [((2560, 4), Q2_0), ((2560, 3), Q2_0)], layout, trimmed=trimmed)
    assert header.formats == {layout}


def test_tensors_too_small_to_tell_stay_unknown(tmp_path: Path) -> None:
    """128 values take 34 or 36 bytes: both fill up to 64."""
    header = write(tmp_path / "m.gguf", [((128,), Q2_0), ((32,), F32)], G128)
    assert header.formats == frozenset()
    assert header.unknown_types == {Q2_0}
    with_others = write(tmp_path / "m.gguf", [((128,), Q2_0), ((2560, 4), Q2_0), ((32,), F32)], G128)
    assert with_others.formats == {G128}, "a larger one decides"


def judged(tensors: Sequence[TensorInfo], size: int) -> tuple[set[str], set[int]]:
    formats, unknown = formats_of(tensors, {}, size)
    return set(formats), set(unknown)


def test_spans_that_fit_neither_layout_stay_unknown() -> None:
    tensors = (TensorInfo("a", (2560,), Q2_0, 0), TensorInfo("b", (32,), F32, 4096))
    assert judged(tensors, 4224) == (set(), {Q2_0})
    mixed = (
        TensorInfo("a", (2560,), Q2_0, 0),
        TensorInfo("b", (2560,), Q2_0, 704),
        TensorInfo("c", (32,), F32, 704 + 736),
    )
    assert judged(mixed, 704 + 736 + 128) == (set(), {Q2_0}), "one of each"


def test_a_row_that_is_no_whole_number_of_groups_of_128_is_of_64() -> None:
    """With an alignment that hides the sizes, 64 values a row are impossible in groups of 128."""
    tensors = (TensorInfo("a", (64, 2), Q2_0, 0), TensorInfo("b", (32,), F32, 64))
    assert judged(tensors, 192) == ({G64}, set())


@pytest.mark.parametrize(
    ("kinds", "formats", "unknown"),
    [
        ([142], {"pq2_0"}, set()),
        ([143], {"ptq1_0"}, set()),
        ([41], {"q1_0"}, set()),
        ([41, F32], {"q1_0"}, set()),
        ([8], {"common"}, set()),
        ([12, 14, 0], {"common"}, set()),
        ([1], {"common"}, set()),
        ([30, 0], {"common"}, set()),
        ([142, 0, 1], {"pq2_0"}, set()),
        ([142, 8], {"pq2_0", "common"}, set()),
        ([77, 0], set(), {77}),
        ([77, 8], {"common"}, {77}),
        ([], set(), set()),
    ],
)
def test_types_are_told_by_their_id(kinds: list[int], formats: set[str], unknown: set[int]) -> None:
    tensors = [TensorInfo(f"t{at}", (256,), kind, at * 4096) for at, kind in enumerate(kinds)]
    assert judged(tensors, len(kinds) * 4096) == (formats, unknown)


def test_the_names_are_the_catalogs() -> None:
    assert gguf_formats.FORMATS == catalog.FORMATS


def test_the_practice_pair_is_of_common_formats(tmp_path: Path) -> None:
    pair = ensure_pair(tmp_path, "small")
    for path in (pair.target, pair.drafter):
        assert read_header(path).formats == {"common"}
    assert read_header(pair.target).thinking is True
    assert read_header(pair.drafter).thinking is None


shapes = st.tuples(st.sampled_from([128, 256, 2560, 5120]), st.integers(1, 9))


@given(
    st.lists(st.tuples(shapes, st.sampled_from([Q2_0, F32, Q8_0])), min_size=1, max_size=12),
    st.sampled_from([G128, G64]),
    st.sampled_from([16, 32, 64, 4096]),
)
def test_never_the_wrong_layout(
    kinds: list[tuple[tuple[int, ...], int]], layout: str, alignment: int
) -> None:
    infos, at = [], 0
    for index, (shape, kind) in enumerate(kinds):
        infos.append(TensorInfo(f"t{index}", shape, kind, at))
        at += sized(shape[0] * shape[1], kind, layout, alignment)
    formats, unknown = formats_of(infos, {"general.alignment": alignment}, at)
    other = G64 if layout == G128 else G128
    assert other not in formats
    if any(kind == Q2_0 for _, kind in kinds):
        assert (layout in formats) != (Q2_0 in unknown)


@given(
    st.lists(
        st.builds(
            TensorInfo,
            st.just("t"),
            st.lists(st.integers(0, 2**64), max_size=4).map(tuple),
            st.integers(0, 200),
            st.integers(0, 2**64),
        ),
        max_size=8,
    ),
    st.one_of(st.none(), st.integers(-5, 2**40), st.text()),
    st.integers(0, 2**63),
)
def test_nonsense_is_answered_too(tensors: list[TensorInfo], alignment: object, size: int) -> None:
    formats, _ = formats_of(tensors, {"general.alignment": alignment}, size)
    assert formats <= set(catalog.FORMATS)


@pytest.mark.parametrize(
    ("template", "thinks"),
    [
        ("{% if enable_thinking is false %}<think>\n\n</think>{% endif %}", True),
        ("{{ '<think>' }}", True),
        ("{{ message.reasoning_content }}", True),
        ("{{ messages }} I think, therefore", False),
        ("", False),
        (None, None),
    ],
)
def test_thinking_is_read_off_the_template(tmp_path: Path, template: str | None, thinks: bool | None) -> None:
    entries = [ARCH] if template is None else [ARCH, entry("tokenizer.chat_template", STR, template)]
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf(entries))
    assert read_header(path).thinking is thinks
