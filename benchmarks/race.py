"""Whether the race measures what the engine does: against a bare client, and against llama.cpp's own client.

    python -m benchmarks.race [--model practice-large] [--kinds code prose] [--rounds 4]
        [--llama-server PATH] [--speed-bench FOLDER]

Both engines stay loaded; a race of one round and bare requests take turns, so that drift meets both. The
FOLDER is ``tools/server/bench/speed-bench`` of a llama.cpp source tree: its client is run as it is, with a
stand-in for the ``datasets`` package that hands it our prompts. Server and client share two cores here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from benchmarks.common import free_port, get, machine, table, wait
from launcher.ask import make_lifecycle
from launcher.client.http import chat_body
from launcher.lifecycle import Lease, Workshop
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


def bare_request(lease: Lease, spec: RaceSpec) -> float:
    """Decode speed by the server's own timings, for the race's request sent by a bare client, not streamed."""
    body = chat_body(request_of(spec)) | {"stream": False}
    url = f"{lease.client.base_url}/v1/chat/completions"
    reply = httpx.post(url, json=body, headers=lease.client.headers, timeout=600, trust_env=False)
    return float(reply.raise_for_status().json()["timings"]["predicted_per_second"])


async def against_bare(
    workshop: Workshop, spec: RaceSpec, rounds: int
) -> tuple[list[list[float]], list[list[float]]]:
    """Speeds by side: (the race's, the bare client's), taken in turn."""
    raced: list[list[float]] = [[], []]
    bare: list[list[float]] = [[], []]
    for index in range(rounds):
        race = await run_race(workshop, spec)
        for run in race.runs:
            if run.timings.tokens_per_second:
                raced[run.side].append(run.timings.tokens_per_second)
        for side in (0, 1) if index % 2 else (1, 0):
            lease = await workshop.engine(spec.plans[side])
            bare[side].append(await asyncio.to_thread(bare_request, lease, spec))
    return raced, bare


def speed_bench(folder: Path, plan: LaunchPlan, spec: RaceSpec, repeats: int, env: dict[str, str]) -> float:
    """Average decode speed that llama.cpp's speed-bench reports for a server of ``plan``."""
    port = free_port()
    rows = [
        {"category": "race", "turns": [spec.prompt.text], "question_id": f"q{n}"} for n in range(repeats + 1)
    ]
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "datasets.py").write_text(DATASETS)
        output = Path(scratch, "result.json")
        server = subprocess.Popen(plan.command(port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait(lambda: get(f"http://127.0.0.1:{port}/health")[0] == 200, 60, "the engine")
            extra = json.dumps({"temperature": 0, "seed": spec.seed, "cache_prompt": False})
            command = [sys.executable, str(folder / "speed_bench.py"), "--url", f"127.0.0.1:{port}"]
            command += ["--bench", "qualitative", "--osl", str(spec.max_tokens), "--extra-inputs", extra]
            subprocess.run(
                [*command, "--output", str(output)],
                env=env | {"PYTHONPATH": scratch, "BENCH_ROWS": json.dumps(rows)},
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=600,
            )
        finally:
            server.terminate()
            server.wait()
        results: list[dict[str, Any]] = json.loads(output.read_text())["results"]
        return statistics.median(
            float(row["predicted_per_second"]) for row in results[1:]
        )  # the first warms up


async def measure(settings: Settings, paths: Paths, options: argparse.Namespace) -> None:
    """Run everything and print the tables."""
    env = dict(os.environ)
    lifecycle = make_lifecycle(settings, paths, env)
    rows, ratios = [], []
    try:
        for kind in options.kinds:
            spec = (await asyncio.to_thread(make_specs, settings, paths, RaceOptions(kind=kind, rounds=1)))[0]
            async with lifecycle.workshop("benchmark") as workshop:
                raced, bare = await against_bare(workshop, spec, options.rounds)
            speeds = [(statistics.median(raced[side]), statistics.median(bare[side])) for side in (0, 1)]
            for name, (ours, theirs) in zip(("plain", "dspark"), speeds, strict=True):
                rows.append((kind, name, f"{ours:.1f}", f"{theirs:.1f}", f"{ours / theirs:.3f}"))
            ratio = speeds[1][0] / speeds[0][0]
            if options.speed_bench:
                plain, drafting = [
                    await asyncio.to_thread(speed_bench, options.speed_bench, plan, spec, options.rounds, env)
                    for plan in spec.plans
                ]
                theirs = drafting / plain
                ratios.append((kind, f"{ratio:.3f}", f"{theirs:.3f}", f"{ratio / theirs:.3f}"))
            else:
                ratios.append((kind, f"{ratio:.3f}", "not run", ""))
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
    parser.add_argument("--rounds", type=int, default=4)
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
