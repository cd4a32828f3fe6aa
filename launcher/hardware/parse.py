"""Reads what the hardware tools print. Pure: text in, GPUs out; what cannot be read is None or left out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from launcher.amounts import gib
from launcher.hardware.model import Gpu

MIB = 2**20
# Fields of nvidia-smi that hold no value, beside everything in square brackets.
_UNREADABLE = {"", "n/a", "err!", "not supported", "unknown error", "unknown"}
_DRIVER = re.compile(r"\d{3,}(\.\d+)+")
# NVIDIA's systems on a chip: processor and GPU share one memory, which nvidia-smi does not report.
_SHARED_MEMORY = re.compile(r"\b(GB10|DGX Spark|Orin|Thor|Xavier|Tegra|Jetson|nvgpu)\b", re.IGNORECASE)
OLDEST_CUDA_GPU = 5.0  # compute capability; CUDA 12 dropped Kepler
_SOFTWARE = re.compile(r"llvmpipe|lavapipe|swiftshader|softpipe", re.IGNORECASE)
_PCI_VENDORS = {0x10DE: "nvidia", 0x1002: "amd", 0x8086: "intel", 0x106B: "apple"}
# AMD's processors with graphics, by the name of their instruction set.
_AMD_INTEGRATED = re.compile(r"gfx(902|909|90c|1013|103[3-7]|110[36]|115\d)$")
_FEATURES = (
    "sse4_2", "avx", "avx2", "fma", "f16c", "bmi2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8",
    "neon", "dotprod", "fp16", "i8mm", "sve", "sve2", "sme",
)  # fmt: skip
_OTHER_NAMES = {
    "asimd": "neon", "asimddp": "dotprod", "asimdhp": "fp16", "sse4.2": "sse4_2", "avx1.0": "avx",
    "feat_dotprod": "dotprod", "feat_i8mm": "i8mm", "feat_fp16": "fp16", "feat_sme": "sme",
}  # fmt: skip
INTEGRATED_NOTE = (
    "it shares chip and memory with the processor and may be no faster; BONSAI_NGL=0 leaves it out"
)


# --- NVIDIA ---------------------------------------------------------------------------------


def nvidia_query(text: str) -> tuple[Gpu, ...]:
    """The GPUs in the answer to ``--query-gpu=name,driver_version,memory.total,memory.free,compute_cap``.

    One line for each GPU, without header and units. Also read with the driver's version after the memory, as
    other programs ask for it.
    """
    gpus: list[Gpu] = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        name, values = ", ".join(fields[:-4]), fields[-4:]
        if len(values) == 4 and name and "|" not in name and all(map(_is_field, values)):
            if _DRIVER.fullmatch(values[2]):
                values = [values[2], values[0], values[1], values[3]]
            gpus.append(_nvidia_gpu(name, values, len(gpus)))
    return tuple(gpus)


def _is_field(text: str) -> bool:
    return _readable(text) is None or re.fullmatch(r"\d+(\.\d+)*( MiB)?", text) is not None


def _readable(text: str) -> str | None:
    bracketed = text.startswith("[") and text.endswith("]")
    return None if bracketed or text.lower() in _UNREADABLE else text


def _nvidia_gpu(name: str, values: Sequence[str], index: int) -> Gpu:
    driver, total, free, capability = (_readable(value) for value in values)
    capability = capability if capability and re.fullmatch(r"\d+\.\d+", capability) else None
    note = ""
    if capability and float(capability) < OLDEST_CUDA_GPU:
        note = f"compute capability {capability} is too old for engines made with CUDA 12 or newer"
    return Gpu(
        vendor="nvidia",
        name=name,
        backend="cuda",
        driver=driver,
        total_bytes=_mib(total) or None,  # drivers that do not know it may say 0
        free_bytes=_mib(free) if _mib(total) else None,
        compute_capability=capability,
        unified=not _mib(total) and _SHARED_MEMORY.search(name) is not None,
        index=index,
        note=note,
    )


def _mib(text: str | None) -> int | None:
    found = re.fullmatch(r"(\d+)( MiB)?", text or "")
    return int(found[1]) * MIB if found else None


@dataclass(frozen=True)
class NvidiaHeader:
    """What the table of plain ``nvidia-smi`` tells: driver and CUDA version (None: not readable), GPUs."""

    driver: str | None
    cuda: str | None
    gpus: tuple[Gpu, ...]


def nvidia_header(text: str) -> NvidiaHeader:
    """Reads both forms of the header; the GPUs of the table serve where the query is not answered."""
    driver = re.search(r"(?:Driver|KMD) Version:\s*(\d+(?:\.\d+)+)", text)
    cuda = re.search(r"CUDA (?:UMD )?Version:\s*(\d+\.\d+)", text)
    gpus: list[Gpu] = []
    for line in text.splitlines():
        if row := re.match(r"\|\s+\d+\s+(\S.*?)\s{2,}(?:\S+\s+)?\|\s+[0-9A-Fa-f]{4,8}:", line):
            values = [driver[1] if driver else "", "", "", ""]
            gpus.append(
                _nvidia_gpu(row[1].removesuffix(" Off").removesuffix(" On").strip(), values, len(gpus))
            )
        elif gpus and (row := re.search(r"\|\s*(\d+)MiB /\s*(\d+)MiB \|", line)):
            used, total = int(row[1]) * MIB, int(row[2]) * MIB
            gpus[-1] = replace(gpus[-1], total_bytes=total, free_bytes=max(total - used, 0), unified=False)
    return NvidiaHeader(driver[1] if driver else None, cuda[1] if cuda else None, tuple(gpus))


def nvidia_list(text: str) -> tuple[tuple[Gpu, tuple[str, ...]], ...]:
    """Each GPU of ``nvidia-smi -L`` with its UUID and, after it, those of its MIG slices."""
    found: list[tuple[Gpu, tuple[str, ...]]] = []
    for line in text.splitlines():
        if row := re.match(r"GPU \d+: (.+?) \(UUID: (GPU-[^)]+)\)", line):
            found.append((_nvidia_gpu(row[1], ["", "", "", ""], len(found)), (row[2],)))
        elif found and (row := re.match(r"\s+MIG .*\(UUID: (MIG-[^)]+)\)", line)):
            found[-1] = (found[-1][0], (*found[-1][1], row[1]))
    return tuple(found)


def masked(gpus: Sequence[Gpu], mask: str | None, uuids: Sequence[Sequence[str]] = ()) -> tuple[Gpu, ...]:
    """The GPUs that ``mask`` (CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES; None: not set) leaves visible.

    Read as the driver does: numbers or beginnings of UUIDs, in the order given, up to the first that stands for no
    GPU; empty or -1 hides all. ``uuids``: those of each GPU; without them, a mask of UUIDs leaves all.
    """
    if mask is None:
        return tuple(gpus)
    chosen: dict[int, Gpu] = {}
    for entry in (part.strip() for part in mask.split(",")):
        if entry.isdecimal() and entry.isascii():
            at = int(entry) if len(entry) < 6 else len(gpus)
        elif entry.upper().startswith(("GPU-", "MIG-")):
            if not uuids:
                return tuple(
                    replace(gpu, note="CUDA_VISIBLE_DEVICES may hide it: its UUID is unknown") for gpu in gpus
                )
            at = next(
                (at for at, own in enumerate(uuids) if any(_begins(it, entry) for it in own)), len(gpus)
            )
        else:
            break
        if at >= len(gpus):
            break
        gpu = gpus[at]
        if entry.upper().startswith("MIG-"):  # the memory is that of the whole card
            gpu = replace(gpu, total_bytes=None, free_bytes=None, note="a slice of it (MIG), memory unknown")
        chosen.setdefault(at, gpu)
    return tuple(chosen.values())


def _begins(uuid: str, entry: str) -> bool:
    return uuid.lower().startswith(entry.lower())


# --- AMD ------------------------------------------------------------------------------------


def rocm_smi(text: str) -> tuple[Gpu, ...]:
    """The GPUs in the JSON of ``rocm-smi --showproductname --showmeminfo vram --showdriverversion --json``."""
    start, end = text.find("{"), text.rfind("}")
    try:
        found = json.loads(text[start : end + 1]) if start >= 0 else {}
    except (ValueError, RecursionError):
        return ()
    if not isinstance(found, dict):
        return ()
    cards = {name: _lowered(values) for name, values in found.items() if isinstance(values, dict)}
    driver = _text(cards.get("system", {}), "driver version")
    gpus: list[Gpu] = []
    for name in sorted(
        (name for name in cards if re.fullmatch(r"card\d+", name)), key=lambda it: int(it[4:])
    ):
        card = cards[name]
        series, isa = _text(card, "card series", "device name", "card model"), _text(card, "gfx version")
        total, used = (_number(card, f"vram total {what}memory (b)") for what in ("", "used "))
        free = None if total is None or used is None else max(total - used, 0)
        gpus.append(_amd_gpu(series or "AMD GPU", isa, total, free, driver, len(gpus)))
    return tuple(gpus)


def _lowered(values: Mapping[str, Any]) -> dict[str, str]:
    return {name.lower().strip(): str(value).strip() for name, value in values.items()}


def _text(card: Mapping[str, str], *names: str) -> str | None:
    return next((card[name] for name in names if card.get(name, "N/A") not in ("N/A", "")), None)


def _number(card: Mapping[str, str], name: str) -> int | None:
    text = card.get(name, "")
    return int(text) if re.fullmatch(r"\d{1,18}", text) else None


def _amd_gpu(
    name: str, isa: str | None, total: int | None, free: int | None, driver: str | None, index: int
) -> Gpu:
    isa = isa if isa and isa.startswith("gfx") else None
    integrated = isa is not None and _AMD_INTEGRATED.match(isa) is not None
    return Gpu(
        vendor="amd",
        name=name,
        backend="rocm",
        driver=driver,
        total_bytes=total,
        free_bytes=free,
        compute_capability=isa,
        integrated=integrated,
        unified=integrated,
        index=index,
        note=INTEGRATED_NOTE if integrated else "",
    )


def rocminfo(text: str) -> tuple[Gpu, ...]:
    """The GPU agents that ``rocminfo`` lists; the size is that of an agent's own global memory."""
    gpus: list[Gpu] = []
    for agent in re.split(r"(?m)^\*{3,}\s*\nAgent \d+\s*\n\*{3,}\s*$", text)[1:]:
        values = {key.strip(): value.strip() for key, value in re.findall(r"(?m)^  (\S[^:\n]*):(.*)$", agent)}
        if values.get("Device Type") != "GPU":
            continue
        pools = re.findall(r"Segment:\s*GLOBAL;[^\n]*\n\s*Size:\s*(\d{1,15})\(", agent)
        total = max((int(size) * 1024 for size in pools), default=None)
        isa, name = values.get("Name"), values.get("Marketing Name")
        gpus.append(_amd_gpu(name or isa or "AMD GPU", isa, total, None, None, len(gpus)))
    return tuple(gpus)


