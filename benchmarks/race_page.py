"""What an open page costs the engine while it races: the page's race against a bare client, in turn.

    python -m benchmarks.race_page [--model practice-large] [--turns 2] [--llama-server PATH]

On a machine with two cores both sides run with one thread (`-t 1`), so that the browser has the other. Each
turn is one race in a real browser, then bare requests to the same command lines with no page open.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from benchmarks.common import child, free_port, get, machine, table, wait
from benchmarks.race import bare_request
from launcher.ask import make_lifecycle
from launcher.paths import locate
from launcher.race_setup import RaceOptions, make_specs
from launcher.race_store import RaceStore
from launcher.settings import resolve

SIDES = ("plain", "dspark")


def race_in_browser(home: Path, env: dict[str, str], chromium: str) -> list[list[float]]:
    """Decode speeds by side of one race, started with the page's own button."""
    port = free_port()
    argv = [sys.executable, "-m", "launcher", "--no-browser", "--ui-port", str(port)]
    with child(argv, {**env, "BONSAI_HOME": str(home)}), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        wait(lambda: b"gradio_config" in get(f"http://127.0.0.1:{port}/")[1], 60, "the page")
        tab = browser.new_page()
        tab.goto(f"http://127.0.0.1:{port}/")
        tab.wait_for_selector("text=Ready", timeout=60_000)
        tab.get_by_role("tab", name="Race").click()
        known = len(RaceStore(home).list().races)
        tab.get_by_role("button", name="Race", exact=True).click()
        while len(RaceStore(home).list().races) == known:
            tab.wait_for_timeout(500)
        browser.close()
    race = RaceStore(home).load(RaceStore(home).list().races[0].id)
    return [
        [r.timings.tokens_per_second or 0.0 for r in race.runs if r.side == side and r.counts]
        for side in (0, 1)
    ]


async def bare(home: Path, env: dict[str, str], times: int) -> list[list[float]]:
    """Decode speeds by side of the same request from a bare client, engines in turn, no page open."""
    settings, paths = resolve({}, env), locate(str(home))
    spec = make_specs(settings, paths, RaceOptions(rounds=1))[0]
    lifecycle = make_lifecycle(settings, paths, dict(os.environ))
    speeds: list[list[float]] = [[], []]
    try:
        async with lifecycle.workshop("benchmark") as workshop:
            leases = [await workshop.engine(plan) for plan in spec.plans]
            for lease in leases:
                await asyncio.to_thread(bare_request, lease, spec)  # warms up
            for index in range(times):
                for side in (0, 1) if index % 2 else (1, 0):
                    speeds[side].append(await asyncio.to_thread(bare_request, leases[side], spec))
    finally:
        lifecycle.close()
    return speeds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="practice-large")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--llama-server")
    parser.add_argument("--chromium", default=os.environ.get("CHROMIUM", "/usr/bin/chromium"))
    options = parser.parse_args()
    env = {"BONSAI_MODEL": options.model, "BONSAI_SPECULATIVE": "1"}
    if options.llama_server:
        env["BONSAI_LLAMA_SERVER"] = options.llama_server
    raced: list[list[float]] = [[], []]
    alone: list[list[float]] = [[], []]
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.turns):
            for total, part in (
                (raced, race_in_browser(Path(folder), env, options.chromium)),
                (alone, asyncio.run(bare(Path(folder), env, 4))),
            ):
                for side in (0, 1):
                    total[side] += part[side]
    rows = []
    for side, name in enumerate(SIDES):
        ours, theirs = statistics.median(raced[side]), statistics.median(alone[side])
        rows.append((name, f"{ours:.1f}", f"{theirs:.1f}", f"{ours / theirs:.3f}"))
    print(machine(), "\n")
    print(
        table(["side", "race in the page, tokens/s", "bare client, no page, tokens/s", "page / bare"], rows)
    )


if __name__ == "__main__":
    main()
