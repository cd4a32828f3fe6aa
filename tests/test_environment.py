"""The start scripts on a small checkout, for real: what they install, when they do not, and what they say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import environment
import pytest

from tests.conftest import clean_environment, free_port
from tests.fakes import mini_checkout

pytestmark = [pytest.mark.system("posix"), pytest.mark.timeout(300)]


@dataclass
class Checkout:
    """A small checkout, the packages it installs, and the home of who starts it."""

    folder: Path
    packages: Path
    home: Path
    extra: dict[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()

    def env(self) -> dict[str, str]:
        pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": self.packages.as_uri()}
        outside = {"HOME": str(self.home), "XDG_CACHE_HOME": str(self.home / "cache"), "LC_ALL": "C"}
        kept = {name: value for name, value in clean_environment().items() if not name.startswith("PIP_")}
        return {name: value for name, value in (kept | pip | outside | self.extra).items() if value}

    def popen(self, *arguments: str, script: str = "start.sh") -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.prefix, str(self.folder / "scripts" / script), *arguments],
            env=self.env(),
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def start(self, *arguments: str, script: str = "start.sh") -> subprocess.CompletedProcess[str]:
        child = self.popen(*arguments, script=script)
        out, err = child.communicate(timeout=120)
        return subprocess.CompletedProcess(child.args, child.returncode, out, err)

    def answer(self, *arguments: str, script: str = "start.sh") -> dict[str, Any]:
        """What the small project prints of itself."""
        done = self.start(*arguments, script=script)
        assert done.returncode == 0, done.stderr
        printed: dict[str, Any] = json.loads(done.stdout)
        return printed


Make = Callable[[], Checkout]


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Makes a small checkout in a path with a space and a letter that is not ASCII; nothing is installed yet."""

    def make() -> Checkout:
        base = tmp_path_factory.mktemp("checkout")
        folder = mini_checkout.make(base / "grüne Bäume 模型" / "bonsai", base / "packages")
        (base / "home").mkdir()
        return Checkout(folder, base / "packages", base / "home")

    return make


@pytest.fixture(scope="module")
def first(new: Make) -> tuple[Checkout, list[subprocess.CompletedProcess[str]]]:
    """A checkout started for the first time, twice at once, and what these starts said."""
    checkout = new()
    children = [checkout.popen(*arguments) for arguments in (("one", "two words", "", "*"), ("other",))]
    outcomes = [child.communicate(timeout=200) for child in children]
    return checkout, [
        subprocess.CompletedProcess(child.args, child.returncode, out, err)
        for child, (out, err) in zip(children, outcomes, strict=True)
    ]


@pytest.fixture
def installed(first: tuple[Checkout, list[subprocess.CompletedProcess[str]]]) -> Checkout:
    return first[0]


def test_two_first_starts_at_once_install_once_and_then_run(
    first: tuple[Checkout, list[subprocess.CompletedProcess[str]]],
) -> None:
    checkout, starts = first
    assert [done.returncode for done in starts] == [0, 0], starts
    printed = [json.loads(done.stdout) for done in starts]
    assert [it["arguments"] for it in printed] == [["one", "two words", "", "*"], ["other"]]
    assert printed[0]["source"] == str(checkout.folder / "launcher" / "__main__.py"), (
        "the checkout itself runs"
    )
    assert printed[0]["tool"] is False
    talk = "".join(done.stderr for done in starts)
    assert talk.count("this happens once") == 1
    assert talk.count("waiting for it") == 1
    assert talk.count("The embedded engine has no build for this Python and system") == 1
    assert "Traceback" not in talk


def test_the_next_start_installs_nothing(installed: Checkout) -> None:
    checkout = installed
    log = checkout.folder / ".venv" / "install.log"
    before = log.stat().st_mtime_ns
    checkout.extra["PIP_FIND_LINKS"] = "/nonexistent"
    started = time.perf_counter()
    done = checkout.start("again")
    seconds = time.perf_counter() - started
    del checkout.extra["PIP_FIND_LINKS"]
    assert (done.returncode, done.stderr) == (0, "")
    assert log.stat().st_mtime_ns == before
    assert seconds < 2, "a start with nothing to do takes a fraction of a second"


