"""`bonsai plan` and `bonsai doctor` for every captured machine: the engine's assets, the flags, and the reasons."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from launcher import catalog
from launcher.doctor import Report, examine, report_json
from launcher.engine_install import install
from launcher.paths import locate
from launcher.settings import resolve
from tests.conftest import Bonsai
from tests.machines import FOLDER, MADE, load
from tests.standins import engine_archive, engine_script

WEIGHTS, DRAFTER = "Ternary-Bonsai-27B-Q2_0.gguf", "Ternary-Bonsai-27B-dspark-Q4_1.gguf"
LINUX = "llama-prism-b9596-9fcaed7-bin-{}.tar.gz"
WINDOWS_CUDA = ("llama-prism-b1-9fcaed7-bin-win-cuda-12.4-x64.zip", "cudart-llama-bin-win-cuda-12.4-x64.zip")
RUNTIME = "Linux CUDA archives carry no CUDA runtime"


@dataclass(frozen=True)
class Want:
    """What a plan with the drafter says for a machine. ``words``: among all that is said aloud or given as a reason;
    ``never``: nowhere."""

    assets: tuple[str, ...]
    backend: str
    ngl: str = "999"
    context: str = "16384"
    batch: str | None = None
    weights: str = WEIGHTS
    drafts: bool = True
    words: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


def linux(name: str) -> tuple[str, ...]:
    return (LINUX.format(name),)


WANTED: dict[str, Want] = {
    "rtx4090-cuda-12.4": Want(
        linux("linux-cuda-12.4-x64"),
        "cuda",
        words=("CUDA 12.4 needs driver 550.54, and this is 550.54.14", RUNTIME, "23.3 GiB free on the GPU"),
    ),
    "rtx4090-cuda-12.8": Want(
        linux("linux-cuda-12.8-x64"), "cuda", words=("CUDA 12.8 needs driver 570.26", RUNTIME)
    ),
    "rtx4090-cuda-13.0": Want(linux("linux-cuda-12.8-x64"), "cuda", words=("this is 580.95.05",)),
    "rtx4090-cuda-13.3": Want(linux("linux-cuda-12.8-x64"), "cuda", words=("this is 610.47",)),
    "rtx4090-old-driver": Want(
        linux("ubuntu-vulkan-x64"),
        "vulkan",
        words=("update the driver", "Instead Vulkan is used", "23.3 GiB free on the GPU"),
        never=(RUNTIME, "not known"),
    ),
    "rtx5090": Want(linux("linux-cuda-12.8-x64"), "cuda", never=("translates its kernels",)),
    # A card that is too old for CUDA 12 beside one that is not: only the other one's memory counts.
    "two-cards": Want(
        linux("linux-cuda-12.8-x64"),
        "cuda",
        ngl="60",
        context="4096",
        words=("the first of 2 GPUs", "10.7 GiB free on the GPU", "too old", "Only 60 of 64 layers fit"),
        never=("2 GPUs together", "12.6 GiB free on"),
    ),
    "gb10": Want(
        linux("ubuntu-vulkan-arm64"),
        "vulkan",
        words=(
            "NVIDIA GB10 would be used through CUDA, but prism-legacy has no such build for Linux on arm64",
            "BONSAI_LLAMA_SERVER",
            "of 110.0 GiB free memory, which the GPU shares",
        ),
        never=("not known", "no GPU was found"),
    ),
    "wsl-unreadable-cuda": Want(
        linux("linux-cuda-12.4-x64"), "cuda", ngl="60", context="4096", words=("CUDA 12.4 needs driver 551.61",)
    ),
    "windows-cuda-12.4": Want(WINDOWS_CUDA, "cuda", never=(RUNTIME,)),
    "windows-cuda-13.3": Want(WINDOWS_CUDA, "cuda", ngl="51", context="4096"),
    "windows-rtx5090": Want(WINDOWS_CUDA, "cuda", words=("translates its kernels at the first start",)),
    "windows-arm64": Want(("llama-bin-win-cpu-arm64.zip",), "cpu", batch="256", words=("no GPU was found",)),
    "no-gpu": Want(linux("ubuntu-x64"), "cpu", batch="256", words=("no GPU was found", "free in RAM")),
    "no-gpu-no-avx2": Want(
        ("llama-b11434-bin-ubuntu-x64.tar.gz",),
        "cpu",
        batch="256",
        weights="Ternary-Bonsai-27B-Q2_g64.gguf",
        drafts=False,
        words=("This processor has no AVX2", "mainline reads", "it runs plain"),
    ),
    "vulkan-software-only": Want(
        linux("ubuntu-x64"), "cpu", batch="256", words=("that is the processor, not a GPU", "no GPU was found")
    ),
    "vulkan-integrated": Want(
        linux("ubuntu-vulkan-x64"),
        "vulkan",
        context="8192",
        words=("UHD Graphics 770", "BONSAI_NGL=0 leaves it out", "which the GPU shares with the processor"),
    ),
    "rocm": Want(
        linux("ubuntu-rocm-7.2-x64"),
        "rocm",
        words=("the first of 2 GPUs is used through ROCm", "15.3 GiB free on the GPU"),
    ),
    "apple-m2": Want(
        linux("macos-arm64"),
        "metal",
        words=("22.4 GiB that macOS lets the GPU use", "0.17x", "compute with Metal"),
    ),
    "apple-m2-rosetta": Want(
        linux("macos-arm64"), "metal", words=("through Rosetta", "22.4 GiB that macOS lets the GPU use")
    ),
    "intel-mac": Want(
        linux("macos-x64"),
        "cpu",
        ngl="0",
        batch="256",
        words=("Metal is unreliable", "free in RAM"),
        never=("compute with Metal",),
    ),
}  # fmt: skip


def report(tmp_path: Path, name: str, **env: str) -> Report:
    variables = {f"BONSAI_{key.upper()}": text for key, text in env.items()}
    return examine(resolve({}, variables), locate(str(tmp_path)), {}, load(name), elsewhere=True)


def test_every_captured_machine_is_in_the_table() -> None:
    assert set(WANTED) == set(MADE) == {path.stem for path in FOLDER.glob("*.json")}


def check(tmp_path: Path, name: str) -> None:
    want, found = WANTED[name], report(tmp_path, name, speculative="1")
    assert found.plan is not None
    assert found.healthy
    assert found.plan.resolved.to_fetch == (*want.assets, want.weights, *([DRAFTER] if want.drafts else []))
    assert found.plan.resolved.engine.backend == want.backend
    assert not found.plan.resolved.engine.probed
    argv = found.plan.argv
    assert _flag(argv, "-ngl") == want.ngl
    assert _flag(argv, "-c") == want.context
    assert _flag(argv, "-b") == want.batch
    assert Path(_flag(argv, "-m") or "").name == want.weights
    if want.drafts:
        assert Path(_flag(argv, "-md") or "").name == DRAFTER
        assert _flag(argv, "-ngld") == want.ngl
        assert (_flag(argv, "--spec-type"), _flag(argv, "--spec-draft-n-max")) == ("draft-dspark", "4")
    else:
        assert (_flag(argv, "-md"), _flag(argv, "--spec-type")) == (None, "none")
    text = json.dumps(report_json(found), ensure_ascii=False)
    for word in want.words:
        assert word in text, word
    for word in want.never:
        assert word not in text, word


def _flag(argv: tuple[str, ...], name: str) -> str | None:
    return argv[argv.index(name) + 1] if name in argv else None


@pytest.mark.case("B-01")
@pytest.mark.parametrize("name", [name for name in WANTED if "rtx" in name or "cuda" in name])
def test_nvidia_by_its_driver(tmp_path: Path, name: str) -> None:
    check(tmp_path, name)


@pytest.mark.case("B-05")
def test_gb10_is_a_gpu_with_the_machines_memory(tmp_path: Path) -> None:
    check(tmp_path, "gb10")
    offered = report(tmp_path, "gb10", engine="mainline", speculative="1").plan
    assert offered is not None
    assert offered.resolved.to_fetch[0] == "llama-b11434-bin-ubuntu-cuda-13.4-arm64.tar.gz"
    assert offered.spec_type == "none"  # the way to CUDA there, at the price of the drafter


@pytest.mark.case("B-07")
@pytest.mark.parametrize("name", ["two-cards", "rocm"])
def test_several_gpus(tmp_path: Path, name: str) -> None:
    check(tmp_path, name)


@pytest.mark.case("B-10")
@pytest.mark.case("B-11")
@pytest.mark.parametrize("name", ["apple-m2", "apple-m2-rosetta"])
def test_apple_silicon(tmp_path: Path, name: str) -> None:
    check(tmp_path, name)


@pytest.mark.case("B-10")
def test_intel_macs_never_use_metal(tmp_path: Path) -> None:
    check(tmp_path, "intel-mac")
    asked = report(tmp_path, "intel-mac", ngl="20").plan
    assert asked is not None
    assert _flag(asked.argv, "-ngl") == "20"  # what a person asks for is never changed in silence


@pytest.mark.case("B-12")
@pytest.mark.parametrize("name", ["vulkan-software-only", "vulkan-integrated"])
def test_vulkan(tmp_path: Path, name: str) -> None:
    check(tmp_path, name)
    without = report(tmp_path, name, ngl="0").plan
    assert without is not None
    assert without.resolved.engine.backend == "cpu"


@pytest.mark.case("B-13")
@pytest.mark.parametrize("name", ["no-gpu", "no-gpu-no-avx2", "windows-arm64"])
def test_processors_alone(tmp_path: Path, name: str) -> None:
    check(tmp_path, name)


@pytest.mark.parametrize("name", list(WANTED))
def test_without_the_drafter_the_plan_is_the_same_but_for_it(tmp_path: Path, name: str) -> None:
    """Off everywhere until asked for; what would be fetched is the same."""
    on, off = report(tmp_path, name, speculative="1").plan, report(tmp_path, name).plan
    assert on is not None
    assert off is not None
    assert off.resolved.to_fetch == on.resolved.to_fetch
    assert _flag(off.argv, "-md") is None
    assert off.spec_type == "none"
    assert off.context >= on.context  # without a drafter there is never less room


@pytest.mark.system("posix")
@pytest.mark.parametrize("name", ["rtx4090-cuda-12.8", "no-gpu"])
def test_what_is_installed_here_says_nothing_of_another_machine(tmp_path: Path, name: str) -> None:
    line = catalog.load().line("prism-legacy")
    for build in [it for it in line.builds if (it.system, it.arch) == ("Linux", "x86_64")]:
        archive = tmp_path / f"{build.backend}-{build.cuda}.tar.gz"
        archive.write_bytes(engine_archive(line, build, engine_script("fork")))
        install(tmp_path / "engines", line, build, [archive], lambda step: None)  # noqa: ARG005
    check(tmp_path, name)


@pytest.mark.case("B-01")
def test_the_commands_themselves(bonsai: Bonsai, tmp_path: Path) -> None:
    env = {"BONSAI_MODEL": "auto", "BONSAI_SPECULATIVE": "1"}
    path = FOLDER / "wsl-unreadable-cuda.json"
    planned = bonsai("plan", "--json", "--machine", str(path), env=env)
    assert planned.returncode == 0, planned.stderr
    plan: dict[str, Any] = json.loads(planned.stdout)
    want = WANTED["wsl-unreadable-cuda"]
    assert tuple(plan["to_fetch"]) == (*want.assets, WEIGHTS, DRAFTER)
    assert (plan["on_disk"], plan["engine"]["probed"], plan["engine"]["backend"]) == (False, False, "cuda")
    assert plan["memory"]["verdict"] == "partly"

    looked = bonsai("doctor", "--json", "--machine", str(path), env=env)
    assert looked.returncode == 0, looked.stderr
    written = tmp_path / "doctor.json"
    written.write_text(looked.stdout, encoding="utf-8")
    found: dict[str, Any] = json.loads(looked.stdout)
    assert found["healthy"] is True
    assert found["plan"]["argv"] == plan["argv"]
    assert found["machine"] == plan["machine"] == json.loads(path.read_text(encoding="utf-8"))
    # What doctor writes is a machine file, too.
    again = bonsai("plan", "--json", "--machine", str(written), env=env)
    assert json.loads(again.stdout)["argv"] == plan["argv"]