# --- Vulkan ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class VulkanDevices:
    """``software`` names devices that are the processor in disguise."""

    gpus: tuple[Gpu, ...]
    software: tuple[str, ...]


def vulkan_summary(text: str) -> VulkanDevices:
    """The devices of ``vulkaninfo --summary``; a card that two drivers offer is taken once."""
    gpus: list[Gpu] = []
    software: list[str] = []
    drivers: dict[tuple[str, str], str] = {}
    for block in re.split(r"(?m)^GPU\d+:\s*$", text)[1:]:
        values = dict(re.findall(r"(?m)^\s*(\w+)\s*=\s*(.*?)\s*$", block))
        name, kind = (
            values.get("deviceName", ""),
            values.get("deviceType", "").removeprefix("PHYSICAL_DEVICE_TYPE_"),
        )
        if kind == "CPU" or _SOFTWARE.search(name):
            software.append(name)
            continue
        if not name or kind not in ("DISCRETE_GPU", "INTEGRATED_GPU", "VIRTUAL_GPU"):
            continue
        card = (values.get("vendorID", ""), values.get("deviceID", ""))
        driver = values.get("driverName", "")
        if drivers.setdefault(card, driver) == driver:
            gpus.append(_vulkan_gpu(name, kind, values, len(gpus)))
    return VulkanDevices(tuple(gpus), tuple(software))


