"""Runs the hardware tools. Each probe ends within its time-out and returns what it found; none raises.

A probe is asked with a ``World``: what it may look at, so that a test can give it another one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from launcher.engine_probe import ToolOutput, run_tool
from launcher.hardware import parse
from launcher.hardware.model import Gpu

T = TypeVar("T")

PROBE_S = 4.0  # all runs of one probe; nvidia-smi takes up to two seconds where the driver has to be woken up
# No file with what the kernel tells of a processor needs more for its first one.
_CPUINFO_BYTES = 16384
_TEXT_CHARS = 200_000
# PF_AVX2_INSTRUCTIONS_AVAILABLE and friends, as winnt.h numbers them.
_WINDOWS_FEATURES = {38: "sse4_2", 39: "avx", 40: "avx2", 41: "avx512f", 19: "neon", 43: "dotprod"}


@dataclass(frozen=True)
class World:
    """What the probes see: ``system`` and ``arch`` as Python names them, the environment, the folders in which
    tools lie although PATH does not name them, and where /proc begins. ``timeout_s`` is for each probe."""

    system: str
    arch: str
    env: Mapping[str, str]
    folders: tuple[str, ...]
    root: Path = Path("/")
    timeout_s: float = PROBE_S


@dataclass(frozen=True)
class Found:
    """``settled``: vendors whose GPUs are told of here in full, so that no other tool may bring them in
    again, whether a variable hides them or not."""

    gpus: tuple[Gpu, ...] = ()
    notes: tuple[str, ...] = ()
    settled: frozenset[str] = frozenset()


def usual_folders(system: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Where tools lie besides PATH: programs started from a desktop or as a service have a short one."""
    if system == "Windows":
        names = {name.upper(): value for name, value in env.items()}
        windows = names.get("SYSTEMROOT", "C:\\Windows")
        programs = names.get("PROGRAMFILES", "C:\\Program Files")
        return (f"{windows}\\System32", f"{programs}\\NVIDIA Corporation\\NVSMI")
    if system == "Darwin":
        return ("/usr/sbin", "/usr/bin")
    return ("/usr/lib/wsl/lib", "/usr/bin", "/opt/rocm/bin")


def places(world: World, tool: str) -> list[str]:
    """Every program of that name, PATH first, each once; the current folder does not count."""
    listed = [folder for folder in world.env.get("PATH", "").split(os.pathsep) if Path(folder).is_absolute()]
    names = [f"{tool}.exe", tool] if world.system == "Windows" else [tool]
    found: dict[str, str] = {}
    for folder in (*listed, *world.folders):
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118 -- a folder of another system stays as it is
            if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113
                found.setdefault(os.path.realpath(path), path)
    return list(found.values())


@dataclass(frozen=True)
class Until:
    """The moment, as time.monotonic() counts, after which a probe starts and awaits nothing more."""

    moment: float

    def ask(self, program: str, *arguments: str) -> ToolOutput:
        """Run it. A program that cannot be started, or does not end in time, has no text."""
        left = self.moment - time.monotonic()
        if left <= 0:
            return ToolOutput(None, "", timed_out=True)
        try:
            output = run_tool([program, *arguments], timeout_s=left)
        except (OSError, ValueError, RuntimeError):
            return ToolOutput(None, "")
        # A flood must not keep the patterns busy: they hold up every other thread.
        return replace(output, text="" if output.timed_out else output.text[:_TEXT_CHARS])


def together(tasks: Sequence[Callable[[], T]], timeout_s: float) -> list[T | None]:
    """Every task's answer, run at the same time; None for one that raised or has none after ``timeout_s`` s.

    The threads are left behind then: a tool that hangs inside the driver cannot even be killed, and must neither
    hold up the launcher nor its end.
    """
    answers: list[T | None] = [None] * len(tasks)

    def run(at: int) -> None:
        with contextlib.suppress(Exception):  # a probe must not take the launcher down, whatever it meets
            answers[at] = tasks[at]()

    threads = [threading.Thread(target=run, args=(at,), daemon=True) for at in range(len(tasks))]
    for thread in threads:
        thread.start()
    end = time.monotonic() + timeout_s
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0))
    return list(answers)


