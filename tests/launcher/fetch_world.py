"""A hub and a release server with a small trio, and jobs that fetch from them in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from launcher.fetch_types import FetchState, Item
from launcher.fetching import FetchJob
from launcher.hardware.model import Machine
from launcher.paths import Paths, locate
from launcher.settings import Settings, resolve
from tests.conftest import wait_until
from tests.fakes.file_server import Fault, sha256
from tests.fakes.hub_server import HubServer
from tests.fakes.release_server import ReleaseServer
from tests.machines import load
from tests.standins import Standins, engine_archive, engine_script, standins

PLAIN, CARD = load("no-gpu"), load("rtx4090-cuda-12.8")
LONG_S = 20.0


@dataclass
class World:
    """``env``: leads to the servers; ``paths``: a fresh home."""

    hub: HubServer
    releases: ReleaseServer
    files: Standins
    machine: Machine
    paths: Paths
    env: dict[str, str]
    jobs: list[FetchJob] = field(default_factory=list)

    def settings(self, **env: str) -> Settings:
        """Of the world's environment and more variables, without their prefix and in lower case."""
        return resolve({}, self.env | {f"BONSAI_{name.upper()}": text for name, text in env.items()})

    def job(
        self,
        *,
        machine: Callable[[], Machine] | None = None,
        engine_only: bool = False,
        done: Callable[[], None] = lambda: None,
        **env: str,
    ) -> FetchJob:
        found = machine or (lambda: self.machine)
        job = FetchJob(self.settings(**env), self.paths, self.env, found, engine_only=engine_only, done=done)
        self.jobs.append(job)
        return job

    @property
    def weights(self) -> tuple[str, bytes]:
        """(name, bytes)"""
        file = self.files.choice.weights.file
        return file.name, self.files.hub[file.repo][file.name]

    @property
    def weights_path(self) -> Path:
        file = self.files.choice.weights.file
        return self.paths.models / file.repo.replace("/", "--") / file.name

    def fault(self, name: str, fault: Fault) -> None:
        """Every answer with the bytes of the hub's file ``name`` goes wrong so."""
        for files in self.files.hub.values():
            if name in files:
                self.hub.store.always[sha256(files[name])] = fault

    def asset_names(self) -> list[str]:
        (assets,) = self.files.releases.values()
        return list(assets)

    def asset_path(self, name: str) -> str:
        """As the release server knows it."""
        line = self.files.choice.line
        return f"{line.repo}/releases/download/{line.tag}/{name}"

    def sent(self) -> int:
        """Bytes of bodies of files that went out so far."""
        archives = [count for name, count in self.releases.sent.items() if name.endswith((".gz", ".zip"))]
        return sum(self.hub.store.sent.values()) + sum(archives)

    def sizes(self) -> list[int]:
        """Bytes of every file that has to come on a machine where the first build runs."""
        first = self.files.choice.builds[0].assets
        (assets,) = self.files.releases.values()
        files = [data for part in self.files.hub.values() for data in part.values()]
        return [len(data) for data in (*files, *(assets[asset.name] for asset in first))]

    def whole(self) -> None:
        """All files of the hub are here with the right bytes, and nothing is half."""
        here = {path.name: path.read_bytes() for path in self.paths.models.rglob("*") if path.is_file()}
        assert here == {name: data for part in self.files.hub.values() for name, data in part.items()}
        downloads = self.paths.cache / "downloads"
        assert not downloads.exists() or list(downloads.iterdir()) == []


@contextmanager
def world(
    home: Path,
    machine: Machine = PLAIN,
    *,
    modes: Mapping[str, str] | None = None,
    weights_bytes: int = 300_000,
) -> Iterator[World]:
    """``modes``: how the engine of a backend ("cuda", ...) behaves, in engine_tool's modes; others run."""
    files = standins(machine=machine, weights_bytes=weights_bytes)
    choice = files.choice
    if modes:
        assets = {
            asset.name: engine_archive(choice.line, build, engine_script(modes.get(build.backend, "fork")))
            for build in choice.builds
            for asset in build.assets
        }
        files = Standins(choice, files.hub, {(choice.line.repo, choice.line.tag): assets})
    with HubServer(files.hub) as hub, ReleaseServer(files.releases) as releases:
        env = {
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(home / "hf"),
            "BONSAI_RELEASES_URL": releases.url,
            "BONSAI_HOME": str(home / "bonsai home"),
        }
        made = World(hub, releases, files, machine, locate(env["BONSAI_HOME"]), env)
        try:
            yield made
        finally:
            for job in made.jobs:
                job.close()
    assert [it for it in threading.enumerate() if it.name == "fetch"] == []


def wait_for(job: FetchJob, *phases: str) -> FetchState:
    """The state once it has one of ``phases``."""
    wait_until(lambda: job.state().phase in phases, LONG_S, f"{phases}, not {job.state()}")
    return job.state()


def item(state: FetchState, part: str) -> Item:
    return next(it for it in state.items if it.part == part)


def slow(net: World, seconds: float = 60) -> None:
    """The weights take so long."""
    name, data = net.weights
    net.fault(name, Fault(rate=len(data) / seconds))


def fast(net: World) -> None:
    net.hub.store.always.clear()


def some_of(job: FetchJob, part: str) -> None:
    """Wait until a bit of that part is here."""
    wait_until(
        lambda: any(it.part == part and it.have > 4096 for it in job.state().items), LONG_S, f"some of {part}"
    )


def hold(job: FetchJob) -> None:
    """Pause it and wait until nothing moves any more."""
    job.pause()
    wait_until(lambda: any(it.note == "paused" for it in job.state().items), LONG_S, "the pause")


def in_order(values: list[str]) -> list[str]:
    """``values`` without what only says the same again."""
    return [value for at, value in enumerate(values) if at == 0 or values[at - 1] != value]