def test_exit_status_and_link_are_passed_through(installed: Checkout) -> None:
    checkout = installed
    assert checkout.start("fail").returncode == 7
    link = checkout.home / "bonsai"
    link.symlink_to(checkout.folder / "scripts" / "start.sh")
    done = subprocess.run([link, "x"], env=checkout.env(), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["arguments"] == ["x"]


def test_the_server_script_stands_for_serve(installed: Checkout) -> None:
    checkout = installed
    printed = checkout.answer("-c", "4096", "--host", "::1", script="start_llama_server.sh")
    assert printed["arguments"] == ["serve", "--", "-c", "4096", "--host", "::1"]


def test_building_an_engine_brings_its_tools_and_they_stay(installed: Checkout) -> None:
    checkout = installed
    done = checkout.start("engines", "build", "--jobs", "1")
    assert json.loads(done.stdout)["tool"] is True
    assert "Refreshing" in done.stderr
    assert checkout.start("plan").stderr == ""


def test_a_changed_lock_refreshes_and_a_failed_install_is_redone(installed: Checkout) -> None:
    checkout, venv = installed, installed.folder / ".venv"
    mini_checkout.pin(checkout.folder, checkout.packages, "2.0")
    refreshed = checkout.start()
    assert json.loads(refreshed.stdout)["tiny_dep"] == "2.0"
    assert "Refreshing" in refreshed.stderr

    mini_checkout.pin(checkout.folder, checkout.packages, "3.0", wrong_hash=True)
    failed = checkout.start()
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "not the one that requirements.lock names" in failed.stderr
    assert "Traceback" not in failed.stderr

    (venv / "leftover").mkdir()
    (venv / "bin" / "python").unlink()
    mini_checkout.pin(checkout.folder, checkout.packages, "3.0")
    redone = checkout.start()
    assert json.loads(redone.stdout)["tiny_dep"] == "3.0"
    assert "this happens once" in redone.stderr
    assert not (venv / "leftover").exists()


def test_an_environment_of_somebody_else_is_left_alone(new: Make) -> None:
    checkout = new()
    theirs = checkout.folder / ".venv" / "pyvenv.cfg"
    theirs.parent.mkdir()
    theirs.write_text("home = /somewhere\n")
    printed = checkout.answer()
    assert printed["program"].startswith(str(checkout.home / "cache" / "bonsai-launcher" / "venv-"))
    assert [path.name for path in theirs.parent.iterdir()] == ["pyvenv.cfg"]
    assert checkout.start().stderr == "", "the one in the cache folder is found again"


def test_a_read_only_checkout_is_copied_and_followed(new: Make) -> None:
    checkout = new()
    folders = [path for path in (checkout.folder, *checkout.folder.rglob("*")) if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    if os.getuid() == 0:  # root may write everywhere, unless it gives that up
        checkout.prefix = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
    printed = checkout.answer()
    assert str(checkout.home / "cache" / "bonsai-launcher") in printed["source"]
    assert checkout.start().stderr == ""
    main = checkout.folder / "launcher" / "__main__.py"
    main.write_text(main.read_text().replace('"source"', '"new"'))  # its owner has updated it
    done = checkout.start()
    assert "new" in json.loads(done.stdout)
    assert "Refreshing" in done.stderr
    assert not (checkout.folder / ".venv").exists()
    for folder in folders:
        folder.chmod(0o755)


def test_without_a_network_it_says_so(new: Make) -> None:
    checkout = new()
    nowhere = f"http://127.0.0.1:{free_port()}/simple"
    checkout.extra = {"PIP_NO_INDEX": "", "PIP_FIND_LINKS": "", "PIP_INDEX_URL": nowhere}
    done = checkout.start()
    assert (done.returncode, done.stdout) == (1, "")
    assert "The package index cannot be reached" in done.stderr
    assert "HTTPS_PROXY" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (checkout.folder / ".venv" / "bin" / "bonsai").exists()


READY: dict[str, object] = {"state": "ready", "python": f"{sys.version_info.major}.{sys.version_info.minor}"}


@pytest.mark.parametrize(
    ("change", "usable"),
    [
        ({}, True),
        ({"state": "making"}, False),
        ({"python": "3.8"}, False),
        ({"root": "/where/it/was/before"}, False),
        ({"venv": "/where/it/was/before"}, False),
    ],
)
def test_an_environment_is_used_only_where_and_as_it_was_made(
    tmp_path: Path, change: dict[str, object], usable: bool
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    state = {**READY, "root": str(environment.ROOT), "venv": str(tmp_path), **change}
    assert environment.usable(tmp_path, state) is usable
    (tmp_path / "bin" / "python").unlink()
    assert environment.usable(tmp_path, state) is False, "its Python was uninstalled"


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00"])
def test_a_broken_mark_means_that_nothing_is_ready(tmp_path: Path, text: str) -> None:
    (tmp_path / environment.STATE).write_text(text)
    assert environment.is_ours(tmp_path)
    assert not environment.ready(tmp_path, set())
