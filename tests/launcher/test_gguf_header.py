"""The GGUF header reader against whole, cut, hostile and foreign files."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.errors import GgufError
from launcher.gguf_header import GgufHeader, TensorInfo, read_header
from launcher.gguf_parse import BLOCKS
from tests.launcher.gguf_bytes import (
    ARCH,
    ARR,
    BOOL,
    F32,
    I32,
    STR,
    U8,
    U32,
    array,
    entry,
    gguf,
    small_model,
    tensor,
    text,
)

CAPTURED = Path(__file__).parent.parent / "captured"


def write(folder: Path, content: bytes, name: str = "model.gguf") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def refusal(path: Path) -> str:
    """What read_header says against ``path``: one sentence, with the path and a remedy."""
    with pytest.raises(GgufError) as caught:
        read_header(path)
    error = caught.value
    assert str(path) in error.what
    assert error.what.endswith(".")
    assert "\n" not in error.what
    assert error.remedy.endswith(".")
    return error.what.replace(str(path), "FILE")


def test_reads_what_a_launch_needs(tmp_path: Path) -> None:
    path = write(tmp_path, small_model())
    header = read_header(path)
    assert header.path == str(path)
    assert header.file_bytes == path.stat().st_size
    assert (header.version, header.architecture, header.name) == (3, "qwen3", "A small model")
    assert (header.layers, header.hidden_size, header.context_length) == (2, 64, 4096)
    assert (header.head_count, header.head_count_kv, header.key_length, header.value_length) == (8, 4, 16, 16)
    assert header.vocab_size == 3
    assert header.chat_template == "{{ messages }}"
    assert header.block_size is None
    assert header.target_layers == ()
    assert not header.is_drafter
    assert header.tensors == (TensorInfo("a", (4, 2), 0, 0), TensorInfo("b", (32,), 8, 32))
    assert header.metadata["qwen3.rope.freq_base"] == 10000.0
    assert header.metadata["tokenizer.ggml.add_bos_token"] is True
    assert header.metadata["tokenizer.ggml.scores"] == (0.0, 0.0, 0.0)
    assert "tokenizer.ggml.tokens" not in header.metadata
    assert header.data_offset == path.stat().st_size - (2 * 4 * 4 + 34)


def test_agrees_with_the_gguf_package(tmp_path: Path) -> None:
    import gguf as package
    import numpy as np

    path = tmp_path / "by-package.gguf"
    out = package.GGUFWriter(path, "llama")
    out.add_block_count(3)
    out.add_token_list([b"a", b"b"])
    out.add_array("llama.attention.head_count_kv", [0, 4, 0])
    out.add_tensor("t", np.zeros((3, 5), np.float16))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    header = read_header(path)
    reader = package.GGUFReader(path)
    assert header.layers == 3
    assert header.kv_heads_by_layer == (0, 4, 0)
    assert header.head_count_kv == 4
    assert header.data_offset == reader.data_offset
    assert [(t.name, t.shape, t.type_id) for t in header.tensors] == [("t", (5, 3), 1)]


def test_block_sizes_are_those_of_the_gguf_package() -> None:
    import gguf as package

    known = {int(kind): sizes for kind, sizes in package.GGML_QUANT_SIZES.items()}
    assert known.keys() <= BLOCKS.keys()
    assert {kind: BLOCKS[kind] for kind in known if kind != 42} == {k: v for k, v in known.items() if k != 42}


@pytest.mark.case("A-01")
def test_captured_dspark_header_without_tensors() -> None:
    header = read_header(CAPTURED / "arch_dspark_header.gguf")
    assert header.architecture == "dspark"
    assert header.is_drafter
    assert header.layers is None
    assert header.vocab_size is None
    assert header.tensors == ()


@pytest.mark.parametrize(
    ("arch", "key"),
    [
        ("dflash", "dflash.block_size"),
        ("dspark", "dspark.dspark.block_size"),
        ("dspark", "dspark.block_size"),
        ("other", "other.block_size"),
    ],
)
def test_block_size_under_every_spelling(tmp_path: Path, arch: str, key: str) -> None:
    header = read_header(
        write(tmp_path, gguf([entry("general.architecture", STR, arch), entry(key, U32, 7)]))
    )
    assert header.block_size == 7


@pytest.mark.parametrize("name", ["target_layers", "target_layer_ids"])
@pytest.mark.parametrize("prefix", ["dspark", "dspark.dspark"])
def test_target_layers_under_every_spelling(tmp_path: Path, prefix: str, name: str) -> None:
    entries = [entry("general.architecture", STR, "dspark"), array(f"{prefix}.{name}", I32, [1, 16, 31])]
    assert read_header(write(tmp_path, gguf(entries))).target_layers == (1, 16, 31)


def test_absent_or_odd_values_are_none(tmp_path: Path) -> None:
    entries = [ARCH, entry("qwen3.block_count", STR, "many"), entry("qwen3.embedding_length", BOOL, True)]
    header = read_header(write(tmp_path, gguf([*entries, entry("qwen3.context_length", I32, -1)])))
    assert (header.layers, header.hidden_size, header.context_length, header.name) == (None,) * 4


def test_fingerprint_tells_token_lists_apart(tmp_path: Path) -> None:
    def fingerprint(tokens: list[object]) -> str | None:
        return read_header(
            write(tmp_path, gguf([ARCH, array("tokenizer.ggml.tokens", STR, tokens)]))
        ).vocab_fingerprint

    assert fingerprint(["a", "b"]) == fingerprint(["a", "b"])
    # Not even a list whose joined text is the same may pass for the other.
    assert len({fingerprint(list(t)) for t in (["a", "b"], ["ab"], ["b", "a"], ["a", "b", ""])}) == 4


def test_unknown_tensor_type_is_allowed_but_its_offset_is_checked(tmp_path: Path) -> None:
    header = read_header(write(tmp_path, small_model([tensor("a", (128,), 142, 0)], data=4)))
    assert header.tensors[0].type_id == 142
    path = write(tmp_path, small_model([tensor("a", (128,), 142, 4096)], data=64))
    assert "truncated" in refusal(path)


@pytest.mark.case("A-02")
def test_both_layouts_of_q2_0_pass(tmp_path: Path) -> None:
    for size in (34, 36):
        read_header(write(tmp_path, small_model([tensor("a", (128,), 42, 0)], data=size)))
    assert "truncated" in refusal(write(tmp_path, small_model([tensor("a", (128,), 42, 0)], data=33)))


def test_metadata_order_and_long_arrays_do_not_matter(tmp_path: Path) -> None:
    long_array = array("tokenizer.ggml.token_type", I32, [1] * 5000)
    content = gguf([array("tokenizer.ggml.tokens", STR, ["x"] * 5000), long_array, ARCH])
    header = read_header(write(tmp_path, content))
    assert header.vocab_size == 5000
    assert "tokenizer.ggml.token_type" not in header.metadata


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 7165121600\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "The model file FILE is empty."),
        (b"GG", "The model file FILE is truncated: it holds 2 bytes."),
        (b"GGUF", "The model file FILE is truncated or damaged: it ends within version."),
        (b"GGUF\x03\0\0\0", "The model file FILE is truncated or damaged: it ends within tensor count."),
        (b"GGUF\0\0\0\x03" + bytes(16), "big-endian"),
        (b"GGUF\x01\0\0\0" + bytes(16), "GGUF version 1"),
        (b"GGUF\x09\0\0\0" + bytes(16), "GGUF version 9"),
        (b"<!DOCTYPE html><html><body>Sign in</body></html>", "is a web page"),
        (b"\n  <html lang=en>", "is a web page"),
        (LFS, "is a git-LFS pointer"),
        (b"tjgg" + bytes(40), "old GGML format"),
        (b"Entry not found", "FILE is not a GGUF file: it begins with 'Entr' instead of 'GGUF'."),
        (b"PK\x03\x04" + bytes(100), "is not a GGUF file"),
        (bytes(64), "is not a GGUF file"),
        (gguf([]), "it names no architecture"),
        (gguf([entry("general.architecture", U32, 3)]), "it names no architecture"),
        (gguf([ARCH, ARCH]), "'general.architecture' stands in it twice"),
        (gguf([ARCH, entry("general.alignment", U32, 0)]), "its alignment is 0"),
        (gguf([ARCH, entry("general.alignment", U32, 48)]), "its alignment is 48"),
        (gguf([ARCH, text("k") + struct.pack("<I", 77) + bytes(99)]), "unknown type 77"),
        (gguf([ARCH, text("k") + struct.pack("<IIQ", ARR, ARR, 1) + bytes(99)]), "unknown type 9"),
        (gguf([ARCH], [tensor("t", (1,) * 5, 0, 0)]), "has 5 dimensions"),
        (gguf([ARCH], [tensor("t", (1,), 0, 0)] * 2, 64), "tensor 't' stands in it twice"),
        (gguf([ARCH], [tensor("t", (1024,), 0, 0)], 4095), "truncated: its tensors need"),
    ],
)
def test_each_wrong_file_gets_one_clear_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    assert said in refusal(write(tmp_path, content))


HUGE = 2**63 + 5


@pytest.mark.parametrize(
    "content",
    [
        b"GGUF" + struct.pack("<IQQ", 3, 0, HUGE) + bytes(99),
        b"GGUF" + struct.pack("<IQQ", 3, HUGE, 0) + bytes(99),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 60_000) + bytes(99),
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, HUGE) + bytes(99),
        gguf([ARCH, text("k") + struct.pack("<IQ", STR, HUGE)]),
        gguf([ARCH, array("k", STR, [], HUGE), bytes(99)]),
        gguf([ARCH, array("k", STR, [], 3) + struct.pack("<Q", HUGE), bytes(99)]),
        gguf([ARCH, array("k", STR, [], 3) + struct.pack("<Q", 2**64 - 9), bytes(99)]),
        gguf([ARCH, array("tokenizer.ggml.tokens", STR, ["a"], 4)]),
        gguf([ARCH, array("k", F32, [], HUGE), bytes(99)]),
        gguf([ARCH], [tensor("t", (HUGE, HUGE), 0, 0)], 64),
        gguf([ARCH], [tensor("t", (1,), 0, HUGE)], 64),
        gguf([ARCH], [struct.pack("<Q", HUGE) + bytes(99)]),
    ],
    ids=range(13),
)
def test_huge_counts_and_lengths_end_at_once_in_little_memory(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path, content)
    tracemalloc.start()
    begin = time.perf_counter()
    said = refusal(path)
    took, peak = time.perf_counter() - begin, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "truncated" in said or "damaged" in said
    assert took < 0.5
    assert peak < 4 << 20


def test_a_large_file_of_nonsense_strings_ends_soon(tmp_path: Path) -> None:
    """A sparse gigabyte whose array claims a hundred million empty strings."""
    path = write(tmp_path, gguf([ARCH, array("k", STR, [], 100_000_000)]))
    os.truncate(path, 1 << 30)
    begin = time.perf_counter()
    assert "it claims 100,000,000 strings in 'k'" in refusal(path)
    assert time.perf_counter() - begin < 0.5


def test_a_header_beyond_the_limit_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    path = write(tmp_path, gguf([ARCH, array("k", U8, [], 1 << 30)]))
    os.truncate(path, 2 << 30)
    assert "passes 256 MiB" in refusal(path)


def test_missing_folder_pipe_and_odd_path(tmp_path: Path) -> None:
    assert refusal(tmp_path / "no.gguf") == "The model file FILE does not exist."
    assert "is a folder" in refusal(tmp_path)
    assert "does not exist" in refusal(tmp_path / "no" / "model.gguf")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        assert "no regular file" in refusal(tmp_path / "pipe")
    assert "cannot be read" in refusal(Path("a\0b.gguf"))


@pytest.mark.system("posix")
def test_unreadable_file(tmp_path: Path) -> None:
    path = write(tmp_path, small_model())
    path.chmod(0)
    script = (
        "import os, sys\nfrom pathlib import Path\n"
        "from launcher.errors import GgufError\nfrom launcher.gguf_header import read_header\n"
        "os.getuid() or os.setuid(65534)\n"  # root reads everything
        "try: read_header(Path(sys.argv[1]))\nexcept GgufError as error: print(error.what)\n"
    )
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    assert "may not be read by this user" in done.stdout


@pytest.mark.case("C-03")
def test_every_cut_is_noticed(tmp_path: Path) -> None:
    whole = small_model()
    path = tmp_path / "cut.gguf"
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        refusal(path)
    path.write_bytes(whole)
    read_header(path)


def survives(path: Path, content: bytes) -> GgufHeader | None:
    path.write_bytes(content)
    try:
        return read_header(path)
    except GgufError:
        return None


FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(
    st.lists(st.tuples(st.integers(0, len(small_model()) - 1), st.integers(0, 255)), min_size=1, max_size=6)
)
def test_flipped_bytes_never_escape_as_another_error(tmp_path: Path, flips: list[tuple[int, int]]) -> None:
    content = bytearray(small_model())
    for at, byte in flips:
        content[at] = byte
    survives(tmp_path / "flipped.gguf", bytes(content))


@FUZZ
@given(st.binary(max_size=400))
def test_arbitrary_bytes_after_the_magic(tmp_path: Path, tail: bytes) -> None:
    survives(tmp_path / "any.gguf", b"GGUF\x03\0\0\0" + tail)


@FUZZ
@given(st.integers(0, 15), st.binary(min_size=8, max_size=8))
def test_any_eight_bytes_anywhere_in_the_counts(tmp_path: Path, word: int, value: bytes) -> None:
    content = bytearray(small_model())
    content[8 * word : 8 * word + 8] = value
    survives(tmp_path / "counts.gguf", bytes(content))


WHOLE = small_model()


@FUZZ
@given(st.integers(0, len(WHOLE)), st.integers(0, 40), st.binary(max_size=40), st.integers(0, 1 << 20))
def test_cuts_and_insertions_end_soon_and_in_little_memory(
    tmp_path: Path, at: int, lost: int, added: bytes, tail: int
) -> None:
    """Bytes taken out or put in shift every length behind them; a sparse tail makes more of them plausible."""
    path = tmp_path / "spliced.gguf"
    path.write_bytes(WHOLE[:at] + added + WHOLE[at + lost :])
    os.truncate(path, path.stat().st_size + tail)
    tracemalloc.start()
    try:
        with suppress(GgufError):
            read_header(path)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 64 << 20


def big_vocabulary(count: int = 250_000) -> bytes:
    source = random.Random(1)
    tokens = [source.randbytes(source.randrange(1, 14)) for _ in range(count)]
    merges: list[object] = [b"ab cd"] * count
    return gguf(
        [
            ARCH,
            array("tokenizer.ggml.tokens", STR, list(tokens)),
            array("tokenizer.ggml.merges", STR, merges),
            array("tokenizer.ggml.token_type", I32, [1] * count),
        ],
        [tensor(f"blk.{i}.w", (32, 32), 8, 0) for i in range(800)],
        32 * 34,
    )


def fastest(work: Callable[[], object], runs: int = 5) -> float:
    times = []
    for _ in range(runs):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


def test_a_quarter_million_tokens_in_a_moment(tmp_path: Path) -> None:
    """At most 150 ms, with as many merges as tokens. Processor time, so that a busy
    machine does not fail it."""
    path = write(tmp_path, big_vocabulary())
    header = read_header(path)
    assert header.vocab_size == 250_000
    assert len(header.tensors) == 800
    assert fastest(lambda: read_header(path)) < 0.15
