"""macOS marks what came over the network and then asks about every library of it, or refuses them."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from launcher.engine_probe import run_tool


def clear_quarantine(folder: Path, system: str = sys.platform) -> bool:
    """Take the quarantine mark off ``folder`` and all in it; whether there was anything to do it with.

    Only for what we fetched, checked against a digest and unpacked ourselves. ``system``: as ``sys.platform`` has it;
    on others than darwin nothing happens. A file without the mark is no failure.
    """
    if system != "darwin":
        return False
    with contextlib.suppress(OSError):
        run_tool(["xattr", "-dr", "com.apple.quarantine", str(folder)], timeout_s=60)
        return True
    return False
