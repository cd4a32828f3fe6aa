"""The memory that the launcher expects llama-server to take, beside the buffers that it reports.

    python -m benchmarks.memory LLAMA_SERVER [--sizes small,medium,large,xlarge] [--contexts 4096,16384,32768]

For the practice pair in its sizes, with and without the drafter, with the launcher's small steps through the prompt
(-b 256) and llama-server's own. What the drafter reads of the target is laid out at the first question only, so the
server does not report it; the launcher counts it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import free_port, machine, table
from launcher.gguf_header import read_header
from launcher.need import BATCH, estimate
from launcher.practice import SIZES, ensure_pair

MIB = 2**20
BUFFER = re.compile(r"(model|KV|RS|compute|output) buffer size = +([\d.]+) MiB")


def reported(argv: Sequence[str]) -> float:
    """MiB of all buffers that llama-server has allocated when it begins to listen."""
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    found: list[tuple[str, float]] = []
    try:
        for line in process.stdout:
            if "listening on http" in line:
                return sum(size for _, size in found)
            said = BUFFER.search(line)
            if said:
                if said[1] == "compute" and found[-1][0] == "compute":
                    found.pop()  # laid out anew
                found.append((said[1], float(said[2])))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    raise RuntimeError(f"llama-server ended by itself: {argv}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("server", help="a llama-server")
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--contexts", default="4096,16384,32768")
    options = parser.parse_args()
    rows = []
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for size in options.sizes.split(","):
            pair = ensure_pair(Path(folder), size)
            target, drafter = read_header(pair.target), read_header(pair.drafter)
            for context in map(int, options.contexts.split(",")):
                for drafting in (False, True):
                    for batch in (256, BATCH):
                        argv = [
                            options.server,
                            "-m",
                            str(pair.target),
                            "-c",
                            str(context),
                            "-np",
                            "1",
                            "-fa",
                            "on",
                        ]
                        argv += ["-b", str(batch), "--host", "127.0.0.1", "--port", str(free_port())]
                        argv += ["--no-warmup", "-lv", "4"]
                        if drafting:
                            argv += ["-md", str(pair.drafter), "--spec-type", "draft-dspark"]
                            argv += ["--spec-draft-n-max", "4"]
                        said = reported(argv)
                        need = estimate(target, drafter if drafting else None, context, batch=batch)
                        assert need is not None
                        ratio = need.total / MIB / said
                        worst = max(worst, abs(ratio - 1))
                        rows.append(
                            (
                                size,
                                context,
                                "yes" if drafting else "no",
                                batch,
                                f"{said:.0f} MiB",
                                f"{need.total / MIB:.0f} MiB",
                                f"{ratio:.3f}",
                            )
                        )
    print(machine(), "\n")
    print(table(["pair", "context", "drafter", "-b", "reported", "expected", "ratio"], rows))
    print(f"\nLargest difference: {worst:.1%}")


if __name__ == "__main__":
    main()
