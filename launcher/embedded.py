"""The embedded engine: the xllamacpp wheel as a child process, from a llama-server command line.

``main`` is the child. It behaves like llama-server: same options, same log on stderr, exit status 1
for a bad option, a taken port or a model that does not load, 0 when told to stop. The port opens
before the model is read, and ``/health`` answers 503 until it is.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import signal
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from launcher.embedded_flags import FLAGS, Parsed, help_text, parse
from launcher.embedded_values import SPEC_TYPES, FlagError

SUBCOMMAND = "embedded-server"
PARENT_CHECK_S = 0.5
WITH_PARENT = "--exit-with-parent"
# What llama-server takes for -np -1 (automatic).
AUTO_SLOTS = 4


def program() -> tuple[str, ...]:
    """The words that start the child; llama-server's options follow."""
    if getattr(sys, "frozen", False):
        # On Windows the app has a second program, with streams: a log can be read from that one.
        twin = Path(sys.executable).with_name(f"bonsai{Path(sys.executable).suffix}")
        return (str(twin) if twin.is_file() else sys.executable, SUBCOMMAND)
    # -P: a folder named launcher where the person stands must not be taken for ours.
    return (sys.executable, "-P", "-m", "launcher", SUBCOMMAND)


def available() -> str | None:
    """None when the wheel is there, else why not, as a sentence. Does not load it."""
    if importlib.util.find_spec("xllamacpp") is not None:
        return None
    system, machine = platform.system(), platform.machine()
    if (system, machine) in (("Darwin", "x86_64"), ("Windows", "ARM64")):
        name = "Intel Macs" if system == "Darwin" else "Windows on Arm"
        return f"The embedded engine does not exist for {name}."
    return "The embedded engine (Python package xllamacpp) is not installed."


def version() -> str:
    """The wheel's version; its last part is llama.cpp's build number."""
    try:
        return f"xllamacpp {metadata.version('xllamacpp')}"
    except metadata.PackageNotFoundError:
        return "xllamacpp, version unknown"


def supported_flags() -> frozenset[str]:
    """Every option of llama-server that the embedded engine takes, short and long names."""
    return frozenset(name for flag in FLAGS for name in flag.all_names)


def supported_spec_types() -> frozenset[str]:
    """The values it takes for ``--spec-type``."""
    return frozenset(SPEC_TYPES)


def main(argv: list[str]) -> int:
    """Run the server until told to stop. ``argv``: llama-server's options, and WITH_PARENT when it shall
    end with the process that starts it. Returns the exit status."""
    orphaned = _parent_watch() if WITH_PARENT in argv else lambda: False
    argv = [word for word in argv if word != WITH_PARENT]
    if "--help" in argv or "-h" in argv:
        sys.stdout.write(help_text() + "\n")
        return 0
    if "--version" in argv:
        sys.stdout.write(f"version: {version()}\n")
        return 0
    try:
        options = parse(argv)
        if not any("--model" in flag.names for flag, _ in options):
            raise FlagError("error: --model is required")
        # A stop signal while loading takes effect at once: Python's own handler would wait for the load.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        import xllamacpp

        server = _start(xllamacpp, options)
    except FlagError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except ImportError as error:
        sys.stderr.write(f"error: the embedded engine cannot be loaded: {error}\n")
        return 1
    except (RuntimeError, MemoryError) as error:
        # The reason stands above this line: the engine logs it itself.
        sys.stderr.write(f"error: {error}\n")
        return 1
    _stop_on_signals()
    while not orphaned():
        time.sleep(PARENT_CHECK_S)
    del server
    return _leave("the launcher is gone")


def configured(module: Any, options: Parsed) -> Any:
    """CommonParams with llama-server's defaults, ``options`` and what its parser does afterwards."""
    params = module.CommonParams()
    params.port = 8080
    params.n_parallel = -1
    params.default_template_kwargs = {"preserve_reasoning": "true"}
    for flag, value in options:
        flag.apply(module, params, value)
    if params.n_parallel < 0:
        params.n_parallel = AUTO_SLOTS
        params.kv_unified = True
    return params


def _start(module: Any, options: Parsed) -> Any:
    """Returns when the model is loaded. Raises RuntimeError when it is not or the port is taken."""
    return module.Server(configured(module, options))


def _stop_on_signals() -> None:
    """Answers in progress are dropped: waiting for them could take minutes, and the system frees the rest."""
    names = ("SIGTERM", "SIGINT", "SIGBREAK")
    for number in (getattr(signal, name) for name in names if hasattr(signal, name)):
        signal.signal(number, lambda received, _frame: os._exit(_leave(signal.Signals(received).name)))


def _leave(why: str) -> int:
    sys.stderr.write(f"embedded engine: stopping ({why})\n")
    sys.stderr.flush()
    return 0


def _parent_watch() -> Callable[[], bool]:
    """A function that tells whether the process that started us has ended."""
    parent = os.getppid()
    if sys.platform == "win32":
        import ctypes

        kernel = ctypes.windll.kernel32
        kernel.OpenProcess.restype = ctypes.c_void_p
        handle = ctypes.c_void_p(kernel.OpenProcess(0x00100000, False, parent))  # SYNCHRONIZE
        return lambda: bool(handle.value) and kernel.WaitForSingleObject(handle, 0) == 0
    return lambda: os.getppid() != parent


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
