"""Where the packaged app begins. Nothing may be imported before the first two lines."""

import multiprocessing

multiprocessing.freeze_support()  # a spawned child of a library does its work here and never comes back

import os  # noqa: E402
import sys  # noqa: E402
from collections.abc import MutableMapping  # noqa: E402

# The start program puts our folder first in these, for our own loading, which has read them by now.
LIBRARY_PATHS = ("LD_LIBRARY_PATH", "LIBPATH")


def give_back_library_paths(env: MutableMapping[str, str]) -> None:
    """Set the library search paths in ``env`` to what the person has: a browser or a driver's tool that found our
    libraries instead of the system's would not start. The note of the person's value stays, for our own children."""
    for name in LIBRARY_PATHS:
        original = env.get(f"{name}_ORIG")
        if original is not None:
            env[name] = original
        else:
            env.pop(name, None)


if __name__ == "__main__":
    give_back_library_paths(os.environ)
    from launcher.__main__ import main

    sys.exit(main())
