"""When a fetched engine fails at its start: the next that is here takes its place, with what was asked for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from launcher import catalog
from launcher.ask import make_lifecycle
from launcher.catalog import Build, Line
from launcher.choose_builds import pick_builds
from launcher.client.events import ChatRequest, Finished, Message
from launcher.engine_install import install
from launcher.engine_store import folder_name
from launcher.hardware.model import Machine
from launcher.lifecycle import Lifecycle, Status
from launcher.other_engines import other_engines
from launcher.paths import locate
from launcher.plan import make_plan
from launcher.practice import ensure_pair
from launcher.provision import resolve_all
from launcher.settings import Settings, resolve
from tests.conftest import wait_until
from tests.machines import load
from tests.standins import engine_archive, engine_script

pytestmark = pytest.mark.system("posix")  # the engines of these tests are shell scripts

CARD = load("rtx4090-cuda-12.8")
MAINLINE, LEGACY = catalog.load().line("mainline"), catalog.load().line("prism-legacy")
NO_ROOM = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 1200.00 MiB on device 0: cudaMalloc failed: out of memory"
TOO_OLD = "CUDA error: no kernel image is available for execution on the device"


def build_for(line: Line, backend: str) -> Build:
    """The first build for the card's machine with this backend."""
    return next(it.build for it in pick_builds(line, CARD).picked if it.build.backend == backend)


class Home:
    """A home with the practice pair, given by path, and engines of the test's choice."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.paths = folder, locate(str(folder / "home"))
        self.pair = ensure_pair(folder / "pair", "small")

    def settings(self, **env: str) -> Settings:
        given = {
            "BONSAI_MODEL": str(self.pair.target),
            "BONSAI_DRAFTER": str(self.pair.drafter),
            "BONSAI_SPECULATIVE": "1",
            "BONSAI_CTX": "4096",
        }
        return resolve({}, given | env)

    def put(self, line: Line, backend: str, script: str) -> Path:
        build = build_for(line, backend)
        archive = self.folder / "engine.tar.gz"
        archive.write_bytes(engine_archive(line, build, script))
        return install(self.paths.engines, line, build, [archive], lambda step: None)  # noqa: ARG005


@pytest.fixture
def here(tmp_path: Path) -> Home:
    return Home(tmp_path)


def real(server: Path) -> str:
    """A script that is the real llama-server."""
    return f'#!/bin/sh\nexec "{server}" "$@"\n'


def fails(server: Path, says: str, *, at_less: str = "") -> str:
    """One that answers questions about itself and dies when it is to load a model; with a context of 8,192 tokens it
    says ``at_less``, or "fine": it runs."""
    less = f'exec "{server}" "$@"' if at_less == "fine" else f"echo '{at_less or says}' >&2; exit 1"
    return (
        f'#!/bin/sh\ncase "$1" in --version|--help|--list-devices) exec "{server}" "$@";; esac\n'
        f'case "$*" in *"-c 8192 "*) {less};; esac\n'
        f"echo '{says}' >&2\nexit 1\n"
    )


Started = Callable[..., tuple[Lifecycle, Status]]


@pytest.fixture
def started(here: Home) -> Iterator[Started]:
    owners: list[Lifecycle] = []

    def start(machine: Machine = CARD, **env: str) -> tuple[Lifecycle, Status]:
        looked: Future[Machine] = Future()
        looked.set_result(machine)
        owners.append(make_lifecycle(here.settings(**env), here.paths, dict(os.environ), looked))
        owners[-1].start()
        wait_until(lambda: owners[-1].status().phase in ("ready", "failed"), 40, "the start to end")
        return owners[-1], owners[-1].status()

    yield start
    for owner in owners:
        owner.close()


async def ask(owner: Lifecycle) -> object:
    async with owner.lease("chat") as lease:
        request = ChatRequest((Message("user", "hello"),), max_tokens=8)
        return [event async for event in lease.client.chat(request)][-1]


@pytest.mark.case("D-10")
def test_the_next_build_on_disk_takes_over_with_the_drafter(
    here: Home, started: Started, built_engine: Path
) -> None:
    here.put(MAINLINE, "cuda", fails(built_engine, TOO_OLD))
    good = here.put(MAINLINE, "cpu", real(built_engine))
    owner, status = started()
    assert status.phase == "ready", status.message
    assert status.plan is not None
    assert Path(status.plan.resolved.engine.program[0]).parent == good
    assert (status.plan.resolved.engine.kind, status.plan.resolved.engine.backend) == ("fetched", "cpu")
    assert status.plan.spec_type == "draft-dspark", "what was asked for"
    assert "Trying mainline for the processor, which is on this machine, too" in status.steps[-1]
    assert any(it.startswith("The engine is mainline for the processor: ") for it in status.warnings)
    assert isinstance(asyncio.run(ask(owner)), Finished)


def test_engines_that_all_fail_are_each_tried_once(here: Home, started: Started, built_engine: Path) -> None:
    for backend in ("cuda", "vulkan", "cpu"):
        here.put(MAINLINE, backend, fails(built_engine, TOO_OLD))
    _, status = started(BONSAI_ENGINE="mainline")
    assert status.phase == "failed"
    starts = [step for step in status.steps if "Trying" in step]
    assert [step.split("Trying ")[1].split(",")[0] for step in starts] == [
        "mainline for Vulkan",
        "mainline for the processor",
    ]
    assert "Tried in vain: mainline for Vulkan, mainline for the processor." in status.remedy


def test_what_did_not_help_one_engine_may_help_the_next(
    here: Home, started: Started, built_engine: Path
) -> None:
    here.put(MAINLINE, "cuda", fails(built_engine, NO_ROOM, at_less=TOO_OLD))
    here.put(MAINLINE, "cpu", fails(built_engine, NO_ROOM, at_less="fine"))
    _, status = started(BONSAI_CTX="0")
    assert status.phase == "ready", status.message
    tried = [step.split("Trying ")[1].split(" …")[0] for step in status.steps]
    less = ["without the drafter", "a context of 8192 tokens"]
    assert tried == [*less, "mainline for the processor, which is on this machine, too", *less]


def test_only_what_reads_the_weights_and_is_whole(here: Home, built_engine: Path) -> None:
    here.put(MAINLINE, "cuda", real(built_engine))
    here.put(MAINLINE, "cpu", real(built_engine))
    here.put(LEGACY, "vulkan", engine_script("fork"))
    damaged = here.put(LEGACY, "cpu", engine_script("fork"))
    (damaged / "llama-server").unlink()
    settings = here.settings()
    resolved = resolve_all(settings, here.paths, {}, CARD)
    found = other_engines(make_plan(settings, CARD, resolved), settings, here.paths, CARD)
    assert [it.name for it in found] == ["prism-legacy for Vulkan", "mainline for the processor"], (
        "for a GPU first"
    )


def test_the_order_by_gpu_and_line(here: Home, built_engine: Path) -> None:
    for backend in ("cuda", "vulkan", "cpu"):
        here.put(MAINLINE, backend, real(built_engine))
    settings = here.settings()
    plan = make_plan(settings, CARD, resolve_all(settings, here.paths, {}, CARD))
    assert Path(plan.resolved.engine.program[0]).parent.name == folder_name(
        MAINLINE, build_for(MAINLINE, "cuda")
    )
    names = [it.name for it in other_engines(plan, settings, here.paths, CARD)]
    assert names == ["mainline for Vulkan", "mainline for the processor"]