def _vulkan_gpu(name: str, kind: str, values: Mapping[str, str], index: int) -> Gpu:
    vendor = values.get("vendorID", "")
    integrated = kind == "INTEGRATED_GPU"
    driver = " ".join(filter(None, (values.get("driverName"), values.get("driverInfo")))) or None
    virtual = "a virtual GPU: what is behind it is not known" if kind == "VIRTUAL_GPU" else ""
    return Gpu(
        vendor=_PCI_VENDORS.get(int(vendor, 16) if re.fullmatch(r"0x[0-9a-fA-F]+", vendor) else 0, "other"),
        name=name,
        backend="vulkan",
        driver=driver,
        integrated=integrated,
        unified=integrated,
        index=index,
        note=INTEGRATED_NOTE if integrated else virtual,
    )


# --- Apple and processors -------------------------------------------------------------------


@dataclass(frozen=True)
class Mac:
    """``arch`` is the machine's own."""

    arch: str
    rosetta: bool
    gpus: tuple[Gpu, ...]
    notes: tuple[str, ...]


DEFAULT_METAL_SHARE = 0.7  # of all memory; macOS lets the GPU have two thirds to three quarters
_M5 = (
    "some releases of macOS 26 fail on this chip with 'error compiling source'; "
    "GGML_METAL_TENSOR_DISABLE=1 in the environment works around it"
)


