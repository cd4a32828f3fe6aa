"""``bonsai fetch`` as a person runs it, against a hub and a release server on loopback that hold a small trio under
the real names."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Bonsai, wait_until
from tests.fakes.file_server import Fault, sha256
from tests.fakes.hub_server import HubServer
from tests.fakes.release_server import ReleaseServer
from tests.standins import Standins, engine_script, standins

AUTO = {"BONSAI_MODEL": "auto"}


@dataclass(frozen=True)
class Net:
    """The servers, and the environment that leads there."""

    hub: HubServer
    releases: ReleaseServer
    files: Standins
    env: dict[str, str]

    def sizes(self) -> dict[str, int]:
        """Bytes of each file by name."""
        every = [*self.files.hub.values(), *self.files.releases.values()]
        return {name: len(data) for part in every for name, data in part.items()}

    def always(self, fault: Fault) -> None:
        """Every answer with bytes goes wrong so."""
        for part in self.files.hub.values():
            for data in part.values():
                self.hub.store.always[sha256(data)] = fault
        for (repo, tag), assets in self.files.releases.items():
            for name in assets:
                self.releases.always[f"{repo}/releases/download/{tag}/{name}"] = fault

    def sent(self) -> int:
        """Bytes of bodies that went out so far."""
        return sum(self.hub.store.sent.values()) + sum(
            count for name, count in self.releases.sent.items() if name.endswith(("gz", "zip"))
        )


@pytest.fixture
def net(home: Path) -> Iterator[Net]:
    del home
    yield from serve(standins())


def serve(files: Standins) -> Iterator[Net]:
    with HubServer(files.hub) as hub, ReleaseServer(files.releases) as releases:
        env = AUTO | {"HF_ENDPOINT": f"{hub.url}/", "BONSAI_RELEASES_URL": releases.url}
        yield Net(hub, releases, files, env)


def whole(home: Path, net: Net) -> dict[str, bytes]:
    """What lies in the home of the wanted files, by name."""
    found = {}
    for path in [*home.rglob("*.gguf"), *home.rglob("libllama.so.0")]:
        found[path.name] = path.read_bytes()
    assert not list(home.rglob("*.part"))
    for part in net.files.hub.values():
        for name, data in part.items():
            assert found[name] == data, name
    return found


def test_it_brings_a_whole_trio_that_a_plan_then_uses(bonsai: Bonsai, net: Net) -> None:
    before = json.loads(bonsai("plan", "--json", env=net.env).stdout)
    assert before["on_disk"] is False
    assert before["engine"]["probed"] is False
    on_paper = bonsai("plan", env=net.env).stderr
    assert "`bonsai fetch` has to bring this first: " in on_paper
    assert all(name in on_paper for name in before["to_fetch"])

    done = bonsai("fetch", env=net.env)
    assert done.returncode == 0, done.stderr
    assert "Everything is here." in done.stderr
    whole(bonsai.home, net)
    (engine,) = bonsai.home.rglob("llama-server")
    assert engine.stat().st_mode & 0o111
    assert (engine.parent / "libllama.so.0").is_symlink()

    after = json.loads(bonsai("plan", "--json", "--speculative", env=net.env).stdout)
    assert after["on_disk"] is True
    assert after["engine"]["probed"] is True
    assert after["argv"][0] == str(engine)
    assert "bonsai fetch" not in bonsai("plan", env=net.env).stderr
    # Before and after lead to the same start, but for what only the binary can tell.
    assert before["argv"][before["argv"].index("-m") + 1] == after["argv"][after["argv"].index("-m") + 1]


@pytest.mark.case("C-08")
def test_what_is_here_is_used_without_a_single_request(bonsai: Bonsai, net: Net) -> None:
    assert bonsai("fetch", env=net.env).returncode == 0
    net.hub.requests.clear()
    net.releases.requests.clear()
    for command in (("fetch",), ("plan", "--json"), ("models", "--json"), ("doctor", "--json")):
        done = bonsai(*command, env=net.env)
        assert done.returncode == 0, done.stderr
    assert net.hub.requests == []
    assert net.hub.store.requests[-1].method == "GET"
    assert net.releases.requests == []
    offline = net.env | {"BONSAI_OFFLINE": "1", "HTTP_PROXY": "http://127.0.0.1:9"}
    assert bonsai("fetch", env=offline).returncode == 0


@pytest.mark.case("C-08")
def test_a_missing_drafter_alone_means_plain_decoding_said(bonsai: Bonsai, net: Net) -> None:
    assert bonsai("fetch", env=net.env).returncode == 0
    (drafter,) = bonsai.home.rglob("*dspark*.gguf")
    drafter.unlink()
    plan = json.loads(bonsai("plan", "--json", "--speculative", "--offline", env=net.env).stdout)
    assert "-md" not in plan["argv"]
    assert plan["on_disk"] is True
    assert any("drafter is not on this machine" in warning for warning in plan["warnings"])


@pytest.mark.case("C-08")
def test_offline_without_the_files_is_one_clear_sentence(bonsai: Bonsai, net: Net) -> None:
    done = bonsai("fetch", env=net.env | {"BONSAI_OFFLINE": "1"})
    assert done.returncode == 6
    assert "BONSAI_OFFLINE" in done.stderr
    assert net.hub.requests == []


@pytest.mark.case("C-03")
def test_killed_at_any_moment_it_ends_with_the_right_bytes_and_fetches_little_twice(
    bonsai: Bonsai, home: Path
) -> None:
    for net in serve(standins(weights_bytes=4_000_000)):
        net.always(Fault(rate=3e6))
        chance, kills, total = random.Random(7), 0, sum(net.sizes().values())
        child = _start(bonsai, net)
        while kills < 20:
            began = net.sent()
            # A moment: some bytes later, or some time where nothing moves (the start, the unpacking).
            wanted, until = chance.randrange(0, total // 16), time.monotonic() + chance.uniform(0.05, 1.5)
            while child.poll() is None and net.sent() - began < wanted and time.monotonic() < until:
                time.sleep(0.005)
            if child.poll() is not None:
                break
            child.kill()
            child.wait()
            kills += 1
            child = _start(bonsai, net)
        assert child.wait(60) == 0, bonsai.output()
        whole(home, net)
        assert kills == 20, "it was over before it could be killed so often"
        assert net.sent() <= 1.05 * total + kills * 65536


@pytest.mark.system("posix")
def test_ctrl_c_keeps_what_came_and_says_so(bonsai: Bonsai, net: Net) -> None:
    net.always(Fault(rate=4_000))
    child = _start(bonsai, net)
    wait_until(lambda: _came(bonsai.home), 60, "a part with something in it")  # an empty one is not kept
    child.send_signal(signal.SIGINT)
    assert child.wait(20) == 130
    assert "`bonsai fetch` goes on from there" in bonsai.output()
    assert "Traceback" not in bonsai.output()
    assert _came(bonsai.home)


def _came(home: Path) -> bool:
    return any(part.stat().st_size for part in home.rglob("*.gguf.part"))


def _start(bonsai: Bonsai, net: Net) -> subprocess.Popen[str]:
    return bonsai.popen("fetch", env=net.env)


@pytest.mark.case("C-03")
def test_wrong_bytes_never_get_the_name(bonsai: Bonsai, net: Net) -> None:
    net.always(Fault(wrong_at=1000))
    done = bonsai("fetch", env=net.env)
    assert done.returncode == 6
    assert "sha256" in done.stderr or "bytes" in done.stderr
    assert not list(bonsai.home.rglob("*.gguf"))


@pytest.mark.case("D-10")
def test_a_build_that_does_not_run_here_is_told_and_leaves_nothing(bonsai: Bonsai, home: Path) -> None:
    for net in serve(standins(program=engine_script("missing-library"))):
        done = bonsai("fetch", "--engine-only", env=net.env)
        assert done.returncode == 4
        assert "libcudart.so.12" in done.stderr
        assert not list(home.rglob("llama-server"))


def test_ask_without_consent_fetches_nothing(bonsai: Bonsai, net: Net) -> None:
    done = bonsai("ask", "hello", env=net.env)
    assert done.returncode == 6
    assert "bonsai fetch" in done.stderr
    assert "--yes" in done.stderr
    assert net.hub.requests == []
    assert net.releases.requests == []


def test_removing_gives_the_bytes_back_and_touches_nothing_else(
    bonsai: Bonsai, net: Net, tmp_path: Path
) -> None:
    assert bonsai("fetch", env=net.env).returncode == 0
    own = tmp_path / "mine.gguf"
    own.write_bytes(b"GGUF")
    models = {row["model"]: row for row in json.loads(bonsai("models", "--json", env=net.env).stdout)}
    assert models["ternary/27B"]["on_disk"] is True
    assert models["ternary/27B"]["in_use"] is True
    assert bonsai("models", "remove", "27B", env=net.env).returncode == 2  # no terminal to ask on
    done = bonsai("models", "remove", "27B", "--yes", env=net.env)
    assert done.returncode == 0, done.stderr
    freed = sum(len(data) for part in net.files.hub.values() for data in part.values())
    assert f"{freed:,} bytes" in done.stderr
    assert not list(bonsai.home.rglob("*.gguf"))
    assert own.exists()
    (engine,) = [
        row for row in json.loads(bonsai("engines", "--json", env=net.env).stdout) if "prism" in row["engine"]
    ]
    assert bonsai("engines", "remove", engine["engine"], "--yes", env=net.env).returncode == 0
    assert not list(bonsai.home.rglob("llama-server"))


def test_files_that_were_here_before_are_used_in_place(bonsai: Bonsai, net: Net, tmp_path: Path) -> None:
    """The stand-ins differ from the pins, so only what we fetched ourselves is proved: moved elsewhere, they are not."""
    assert bonsai("fetch", env=net.env).returncode == 0
    (weights,) = bonsai.home.rglob("*Q2_0.gguf")
    elsewhere = tmp_path / "models"
    elsewhere.mkdir()
    moved = elsewhere / weights.name
    weights.rename(moved)
    plan = json.loads(bonsai("plan", "--json", env=net.env | {"BONSAI_MODELS_DIR": str(elsewhere)}).stdout)
    assert plan["on_disk"] is False
    assert moved.exists()
