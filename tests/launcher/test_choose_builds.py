"""Which build of an engine line a machine gets, in which order, and why not the others."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from launcher import catalog
from launcher.catalog import Build, Line
from launcher.choose_builds import Builds, pick_builds, wanted_backend
from launcher.hardware.model import Gpu, Machine
from tests import machines
from tests.machines import MADE, PC, WINDOWS, load, rtx4090, rtx5090

CATALOG = catalog.load()
LEGACY, PRISM, MAINLINE = (CATALOG.line(name) for name in ("prism-legacy", "prism", "mainline"))


def order(builds: Builds) -> list[str]:
    """ "cuda-12.4", "vulkan", "cpu": what is tried, in order."""
    return [label(it.build) for it in builds.picked]


def label(build: Build) -> str:
    return f"{build.backend}-{build.cuda}" if build.cuda else build.backend


def passed(builds: Builds, what: str) -> str:
    """Why the build called ``what`` was passed over."""
    return dict(builds.passed)[what]


def card(capability: str | None, driver: str | None = "580.95", name: str = "a card") -> Gpu:
    return Gpu("nvidia", name, "cuda", driver, total_bytes=2**33, compute_capability=capability)


@pytest.mark.parametrize("name", sorted(MADE))
def test_the_files_are_what_the_readers_make_of_captured_outputs(name: str) -> None:
    assert load(name) == MADE[name]()
    text = (machines.FOLDER / f"{name}.json").read_text(encoding="utf-8")
    assert json.loads(text) == load(name).to_json()


@pytest.mark.parametrize(
    ("name", "legacy", "prism"),
    [
        ("rtx4090-cuda-12.4", "cuda-12.4 vulkan cpu", "cuda-12.4 vulkan cpu"),
        ("rtx4090-cuda-12.8", "cuda-12.8 cuda-12.4 vulkan cpu", "cuda-12.8 cuda-12.4 vulkan cpu"),
        # The driver of CUDA 13.0 runs 13.3 too, but knows 12.8 as a whole.
        ("rtx4090-cuda-13.0", "cuda-12.8 cuda-12.4 vulkan cpu", "cuda-12.8 cuda-12.4 cuda-13.3 vulkan cpu"),
        ("rtx4090-cuda-13.3", "cuda-12.8 cuda-12.4 vulkan cpu", "cuda-13.3 cuda-12.8 cuda-12.4 vulkan cpu"),
        ("rtx4090-old-driver", "vulkan cpu", "vulkan cpu"),
        ("rtx5090", "cuda-12.8 cuda-12.4 vulkan cpu", "cuda-12.8 cuda-12.4 vulkan cpu"),
        ("two-cards", "cuda-12.8 cuda-12.4 vulkan cpu", "cuda-12.8 cuda-12.4 cuda-13.3 vulkan cpu"),
        ("gb10", "vulkan cpu", "vulkan cpu"),
        ("wsl-unreadable-cuda", "cuda-12.4 vulkan cpu", "cuda-12.4 vulkan cpu"),
        ("windows-cuda-12.4", "cuda-12.4 vulkan cpu", "cuda-12.4 vulkan cpu"),
        ("windows-cuda-13.3", "cuda-12.4 vulkan cpu", "cuda-12.4 vulkan cpu"),
        ("windows-rtx5090", "cuda-12.4 vulkan cpu", "cuda-12.4 vulkan cpu"),
        ("windows-arm64", "cpu", "cpu"),
        ("no-gpu", "cpu", "cpu"),
        ("no-gpu-no-avx2", "cpu", "cpu"),
        ("vulkan-software-only", "cpu", "cpu"),
        ("vulkan-integrated", "vulkan cpu", "vulkan cpu"),
        ("rocm", "rocm vulkan cpu", "rocm vulkan cpu"),
        ("apple-m2", "metal", "metal"),
        ("apple-m2-rosetta", "metal", "metal"),
        ("intel-mac", "cpu", "cpu"),
    ],
)
def test_the_order(name: str, legacy: str, prism: str) -> None:
    machine = load(name)
    assert order(pick_builds(LEGACY, machine)) == legacy.split()
    assert order(pick_builds(PRISM, machine)) == prism.split()


@pytest.mark.parametrize("name", sorted(MADE))
@pytest.mark.parametrize("line", CATALOG.lines, ids=lambda it: str(it.name))
def test_every_build_of_the_machine_is_taken_or_passed_over_with_a_reason(name: str, line: Line) -> None:
    machine = load(name)
    found = pick_builds(line, machine)
    own = [it for it in line.builds if (it.system, it.arch) == (machine.system, machine.arch)]
    assert len(found.picked) + len(found.passed) == len(own)
    assert all(it.build in own and it.why for it in found.picked)
    assert all(why for _, why in found.passed)


@pytest.mark.case("B-01")
@pytest.mark.parametrize("runtime", [None, "12.4"])
def test_a_card_with_an_unknown_cuda_version_is_still_cuda(runtime: str | None) -> None:
    machine = replace(PC, gpus=(replace(card("8.6", "550.54.14"), runtime=runtime),))
    assert order(pick_builds(LEGACY, machine))[0] == "cuda-12.4"


@pytest.mark.case("B-01")
def test_both_forms_of_the_header_lead_to_cuda() -> None:
    for name in ("wsl-unreadable-cuda", "windows-cuda-13.3"):
        assert order(pick_builds(LEGACY, load(name)))[0] == "cuda-12.4"


@pytest.mark.parametrize("driver", [None, "N/A"])
def test_an_unknown_driver_gets_the_oldest_toolkit(driver: str | None) -> None:
    found = pick_builds(PRISM, replace(PC, gpus=(card("8.9", driver),)))
    assert order(found) == ["cuda-12.4", "vulkan", "cpu"]
    assert "unknown" in passed(found, "prism for CUDA 12.8")
    assert "unknown" in found.picked[0].why


def test_an_unknown_driver_of_a_blackwell_card_is_new_enough_for_its_first_toolkit() -> None:
    found = pick_builds(PRISM, replace(PC, gpus=(card("12.0", None),)))
    assert order(found) == ["cuda-12.8", "cuda-12.4", "vulkan", "cpu"]


@pytest.mark.parametrize(
    ("machine", "driver", "first"),
    [
        (PC, "550.53.99", "vulkan"),
        (PC, "550.54", "cuda-12.4"),
        (PC, "570.25", "cuda-12.4"),
        (PC, "570.26", "cuda-12.8"),
        (WINDOWS, "551.60", "vulkan"),
        (WINDOWS, "551.61", "cuda-12.4"),
        # Inside WSL the driver is that of Windows.
        (replace(PC, wsl=True), "551.60", "vulkan"),
        (replace(PC, wsl=True), "570.64", "cuda-12.4"),
        (replace(PC, wsl=True), "570.65", "cuda-12.8"),
    ],
)
def test_the_driver_decides_which_toolkit(machine: Machine, driver: str, first: str) -> None:
    assert order(pick_builds(LEGACY, replace(machine, gpus=(card("8.9", driver),))))[0] == first


def test_a_driver_that_is_too_old_is_said_aloud() -> None:
    found = pick_builds(LEGACY, load("rtx4090-old-driver"))
    assert not found.has_gpu_backend
    (notice,) = found.notices
    assert "550.54 or newer" in notice
    assert "535.183.06" in notice
    assert "update the driver" in notice
    assert "Vulkan is used" in notice


def test_windows_never_gets_cuda_13_while_there_is_12() -> None:
    found = pick_builds(PRISM, load("windows-cuda-13.3"))
    assert "without a word" in passed(found, "prism for CUDA 13.3")
    only = replace(PRISM, builds=tuple(it for it in PRISM.builds if it.cuda != "12.4"))
    assert order(pick_builds(only, load("windows-cuda-13.3")))[0] == "cuda-13.3"


def test_blackwell_prefers_12_8_and_says_what_12_4_costs() -> None:
    assert order(pick_builds(PRISM, rtx5090("580.95", "13.0", PC)))[:3] == [
        "cuda-12.8",
        "cuda-13.3",
        "cuda-12.4",
    ]
    assert order(pick_builds(PRISM, rtx5090("610.47", "13.3", PC)))[0] == "cuda-12.8"
    (notice,) = pick_builds(LEGACY, load("windows-rtx5090")).notices
    assert "minutes" in notice
    assert not any("minutes" in it for it in pick_builds(LEGACY, load("rtx5090")).notices)


def test_cards_that_cuda_has_dropped() -> None:
    old = replace(PC, gpus=(card("3.5", name="GT 730"),))
    assert wanted_backend(old) == ("vulkan", "GT 730 is too old for CUDA 12")
    assert order(pick_builds(LEGACY, old)) == ["vulkan", "cpu"]
    pascal = pick_builds(PRISM, replace(PC, gpus=(card("6.1", name="GTX 1080"),)))
    assert order(pascal) == ["cuda-12.8", "cuda-12.4", "vulkan", "cpu"]
    assert "GTX 1080 has 6.1" in passed(pascal, "prism for CUDA 13.3")


@pytest.mark.case("B-07")
def test_of_several_cards_the_first_that_can_be_used_decides() -> None:
    old, new = card("3.5", name="GT 730"), card("8.6", name="RTX 3060")
    assert wanted_backend(replace(PC, gpus=(old, new)))[1].startswith("RTX 3060, the first of 2 GPUs")
    mixed = replace(PC, gpus=(new, Gpu("amd", "RX 7900", "vulkan")))
    assert order(pick_builds(LEGACY, mixed))[0] == "cuda-12.8"
    assert order(pick_builds(LEGACY, replace(mixed, gpus=mixed.gpus[::-1])))[0] == "vulkan"


@pytest.mark.case("B-05")
def test_a_gpu_without_its_build_takes_the_next_best_aloud() -> None:
    found = pick_builds(LEGACY, load("gb10"))
    assert not found.has_gpu_backend
    (notice,) = found.notices
    assert "NVIDIA GB10 would be used through CUDA" in notice
    assert "Linux on arm64" in notice
    assert "BONSAI_LLAMA_SERVER" in notice


@pytest.mark.case("B-12")
def test_a_software_device_is_no_gpu() -> None:
    machine = load("vulkan-software-only")
    assert wanted_backend(machine) == ("cpu", "no GPU was found")
    assert passed(pick_builds(LEGACY, machine), "prism-legacy for Vulkan") == "no GPU to use through Vulkan"


@pytest.mark.case("B-12")
def test_an_integrated_gpu_can_be_left_out() -> None:
    machine = load("vulkan-integrated")
    assert order(pick_builds(LEGACY, machine)) == ["vulkan", "cpu"]
    found = pick_builds(LEGACY, machine, spare_gpu=True)
    assert order(found) == ["cpu"]
    assert "BONSAI_NGL=0" in found.picked[0].why
    # A card of its own still computes long prompts with no layer on it.
    amd = replace(PC, gpus=(Gpu("amd", "RX 7900", "vulkan"),))
    assert order(pick_builds(LEGACY, amd, spare_gpu=True))[0] == "vulkan"
    assert order(pick_builds(LEGACY, load("rtx4090-cuda-12.4"), spare_gpu=True))[0] == "cuda-12.4"


@pytest.mark.case("B-10")
def test_macs_by_their_chip_not_by_this_process() -> None:
    for name in ("apple-m2", "apple-m2-rosetta"):
        (asset,) = pick_builds(LEGACY, load(name)).picked[0].build.assets
        assert asset.name == "llama-prism-b9596-9fcaed7-bin-macos-arm64.tar.gz"
    (asset,) = pick_builds(LEGACY, load("intel-mac")).picked[0].build.assets
    assert asset.name == "llama-prism-b9596-9fcaed7-bin-macos-x64.tar.gz"


@pytest.mark.case("B-13")
def test_a_processor_without_avx2_is_said_aloud() -> None:
    machine = load("no-gpu-no-avx2")
    assert any("no AVX2" in it for it in pick_builds(LEGACY, machine).notices)
    assert not pick_builds(MAINLINE, machine).notices
    unknown = replace(machine, cpu_features=None)
    assert not pick_builds(LEGACY, unknown).notices


def test_windows_plugins_come_with_the_archive_they_need() -> None:
    amd = replace(WINDOWS, gpus=(Gpu("amd", "RX 7900", "vulkan"),))
    names = [it.name for it in pick_builds(LEGACY, amd).picked[0].build.assets]
    assert names == ["llama-bin-win-cpu-x64.zip", "llama-bin-win-vulkan-x64.zip"]
    cuda = pick_builds(LEGACY, rtx4090("551.86", "12.4", WINDOWS)).picked[0].build
    assert cuda.assets[-1].name == "cudart-llama-bin-win-cuda-12.4-x64.zip"


def test_what_a_build_has_to_say_is_said() -> None:
    noted = tuple(replace(it, note="Mind the gap.") for it in LEGACY.builds if it.backend == "cpu")
    line = replace(LEGACY, builds=noted)
    assert pick_builds(line, load("no-gpu")).notices == ("Mind the gap.",)
