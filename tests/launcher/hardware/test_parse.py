"""What the hardware tools print, read. Files named vulkaninfo_llvmpipe and smi_* hold what the tools printed;
rocm_smi, rocminfo, vulkaninfo_two_gpus and nvidia_smi_list_mig are composed after the tools' own formats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.hardware import parse
from launcher.hardware.model import Gpu

CAPTURED = Path(__file__).resolve().parents[2] / "captured"
MIB, GIB = 2**20, 2**30


def captured(name: str) -> str:
    return (CAPTURED / name).read_text(encoding="utf-8")


# --- NVIDIA ---------------------------------------------------------------------------------


@pytest.mark.case("B-07")
def test_every_line_is_a_gpu_and_an_old_one_is_named_as_such() -> None:
    new, old = parse.nvidia_query(captured("smi_mixed_query.csv"))
    assert new == Gpu(
        "nvidia",
        "NVIDIA GeForce RTX 3060",
        "cuda",
        driver="580.95",
        total_bytes=12288 * MIB,
        free_bytes=11000 * MIB,
        compute_capability="8.6",
    )
    assert (old.index, old.total_bytes, old.compute_capability) == (1, 2048 * MIB, "3.5")
    assert "too old" in old.note


@pytest.mark.case("B-05")
def test_a_chip_with_shared_memory_has_none_of_its_own() -> None:
    (gpu,) = parse.nvidia_query(captured("smi_gb10_query.csv"))
    assert (gpu.name, gpu.backend, gpu.driver, gpu.compute_capability) == (
        "NVIDIA GB10",
        "cuda",
        "580.126.09",
        "12.1",
    )
    assert (gpu.total_bytes, gpu.free_bytes, gpu.unified) == (None, None, True)


@pytest.mark.parametrize(
    "unread", ["[N/A]", "N/A", "Not Supported", "[Not Supported]", "ERR!", "[Unknown Error]", ""]
)
def test_a_value_that_cannot_be_read_is_unknown_and_the_gpu_stays(unread: str) -> None:
    (gpu,) = parse.nvidia_query(f"NVIDIA RTX A2000, {unread}, {unread}, {unread}, {unread}\n")
    assert gpu == Gpu("nvidia", "NVIDIA RTX A2000", "cuda")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("NVIDIA L40S, 550.54.14, 46068, 45000, 8.9", ("550.54.14", 46068, 45000, "8.9")),
        ("NVIDIA L40S, 46068, 45000, 550.54.14, 8.9", ("550.54.14", 46068, 45000, "8.9")),
        ("NVIDIA L40S, 550.54.14, 46068 MiB, 0 MiB, 8.9", ("550.54.14", 46068, 0, "8.9")),
        ("NVIDIA L40S, 550.54.14, 46068, [N/A], 8.9\r", ("550.54.14", 46068, None, "8.9")),
        ("Odd, Inc. card, 550.54.14, 0, 0, 8.9", ("550.54.14", None, None, "8.9")),
    ],
)
def test_both_orders_units_and_zero(line: str, expected: tuple[str, int | None, int | None, str]) -> None:
    (gpu,) = parse.nvidia_query(f"\n{line}\n")
    driver, total, free, capability = expected
    assert (gpu.driver, gpu.compute_capability) == (driver, capability)
    assert (gpu.total_bytes, gpu.free_bytes) == (total and total * MIB, None if free is None else free * MIB)


@pytest.mark.parametrize(
    "text",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure, that, it, is, there.",
        "No devices were found",
        'Field "compute_cap" is not a valid field to query.',
        "name, driver_version, memory.total [MiB], memory.free [MiB], compute_cap",
        "",
    ],
)
def test_what_is_no_gpu(text: str) -> None:
    assert parse.nvidia_query(text) == ()


HEADERS = [
    (captured("smi_umd_610.txt"), "610.47", "13.3", ["NVIDIA GeForce RTX 3060"]),
    (captured("smi_err.txt"), "535.183.06", None, []),
    (
        "| NVIDIA-SMI 550.54.14   Driver Version: 550.54.14   CUDA Version: 12.4     |",
        "550.54.14",
        "12.4",
        [],
    ),
    ("Cuda compilation tools, release 13.0, V13.0.48", None, None, []),
    ("", None, None, []),
]


@pytest.mark.case("B-01")
@pytest.mark.parametrize(("text", "driver", "cuda", "names"), HEADERS)
def test_both_forms_of_the_header(text: str, driver: str | None, cuda: str | None, names: list[str]) -> None:
    header = parse.nvidia_header(text)
    assert (header.driver, header.cuda, [gpu.name for gpu in header.gpus]) == (driver, cuda, names)


def test_the_table_gives_the_memory() -> None:
    (gpu,) = parse.nvidia_header(captured("smi_umd_610.txt")).gpus
    assert (gpu.total_bytes, gpu.free_bytes) == (12288 * MIB, (12288 - 2321) * MIB)
    assert gpu.driver == "610.47"


CARDS = tuple(Gpu("nvidia", f"card {at}", "cuda", index=at, total_bytes=GIB) for at in range(3))
UUIDS = [("GPU-aa11",), ("GPU-bb22", "MIG-bb99"), ("GPU-bb33",)]


@pytest.mark.case("B-07")
@pytest.mark.parametrize(
    ("mask", "seen"),
    [
        (None, [0, 1, 2]),
        ("", []),
        (" ", []),
        ("-1", []),
        ("1", [1]),
        ("2,0", [2, 0]),
        (" 0 , 2 ", [0, 2]),
        ("0,-1,2", [0]),
        ("0,7,2", [0]),
        ("1,1", [1]),
        ("NoDevFiles", []),
        ("99999999999999999999", []),
        ("GPU-bb3", [2]),
        ("gpu-AA", [0]),
        ("GPU-bb", [1]),
        ("GPU-cc,0", []),
        ("GPU-aa11,1", [0, 1]),
        ("MIG-bb99", [1]),
    ],
)
def test_the_drivers_own_mask(mask: str | None, seen: list[int]) -> None:
    assert [gpu.index for gpu in parse.masked(CARDS, mask, UUIDS)] == seen


def test_a_slice_does_not_have_the_whole_cards_memory() -> None:
    (gpu,) = parse.masked(CARDS, "MIG-bb99", UUIDS)
    assert gpu.total_bytes is None
    assert "MIG" in gpu.note


def test_a_mask_of_unknown_uuids_hides_nothing_and_says_so() -> None:
    seen = parse.masked(CARDS, "GPU-bb3")
    assert [gpu.index for gpu in seen] == [0, 1, 2]
    assert all("may hide" in gpu.note for gpu in seen)


def test_the_list_with_slices() -> None:
    listed = parse.nvidia_list(captured("nvidia_smi_list_mig.txt"))
    assert [gpu.name for gpu, _ in listed] == ["NVIDIA A100-SXM4-40GB"] * 2
    assert [len(uuids) for _, uuids in listed] == [2, 1]
    assert listed[0][1][1].startswith("MIG-30a4")


# --- AMD ------------------------------------------------------------------------------------


def test_rocm_smi() -> None:
    card, graphics = parse.rocm_smi(captured("rocm_smi.txt"))
    assert card == Gpu(
        "amd",
        "Navi 21 [Radeon RX 6800/6800 XT / 6900 XT]",
        "rocm",
        driver="6.12.12",
        total_bytes=17163091968,
        free_bytes=17163091968 - 692142080,
        compute_capability="gfx1030",
    )
    assert (graphics.compute_capability, graphics.integrated, graphics.index) == ("gfx1036", True, 1)
    assert "BONSAI_NGL=0" in graphics.note


def test_rocm_smi_in_older_words_and_without_values() -> None:
    (gpu,) = parse.rocm_smi('{"card0": {"Card series": "Vega 20", "VRAM Total Memory (B)": "N/A"}}')
    assert gpu == Gpu("amd", "Vega 20", "rocm")
    for text in ("", "ERROR: no card", "{", "[1]", '{"card0": 1}', '{"cards": {}}', "{" * 5000 + "}" * 5000):
        assert parse.rocm_smi(text) == ()


def test_rocminfo() -> None:
    (gpu,) = parse.rocminfo(captured("rocminfo.txt"))
    assert (gpu.name, gpu.compute_capability, gpu.total_bytes) == (
        "Radeon RX 7900 GRE",
        "gfx1100",
        16760832 * 1024,
    )
    assert parse.rocminfo("ROCk module is NOT loaded, possibly no GPU devices\n") == ()


# --- Vulkan ---------------------------------------------------------------------------------


@pytest.mark.case("B-12")
def test_a_software_device_is_no_gpu() -> None:
    assert parse.vulkan_summary(captured("vulkaninfo_llvmpipe.txt")) == parse.VulkanDevices(
        (), ("llvmpipe (LLVM 15.0.6, 256 bits)",)
    )


@pytest.mark.case("B-12")
@pytest.mark.parametrize(
    ("kind", "name"), [("CPU", "A new one"), ("VIRTUAL_GPU", "SwiftShader Device (LLVM)")]
)
def test_software_is_known_by_type_or_by_name(kind: str, name: str) -> None:
    text = f"GPU0:\n\tdeviceType = PHYSICAL_DEVICE_TYPE_{kind}\n\tdeviceName = {name}\n"
    assert parse.vulkan_summary(text) == parse.VulkanDevices((), (name,))


def test_real_devices_each_once() -> None:
    found = parse.vulkan_summary(captured("vulkaninfo_two_gpus.txt"))
    assert [(gpu.vendor, gpu.integrated) for gpu in found.gpus] == [
        ("intel", True),
        ("nvidia", False),
        ("amd", False),
    ]
    assert "BONSAI_NGL=0" in found.gpus[0].note
    assert found.gpus[2].driver == "radv Mesa 24.0.5"
    assert found.software == ("llvmpipe (LLVM 17.0.6, 256 bits)",)


def test_two_cards_of_a_kind_are_two() -> None:
    block = (
        "GPU{}:\n\tvendorID = 0x1002\n\tdeviceID = 0x744c\n\tdeviceType = PHYSICAL_DEVICE_TYPE_DISCRETE_GPU\n"
    )
    block += "\tdeviceName = AMD Radeon RX 7900 XTX\n\tdriverName = radv\n"
    assert len(parse.vulkan_summary(block.format(0) + block.format(1)).gpus) == 2


def test_vulkan_that_fails() -> None:
    text = "Cannot create Vulkan instance.\nERROR at vulkaninfo.h:674:vkCreateInstance failed\n"
    assert parse.vulkan_summary(text) == parse.VulkanDevices((), ())


# --- Macs -----------------------------------------------------------------------------------


@pytest.mark.case("B-10")
@pytest.mark.parametrize(
    ("arch", "chip", "translated", "expected"),
    [
        ("arm64", "Apple M3 Max", "0", ("arm64", False, ["metal"])),
        ("arm64", None, None, ("arm64", False, ["metal"])),
        ("x86_64", "VirtualApple @ 2.50GHz", "1", ("arm64", True, ["metal"])),
        ("x86_64", None, "1\n", ("arm64", True, ["metal"])),
        ("x86_64", "Apple M1", None, ("arm64", True, ["metal"])),
        ("x86_64", "Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz", "0", ("x86_64", False, [])),
        ("x86_64", "Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz", None, ("x86_64", False, [])),
    ],
)
def test_rosetta_apple_and_intel(
    arch: str, chip: str | None, translated: str | None, expected: tuple[str, bool, list[str]]
) -> None:
    found = parse.mac(arch, chip, translated, "0", 16 * GIB, 9 * GIB)
    assert (found.arch, found.rosetta, [gpu.backend for gpu in found.gpus]) == expected
    assert bool(found.notes) == (found.rosetta or not found.gpus)


@pytest.mark.case("B-11")
@pytest.mark.parametrize(
    ("limit", "ram", "cap", "said"),
    [
        ("0", 16 * GIB, round(16 * GIB * 0.7), "11.2 GiB of 16.0 GiB (about 70%"),
        (None, 16 * GIB, round(16 * GIB * 0.7), "iogpu.wired_limit_mb is not set"),
        ("12000\n", 16 * GIB, 12000 * MIB, "11.7 GiB of 16.0 GiB (iogpu.wired_limit_mb)"),
        ("99999", 16 * GIB, 16 * GIB, "16.0 GiB of 16.0 GiB"),
        ("12000", None, None, ""),
    ],
)
def test_the_cap_is_the_gpus_memory_and_is_named(
    limit: str | None, ram: int | None, cap: int | None, said: str
) -> None:
    (gpu,) = parse.mac("arm64", "Apple M2", None, limit, ram, 9 * GIB).gpus
    assert (gpu.total_bytes, gpu.unified) == (cap, True)
    assert gpu.free_bytes == (None if cap is None else 9 * GIB)
    assert said in gpu.note


@pytest.mark.case("B-09")
def test_m5_has_a_word_on_its_trouble() -> None:
    (gpu,) = parse.mac("arm64", "Apple M5 Max", None, "0", 16 * GIB, None).gpus
    assert "GGML_METAL_TENSOR_DISABLE=1" in gpu.note
    assert replace(gpu, note="").free_bytes is None


# --- processors, and rubbish ----------------------------------------------------------------


def test_features_in_one_spelling() -> None:
    intel = "processor\t: 0\nmodel name\t: A CPU\nflags\t\t: fpu avx f16c avx2 fma\n\nprocessor\t: 1\nmodel name\t: B\n"
    assert parse.cpuinfo(intel) == ("A CPU", ("avx", "avx2", "fma", "f16c"))
    assert parse.cpuinfo("processor\t: 0\nFeatures\t: fp asimd asimddp i8mm\n") == (
        None,
        ("neon", "dotprod", "i8mm"),
    )
    assert parse.cpuinfo("") == (None, None)
    assert parse.features(["FMA", "AVX1.0", "SSE4.2", "FEAT_DotProd"]) == ("sse4_2", "avx", "fma", "dotprod")


@given(
    st.text(alphabet=st.sampled_from('GPU0: =|,.[]{}"\n\tcard*Agent 1MiB/UUID-'), max_size=200) | st.text()
)
def test_no_text_breaks_a_parser(text: str) -> None:
    for read in (
        parse.nvidia_query,
        parse.nvidia_header,
        parse.nvidia_list,
        parse.rocm_smi,
        parse.rocminfo,
        parse.vulkan_summary,
        parse.cpuinfo,
    ):
        read(text)
    parse.masked(CARDS, text, UUIDS)
    parse.mac("arm64", text, text, text, GIB, None)
