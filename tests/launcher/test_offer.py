"""The room that an offer names is what the fetch will need, and says so where it is only an estimate."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher import catalog, disk, fetching, offer
from launcher.errors import LauncherError, NoSpace
from launcher.fetch_command import ensure_here, run_fetch
from launcher.fetch_types import Offer
from launcher.hardware.detect import detect
from launcher.offer import ARCHIVES, make_offer
from tests.fakes.file_server import Fault
from tests.launcher.fetch_world import World, world
from tests.machines import load

pytestmark = pytest.mark.system("posix")  # the engines of these tests are shell scripts

MODELS = 7_165_121_600 + 1_946_393_568
TENTH = 1.1


@pytest.fixture
def net(home: Path) -> Iterator[World]:
    with world(home.parent) as made:
        yield made


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes every disk have that many bytes free."""

    def set_free(count: int) -> None:
        for room in (disk, offer):
            monkeypatch.setattr(room, "free_bytes", lambda folder: count)  # noqa: ARG005

    return set_free


def offered(net: World) -> Offer:
    found = make_offer(net.settings(), net.paths, net.env, net.machine)
    assert found is not None
    return found


def real_sizes(net: World, archive: int) -> None:
    """The servers tell the sizes of the real files, and ``archive`` for the engine's."""
    choice = net.files.choice
    assert choice.drafter is not None
    for file in (choice.weights.file, choice.drafter.file):
        net.hub.trouble(file.repo, file.name, Fault(headers={"X-Linked-Size": str(file.bytes)}))
    for asset in choice.builds[0].assets:
        net.releases.change[(choice.line.repo, choice.line.tag, asset.name)] = {"size": archive}


# -- how much -----------------------------------------------------------------------------------------------


def test_an_engine_counts_packed_and_unpacked_and_an_unknown_size_as_about(net: World) -> None:
    found = offered(net)
    assert found.to_fetch == MODELS
    assert found.disk_needed == pytest.approx((MODELS + 4 * ARCHIVES["cpu"]) * TENTH, abs=5)
    assert found.disk_about
    assert found.folder == str(net.weights_path.parent)


def test_a_known_size_is_no_estimate(home: Path) -> None:
    with world(home.parent, load("apple-m2")) as net:
        found = make_offer(net.settings(family="bonsai2"), net.paths, net.env, net.machine)
        assert found is not None
        engine = next(item for item in found.items if item.part == "engine")
        assert engine.total == 11_517_506
        others = sum(item.total or 0 for item in found.items if item.part != "engine")
        assert found.disk_needed == pytest.approx((others + 4 * 11_517_506) * TENTH, abs=5)
        assert not found.disk_about


def test_an_archive_that_is_here_counts_only_unpacked(net: World) -> None:
    before = offered(net).disk_needed or 0
    line, (asset,) = net.files.choice.line, net.files.choice.builds[0].assets
    archive = net.paths.cache / "downloads" / f"{line.tag}-{asset.name}"
    archive.parent.mkdir(parents=True)
    archive.write_bytes(bytes(1000))
    after = offered(net)
    assert before - (after.disk_needed or 0) == pytest.approx((4 * ARCHIVES["cpu"] - 3 * 1000) * TENTH, abs=5)
    assert not after.disk_about


def test_every_build_has_an_estimate_that_no_known_archive_exceeds() -> None:
    builds = [build for line in catalog.load().lines for build in line.builds]
    assert {build.backend for build in builds} <= set(ARCHIVES)
    for build in builds:
        for asset in build.assets:
            assert (asset.bytes or 0) <= ARCHIVES[build.backend], asset.name


@pytest.mark.system("linux")
def test_of_two_disks_the_one_that_lacks_room_is_named(net: World) -> None:
    net.paths = replace(net.paths, cache=Path("/proc/nowhere"))  # another file system, without any room
    found = offered(net)
    assert found.folder == "/proc/nowhere/downloads"
    assert found.disk_free == 0
    assert found.disk_needed == pytest.approx(ARCHIVES["cpu"] * TENTH, abs=5)


# -- too little ---------------------------------------------------------------------------------------------


@pytest.mark.case("C-03")
def test_offer_and_fetch_agree_to_the_byte_where_all_is_known(
    net: World, free: Callable[[int], None]
) -> None:
    assert fetching.UNPACKED == disk.UNPACKED
    real_sizes(net, ARCHIVES["cpu"])
    needed = offered(net).disk_needed
    assert needed is not None
    free(needed - 1)
    with pytest.raises(NoSpace) as caught:
        net.job().run()
    assert disk.room_says(needed, needed - 1) in caught.value.what
    assert net.sent() == 0
    free(needed)
    with pytest.raises(LauncherError) as other:  # the archive is smaller than it was said to be
        net.job().run()
    assert not isinstance(other.value, NoSpace)


@pytest.mark.case("C-03")
def test_what_cannot_fit_is_refused_before_anybody_is_asked_or_anything_comes(
    home: Path, free: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    with world(home.parent, detect()) as net:
        free(5 * 10**9)
        found = offered(net)
        assert not found.disk_ok
        fetches: list[Callable[[], None]] = [
            lambda: run_fetch(net.settings(), net.paths, net.env, engine_only=False),
            lambda: ensure_here(net.settings(), net.paths, net.env, net.machine, agreed=True),
            lambda: ensure_here(net.settings(), net.paths, net.env, net.machine, agreed=False),
        ]
        for fetch in fetches:
            with pytest.raises(NoSpace, match="There is too little room") as caught:
                fetch()
            says = disk.room_says(found.disk_needed or 0, 5 * 10**9, about=True)
            assert says.startswith("about ")
            assert says in caught.value.what
            assert found.folder in caught.value.what
            assert "BONSAI_HOME" in caught.value.remedy
            assert says in " ".join(capsys.readouterr().err.split())
        assert (net.hub.requests, net.releases.requests) == ([], [])


@pytest.mark.case("C-03")
def test_what_may_not_fit_is_said_and_the_fetch_looks_again(net: World, free: Callable[[int], None]) -> None:
    needed = offered(net).disk_needed or 0
    free(needed - 1)
    found = offered(net)
    assert found.disk_ok
    (notice,) = (it for it in found.notices if "room" in it)
    assert re.match(r"There may be too little room in .*: about \d+\.\d\d GB are needed", notice)
    free(needed)
    assert not any("room" in it for it in offered(net).notices)
