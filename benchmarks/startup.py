"""From the command to a page that answers, beside importing Gradio and serving an empty page.

    python -m benchmarks.startup [--rounds 5]

Both are started in turn; the ratio of the medians counts. The first of each is thrown away.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

from benchmarks.common import child, free_port, get, machine, table, wait

EMPTY = """
import sys
import gradio as gr
with gr.Blocks() as demo:
    gr.Markdown("empty")
demo.launch(server_name="127.0.0.1", server_port=int(sys.argv[1]), quiet=True, inbrowser=False, ssr_mode=False)
"""


def empty_page() -> tuple[float, float]:
    """Seconds until an empty Gradio page answers (twice, to match ``bonsai_page``)."""
    port = free_port()
    begun = time.monotonic()
    with child([sys.executable, "-c", EMPTY, str(port)], {"GRADIO_ANALYTICS_ENABLED": "False"}):
        wait(lambda: get(f"http://127.0.0.1:{port}/")[0] == 200, 60, "the empty page")
        taken = time.monotonic() - begun
    return taken, taken


def bonsai_page() -> tuple[float, float]:
    """Seconds until there is something to look at, and until the whole page answers."""
    port = free_port()
    with tempfile.TemporaryDirectory() as home:
        begun = time.monotonic()
        argv = [sys.executable, "-m", "launcher", "--no-browser", "--ui-port", str(port)]
        with child(argv, {"BONSAI_HOME": home}):
            url = f"http://127.0.0.1:{port}/"
            wait(lambda: get(url)[0] == 200, 60, "the first page")
            first = time.monotonic() - begun
            wait(lambda: b"gradio_config" in get(url)[1], 60, "the whole page")
            whole = time.monotonic() - begun
    return first, whole


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    taken: dict[str, list[tuple[float, float]]] = {"empty": [], "bonsai": []}
    starts: list[tuple[str, Callable[[], tuple[float, float]]]] = [
        ("empty", empty_page),
        ("bonsai", bonsai_page),
    ]
    for index in range(rounds + 1):
        for name, start in starts if index % 2 else reversed(starts):
            result = start()
            if index:
                taken[name].append(result)
    empty = statistics.median(whole for _, whole in taken["empty"])
    first = statistics.median(first for first, _ in taken["bonsai"])
    whole = statistics.median(whole for _, whole in taken["bonsai"])
    print(machine(), "\n")
    rows = [
        ("importing Gradio, serving an empty page", f"{empty:.2f} s", "1"),
        ("bonsai: something to look at", f"{first:.2f} s", f"{first / empty:.2f}"),
        ("bonsai: the whole page", f"{whole:.2f} s", f"{whole / empty:.2f}"),
    ]
    print(table(["start", f"median of {rounds}", "ratio"], rows))


if __name__ == "__main__":
    main()
