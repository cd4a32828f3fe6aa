"""Pure: the builds of an engine line that can run on a machine, best first, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from launcher.catalog import Build, Line
from launcher.hardware.model import BACKENDS, Gpu, Machine
from launcher.hardware.parse import OLDEST_CUDA_GPU

Version = tuple[int, ...]

# Oldest driver of each CUDA toolkit (NVIDIA's release notes, "Minimum Required Driver Version"; within CUDA 13 a
# newer toolkit runs on the driver of the first). A toolkit that is not here takes the line of the next newer one.
OLDEST_DRIVER: tuple[tuple[Version, dict[str, Version]], ...] = (
    ((12, 4), {"Linux": (550, 54), "Windows": (551, 61)}),
    ((12, 8), {"Linux": (570, 26), "Windows": (570, 65)}),
    ((13, 99), {"Linux": (580,), "Windows": (580,)}),
)
CUDA_13 = (13, 0)
OLDEST_CARD_FOR_13 = 7.5  # CUDA 13 dropped Maxwell, Pascal and Volta
BLACKWELL = 12.0
FIRST_FOR_BLACKWELL = (12, 8)
UNKNOWN_DRIVER = (12, 4)  # what most drivers in use can run
OWN_SERVER = "build llama.cpp for it on this machine and name its llama-server with BONSAI_LLAMA_SERVER"


@dataclass(frozen=True)
class Picked:
    """A build and why it stands where it stands."""

    build: Build
    why: str


@dataclass(frozen=True)
class Builds:
    """``picked``: best first; empty when the line has nothing for this system and processor. ``passed``: (what,
    why not) of the machine's other builds. ``notices``: to be said aloud, when this line is taken.

    ``has_gpu_backend``: whether the first build computes as the machine's GPU is best used (True without a GPU).
    """

    picked: tuple[Picked, ...]
    passed: tuple[tuple[str, str], ...]
    notices: tuple[str, ...]
    has_gpu_backend: bool


def build_name(line: Line, build: Build) -> str:
    """ "prism-legacy for CUDA 12.8": how people call a build."""
    if build.backend == "cpu":
        return f"{line.name} for the processor"
    return f"{line.name} for {BACKENDS[build.backend]}{f' {build.cuda}' if build.cuda else ''}"


def without_avx2(machine: Machine) -> bool:
    """Whether this is an x86 processor that is known to lack AVX2."""
    features = machine.cpu_features
    return machine.arch == "x86_64" and features is not None and "avx2" not in features


def needs_avx2(line: Line) -> bool:
    """Whether the line's builds may end at once on an x86 processor without AVX2; mainline's come in several kinds."""
    return line.name.startswith("prism")


def wanted_backend(machine: Machine, *, spare_gpu: bool = False) -> tuple[str, str]:
    """(backend, why): how engines compute best on this machine, whatever builds there are.

    ``spare_gpu``: nothing is to be kept on the GPU (BONSAI_NGL=0), so that a GPU inside the processor is left out.
    """
    if machine.system == "Darwin":
        if machine.arch == "arm64":
            return "metal", "Macs with Apple silicon compute with Metal"
        return "cpu", "Macs with an Intel processor compute on it: Metal is unreliable there"
    gpus = usable(machine)
    if not gpus:
        old = [gpu for gpu in machine.gpus if gpu.backend == "cuda"]
        if old:
            return "vulkan", f"{old[0].name} is too old for CUDA 12"
        return "cpu", "no GPU was found"
    first = gpus[0]
    if spare_gpu and first.integrated and first.backend == "vulkan":
        return "cpu", f"BONSAI_NGL=0 leaves {first.name} out"
    more = f", the first of {len(machine.gpus)} GPUs" if len(machine.gpus) > 1 else ""
    return first.backend, f"{first.name}{more} is used through {BACKENDS[first.backend]}"


def usable(machine: Machine) -> list[Gpu]:
    """The GPUs without those that no CUDA 12 engine runs on."""
    return [gpu for gpu in machine.gpus if gpu.backend != "cuda" or _card(gpu) >= OLDEST_CUDA_GPU]


def seen_by(machine: Machine, backend: str) -> Machine:
    """The machine as an engine sees it that computes with ``backend``: without cards that are too old for CUDA, and
    with those through Vulkan that would better be used otherwise. To judge memory by."""
    if backend == "vulkan" and not any(gpu.backend == "vulkan" for gpu in machine.gpus):
        return replace(machine, gpus=tuple(replace(gpu, backend="vulkan") for gpu in machine.gpus))
    return replace(machine, gpus=tuple(usable(machine)))


def pick_builds(line: Line, machine: Machine, *, spare_gpu: bool = False) -> Builds:
    """The line's builds for ``machine`` in the order in which they are to be tried."""
    own = [it for it in line.builds if (it.system, it.arch) == (machine.system, machine.arch)]
    wanted, why = wanted_backend(machine, spare_gpu=spare_gpu)
    order = [wanted]
    if wanted in ("cuda", "rocm"):
        order.append("vulkan")
    if wanted != "cpu":
        order.append("cpu")
    why_not = _cuda_passed(own, machine) if wanted == "cuda" else {}
    picked: list[Picked] = []
    for backend in order:
        there = [it for it in own if it.backend == backend and it not in why_not]
        for build in _newest_that_fits(there, machine) if backend == "cuda" else there:
            picked.append(Picked(build, _place(build, why, machine, picked, wanted)))
    taken = [it.build for it in picked]
    passed = [(build_name(line, it), why_not.get(it) or _idle(it)) for it in own if it not in taken]
    notices = list(_notices(line, machine, wanted, picked, list(why_not.values())))
    has = bool(picked) and picked[0].build.backend == wanted
    return Builds(tuple(picked), tuple(passed), tuple(notices), has)


