"""Where the packaged app begins. Nothing may be imported before the first two lines."""

import multiprocessing

multiprocessing.freeze_support()  # a spawned child of a library does its work here and never comes back

import ctypes  # noqa: E402
import os  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
from collections.abc import Mapping, MutableMapping, Sequence  # noqa: E402
from typing import Any  # noqa: E402

# The start program puts our folder first in these, for our own loading, which has read them by now.
LIBRARY_PATHS = ("LD_LIBRARY_PATH", "LIBPATH")
DETACHED = "BONSAI_DETACHED"


def give_back_library_paths(env: MutableMapping[str, str]) -> None:
    """Set the library search paths in ``env`` to what the person has: a browser or a driver's tool that found our
    libraries instead of the system's would not start. The note of the person's value stays, for our own children."""
    for name in LIBRARY_PATHS:
        original = env.get(f"{name}_ORIG")
        if original is not None:
            env[name] = original
        else:
            env.pop(name, None)


def give_back_dll_folder() -> None:
    """The same on Windows, where it is no variable but a state that children inherit."""
    windows: Any = (os, ctypes)
    windows[0].add_dll_directory(getattr(sys, "_MEIPASS", os.path.dirname(sys.executable)))  # noqa: PTH120
    windows[1].windll.kernel32.SetDllDirectoryW(None)


def opened_by_finder(argv: Sequence[str], parent: int, env: Mapping[str, str]) -> bool:
    """Whether macOS has opened us as an app: then a second opening would only be told to this process, which has no
    window to bring forward. A copy that the desktop does not know of leaves it free to open us again."""
    return len(argv) == 1 and parent == 1 and DETACHED not in env


def detach() -> None:
    """Start that copy."""
    env = os.environ | {DETACHED: "1"}
    quiet = subprocess.DEVNULL
    subprocess.Popen(
        [sys.executable], env=env, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )


def start() -> None:
    """Begin as the console script does."""
    give_back_library_paths(os.environ)
    if sys.platform == "win32":
        give_back_dll_folder()
    if sys.platform == "darwin" and opened_by_finder(sys.argv, os.getppid(), os.environ):
        detach()
        return
    os.environ.pop(DETACHED, None)  # unknown BONSAI_ names are told to the person
    from launcher.__main__ import main

    main()


if __name__ == "__main__":
    start()
