from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from launcher.devices import backend_of, differences, parse_devices
from launcher.engine_probe import ask_devices, engine_from_binary
from launcher.hardware.model import Gpu, Machine
from launcher.resolved import Device, Engine

ENGINE = Engine("own", "mainline", ("llama-server",), "b1", frozenset(), frozenset())
PLAIN = Machine("Linux", "x86_64", "cpu", 8, 16, 32 * 2**30, 16 * 2**30)
RTX = Gpu("nvidia", "RTX 4090", "cuda", "570.86", "12.8", 24 * 2**30, 23 * 2**30, "8.9")
GAMING = replace(PLAIN, gpus=(RTX,))
CUDA = Device("CUDA0", "NVIDIA GeForce RTX 4090", "cuda", 24217 * 2**20, 23686 * 2**20)

LISTED = """ggml_cuda_init: found 1 CUDA devices:
  Device 0: NVIDIA GeForce RTX 4090, compute capability 8.9, VMM: yes
Available devices:
  CUDA0: NVIDIA GeForce RTX 4090 (24217 MiB, 23686 MiB free)
"""


def test_reads_a_list_of_devices() -> None:
    assert parse_devices(LISTED) == (CUDA,)


@pytest.mark.parametrize(
    ("line", "backend"),
    [
        ("MTL0: Apple M3 Max (49152 MiB, 49151 MiB free)", "metal"),
        ("Metal: Apple M1 (10922 MiB, 10922 MiB free)", "metal"),
        ("ROCm0: AMD Radeon RX 7900 XTX (24560 MiB, 24500 MiB free)", "rocm"),
        ("Vulkan0: AMD Radeon (RADV NAVI31) (24560 MiB, 24500 MiB free)", "vulkan"),
        ("SYCL1: Intel(R) Arc(TM) A770 (15473 MiB, 15000 MiB free)", "sycl"),
    ],
)
def test_knows_the_backends_names(line: str, backend: str) -> None:
    found = parse_devices(f"Available devices:\n  {line}\n")
    assert found
    assert found[0].backend == backend


@pytest.mark.parametrize("line", ["(none)", "BLAS: OpenBLAS (0 MiB, 0 MiB free)", ""])
def test_no_gpu_is_an_empty_list(line: str) -> None:
    assert parse_devices(f"Available devices:\n  {line}\n") == ()


def test_other_output_is_no_answer() -> None:
    assert parse_devices("error: invalid argument: --list-devices") is None


def test_the_engines_word_decides_what_computes() -> None:
    assert backend_of(replace(ENGINE, backend="cuda", devices=()), GAMING) == "cpu"
    assert backend_of(replace(ENGINE, backend="vulkan", devices=(CUDA,)), PLAIN) == "cuda"


def test_without_its_word_the_build_then_the_machine() -> None:
    assert backend_of(replace(ENGINE, backend="vulkan"), GAMING) == "vulkan"
    assert backend_of(ENGINE, GAMING) == "cuda"
    assert backend_of(ENGINE, PLAIN) == "cpu"
    assert backend_of(replace(ENGINE, kind="embedded"), GAMING) == "cpu"
    mac = replace(PLAIN, system="Darwin", arch="arm64")
    assert backend_of(replace(ENGINE, kind="embedded"), mac) == "metal"


@pytest.mark.case("B-01")
@pytest.mark.case("D-10")
def test_a_gpu_that_the_engine_does_not_see_is_said() -> None:
    """The silent fall to the processor: a CUDA build without its driver or runtime library lists no device."""
    (said,) = differences(replace(ENGINE, backend="cuda", devices=()), GAMING)
    assert "RTX 4090" in said
    assert "processor" in said


def test_a_gpu_that_only_the_engine_sees_is_said() -> None:
    (said,) = differences(replace(ENGINE, devices=(CUDA,)), PLAIN)
    assert "its word counts" in said


@pytest.mark.case("B-07")
def test_fewer_gpus_than_there_are_is_said() -> None:
    two = replace(PLAIN, gpus=(RTX, replace(RTX, index=1)))
    assert "uses 1 of them" in differences(replace(ENGINE, devices=(CUDA,)), two)[0]


def test_agreement_and_processor_builds_say_nothing() -> None:
    assert differences(replace(ENGINE, devices=(CUDA,)), GAMING) == ()
    assert differences(replace(ENGINE, backend="cpu", devices=()), GAMING) == ()
    assert differences(ENGINE, GAMING) == ()


@pytest.mark.engine
def test_a_real_engine_is_asked(built_engine: Path) -> None:
    assert ask_devices((str(built_engine),)) == ()
    assert engine_from_binary(built_engine, "built").devices == ()
