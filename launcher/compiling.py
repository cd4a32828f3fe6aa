"""Compiles targets of a CMake project with Ninja: finds the tools, shows progress, goes on after a cut.

Knows nothing of llama.cpp. Everything that can go wrong is a BuildFailed with what to install or do.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from launcher.child_env import clean_env
from launcher.errors import BuildFailed
from launcher.supervise.system import tool

# (steps done, steps in all, what is being done); all is 0 while that is not known.
Progress = Callable[[int, int, str], None]

TAIL_LINES = 15
STOP_S = 5.0
_STEP = re.compile(r"^\[(\d+)/(\d+)\] (.*)$")
COMPILERS = ("c++", "g++", "clang++", "cl")
COMPILER_REMEDY = {
    "linux": "Install one, for example with: sudo apt-get install g++ (Debian, Ubuntu), or your system's like.",
    "darwin": "Install Apple's command line tools: xcode-select --install",
    "win32": "Install the Visual Studio Build Tools (Desktop development with C++) and run this again in "
    "their 'x64 Native Tools Command Prompt'.",
}


@dataclass(frozen=True)
class Tools:
    """Paths of the programs that build; ``compiler_says`` is the compiler's name and version."""

    cmake: Path
    ninja: Path
    compiler: Path
    compiler_says: str


def find_tools() -> Tools:
    """CMake and Ninja beside this Python or on PATH, and a C++ compiler. Raises BuildFailed."""
    compiler = _find_compiler()
    says = _first_line([str(compiler), *([] if compiler.stem.lower() == "cl" else ["--version"])])
    return Tools(_find("cmake"), _find("ninja"), compiler, says)


def compile_targets(
    tools: Tools,
    source: Path,
    build: Path,
    options: Sequence[str],
    targets: Sequence[str],
    *,
    jobs: int | None,
    progress: Progress,
    hold: Sequence[int] = (),
) -> None:
    """Configure ``source`` into ``build`` and compile ``targets``.

    What an earlier, interrupted call finished is not done again. An exception (Ctrl+C, or one raised
    by ``progress``) ends all compilers before it leaves. ``hold``: see ``run_lines``.
    Raises BuildFailed with the last lines.
    """
    build.mkdir(parents=True, exist_ok=True)
    configure = configure_command(tools, source, build, options)
    progress(0, 0, "Configuring")
    try:
        run_lines(configure, "configuring with CMake", hold=hold)
    except BuildFailed:
        if not (build / "CMakeCache.txt").exists():
            raise
        # What an earlier call left behind may itself be the reason (another path, another compiler).
        shutil.rmtree(build)
        build.mkdir()
        run_lines(configure, "configuring with CMake", hold=hold)

    def show(line: str) -> None:
        if step := parse_progress(line):
            progress(*step)

    run_lines(compile_command(tools, build, targets, jobs), "compiling", show, hold=hold)


def configure_command(tools: Tools, source: Path, build: Path, options: Sequence[str]) -> list[str]:
    """CMake's command line; ``options`` are its -D words."""
    start = [str(tools.cmake), "-S", str(source), "-B", str(build), "-G", "Ninja"]
    return [*start, f"-DCMAKE_MAKE_PROGRAM={tools.ninja}", *options]


def compile_command(tools: Tools, build: Path, targets: Sequence[str], jobs: int | None) -> list[str]:
    """Ninja's command line; ``jobs``: compilers at a time, None for Ninja's own choice."""
    return [str(tools.ninja), "-C", str(build), *(["-j", str(jobs)] if jobs else []), *targets]


def parse_progress(line: str) -> tuple[int, int, str] | None:
    """(done, all, what) from a line such as ``[12/220] Building CXX object …``; None for other lines."""
    match = _STEP.match(line)
    return (int(match[1]), int(match[2]), match[3]) if match else None


def run_lines(
    command: Sequence[str],
    doing: str,
    show: Callable[[str], None] = lambda _line: None,
    *,
    hold: Sequence[int] = (),
) -> None:
    """Run ``command``, hand every line it writes to ``show``; raises BuildFailed when it fails.

    ``doing`` says in words what failed. The command and its children are ended when ``show`` raises.
    ``hold``: descriptors that stay open in them, so that a lock lasts as long as any of them works.
    """
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    with _started(command, hold) as process:
        for line in process.stdout or ():
            tail.append(line.rstrip())
            show(line.rstrip())
        status = process.wait()
    if status != 0:
        lines = "\n".join(tail)
        raise BuildFailed(
            f"The build failed while {doing} (exit status {status}). Its last lines:\n{lines}",
            "Run the command again to go on; if it fails at the same place, report these lines.",
        )


@contextlib.contextmanager
def _started(command: Sequence[str], hold: Sequence[int]) -> Iterator[subprocess.Popen[str]]:
    running = tool(
        command,
        at_death=signal.SIGTERM,  # Ninja ends its compilers, each in a group of its own
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=_environment(os.environ),
        pass_fds=tuple(hold),
    )
    with contextlib.ExitStack() as stack:
        try:
            process = stack.enter_context(running)
        except OSError as error:
            raise BuildFailed(f"{command[0]} cannot be started: {error.strerror}.") from error
        stack.callback(_stop, process)
        yield process


def _environment(base: Mapping[str, str]) -> dict[str, str]:
    # Both change how Ninja writes its progress, which we read.
    return {k: v for k, v in clean_env(base).items() if k not in ("NINJA_STATUS", "CLICOLOR_FORCE")}


def _stop(process: subprocess.Popen[str]) -> None:
    """End the process and its children; Ninja removes half-written files when asked politely."""
    if process.poll() is not None:
        return
    for name in ("SIGTERM", "SIGKILL"):
        with contextlib.suppress(OSError):
            if sys.platform == "win32":
                subprocess.run(
                    ["taskkill", "/T", "/F", "/PID", str(process.pid)], capture_output=True, check=False
                )
            else:
                os.killpg(process.pid, getattr(signal, name))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
            return


def _find(name: str) -> Path:
    beside = Path(sys.executable).parent / (f"{name}.exe" if sys.platform == "win32" else name)
    if beside.is_file():
        return beside
    if on_path := shutil.which(name):
        return Path(on_path)
    pip = "python -m pip" if importlib.util.find_spec("pip") else "uv pip"
    raise BuildFailed(f"{name} is missing; it is needed to build.", f"Install it: {pip} install {name}")


def _find_compiler() -> Path:
    wanted = os.environ.get("CXX")
    names = (wanted,) if wanted else COMPILERS
    for name in names:
        # A Mac has a c++ that only asks to install the real one.
        if (path := shutil.which(name)) and (sys.platform != "darwin" or _runs(["xcode-select", "-p"])):
            return Path(path)
    what = f"The C++ compiler {wanted} (from CXX) is not there." if wanted else "There is no C++ compiler."
    raise BuildFailed(what, COMPILER_REMEDY.get(sys.platform, COMPILER_REMEDY["linux"]))


def _runs(command: Sequence[str]) -> bool:
    with contextlib.suppress(OSError):
        return subprocess.run(list(command), capture_output=True, check=False).returncode == 0
    return False


def _first_line(command: Sequence[str]) -> str:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(list(command), capture_output=True, text=True, check=False, timeout=20)
        return next(iter((done.stdout or done.stderr).splitlines()), "")
    return ""
