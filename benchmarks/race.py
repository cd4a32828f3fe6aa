"""Whether the race measures what the engine does: against a bare client, and against llama.cpp's own client.

    python -m benchmarks.race [--model practice-large] [--kinds code prose] [--rounds 6]
        [--llama-server PATH] [--speed-bench FOLDER]

All engines stay loaded; a race of one round and the other clients take turns, and only speeds of the same
round are compared, so that drift and other work on the machine meet all of them. The
FOLDER is ``tools/server/bench/speed-bench`` of a llama.cpp source tree: its client is run as it is, with a
stand-in for the ``datasets`` package that hands it our prompts. Server and client share two cores here.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.common import free_port, get, machine, table, wait
from launcher.ask import make_lifecycle
from launcher.client.http import chat_body
from launcher.lifecycle import Workshop
from launcher.paths import Paths, locate
from launcher.plan import LaunchPlan
from launcher.race import request_of, run_race
from launcher.race_setup import RaceOptions, make_specs
from launcher.race_types import RaceSpec
from launcher.settings import Settings, resolve

DATASETS = """
import json, os
class Rows(list):
    def __getitem__(self, key):
        return [row[key] for row in self] if isinstance(key, str) else list.__getitem__(self, key)
def get_dataset_config_names(name):
    return ["qualitative"]
def load_dataset(*args, **kwargs):
    return Rows(json.loads(os.environ["BENCH_ROWS"]))
"""


def bare_request(address: str, headers: dict[str, str], spec: RaceSpec) -> float:
    """Decode speed by the server's own timings, for the race's request sent by a bare client, not streamed."""
    body = chat_body(request_of(spec)) | {"stream": False}
    url = f"{address}/v1/chat/completions"
    reply = httpx.post(url, json=body, headers=headers, timeout=600, trust_env=False)
    return float(reply.raise_for_status().json()["timings"]["predicted_per_second"])


@contextlib.contextmanager
def plain_server(plan: LaunchPlan) -> Iterator[str]:
    """A server of ``plan`` without a key, as speed-bench needs it; gives its address."""
    port = free_port()
    server = subprocess.Popen(plan.command(port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait(lambda: get(f"http://127.0.0.1:{port}/health")[0] == 200, 60, "the engine")
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def speed_bench(folder: Path, address: str, spec: RaceSpec) -> float:
    """Decode speed that llama.cpp's speed-bench reports for one sample, after one that warms up."""
    rows = [
        {"category": "race", "turns": [spec.prompt.text], "question_id": name} for name in ("warm-up", "one")
    ]
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "datasets.py").write_text(DATASETS)
        output = Path(scratch, "result.json")
        extra = json.dumps({"temperature": 0, "seed": spec.seed, "cache_prompt": False})
        command = [sys.executable, str(folder / "speed_bench.py"), "--url", address, "--bench", "qualitative"]
        subprocess.run(
            [*command, "--osl", str(spec.max_tokens), "--extra-inputs", extra, "--output", str(output)],
            env=dict(os.environ) | {"PYTHONPATH": scratch, "BENCH_ROWS": json.dumps(rows)},
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=600,
        )
        results: list[dict[str, Any]] = json.loads(output.read_text())["results"]
        return float(results[1]["predicted_per_second"])


@dataclass(frozen=True)
class Round:
    """Decode speeds (plain, drafting) of one round by each client; speed-bench's are None when not run."""

    race: tuple[float, float]
    bare: tuple[float, float]
    speed_bench: tuple[float, float] | None


async def one_round(
    workshop: Workshop, spec: RaceSpec, folder: Path | None, addresses: Sequence[str], *, swap: bool
) -> Round:
    """Every client once on each side; ``swap`` turns the order of the clients round."""
    speeds: dict[str, tuple[float, float]] = {}
    clients = ["race", "bare", *(["speed-bench"] if folder else [])]
    for client in reversed(clients) if swap else clients:
        if client == "race":
            runs = (await run_race(workshop, spec)).runs
            found = [run.timings.tokens_per_second or 0.0 for run in sorted(runs, key=lambda run: run.side)]
        elif client == "bare":
            leases = [await workshop.engine(plan) for plan in spec.plans]
            found = [
                await asyncio.to_thread(bare_request, lease.client.base_url, lease.client.headers, spec)
                for lease in leases
            ]
        else:
            assert folder is not None
            found = [await asyncio.to_thread(speed_bench, folder, address, spec) for address in addresses]
        speeds[client] = (found[0], found[1])
    return Round(speeds["race"], speeds["bare"], speeds.get("speed-bench"))


async def measure(settings: Settings, paths: Paths, options: argparse.Namespace) -> None:
    """Run everything and print the tables: medians of the ratios within each round."""
    lifecycle = make_lifecycle(settings, paths, dict(os.environ))
    rows, ratios = [], []
    try:
        for kind in options.kinds:
            wanted = RaceOptions(kind=kind, rounds=1, max_tokens=options.max_tokens)
            spec = (await asyncio.to_thread(make_specs, settings, paths, dict(os.environ), wanted))[0]
            with contextlib.ExitStack() as stack:
                folder = options.speed_bench
                addresses = [stack.enter_context(plain_server(plan)) for plan in spec.plans] if folder else []
                async with lifecycle.workshop("benchmark") as workshop:
                    rounds = [
                        await one_round(workshop, spec, folder, addresses, swap=bool(number % 2))
                        for number in range(options.rounds)
                    ]
            for side, name in enumerate(("plain", "dspark")):
                share = statistics.median(r.race[side] / r.bare[side] for r in rounds)
                ours = statistics.median(r.race[side] for r in rounds)
                theirs = statistics.median(r.bare[side] for r in rounds)
                rows.append((kind, name, f"{ours:.1f}", f"{theirs:.1f}", f"{share:.3f}"))
            ratio = statistics.median(r.race[1] / r.race[0] for r in rounds)
            other = [r.speed_bench[1] / r.speed_bench[0] for r in rounds if r.speed_bench]
            peer = (
                (f"{statistics.median(other):.3f}", f"{ratio / statistics.median(other):.3f}")
                if other
                else ("not run", "")
            )
            ratios.append((kind, f"{ratio:.3f}", *peer))
    finally:
        lifecycle.close()
    print(machine(), "\n")
    print(table(["text", "side", "race, tokens/s", "bare client, tokens/s", "race / bare"], rows))
    print()
    print(table(["text", "race's ratio", "speed-bench's ratio", "race / speed-bench"], ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="practice-large")
    parser.add_argument("--kinds", nargs="+", default=["code", "prose"])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--max-tokens", type=int, default=150)
    parser.add_argument("--llama-server")
    parser.add_argument("--speed-bench", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        chosen = {"BONSAI_MODEL": options.model, "BONSAI_SPECULATIVE": "1"}
        if options.llama_server:
            chosen["BONSAI_LLAMA_SERVER"] = options.llama_server
        begun = time.monotonic()
        asyncio.run(measure(resolve({}, chosen), locate(folder), options))
        print(f"\n{time.monotonic() - begun:.0f} s in all")


if __name__ == "__main__":
    main()