# --- the probes -----------------------------------------------------------------------------


def nvidia(world: World) -> Found:
    """NVIDIA's GPUs that CUDA_VISIBLE_DEVICES leaves, from nvidia-smi alone: a CUDA toolkit is no GPU."""
    until = Until(time.monotonic() + world.timeout_s)
    excuses: list[str] = []
    for program in places(world, "nvidia-smi"):
        query, table = together(
            [partial(until.ask, program, *_QUERY), partial(until.ask, program)], world.timeout_s
        )
        header = parse.nvidia_header(table.text if table else "")
        gpus = parse.nvidia_query(query.text if query else "") or header.gpus
        mask = world.env.get("CUDA_VISIBLE_DEVICES")
        listed: Sequence[tuple[Gpu, tuple[str, ...]]] = ()
        if not gpus or (mask and "-" in mask.replace("-1", "")):
            listed = parse.nvidia_list(until.ask(program, "-L").text)
            gpus = gpus or tuple(gpu for gpu, _ in listed)
        if gpus:
            known = tuple(
                replace(gpu, driver=gpu.driver or header.driver, runtime=header.cuda) for gpu in gpus
            )
            return _nvidia_visible(known, mask, [uuids for _, uuids in listed], world.env)
        excuses.append(_excuse(query, table, world.timeout_s))
    return Found(notes=tuple(excuses[:1]))


_QUERY = (
    "--query-gpu=name,driver_version,memory.total,memory.free,compute_cap",
    "--format=csv,noheader,nounits",
)


def _nvidia_visible(
    gpus: tuple[Gpu, ...], mask: str | None, uuids: Sequence[Sequence[str]], env: Mapping[str, str]
) -> Found:
    visible = parse.masked(gpus, mask, uuids)
    notes = []
    if mask is not None and len(visible) < len(gpus):
        gone = len(gpus) - len(visible)
        notes.append(f"CUDA_VISIBLE_DEVICES={mask!r} hides {gone} of {len(gpus)} NVIDIA GPUs.")
        if visible and len({gpu.name for gpu in gpus}) > 1 and env.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            notes.append(
                "CUDA counts from the fastest GPU, nvidia-smi by slot: the engine may see another one."
            )
    return Found(visible, tuple(notes), frozenset({"nvidia"}))


def _excuse(query: ToolOutput | None, table: ToolOutput | None, timeout_s: float) -> str:
    """Why nvidia-smi is there and names no GPU."""
    answers = [it for it in (query, table) if it is not None]
    if not answers or any(it.timed_out for it in answers):
        return (
            f"nvidia-smi did not answer within {timeout_s:g} s: whether there is an NVIDIA GPU is not known."
        )
    said = next(
        (line.strip(" |") for it in answers for line in it.text.splitlines() if line.strip(" +-=|")), ""
    )
    return f"nvidia-smi names no GPU{f'; it says: {said[:120]}' if said else ' and prints nothing'}."


def rocm(world: World) -> Found:
    """AMD's GPUs that ROCm knows, from rocm-smi or rocminfo."""
    until = Until(time.monotonic() + world.timeout_s)
    for tool, arguments, read in (
        ("rocm-smi", _ROCM_SMI, parse.rocm_smi),
        ("rocminfo", (), parse.rocminfo),
    ):
        for program in places(world, tool):
            if gpus := read(until.ask(program, *arguments).text):
                mask = world.env.get("HIP_VISIBLE_DEVICES")
                visible = parse.masked(gpus, mask)
                hides = (
                    f"HIP_VISIBLE_DEVICES={mask!r} hides {len(gpus) - len(visible)} of {len(gpus)} AMD GPUs."
                )
                return Found(visible, (hides,) if len(visible) < len(gpus) else (), frozenset({"amd"}))
    return Found()


