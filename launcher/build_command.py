"""``bonsai engines build``: shows the build's progress on a terminal or as plain lines."""

from __future__ import annotations

import sys

from launcher import console, engine_build
from launcher.paths import Paths, make_folder
from launcher.settings import Settings


def run_build(settings: Settings, paths: Paths, *, jobs: int | None, quantize: bool) -> None:
    """Build into the data folder. Raises BuildFailed; a second call goes on where the first ended."""
    targets = (*engine_build.TARGETS, "llama-quantize") if quantize else engine_build.TARGETS
    shown = -1

    def progress(done: int, total: int, text: str) -> None:
        nonlocal shown
        percent = 100 * done // total if total else 0
        if sys.stderr.isatty():
            console.status_line(f"[{percent:3d} %] {text}")
        elif percent >= shown + 10 or total == 0:
            shown = percent
            console.say(f"[{percent:3d} %] {text}")

    console.say("Building llama-server from source: some minutes, about 1 GB of space while it lasts.")
    folder = engine_build.build(
        make_folder(paths.engines),
        make_folder(paths.cache),
        targets=targets,
        jobs=jobs,
        progress=progress,
        offline=settings.offline.value,
    )
    console.say(f"\nBuilt: {folder}")