def _place(build: Build, why: str, machine: Machine, before: Sequence[Picked], wanted: str) -> str:
    """Why ``build`` is tried after those ``before`` it."""
    if not before:
        return f"{why}{_toolkit_why(build, machine)}" if build.backend == wanted else _second_best(build)
    if build.cuda and before[0].build.cuda:
        return f"CUDA {build.cuda}, if CUDA {before[0].build.cuda} does not run here{_toolkit_why(build, machine)}"
    if build.backend == "cpu":
        return "the processor, if nothing else runs here"
    return f"{BACKENDS[build.backend]}, if {BACKENDS[before[-1].build.backend]} does not run here"


def _second_best(build: Build) -> str:
    if build.backend == "cpu":
        return "there is no build that can use the GPU, so the processor computes"
    return f"{BACKENDS[build.backend]} is the best way to use the GPU that there is a build for"


def _toolkit_why(build: Build, machine: Machine) -> str:
    if build.cuda is None:
        return ""
    driver = _driver(machine)
    if driver is None:
        return f"; its driver's version is unknown, and CUDA {build.cuda} runs on most"
    needed = _oldest_driver(_version(build.cuda), machine)
    return f"; CUDA {build.cuda} needs driver {_dotted(needed)}, and this is {driver}"


def _gpu_name(machine: Machine) -> str:
    names = [gpu.name for gpu in usable(machine) or machine.gpus]
    return names[0] if names else "The GPU"


def _idle(build: Build) -> str:
    """Why a build for a GPU that is not the machine's stays out."""
    if build.backend == "vulkan":
        return "no GPU to use through Vulkan"
    if build.backend == "cpu":
        return "another build is better here"
    return f"no GPU to use through {BACKENDS[build.backend]}"


def _notices(
    line: Line, machine: Machine, wanted: str, picked: Sequence[Picked], why_not: Sequence[str]
) -> Iterator[str]:
    if not picked:
        return
    first = picked[0].build
    if first.backend != wanted:
        taken = "the processor computes" if first.backend == "cpu" else f"{BACKENDS[first.backend]} is used"
        if why_not:
            yield f"{BACKENDS[wanted]} is left out: {'; '.join(dict.fromkeys(why_not))}. Instead {taken}."
        else:
            yield (
                f"{_gpu_name(machine)} would be used through {BACKENDS[wanted]}, but {line.name} has no such "
                f"build for {machine.system} on {machine.arch}: {taken}. To use {BACKENDS[wanted]}, {OWN_SERVER}."
            )
    if first.cuda and _blackwell(machine) and _version(first.cuda) < FIRST_FOR_BLACKWELL:
        yield (
            f"CUDA {first.cuda} is older than {_gpu_name(machine)}: the driver translates its kernels at the "
            "first start, which takes minutes."
        )
    if first.note:
        yield first.note
    if without_avx2(machine) and needs_avx2(line):
        yield (
            f"This processor has no AVX2, and {line.name} builds may end at once on it. "
            "BONSAI_ENGINE=mainline has builds for older processors, for weights that it reads."
        )


