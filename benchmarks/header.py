"""Reading the header of a model with a large vocabulary: ours beside the ``gguf`` package's reader.

    python -m benchmarks.header [--tokens 250000] [--rounds 5]

Both read the same file in turn, in one process; the fastest round of each counts, in seconds that pass. The
package maps the whole file and makes an array of every token; ours steps over them and hashes their list.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np

from benchmarks.common import machine, table
from launcher.gguf_header import read_header


def write(path: Path, tokens: int) -> None:
    """A file with ``tokens`` tokens, as many merges and types, and 800 small tensors."""
    source = random.Random(1)
    out = gguf.GGUFWriter(path, "qwen3")
    out.add_block_count(64)
    out.add_embedding_length(5120)
    out.add_token_list([source.randbytes(source.randrange(1, 14)) for _ in range(tokens)])
    out.add_token_merges([f"{at:x} {at:x}" for at in range(tokens)])
    out.add_token_types([1] * tokens)
    for index in range(800):
        out.add_tensor(f"blk.{index}.weight", np.zeros((4, 32), np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokens", type=int, default=250_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large-vocabulary.gguf"
        write(path, options.tokens)
        assert read_header(path).vocab_size == options.tokens
        readers: dict[str, Callable[[], object]] = {
            "launcher.gguf_header": lambda: read_header(path),
            "gguf.GGUFReader": lambda: gguf.GGUFReader(path),
        }
        best = dict.fromkeys(readers, float("inf"))
        for _ in range(options.rounds):
            for name, read in readers.items():
                begun = time.perf_counter()
                read()
                best[name] = min(best[name], time.perf_counter() - begun)
        size = path.stat().st_size
    ours = best["launcher.gguf_header"]
    print(machine(), f"\n\n{options.tokens:,} tokens, {size / 1e6:.0f} MB, best of {options.rounds}\n")
    rows = [(name, f"{took * 1000:.0f} ms", f"{took / ours:.0f}") for name, took in best.items()]
    print(table(["reader", "time", "times ours"], rows))


if __name__ == "__main__":
    main()
