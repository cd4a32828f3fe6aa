"""How much memory a pair takes: by known sizes, and against what llama-server reports."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.gguf_header import GgufHeader, read_header
from launcher.need import F16, Q4_0, Need, compute_bytes, estimate, kv_bytes_per_token, recurrent_bytes
from launcher.practice import ensure_pair
from tests.plans import DRAFTER, TARGET
from tests.trios import DSPARK_27B, TERNARY_27B

MIB = 2**20
SSM = {"inner_size": 6144, "state_size": 128, "group_count": 16, "conv_kernel": 4}


def with_state(header: GgufHeader) -> GgufHeader:
    state = {f"{header.architecture}.ssm.{name}": size for name, size in SSM.items()}
    return replace(header, metadata={**header.metadata, **state})


@pytest.mark.parametrize(
    ("header", "value", "expected"),
    [
        (TARGET, F16, 10 * 4 * 128 * 2),
        (TERNARY_27B, F16, 64 * 1024),
        (TERNARY_27B, Q4_0, 18 * 1024),
        (replace(TERNARY_27B, metadata={}), F16, 64 * 1024),  # llama.cpp's own default for qwen35
        (replace(TERNARY_27B, metadata={}, kv_heads_by_layer=(0, 0, 0, 4) * 16), F16, 64 * 1024),
        (replace(TERNARY_27B, layers=66), F16, 64 * 1024),  # two more layers are recurrent, not half a group
        (
            replace(
                TERNARY_27B, metadata={"qwen35.attention.recurrent_layers": (True, False) + (True,) * 62}
            ),
            F16,
            4096,
        ),
        (replace(TARGET, key_length=None, value_length=None), F16, 10 * 4 * 128 * 2),
        (replace(TARGET, head_count_kv=None), F16, None),
        (replace(TARGET, layers=None), F16, None),
        (replace(TARGET, key_length=None, hidden_size=None), F16, None),
    ],
)
def test_kv_cache_a_token(header: GgufHeader, value: float, expected: float | None) -> None:
    assert kv_bytes_per_token(header, value) == expected


def test_recurrent_layers_keep_a_state_each_and_a_copy_for_each_drafted_token() -> None:
    target = with_state(TERNARY_27B)
    one = 48 * 4 * (3 * (6144 + 2 * 16 * 128) + 128 * 6144)
    assert recurrent_bytes(target) == one
    assert recurrent_bytes(TERNARY_27B) == recurrent_bytes(TARGET) == 0
    plain, drafting = estimate(target, None, 4096), estimate(target, DSPARK_27B, 4096)
    assert plain is not None
    assert drafting is not None
    assert plain.cache == 4096 * 64 * 1024 + one
    assert drafting.cache == 4096 * 64 * 1024 + one * (1 + 4)


def test_each_part_by_hand() -> None:
    need = estimate(TARGET, DRAFTER, 4096, batch=256)
    features = 3 * 512 * 256 * 4  # the drafter reads three layers of the target
    target_buffers = 256 * (4 * (3 * 2048 + 5 * 512) + 2 * 4096)
    drafter_buffers = 256 * max(4 * (3 * 2048 + 2 * 512), 4 * 4 * 512 + 2 * 4096)
    drafter = 1000 + 4096 * 4 * 128 * 2 + drafter_buffers + features
    assert need == Need(1000, drafter, 4096 * 10 * 4 * 128 * 2, target_buffers)
    assert estimate(TARGET, None, 4096, kv4=True) is not None


def test_the_feed_forward_width_and_the_vocabulary_count() -> None:
    wide = replace(TARGET, metadata={"qwen3.feed_forward_length": 16384})
    assert compute_bytes(wide, 4096, 256) == 256 * (4 * (3 * 16384 + 5 * 512) + 2 * 4096)
    by_layer = replace(TARGET, metadata={"qwen3.feed_forward_length": (512, 16384)})
    assert compute_bytes(by_layer, 4096, 256) == compute_bytes(wide, 4096, 256)
    words = replace(TARGET, vocab_size=248_320)
    assert compute_bytes(words, 4096, 256) == 256 * (4 * (248_320 + 512) + 2 * 4096)
    assert compute_bytes(replace(TARGET, hidden_size=None), 4096) is None


@pytest.mark.parametrize(
    "headers",
    [
        (replace(TARGET, layers=None), None),
        (replace(TARGET, hidden_size=None), None),
        (replace(TARGET, file_bytes=0), None),
        (TARGET, replace(DRAFTER, head_count_kv=None)),
        (TARGET, replace(DRAFTER, file_bytes=0)),
    ],
)
def test_what_a_header_lacks_is_not_guessed(headers: tuple[GgufHeader, GgufHeader | None]) -> None:
    assert estimate(*headers, 4096) is None


REPORTED = re.compile(
    r"(model|KV|compute|output) buffer size = +([\d.]+) MiB|(server is listening|llama_server: listening)"
)


def reported(engine: Path, target: Path, drafter: Path | None, context: int) -> float:
    """MiB of all buffers that llama-server has allocated when it begins to listen."""
    argv = [str(engine), "-m", str(target), "-c", str(context), "-np", "1", "-fa", "on", "-b", "256"]
    argv += ["--host", "127.0.0.1", "--port", "0", "--no-warmup", "-lv", "4"]
    if drafter:
        argv += ["-md", str(drafter), "--spec-type", "draft-dspark", "--spec-draft-n-max", "4"]
    found: list[tuple[str, float]] = []
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            said = REPORTED.search(line.decode("utf-8", "replace"))
            if said and said[3]:
                break
            if said:
                if said[1] == "compute" and len(found) > 1 and found[-1][0] == "compute":
                    found.pop()  # reserved anew, with the samplers
                found.append((said[1], float(said[2])))
        else:
            pytest.fail(f"llama-server ended: {argv}")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    return sum(size for _, size in found)


@pytest.mark.engine
@pytest.mark.case("A-08")
@pytest.mark.parametrize("context", [4096, 16384])
@pytest.mark.parametrize("drafting", [False, True])
def test_within_a_tenth_of_what_llama_server_reports(
    built_engine: Path, tmp_path_factory: pytest.TempPathFactory, context: int, *, drafting: bool
) -> None:
    pair = ensure_pair(tmp_path_factory.getbasetemp() / "need", "medium")
    drafter = pair.drafter if drafting else None
    said = reported(built_engine, pair.target, drafter, context)
    need = estimate(read_header(pair.target), read_header(drafter) if drafter else None, context, batch=256)
    assert need is not None
    assert need.total / MIB == pytest.approx(said, rel=0.1)