# --- CUDA toolkits --------------------------------------------------------------------------


def _cuda_passed(own: Sequence[Build], machine: Machine) -> dict[Build, str]:
    """The CUDA builds that do not suit driver, cards or system, with the reason."""
    builds = [it for it in own if it.backend == "cuda" and it.cuda]
    out = {}
    for build in builds:
        reason = _cuda_why_not(build, builds, machine)
        if reason:
            out[build] = reason
    return out


def _cuda_why_not(build: Build, builds: Sequence[Build], machine: Machine) -> str | None:
    toolkit, driver = _version(build.cuda), _driver(machine)
    if (
        machine.system == "Windows"
        and toolkit >= CUDA_13
        and any(_version(it.cuda) < CUDA_13 for it in builds)
    ):
        return f"CUDA {build.cuda} builds are known to end without a word on Windows; the older one is used"
    small = min((it for it in usable(machine) if it.backend == "cuda"), key=_card)
    if toolkit >= CUDA_13 and _card(small) < OLDEST_CARD_FOR_13:
        return (
            f"CUDA {build.cuda} needs compute capability {OLDEST_CARD_FOR_13}, "
            f"and {small.name} has {small.compute_capability}"
        )
    if driver is None:
        newest = FIRST_FOR_BLACKWELL if _blackwell(machine) else UNKNOWN_DRIVER
        if toolkit > newest:
            return f"the driver's version is unknown, so CUDA {build.cuda} may be too new for it"
        return None
    needed = _oldest_driver(toolkit, machine)
    if _version(driver) < needed:
        return (
            f"CUDA {build.cuda} needs NVIDIA driver {_dotted(needed)} or newer, and this is {driver}: "
            "update the driver"
        )
    return None


def _newest_that_fits(builds: Sequence[Build], machine: Machine) -> list[Build]:
    """CUDA builds in the order to be tried: those that the driver knows by its own CUDA version first, newest first.

    Blackwell cards take 12.8, the first toolkit made for them; without it a newer one, then an older one.
    """
    runtime = next((gpu.runtime for gpu in usable(machine) if gpu.backend == "cuda"), None)
    known = _version(runtime) if runtime else FIRST_FOR_BLACKWELL

    def order(build: Build) -> tuple[bool, bool, bool, Version]:
        toolkit = _version(build.cuda)
        new = _blackwell(machine)
        falling = tuple(-part for part in toolkit)
        return (
            new and toolkit < FIRST_FOR_BLACKWELL,
            new and toolkit > FIRST_FOR_BLACKWELL,
            toolkit > known,
            falling,
        )

    return sorted(builds, key=order)


def _blackwell(machine: Machine) -> bool:
    return any(_card(gpu) >= BLACKWELL for gpu in usable(machine) if gpu.backend == "cuda")


def _card(gpu: Gpu) -> float:
    """Compute capability; unknown counts as new enough for everything but what asks for Blackwell."""
    known = re.fullmatch(r"\d+\.\d+", gpu.compute_capability or "")
    return float(known[0]) if known else OLDEST_CARD_FOR_13


def _driver(machine: Machine) -> str | None:
    driver = next((gpu.driver for gpu in usable(machine) if gpu.backend == "cuda"), None)
    return driver if driver and re.fullmatch(r"\d+(\.\d+)*", driver) else None


def _oldest_driver(toolkit: Version, machine: Machine) -> Version:
    """Inside WSL the driver is that of Windows."""
    system = "Windows" if machine.wsl else machine.system
    needed = next((drivers for newest, drivers in OLDEST_DRIVER if toolkit <= newest), OLDEST_DRIVER[-1][1])
    return needed[system]


def _version(text: str | None) -> Version:
    return tuple(int(part) for part in re.findall(r"\d+", text or ""))


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
