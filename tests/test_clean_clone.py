"""From a clean clone in an empty home: the README's command installs everything and runs. Takes a minute."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import clean_environment

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.system("posix")
@pytest.mark.timeout(900)
def test_a_clean_clone_starts_with_one_command(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a git checkout, so it cannot be cloned")
    clone, home = tmp_path / "a clone of bonsai", tmp_path / "home"
    home.mkdir()
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(ROOT), str(clone)], check=True, timeout=60)
    # The packages that this machine has fetched before are no part of a home; to fetch them again proves nothing.
    command = [sys.executable, "-m", "pip", "cache", "dir"]
    cache = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    extra = {"HOME": str(home)} | ({"PIP_CACHE_DIR": cache} if cache else {})
    env = {name: value for name, value in clean_environment(extra).items() if not name.startswith("XDG_")}

    def start(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [clone / "scripts" / "start.sh", *arguments],
            cwd=home,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=600,
            check=False,
        )

    first = start("plan", "--json")
    assert first.returncode == 0, first.stderr
    assert "this happens once" in first.stderr
    plan = json.loads(first.stdout)
    assert {"argv", "env", "reasons", "engine", "target", "drafter", "context", "warnings"} <= set(plan)
    assert plan["target"]["path"].startswith(str(home)), "the data lies in that home"
    assert plan["on_disk"] is False, "nothing is fetched without consent"

    question = ("--temperature", "0", "--speculative", "Implement quicksort in Python.")
    second = start("ask", "--json", "--model", "practice", *question)
    assert second.returncode == 0, second.stderr
    assert "Installing" not in second.stderr
    assert json.loads(second.stdout)["speculation"]["engaged"] is True
    left = subprocess.run(
        ["git", "status", "--porcelain"], cwd=clone, capture_output=True, text=True, check=True
    )
    assert left.stdout == "", "nothing but ignored files is written into the checkout"
