"""What an open page costs the engine while it races: the page's race against a bare client, in turn.

    python -m benchmarks.race_page [--model practice-large] [--rounds 6] [--llama-server PATH]

On a machine with two cores both sides run with one thread (`-t 1`), so that the browser has the other. In each
round the page races once in a real browser, and a bare client asks engines of the same command lines while the
browser shows an empty page; only speeds of the same round are compared.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from benchmarks.common import child, free_port, get, machine, table, wait
from benchmarks.race import bare_request, plain_server
from launcher.paths import locate
from launcher.race_setup import RaceOptions, make_specs
from launcher.race_store import RaceStore
from launcher.settings import resolve

SIDES = ("plain", "dspark")

Speeds = tuple[float, float]


def race_in_browser(tab: Page, address: str, home: Path, tokens: int) -> Speeds:
    """Decode speeds (plain, drafting) of a race of one round, started with the page's own button."""
    tab.goto(address)
    tab.wait_for_selector("text=Ready", timeout=60_000)
    tab.get_by_role("tab", name="Race").click()
    tab.get_by_text("Rounds, length, temperature").click()
    tab.locator(".r-rounds").select_option("1")
    tab.locator(".r-tokens").fill(str(tokens))
    known = len(RaceStore(home).list().races)
    tab.get_by_role("button", name="Race", exact=True).click()
    while len(RaceStore(home).list().races) == known:
        tab.wait_for_timeout(500)
    tab.goto("about:blank")
    race = RaceStore(home).load(RaceStore(home).list().races[0].id)
    found = {run.side: run.timings.tokens_per_second or 0.0 for run in race.runs if run.counts}
    return found[0], found[1]


def in_turn(options: argparse.Namespace, env: dict[str, str], home: Path) -> list[tuple[Speeds, Speeds]]:
    """Speeds of each round: (race in the page, bare client with no page open)."""
    settings, paths = resolve({}, env), locate(str(home))
    spec = make_specs(
        settings, paths, dict(os.environ), RaceOptions(rounds=1, max_tokens=options.max_tokens)
    )[0]
    port = free_port()
    address = f"http://127.0.0.1:{port}/"
    argv = [sys.executable, "-m", "launcher", "--no-browser", "--ui-port", str(port)]
    rounds = []
    with contextlib.ExitStack() as stack:
        bare = [stack.enter_context(plain_server(plan)) for plan in spec.plans]
        stack.enter_context(child(argv, {**env, "BONSAI_HOME": str(home)}))
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=options.chromium, args=["--no-sandbox"])
        stack.callback(browser.close)
        wait(lambda: b"gradio_config" in get(address)[1], 60, "the page")
        tab = browser.new_page()
        for server in bare:
            bare_request(f"http://{server}", {}, spec)  # warms up
        for number in range(options.rounds):
            first = [bare_request(f"http://{server}", {}, spec) for server in bare] if number % 2 else []
            raced = race_in_browser(tab, address, home, options.max_tokens)
            alone = first or [bare_request(f"http://{server}", {}, spec) for server in bare]
            rounds.append((raced, (alone[0], alone[1])))
    return rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="practice-large")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--max-tokens", type=int, default=150)
    parser.add_argument("--llama-server")
    parser.add_argument("--chromium", default=os.environ.get("CHROMIUM", "/usr/bin/chromium"))
    options = parser.parse_args()
    env = {"BONSAI_MODEL": options.model, "BONSAI_SPECULATIVE": "1"}
    if options.llama_server:
        env["BONSAI_LLAMA_SERVER"] = options.llama_server
    with tempfile.TemporaryDirectory() as folder:
        rounds = in_turn(options, env, Path(folder))
    rows = []
    for side, name in enumerate(SIDES):
        share = statistics.median(raced[side] / alone[side] for raced, alone in rounds)
        ours, theirs = (statistics.median(pair[which][side] for pair in rounds) for which in (0, 1))
        rows.append((name, f"{ours:.1f}", f"{theirs:.1f}", f"{share:.3f}"))
    print(machine(), "\n")
    print(
        table(["side", "race in the page, tokens/s", "bare client, no page, tokens/s", "page / bare"], rows)
    )


if __name__ == "__main__":
    main()
