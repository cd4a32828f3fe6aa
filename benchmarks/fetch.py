"""Fetching and verifying a large file from loopback, beside ``curl`` piped through ``sha256sum``.

    python -m benchmarks.fetch [--gigabytes 2] [--turns 3] [--folder DIR]

Ours writes the file, makes it safe on the disk and gives it its name; curl's bytes go to sha256sum alone. Both read
from the same server, a process of its own that uses sendfile, and take turns. Figures: the ratio of the speeds
within each turn (bound: 0.8), and the peak of the launcher's memory over what it had before (bound: 150 MB).
"""

from __future__ import annotations

import argparse
import hashlib
import http.server
import json
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.common import child, free_port, get, machine, table, wait
from launcher.fetch import Network, Remote, fetch

BOUND_RATIO = 0.8
BOUND_MB = 150.0
BLOCK = 32 << 20


def serve(file: Path, port: int) -> None:
    """Serve ``file`` under any name, and nothing under /ready."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with file.open("rb") as source:
                ready = self.path == "/ready"
                self.send_response(200)
                self.send_header("Content-Length", "0" if ready else str(file.stat().st_size))
                self.end_headers()
                if not ready:
                    self.connection.sendfile(source)

        def log_message(self, *_: Any) -> None:
            pass

    http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def ours(url: str, target: Path, size: int, digest: str) -> dict[str, float]:
    """Seconds, and MB of peak memory over idle, of one fetch in this process."""
    idle = psutil.Process().memory_info().rss
    begun = time.perf_counter()
    fetch(Remote("the file", url, size, digest), target, Network({}))
    seconds = time.perf_counter() - begun
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return {"seconds": seconds, "mb": max(0, peak - idle) / 1e6}


def curl(url: str, digest: str) -> float:
    """Seconds of ``curl | sha256sum``."""
    begun = time.perf_counter()
    with subprocess.Popen(["curl", "-sS", "--noproxy", "*", url], stdout=subprocess.PIPE) as source:
        said = subprocess.run(["sha256sum"], stdin=source.stdout, capture_output=True, text=True, check=True)
    assert said.stdout.split()[0] == digest, "curl brought other bytes"
    return time.perf_counter() - begun


def make(path: Path, size: int) -> str:
    """Write ``size`` bytes that do not compress; returns their sha256."""
    block = random.Random(1).randbytes(BLOCK)
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for at in range(0, size, BLOCK):
            piece = block[: min(BLOCK, size - at)]
            file.write(piece)
            digest.update(piece)
    return digest.hexdigest()


def measure(folder: Path, size: int, turns: int) -> list[tuple[float, float, float]]:
    """(seconds of ours, seconds of curl, MB over idle) for every turn."""
    source, target, port = folder / "source", folder / "target.gguf", free_port()
    digest = make(source, size)
    url = f"http://127.0.0.1:{port}/file"
    me = [sys.executable, "-m", "benchmarks.fetch"]
    rows = []
    with child([*me, "--serve", str(source), str(port)]):
        wait(lambda: get(f"http://127.0.0.1:{port}/ready")[0] == 200, 20, "the server")
        for turn in range(turns + 1):
            other = curl(url, digest)
            said = subprocess.run(
                [*me, "--client", url, str(target), str(size), digest],
                capture_output=True,
                text=True,
                check=True,
            )
            own = json.loads(said.stdout)
            assert target.stat().st_size == size
            target.unlink()
            if turn:  # the first warms the page cache up
                rows.append((own["seconds"], other, own["mb"]))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to write; as large as twice the file")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--client", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(Path(asked.serve[0]), int(asked.serve[1]))
    if asked.client:
        url, target, size, digest = asked.client
        print(json.dumps(ours(url, Path(target), int(size), digest)))
        return 0
    folder = Path(tempfile.mkdtemp(dir=asked.folder))
    size = int(asked.gigabytes * 1e9)
    try:
        rows = measure(folder, size, asked.turns)
    finally:
        shutil.rmtree(folder)
    ratio = statistics.median(other / own for own, other, _ in rows)
    peak = max(mb for _, _, mb in rows)
    print(machine())
    print(table(
        ["turn", "ours, MB/s", "curl to sha256sum, MB/s", "ratio", "memory over idle, MB"],
        [(turn, f"{size / own / 1e6:.0f}", f"{size / other / 1e6:.0f}", f"{other / own:.2f}", f"{mb:.0f}")
         for turn, (own, other, mb) in enumerate(rows, 1)],
    ))  # fmt: skip
    print(f"\nratio {ratio:.2f} (bound {BOUND_RATIO}), peak {peak:.0f} MB (bound {BOUND_MB:.0f})")
    return 0 if ratio >= BOUND_RATIO and peak <= BOUND_MB else 1


if __name__ == "__main__":
    sys.exit(main())