def mac(
    arch: str,
    chip: str | None,
    translated: str | None,
    wired_limit_mb: str | None,
    ram_bytes: int | None,
    ram_free_bytes: int | None,
) -> Mac:
    """What a Mac is, from what ``sysctl -n`` answers (None: no answer).

    ``arch`` is this process's: x86_64 on Apple silicon under Rosetta. The GPU's memory is iogpu.wired_limit_mb
    where it is set, else DEFAULT_METAL_SHARE of all. Intel Macs get no GPU: Metal runs there, and wrongly.
    """
    rosetta = arch != "arm64" and ((translated or "").strip() == "1" or "Apple" in (chip or ""))
    if arch != "arm64" and not rosetta:
        return Mac(arch, False, (), ("This Mac has an Intel processor: engines run on it, not on Metal.",))
    set_by = re.fullmatch(r"\s*(\d{1,9})\s*", wired_limit_mb or "")
    limit = int(set_by[1]) * MIB if set_by else 0
    cap = ram_bytes
    if ram_bytes is not None:
        cap = min(limit, ram_bytes) if limit else round(ram_bytes * DEFAULT_METAL_SHARE)
    name = chip if chip and chip.startswith("Apple") else "Apple silicon"
    of = "" if ram_bytes is None else f" of {gib(ram_bytes)}"
    note = f"macOS lets the GPU use at most {gib(cap)}{of} " if cap is not None else ""
    if note:
        note += (
            "(iogpu.wired_limit_mb)"
            if limit
            else f"(about {DEFAULT_METAL_SHARE:.0%}; iogpu.wired_limit_mb is not set)"
        )
    if re.search(r"\bM5\b", name):
        note = "; ".join(filter(None, (note, _M5)))
    gpu = Gpu(
        vendor="apple",
        name=name,
        backend="metal",
        total_bytes=cap,
        free_bytes=None if cap is None or ram_free_bytes is None else min(cap, ram_free_bytes),
        integrated=True,
        unified=True,
        note=note,
    )
    notes = (
        (
            "This Python runs through Rosetta; engines for Apple silicon are used, and a native Python is faster.",
        )
        if rosetta
        else ()
    )
    return Mac("arm64", rosetta, (gpu,), notes)


def cpuinfo(text: str) -> tuple[str | None, tuple[str, ...] | None]:
    """(name, features) of the first processor in Linux's /proc/cpuinfo; None where it does not tell."""
    values = {
        key.strip(): value.strip()
        for key, _, value in (line.partition(":") for line in text.splitlines()[::-1])
    }
    flags = values.get("flags") or values.get("Features")
    return values.get("model name") or None, features(flags.split()) if flags else None


def features(flags: Sequence[str]) -> tuple[str, ...]:
    """Those of ``flags`` (as Linux or macOS spell them) that matter to an engine, in Linux's spelling."""
    known = {_OTHER_NAMES.get(flag.lower(), flag.lower()) for flag in flags}
    return tuple(name for name in _FEATURES if name in known)
