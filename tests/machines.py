"""Whole machines for tests, made by the real readers from what real tools print (tests/captured).

``python -m tests.machines`` writes them to tests/captured/machines, as `bonsai plan --json` would.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from launcher.hardware import detect, parse
from launcher.hardware.model import Machine, from_json
from launcher.hardware.probes import Found

CAPTURED = Path(__file__).parent / "captured"
FOLDER = CAPTURED / "machines"
GIB = 2**30
FEATURES = ("sse4_2", "avx", "avx2", "fma", "f16c", "bmi2")
PC = Machine("Linux", "x86_64", "a processor", 8, 16, 64 * GIB, 56 * GIB, cpu_features=FEATURES)
WINDOWS = replace(PC, system="Windows")
MAC = Machine("Darwin", "arm64", "Apple M2 Pro", 10, 10, 32 * GIB, 24 * GIB, cpu_features=("neon", "dotprod"))


def captured(name: str) -> str:
    """The text of a captured output."""
    return (CAPTURED / name).read_text(encoding="utf-8")


def nvidia(machine: Machine, query: str, header: str) -> Machine:
    """``query``: the answer to nvidia-smi's query form; ``header``: its plain table."""
    runtime = parse.nvidia_header(header).cuda
    gpus = tuple(replace(gpu, runtime=runtime) for gpu in parse.nvidia_query(query))
    return detect._with_found(machine, [Found(gpus, settled=frozenset({"nvidia"})), Found(), Found()])


def smi(driver: str, cuda: str) -> str:
    """The line of nvidia-smi's table that names both."""
    return f"| NVIDIA-SMI {driver}     Driver Version: {driver}     CUDA Version: {cuda}     |\n"


def vulkan(machine: Machine, summary: str) -> Machine:
    """``summary``: what ``vulkaninfo --summary`` prints."""
    devices = parse.vulkan_summary(summary)
    notes = tuple(
        f"Vulkan offers {name} only: that is the processor, not a GPU." for name in devices.software
    )
    return detect._with_found(machine, [Found(), Found(), Found(devices.gpus, () if devices.gpus else notes)])


def mac(machine: Machine, arch: str, chip: str, translated: str | None) -> Machine:
    """``arch``: this process's; the rest as sysctl answers."""
    found = parse.mac(arch, chip, translated, "0", machine.ram_bytes, machine.ram_free_bytes)
    return detect._with_mac(replace(machine, cpu=chip), found)


def rtx4090(driver: str, cuda: str, machine: Machine = PC) -> Machine:
    return nvidia(machine, f"NVIDIA GeForce RTX 4090, {driver}, 24564, 23900, 8.9\n", smi(driver, cuda))


def rtx5090(driver: str, cuda: str, machine: Machine) -> Machine:
    return nvidia(machine, f"NVIDIA GeForce RTX 5090, {driver}, 32607, 31800, 12.0\n", smi(driver, cuda))


def wsl(driver: str) -> Machine:
    query = f"NVIDIA GeForce RTX 3060, {driver}, 12288, 11000, 8.6\n"
    return nvidia(replace(PC, wsl=True), query, captured("smi_err.txt"))


def windows_13() -> Machine:
    header = parse.nvidia_header(captured("smi_umd_610.txt"))
    gpus = tuple(replace(gpu, runtime=header.cuda) for gpu in header.gpus)
    return detect._with_found(WINDOWS, [Found(gpus, settled=frozenset({"nvidia"})), Found(), Found()])


def rocm() -> Machine:
    gpus = parse.rocm_smi(captured("rocm_smi.txt"))
    return detect._with_found(PC, [Found(), Found(gpus, settled=frozenset({"amd"})), Found()])


def integrated() -> Machine:
    first = captured("vulkaninfo_two_gpus.txt").partition("GPU1:")[0]
    return vulkan(replace(PC, ram_bytes=16 * GIB, ram_free_bytes=12 * GIB), first)


def gb10() -> Machine:
    grace = Machine(
        "Linux", "arm64", "Cortex-X925", 20, 20, 120 * GIB, 110 * GIB, cpu_features=("neon", "sve")
    )
    return nvidia(grace, captured("smi_gb10_query.csv"), smi("580.126.09", "13.0"))


def no_avx2() -> Machine:
    return detect._with_found(replace(PC, cpu_features=("sse4_2", "avx")), [Found(), Found(), Found()])


MADE: dict[str, Callable[[], Machine]] = {
    "rtx4090-cuda-12.4": lambda: rtx4090("550.54.14", "12.4"),
    "rtx4090-cuda-12.8": lambda: rtx4090("570.86.10", "12.8"),
    "rtx4090-cuda-13.0": lambda: rtx4090("580.95.05", "13.0"),
    "rtx4090-cuda-13.3": lambda: rtx4090("610.47", "13.3"),
    "rtx4090-old-driver": lambda: rtx4090("535.183.06", "12.2"),
    "rtx5090": lambda: rtx5090("570.86.10", "12.8", PC),
    "two-cards": lambda: nvidia(PC, captured("smi_mixed_query.csv"), smi("580.95", "13.0")),
    "gb10": gb10,
    "wsl-unreadable-cuda": lambda: wsl("551.86"),
    "windows-cuda-12.4": lambda: rtx4090("551.86", "12.4", WINDOWS),
    "windows-cuda-13.3": windows_13,
    "windows-rtx5090": lambda: rtx5090("576.02", "12.9", WINDOWS),
    "windows-arm64": lambda: replace(WINDOWS, arch="arm64", cpu_features=("neon",)),
    "no-gpu": lambda: PC,
    "no-gpu-no-avx2": no_avx2,
    "vulkan-software-only": lambda: vulkan(PC, captured("vulkaninfo_llvmpipe.txt")),
    "vulkan-integrated": integrated,
    "rocm": rocm,
    "apple-m2": lambda: mac(MAC, "arm64", "Apple M2 Pro", "0"),
    "apple-m2-rosetta": lambda: mac(replace(MAC, arch="x86_64"), "x86_64", "Apple M2 Pro", "1"),
    "intel-mac": lambda: mac(
        replace(MAC, arch="x86_64", cpu_features=FEATURES), "x86_64", "Intel(R) Core(TM) i7-8750H", None
    ),
}


def load(name: str) -> Machine:
    """The machine in the file ``name``."""
    path = FOLDER / f"{name}.json"
    return from_json(path.read_text(encoding="utf-8"), path.name)


def write() -> None:
    """All of MADE to their files."""
    FOLDER.mkdir(exist_ok=True)
    for name, make in MADE.items():
        text = json.dumps(make().to_json(), indent=2) + "\n"
        (FOLDER / f"{name}.json").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write()
