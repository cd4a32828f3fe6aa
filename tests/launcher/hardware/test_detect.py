"""Whole machines, with real programs that stand for the tools, well or badly."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from launcher.hardware import detect, probes
from launcher.hardware.detect import look
from launcher.hardware.model import Machine
from launcher.hardware.probes import World
from tests.fakes import hardware_tool
from tests.launcher.hardware.test_parse import MIB, captured

pytestmark = pytest.mark.system("posix")

QUERY, TABLE, MIXED = "--query-gpu", "", captured("smi_mixed_query.csv")
HEADER = "| NVIDIA-SMI 580.95     Driver Version: 580.95     CUDA Version: 13.0     |\n"
RAM = psutil.virtual_memory().total


def world(
    tmp_path: Path,
    env: Mapping[str, str] | None = None,
    *,
    system: str = "Linux",
    arch: str = "x86_64",
    timeout_s: float = 20,
    folders: tuple[str, ...] = (),
) -> World:
    """A machine whose only tools lie in ``tmp_path/bin``."""
    given = {"PATH": str(tmp_path / "bin"), **(env or {})}
    root = tmp_path / "root"
    return World(system, arch, given, folders, root if root.exists() else Path("/"), timeout_s)


def smi(tmp_path: Path, query: str = MIXED, table: str = HEADER, **more: str) -> Path:
    listed = more.get("listed", "")
    return hardware_tool.write(tmp_path / "bin", "nvidia-smi", {QUERY: query, "-L": listed, TABLE: table})


def gpus(machine: Machine) -> list[tuple[str, str]]:
    return [(gpu.backend, gpu.name) for gpu in machine.gpus]


# --- NVIDIA ---------------------------------------------------------------------------------


@pytest.mark.case("B-07")
def test_two_cards_are_counted_once_each(tmp_path: Path) -> None:
    program = smi(tmp_path)
    machine = look(world(tmp_path))
    assert gpus(machine) == [("cuda", "NVIDIA GeForce RTX 3060"), ("cuda", "NVIDIA GeForce GT 730")]
    assert [gpu.runtime for gpu in machine.gpus] == ["13.0", "13.0"]
    assert machine.gpu_bytes() == ((12288 + 2048) * MIB, (11000 + 1900) * MIB)
    assert sorted(hardware_tool.asked(program)) == [
        "",
        "--query-gpu=name,driver_version,memory.total,memory.free,compute_cap --format=csv,noheader,nounits",
    ]


@pytest.mark.case("B-01")
@pytest.mark.parametrize("table", ["smi_err.txt", "smi_umd_610.txt"])
def test_a_named_gpu_is_cuda_whatever_the_header_says(tmp_path: Path, table: str) -> None:
    smi(tmp_path, "NVIDIA GeForce RTX 3060, 535.183.06, 12288, 11000, 8.6\n", captured(table))
    (gpu,) = look(world(tmp_path)).gpus
    assert (gpu.backend, gpu.driver) == ("cuda", "535.183.06")
    assert gpu.runtime == (None if "err" in table else "13.3")


@pytest.mark.case("B-01")
def test_the_table_serves_where_the_query_is_not_known(tmp_path: Path) -> None:
    smi(tmp_path, 'Field "compute_cap" is not a valid field to query.\n', captured("smi_umd_610.txt"))
    (gpu,) = look(world(tmp_path)).gpus
    assert (gpu.backend, gpu.driver, gpu.runtime, gpu.total_bytes) == ("cuda", "610.47", "13.3", 12288 * MIB)


def test_the_list_serves_where_neither_is_read(tmp_path: Path) -> None:
    smi(tmp_path, "ERR!\n", captured("smi_err.txt"), listed=captured("nvidia_smi_list_mig.txt"))
    machine = look(world(tmp_path))
    assert gpus(machine) == [("cuda", "NVIDIA A100-SXM4-40GB")] * 2
    assert [gpu.driver for gpu in machine.gpus] == ["535.183.06"] * 2


@pytest.mark.case("B-05")
@pytest.mark.parametrize(
    "answer", [captured("smi_gb10_query.csv"), "NVIDIA GB10, 580.126.09, Not Supported, Not Supported, 12.1"]
)
def test_shared_memory_is_the_machines(tmp_path: Path, answer: str) -> None:
    smi(tmp_path, answer)
    machine = look(world(tmp_path, arch="arm64"))
    (gpu,) = machine.gpus
    assert (gpu.backend, gpu.unified, gpu.total_bytes) == ("cuda", True, RAM)
    assert gpu.free_bytes == machine.ram_free_bytes
    assert machine.gpu_bytes() == (RAM, machine.ram_free_bytes)
    assert "machine's memory" in gpu.note


@pytest.mark.case("B-07")
@pytest.mark.parametrize(
    ("mask", "count"), [("", 0), ("-1", 0), ("0", 1), ("1", 1), ("0,1", 2), ("GPU-9d3b", 1)]
)
def test_the_mask(tmp_path: Path, mask: str, count: int) -> None:
    smi(tmp_path, listed=captured("nvidia_smi_list_mig.txt"))
    hardware_tool.write(tmp_path / "bin", "vulkaninfo", {"": captured("vulkaninfo_two_gpus.txt")})
    machine = look(world(tmp_path, {"CUDA_VISIBLE_DEVICES": mask}))
    nvidia = [gpu for gpu in machine.gpus if gpu.vendor == "nvidia"]
    assert len(nvidia) == count, "and Vulkan does not bring a hidden one back"
    assert all(gpu.backend == "cuda" for gpu in nvidia)
    if count < 2:
        assert f"CUDA_VISIBLE_DEVICES={mask!r} hides {2 - count} of 2 NVIDIA GPUs." in machine.notes
    order = any("counts from the fastest" in note for note in machine.notes)
    assert order == (count == 1)


@pytest.mark.case("B-03")
def test_wsl_hides_its_tool_off_the_path(tmp_path: Path) -> None:
    hidden = tmp_path / "usr lib wsl" / "lib"
    hardware_tool.write(hidden, "nvidia-smi", {QUERY: MIXED, TABLE: HEADER})
    release = tmp_path / "root" / "proc/sys/kernel/osrelease"
    release.parent.mkdir(parents=True)
    release.write_text("5.15.153.1-microsoft-standard-WSL2\n")
    machine = look(world(tmp_path, folders=(str(tmp_path / "nowhere"), str(hidden))))
    assert len(machine.gpus) == 2
    assert machine.wsl
    assert ("System", "Linux on x86_64 (inside WSL)") in machine.rows()
    assert look(world(tmp_path)).gpus == ()


def test_a_broken_tool_does_not_hide_a_working_one(tmp_path: Path) -> None:
    smi(tmp_path, "", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n")
    working = tmp_path / "working"
    hardware_tool.write(working, "nvidia-smi", {QUERY: MIXED, TABLE: HEADER})
    assert len(look(world(tmp_path, folders=(str(working),))).gpus) == 2
    (note,) = look(world(tmp_path)).notes
    assert note.startswith("nvidia-smi names no GPU; it says: NVIDIA-SMI has failed")


@pytest.mark.case("B-03")
def test_where_tools_hide() -> None:
    assert {"/usr/lib/wsl/lib", "/usr/bin"} <= set(probes.usual_folders("Linux", {}))
    windows = {"SystemRoot": "D:\\Win", "ProgramFiles": "D:\\Programs"}
    assert probes.usual_folders("Windows", windows) == (
        "D:\\Win\\System32",
        "D:\\Programs\\NVIDIA Corporation\\NVSMI",
    )
    assert probes.usual_folders("Windows", {})[0] == "C:\\Windows\\System32"


def test_windows_names_its_programs_otherwise(tmp_path: Path) -> None:
    folder = tmp_path / "System32"
    hardware_tool.write(folder, "nvidia-smi.exe", {QUERY: MIXED, TABLE: HEADER})
    machine = look(world(tmp_path, {"PATH": "relative"}, system="Windows", folders=(str(folder),)))
    assert len(machine.gpus) == 2
    assert machine.cpu_features is None


def test_the_current_folder_is_no_place_for_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(tmp_path)
    monkeypatch.chdir(tmp_path / "bin")
    for path in ("", ".", ":"):
        assert probes.places(world(tmp_path, {"PATH": path}), "nvidia-smi") == []


@pytest.mark.case("B-02")
@pytest.mark.parametrize("with_driver", [False, True])
def test_a_cuda_toolkit_is_no_gpu(tmp_path: Path, with_driver: bool) -> None:
    nvcc = hardware_tool.write(
        tmp_path / "bin", "nvcc", {"": "Cuda compilation tools, release 12.4, V12.4.131\n"}
    )
    if with_driver:
        smi(tmp_path)
    machine = look(world(tmp_path))
    assert [gpu.runtime for gpu in machine.gpus] == (["13.0"] * 2 if with_driver else [])
    assert hardware_tool.asked(nvcc) == []


# --- others ---------------------------------------------------------------------------------


def test_amd_and_its_graphics(tmp_path: Path) -> None:
    hardware_tool.write(tmp_path / "bin", "rocm-smi", {"--json": captured("rocm_smi.txt")})
    hardware_tool.write(tmp_path / "bin", "vulkaninfo", {"--summary": captured("vulkaninfo_two_gpus.txt")})
    machine = look(world(tmp_path))
    assert [(gpu.vendor, gpu.backend) for gpu in machine.gpus] == [
        ("amd", "rocm"),
        ("amd", "rocm"),
        ("intel", "vulkan"),
        ("nvidia", "vulkan"),
    ]
    masked = look(world(tmp_path, {"HIP_VISIBLE_DEVICES": "0"}))
    assert [gpu.name for gpu in masked.gpus if gpu.vendor == "amd"] == [
        "Navi 21 [Radeon RX 6800/6800 XT / 6900 XT]"
    ]
    assert "HIP_VISIBLE_DEVICES='0' hides 1 of 2 AMD GPUs." in masked.notes


def test_rocminfo_where_there_is_no_rocm_smi(tmp_path: Path) -> None:
    hardware_tool.write(tmp_path / "bin", "rocm-smi", mode="dies")
    hardware_tool.write(tmp_path / "bin", "rocminfo", {"": captured("rocminfo.txt")})
    assert gpus(look(world(tmp_path))) == [("rocm", "Radeon RX 7900 GRE")]


@pytest.mark.case("B-12")
def test_a_software_device_is_no_gpu_and_said_so(tmp_path: Path) -> None:
    hardware_tool.write(tmp_path / "bin", "vulkaninfo", {"--summary": captured("vulkaninfo_llvmpipe.txt")})
    machine = look(world(tmp_path))
    assert machine.gpus == ()
    assert any("llvmpipe (LLVM 15.0.6, 256 bits)" in note for note in machine.notes)
    smi(tmp_path)
    assert not any("llvmpipe" in note for note in look(world(tmp_path)).notes)


def test_the_kernel_tells_the_memory_of_a_single_amd_card(tmp_path: Path) -> None:
    hardware_tool.write(tmp_path / "bin", "vulkaninfo", {"--summary": captured("vulkaninfo_two_gpus.txt")})
    card = tmp_path / "root" / "sys/class/drm/card1/device"
    card.mkdir(parents=True)
    (card / "mem_info_vram_total").write_text(f"{24 * 2**30}\n")
    (card / "mem_info_vram_used").write_text(f"{2**30}\n")
    intel, _, amd = look(world(tmp_path)).gpus
    assert (amd.total_bytes, amd.free_bytes) == (24 * 2**30, 23 * 2**30)
    assert intel.total_bytes == RAM, "it shares the machine's"


MACS = [
    (
        "arm64",
        {"machdep.cpu.brand_string": "Apple M3\n", "proc_translated": "0\n", "wired_limit_mb": "0\n"},
        False,
        1,
    ),
    (
        "x86_64",
        {"machdep.cpu.brand_string": "VirtualApple\n", "proc_translated": "1\n", "wired_limit_mb": None},
        True,
        1,
    ),
    ("x86_64", {"machdep.cpu.brand_string": "Intel(R) Core\n", "proc_translated": None}, False, 0),
    ("x86_64", {"machdep.cpu.brand_string": "Intel(R) Core\n", "proc_translated": "0\n"}, False, 0),
]


@pytest.mark.case("B-10")
@pytest.mark.parametrize(("arch", "answers", "rosetta", "count"), MACS)
def test_macs(tmp_path: Path, arch: str, answers: dict[str, str | None], rosetta: bool, count: int) -> None:
    hardware_tool.write(tmp_path / "bin", "sysctl", answers)
    machine = look(world(tmp_path, system="Darwin", arch=arch))
    assert (machine.rosetta, [gpu.backend for gpu in machine.gpus]) == (rosetta, ["metal"] * count)
    assert machine.arch == ("arm64" if count else "x86_64")
    for gpu in machine.gpus:
        assert gpu.total_bytes == round(RAM * 0.7)


@pytest.mark.case("B-11")
def test_a_macs_limit_is_its_gpus_memory(tmp_path: Path) -> None:
    hardware_tool.write(
        tmp_path / "bin", "sysctl", {"wired_limit_mb": "1200\n", "brand_string": "Apple M2\n"}
    )
    (gpu,) = look(world(tmp_path, system="Darwin", arch="arm64")).gpus
    assert (gpu.total_bytes, gpu.name) == (1200 * MIB, "Apple M2")


@pytest.mark.case("B-13")
def test_an_old_processor_is_told_of(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "root" / "proc" / "cpuinfo"
    cpuinfo.parent.mkdir(parents=True)
    cpuinfo.write_text("model name\t: An old one\nflags\t\t: fpu sse4_2 avx\n")
    machine = look(world(tmp_path))
    assert (machine.cpu, machine.cpu_features) == ("An old one", ("sse4_2", "avx"))
    assert any("no AVX2" in note for note in machine.notes)


# --- tools that misbehave -------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["floods", "dies", "garbles"])
def test_no_tool_takes_the_launcher_down(tmp_path: Path, mode: str) -> None:
    for tool in ("nvidia-smi", "rocm-smi", "rocminfo", "vulkaninfo"):
        hardware_tool.write(tmp_path / "bin", tool, mode=mode)
    machine = look(world(tmp_path))
    assert machine.gpus == ()
    assert any(note.startswith("nvidia-smi names no GPU") for note in machine.notes)


def test_what_hangs_costs_one_time_out_in_all(tmp_path: Path) -> None:
    for tool in ("nvidia-smi", "rocm-smi", "rocminfo", "vulkaninfo"):
        hardware_tool.write(tmp_path / "bin", tool, mode="hangs")
    begun = time.monotonic()
    machine = look(world(tmp_path, timeout_s=2))
    assert time.monotonic() - begun < 2 + detect.GRACE_S + 0.5
    assert any("did not answer within 2 s" in note for note in machine.notes)


def test_one_that_hangs_does_not_hide_the_others(tmp_path: Path) -> None:
    hardware_tool.write(tmp_path / "bin", "nvidia-smi", mode="hangs")
    hardware_tool.write(tmp_path / "bin", "rocm-smi", {"": captured("rocm_smi.txt")})
    machine = look(world(tmp_path, timeout_s=3))
    assert [gpu.backend for gpu in machine.gpus] == ["rocm", "rocm"]


def test_a_program_for_another_system_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for tool in ("nvidia-smi", "vulkaninfo"):
        (tmp_path / "bin" / tool).write_bytes(b"\x7fELF\0\0 not really")
        (tmp_path / "bin" / tool).chmod(0o755)
    assert look(world(tmp_path)).gpus == ()


def test_a_probe_that_raises_or_never_ends_is_left_behind() -> None:
    def fails() -> int:
        raise ZeroDivisionError

    def never_ends() -> int:
        time.sleep(600)
        return 3

    begun = time.monotonic()
    assert probes.together([lambda: 1, fails, never_ends], 0.3) == [1, None, None]
    assert time.monotonic() - begun < 5


def test_without_tools_it_takes_no_time(tmp_path: Path) -> None:
    """Under 50 ms; the best of several, as others work on this machine too."""
    taken = []
    for _ in range(10):
        begun = time.monotonic()
        look(world(tmp_path))
        taken.append(time.monotonic() - begun)
    assert min(taken) < 0.05


def test_this_machine_in_the_background() -> None:
    machine = detect.in_background().result(timeout=30)
    assert (machine.ram_bytes, machine.system) == (RAM, detect.detect().system)
