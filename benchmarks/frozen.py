"""The packaged app beside the same program from the virtual environment: size, start to page, memory.

    python -m benchmarks.frozen [--app PROGRAM] [--archive FILE] [--rounds 5]

Without ``--app`` it is made first. Both are started in turn. Warm: files were read a moment ago. Cold: the file system's
caches are dropped before each start, which takes root on Linux and is left out elsewhere. Memory is the launcher's
alone, two seconds after the page is whole, its share of what several processes hold in common (PSS).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.common import ROOT, child, free_port, get, machine, table, wait

DROP_CACHES = Path("/proc/sys/vm/drop_caches")
START_BOUND, MEMORY_BOUND = 1.5, 1.1
SETTLE_S = 2.0


@dataclass(frozen=True)
class Start:
    """Seconds until there is something to look at and until the whole page answers; memory in bytes."""

    first: float
    whole: float
    memory: float


def start(command: list[str], home: str) -> Start:
    """One start to the whole page and a little after."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    env = {"BONSAI_HOME": home, "BONSAI_MODEL": "practice"}
    begun = time.monotonic()
    with child([*command, "--no-browser", "--ui-port", str(port)], env) as process:
        wait(lambda: get(url)[0] == 200, 120, "the first page")
        first = time.monotonic() - begun
        wait(lambda: b"gradio_config" in get(url)[1], 120, "the whole page")
        whole = time.monotonic() - begun
        time.sleep(SETTLE_S)
        memory = psutil.Process(process.pid).memory_full_info()
    return Start(first, whole, getattr(memory, "pss", memory.uss))


def drop_caches() -> bool:
    """Whether the next start reads everything from the disk."""
    try:
        os.sync()
        DROP_CACHES.write_text("3\n", encoding="ascii")
    except OSError:
        return False
    return True


def in_turn(
    commands: dict[str, list[str]], rounds: int, before: Callable[[], object], home: str
) -> dict[str, list[Start]]:
    """``rounds`` starts of each, the order reversed from round to round."""
    taken: dict[str, list[Start]] = {name: [] for name in commands}
    for index in range(rounds):
        order = list(commands) if index % 2 else list(reversed(commands))
        for name in order:
            before()
            taken[name].append(start(commands[name], home))
    return taken


def bytes_in(folder: Path) -> int:
    """What the files below ``folder`` hold; links count for nothing."""
    return sum(it.stat().st_size for it in folder.rglob("*") if it.is_file() and not it.is_symlink())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--app", type=Path, help="the app's program")
    parser.add_argument("--archive", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        app, archive = options.app, options.archive
        if app is None:
            command = [sys.executable, str(ROOT / "build" / "build.py"), "--work", f"{name}/work"]
            made = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
            archive = Path(made)
            app = next(Path(name, "work", "dist").glob("bonsai-launcher-*")) / "bonsai"
        commands = {"virtual environment": [sys.executable, "-m", "launcher"], "app": [str(app)]}
        in_turn(commands, 1, lambda: None, name)  # thrown away: bytecode and the practice pair are written
        warm = in_turn(commands, options.rounds, lambda: None, name)
        cold = in_turn(commands, options.rounds, drop_caches, name) if drop_caches() else None
        sizes = [("size on disk", bytes_in(app.parent))] + (
            [("archive", archive.stat().st_size)] if archive else []
        )

    def row(
        what: str, taken: dict[str, list[Start]], of: Callable[[Start], float], form: str, bound: float
    ) -> list[str]:
        venv, packed = (statistics.median(map(of, taken[name])) for name in commands)
        ratio = packed / venv
        told = "" if ratio <= bound else " **over**"
        return [what, form.format(venv), form.format(packed), f"{ratio:.2f}", f"{bound}{told}"]

    rows = []
    for kind, taken in (("warm", warm), ("cold", cold)):
        if taken is not None:
            rows.append(
                row(f"{kind}: something to look at", taken, lambda it: it.first, "{:.2f} s", START_BOUND)
            )
            rows.append(row(f"{kind}: the whole page", taken, lambda it: it.whole, "{:.2f} s", START_BOUND))
    rows.append(row("memory", warm, lambda it: it.memory / 2**20, "{:.0f} MiB", MEMORY_BOUND))
    print(machine(), "\n")
    print(table(["what", "size"], [(what, f"{size / 1e6:.0f} MB") for what, size in sizes]), "\n")
    print(table([f"median of {options.rounds}", *commands, "ratio", "at most"], rows))


if __name__ == "__main__":
    main()
