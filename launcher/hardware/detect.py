"""Looks at this machine: system, processor, memory and GPUs."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import psutil

from launcher.hardware import probes
from launcher.hardware.model import Gpu, Machine
from launcher.hardware.parse import Mac
from launcher.hardware.probes import Found, World

T = TypeVar("T")

# For a tool that cannot even be killed: a little later than the probe's own end.
GRACE_S = 0.5
_ARCHES = {"amd64": "x86_64", "aarch64": "arm64"}


def detect() -> Machine:
    """What this machine is; never raises, unknown values are None.

    All tools run at the same time, so it takes as long as the slowest, at most PROBE_S + GRACE_S; without any
    of them some milliseconds.
    """
    return look(this_world())


def this_world() -> World:
    """What there is to look at on this machine."""
    system, arch = platform.system(), platform.machine().lower()
    env = dict(os.environ)
    return World(system, _ARCHES.get(arch, arch), env, probes.usual_folders(system, env))


def in_background() -> Future[Machine]:
    """``detect``, begun now on a thread of its own."""
    result: Future[Machine] = Future()
    world = this_world()

    def run() -> None:
        try:
            result.set_result(look(world))
        except BaseException as error:  # whoever waits must not wait for ever
            result.set_exception(error)

    threading.Thread(target=run, name="hardware", daemon=True).start()
    return result


def look(world: World) -> Machine:
    """``detect`` in a given world."""
    memory = _quiet(psutil.virtual_memory)
    ram, ram_free = (memory.total, memory.available) if memory else (None, None)
    asked: list[Callable[[], Any]] = [partial(probes.processor, world)]
    if world.system == "Darwin":
        asked.append(partial(probes.mac, world, ram, ram_free))
    else:
        asked += [partial(probe, world) for probe in (probes.nvidia, probes.rocm, probes.vulkan)]
    processor, *answers = probes.together(asked, world.timeout_s + GRACE_S)
    name, features = processor or (None, None)
    machine = Machine(
        system=world.system,
        arch=world.arch,
        cpu=name or _quiet(platform.processor) or None,
        cores=_quiet(lambda: psutil.cpu_count(logical=False)),
        threads=_quiet(psutil.cpu_count),
        ram_bytes=ram,
        ram_free_bytes=ram_free,
        cpu_features=features,
        wsl=probes.inside_wsl(world),
    )
    if world.system == "Darwin":
        return _with_mac(machine, answers[0])
    return _with_found(machine, [answer or _UNANSWERED for answer in answers])


_UNANSWERED = Found(
    notes=("A tool that lists GPUs did not end in time: there may be a GPU that is not shown.",)
)


def _with_mac(machine: Machine, mac: Mac | None) -> Machine:
    if mac is None:
        return replace(machine, notes=_UNANSWERED.notes)
    # What sysctl tells of the processor under Rosetta is the translated one's.
    features = ("neon",) if mac.rosetta else machine.cpu_features
    return replace(
        machine,
        arch=mac.arch,
        rosetta=mac.rosetta,
        gpus=mac.gpus,
        notes=mac.notes + _old_processor(mac.arch, features),
        cpu_features=features,
    )


def _with_found(machine: Machine, found: Sequence[Found]) -> Machine:
    """Each card once: what a better way to use it has told of, Vulkan does not list again."""
    gpus: list[Gpu] = []
    settled: set[str] = set()
    for one in found:
        gpus += [gpu for gpu in one.gpus if gpu.vendor not in settled]
        settled |= one.settled
    shared = [_shared(gpu, machine) for gpu in gpus]
    software = not shared  # a software device is worth a word only where there is nothing better
    notes = [note for at, one in enumerate(found) for note in one.notes if software or at < len(found) - 1]
    notes += _old_processor(machine.arch, machine.cpu_features)
    return replace(machine, gpus=tuple(shared), notes=tuple(dict.fromkeys(notes)))


def _shared(gpu: Gpu, machine: Machine) -> Gpu:
    """A GPU that has no memory of its own uses the machine's."""
    if not gpu.unified or gpu.total_bytes is not None:
        return gpu
    note = gpu.note or "it uses the machine's memory"
    return replace(gpu, total_bytes=machine.ram_bytes, free_bytes=machine.ram_free_bytes, note=note)


def _old_processor(arch: str, features: tuple[str, ...] | None) -> tuple[str, ...]:
    if arch != "x86_64" or features is None or "avx2" in features:
        return ()
    return ("This processor has no AVX2: many ready-made engines end at once on it; one built here runs.",)


def _quiet(probe: Callable[[], T]) -> T | None:
    """The probe's answer, or None when the system does not give it: a probe never ends the launcher."""
    try:
        return probe()
    except (OSError, RuntimeError, NotImplementedError, psutil.Error):
        return None