_ROCM_SMI = ("--showproductname", "--showmeminfo", "vram", "--showdriverversion", "--json")


def vulkan(world: World) -> Found:
    """GPUs that Vulkan offers; a software device is none, and said to be none."""
    until = Until(time.monotonic() + world.timeout_s)
    for program in places(world, "vulkaninfo"):
        devices = parse.vulkan_summary(until.ask(program, "--summary").text)
        if devices.gpus or not devices.software:
            return Found(_with_memory(devices.gpus, world))
        return Found(notes=(f"Vulkan offers {devices.software[0]} only: that is the processor, not a GPU.",))
    return Found()


def _with_memory(gpus: tuple[Gpu, ...], world: World) -> tuple[Gpu, ...]:
    """vulkaninfo's summary has no sizes; the kernel's driver tells those of a single AMD card."""
    cards = [path.parent for path in (world.root / "sys/class/drm").glob("card*/device/mem_info_vram_total")]
    if len(cards) != 1 or [gpu.vendor for gpu in gpus].count("amd") != 1:
        return gpus
    total, used = (_whole(cards[0] / f"mem_info_vram_{what}") for what in ("total", "used"))
    free = None if total is None or used is None else max(total - used, 0)
    return tuple(
        replace(gpu, total_bytes=total, free_bytes=free) if gpu.vendor == "amd" else gpu for gpu in gpus
    )


def _whole(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def mac(world: World, ram_bytes: int | None, ram_free_bytes: int | None) -> parse.Mac:
    """What sysctl tells of a Mac; the memory sizes are the system's."""
    until = Until(time.monotonic() + world.timeout_s)
    program = next(iter(places(world, "sysctl")), None)

    def ask(name: str) -> str | None:
        answer = until.ask(program, "-n", name) if program else None
        return answer.text.strip() if answer and answer.returncode == 0 else None

    names = ("machdep.cpu.brand_string", "sysctl.proc_translated", "iogpu.wired_limit_mb")
    chip, translated, limit = together([partial(ask, name) for name in names], world.timeout_s)
    return parse.mac(world.arch, chip, translated, limit, ram_bytes, ram_free_bytes)


def processor(world: World) -> tuple[str | None, tuple[str, ...] | None]:
    """(name, features) of the processor; None where the system does not tell."""
    if world.system == "Darwin":
        return _mac_processor(world)
    if world.system == "Windows":
        kernel: Any = getattr(ctypes, "windll", None)
        if kernel is None:
            return None, None
        there = [
            name
            for number, name in _WINDOWS_FEATURES.items()
            if kernel.kernel32.IsProcessorFeaturePresent(number)
        ]
        return None, parse.features(there)
    with (world.root / "proc/cpuinfo").open("rb") as file:
        return parse.cpuinfo(file.read(_CPUINFO_BYTES).decode("utf-8", "replace"))


def _mac_processor(world: World) -> tuple[str | None, tuple[str, ...] | None]:
    until = Until(time.monotonic() + world.timeout_s)
    program = next(iter(places(world, "sysctl")), None)
    if program is None:
        return None, None
    # Names that this processor does not have are reported and passed over.
    text = until.ask(program, "machdep.cpu", "hw.optional.arm").text
    values = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())
    }
    intel = " ".join(values.get(f"machdep.cpu.{part}features", "") for part in ("", "leaf7_"))
    arm = [
        key.removeprefix("hw.optional.arm.")
        for key, value in values.items()
        if ".FEAT_" in key and value == "1"
    ]
    flags = [*intel.split(), *arm, *(["neon"] if arm or world.arch == "arm64" else [])]
    return values.get("machdep.cpu.brand_string"), parse.features(flags) if flags else None


def inside_wsl(world: World) -> bool:
    """Whether this Linux runs inside Windows: its kernel says so."""
    try:
        release = (world.root / "proc/sys/kernel/osrelease").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return world.system == "Linux" and "microsoft" in release.lower()
