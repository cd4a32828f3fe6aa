"""Compiling with real CMake and Ninja on a project of a few short steps, cut in the middle."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from launcher.compiling import (
    Tools,
    compile_command,
    compile_targets,
    configure_command,
    find_tools,
    parse_progress,
    run_lines,
)
from launcher.errors import BuildFailed
from tests.conftest import wait_until

ROOT = Path(__file__).resolve().parents[2]
STEPS = 5
posix = pytest.mark.system("posix")


def project(folder: Path, last_step: str = "-E true") -> Path:
    """A project without a language: each step writes its name to steps.log and sleeps."""
    folder.mkdir()
    lines = ["cmake_minimum_required(VERSION 3.14)", "project(steps NONE)"]
    before = ""
    for number in range(1, STEPS + 1):
        out = f"${{CMAKE_BINARY_DIR}}/step{number}"
        lines.append(
            f"add_custom_command(OUTPUT {out} {before}\n"
            f'  COMMAND "${{CMAKE_COMMAND}}" -E echo step{number} >> "${{CMAKE_BINARY_DIR}}/steps.log"\n'
            f'  COMMAND "${{CMAKE_COMMAND}}" -E sleep 0.3\n'
            f'  COMMAND "${{CMAKE_COMMAND}}" {last_step if number == STEPS else "-E true"}\n'
            f'  COMMAND "${{CMAKE_COMMAND}}" -E touch {out} COMMENT "Step {number}")'
        )
        before = f"DEPENDS {out}"
    lines.append(f"add_custom_target(everything {before})")
    (folder / "CMakeLists.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def tools() -> Tools:
    try:
        return find_tools()
    except BuildFailed as error:
        pytest.skip(error.what)


def steps_run(build: Path) -> list[str]:
    log = build / "steps.log"
    return log.read_text(encoding="utf-8").split() if log.exists() else []


def test_progress_lines() -> None:
    assert parse_progress("[12/220] Building CXX object src/llama.cpp.o") == (
        12,
        220,
        "Building CXX object src/llama.cpp.o",
    )
    assert parse_progress("FAILED: [code=1] x.o") is None
    assert parse_progress("-- [1/2] no") is None
    assert parse_progress("") is None


def test_command_lines() -> None:
    tools = Tools(Path("/t/cmake"), Path("/t/ninja"), Path("/t/c++"), "")
    source, build = Path("/s p"), Path("/b")
    assert configure_command(tools, source, build, ["-DX=ON"]) == [
        str(tools.cmake), "-S", str(source), "-B", str(build), "-G", "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={tools.ninja}", "-DX=ON",
    ]  # fmt: skip
    assert compile_command(tools, build, ["a", "b"], 3) == [
        str(tools.ninja),
        "-C",
        str(build),
        "-j",
        "3",
        "a",
        "b",
    ]
    assert "-j" not in compile_command(tools, build, ["a"], None)


def test_compiles_with_progress_in_a_folder_with_a_difficult_name(tools: Tools, tmp_path: Path) -> None:
    place = tmp_path / "tést 模型 dir"
    place.mkdir()
    seen: list[tuple[int, int, str]] = []
    build = place / "build"
    compile_targets(
        tools,
        project(place / "src"),
        build,
        [],
        ["everything"],
        jobs=1,
        progress=lambda *step: seen.append(step),
    )
    assert seen == [(0, 0, "Configuring"), *((n, STEPS, f"Step {n}") for n in range(1, STEPS + 1))]
    assert steps_run(build) == [f"step{n}" for n in range(1, STEPS + 1)]


def test_goes_on_where_it_was_interrupted_and_leaves_nothing_running(tools: Tools, tmp_path: Path) -> None:
    source, build = project(tmp_path / "src"), tmp_path / "build"

    def interrupt(done: int, _total: int, _text: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_targets(tools, source, build, [], ["everything"], jobs=1, progress=interrupt)
    assert [child for child in psutil.Process().children(recursive=True) if "ninja" in child.name()] == []
    seen: list[tuple[int, int, str]] = []
    compile_targets(
        tools, source, build, [], ["everything"], jobs=1, progress=lambda *step: seen.append(step)
    )
    done = [text for _, _, text in seen]
    assert "Step 1" not in done
    assert done[-1] == f"Step {STEPS}"
    assert steps_run(build).count("step1") == 1


@posix
def test_goes_on_after_a_kill(tools: Tools, tmp_path: Path) -> None:
    source, build = project(tmp_path / "src"), tmp_path / "build"
    code = (
        "import sys; from pathlib import Path; from launcher.compiling import *\n"
        "compile_targets(find_tools(), Path(sys.argv[1]), Path(sys.argv[2]), [], ['everything'], jobs=1,\n"
        "                progress=lambda *step: print(step[0], flush=True))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", code, str(source), str(build)], stdout=subprocess.PIPE, text=True, env=env
    ) as victim:
        assert victim.stdout
        while victim.stdout.readline() != "2\n":
            assert victim.poll() is None
        orphans = psutil.Process(victim.pid).children(recursive=True)
        victim.kill()
    # Ninja notices at its next step that nobody listens.
    _, alive = psutil.wait_procs(orphans, timeout=20)
    assert alive == []
    assert len(steps_run(build)) < STEPS
    compile_targets(tools, source, build, [], ["everything"], jobs=1, progress=lambda *_: None)
    assert (build / f"step{STEPS}").exists()
    assert steps_run(build).count("step1") == 1


def test_a_failing_step_shows_its_last_lines(tools: Tools, tmp_path: Path) -> None:
    source = project(tmp_path / "src", "-E cat /nowhere/file")
    with pytest.raises(BuildFailed, match="failed while compiling") as caught:
        compile_targets(
            tools, source, tmp_path / "build", [], ["everything"], jobs=1, progress=lambda *_: None
        )
    assert "/nowhere/file" in caught.value.what


def test_a_project_that_cannot_be_configured(tools: Tools, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text("project(x NONE)\nmessage(FATAL_ERROR no-way)", encoding="utf-8")
    with pytest.raises(BuildFailed, match=r"(?s)configuring with CMake.*no-way"):
        compile_targets(tools, tmp_path, tmp_path / "build", [], ["x"], jobs=1, progress=lambda *_: None)


def test_a_tree_left_by_another_place_is_made_anew(tools: Tools, tmp_path: Path) -> None:
    build = tmp_path / "build"
    first = project(tmp_path / "first")
    compile_targets(tools, first, build, [], ["step1"], jobs=1, progress=lambda *_: None)
    moved = first.rename(tmp_path / "second")
    compile_targets(tools, moved, build, [], ["step1"], jobs=1, progress=lambda *_: None)
    assert steps_run(build) == ["step1"]


@posix
def test_a_killed_launcher_leaves_neither_ninja_nor_compilers(tools: Tools, tmp_path: Path) -> None:
    """Ninja gives each compiler a process group of its own, and ends them when it is asked to end itself."""
    (tmp_path / "build.ninja").write_text(
        "rule wait\n  command = echo $$$$ > compiler; exec sleep 600\nbuild out: wait\n"
    )
    code = f"from launcher.compiling import run_lines\nrun_lines([{str(tools.ninja)!r}, '-C', {str(tmp_path)!r}], 'x')"
    launcher = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    wait_until(
        lambda: (tmp_path / "compiler").exists() and (tmp_path / "compiler").read_text(), 20, "the compiler"
    )
    started = psutil.Process(launcher.pid).children(recursive=True)
    assert int((tmp_path / "compiler").read_text()) in [it.pid for it in started]
    launcher.kill()
    launcher.wait()

    try:
        wait_until(lambda: not any(map(lives, started)), 5, "all of them to be gone")
    finally:
        for it in filter(lives, started):
            it.kill()


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@posix
def test_what_is_held_stays_open_in_the_command(tmp_path: Path) -> None:
    lines: list[str] = []
    with (tmp_path / "held").open("w") as held:
        code = f"import os; print(os.fstat({held.fileno()}).st_ino)"
        run_lines([sys.executable, "-c", code], "asking", lines.append, hold=[held.fileno()])
        assert lines == [str(os.fstat(held.fileno()).st_ino)]


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(BuildFailed, match="/nowhere/ninja cannot be started"):
        run_lines(["/nowhere/ninja"], "compiling")


@posix
def test_a_stubborn_command_is_killed(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('here', flush=True); time.sleep(600)"

    def stop(_line: str) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_lines([sys.executable, "-c", code], "waiting", stop)
    assert time.monotonic() - began < 20
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN
    del tmp_path


def test_without_a_compiler_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildFailed, match=r"There is no C\+\+ compiler") as caught:
        find_tools()
    assert caught.value.remedy
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(BuildFailed, match=r"no-such-compiler \(from CXX\)"):
        find_tools()


def test_finds_the_tools_of_this_environment(tools: Tools) -> None:
    assert shutil.which(str(tools.cmake))
    assert shutil.which(str(tools.ninja))
    assert tools.compiler_says
