"""What can stand against a fetch of everything that is lacking, in this process, against servers on loopback."""

from __future__ import annotations

import re
import shutil
import threading
from pathlib import Path

import pytest

from launcher.disk import existing
from launcher.errors import (
    Cancelled,
    DigestMismatch,
    FolderError,
    HubProblem,
    NetworkProblem,
    NoSpace,
    NotAnEngine,
)
from launcher.fetch_types import FetchState
from tests.conftest import wait_until
from tests.fakes.file_server import Fault
from tests.launcher.fetch_world import (
    CARD,
    LONG_S,
    World,
    fast,
    hold,
    in_order,
    item,
    slow,
    some_of,
    wait_for,
    world,
)

pytestmark = pytest.mark.system("posix")  # the engines of these tests are shell scripts


# -- engines that do not run --------------------------------------------------------------------------------


@pytest.mark.case("D-10")
def test_a_build_that_does_not_run_here_is_told_and_the_next_one_is_taken(home: Path) -> None:
    with world(home.parent, CARD, modes={"cuda": "missing-library"}) as net:
        job, told = net.job(), list[FetchState]()
        job.on_change(told.append)
        job.run()
        engine = item(job.state(), "engine")
        assert "vulkan" in engine.name
        assert "libcudart.so.12 is missing. Instead prism-legacy for Vulkan is used." in engine.note
        assert "then `bonsai fetch`" in engine.note
        assert any(
            "Trying prism-legacy for Vulkan instead." in item(it, "engine").note for it in told if it.items
        )
        # CUDA 12.4 needs the same library: its archive is not fetched in vain.
        tried = in_order([item(state, "engine").name for state in told if state.items])
        assert [next(word for word in ("12.8", "12.4", "vulkan") if word in name) for name in tried] == [
            "12.8",
            "vulkan",
        ]
        net.whole()
        # It is not tried again and again, and not forgotten.
        again = net.job()
        again.run()
        assert again.state().phase == "done"
        assert item(again.state(), "engine").note == engine.note
        assert net.releases.sent[net.asset_path(net.asset_names()[0])] == len(
            net.files.releases[(net.files.choice.line.repo, net.files.choice.line.tag)][net.asset_names()[0]]
        )


def test_another_trouble_says_nothing_of_the_next_toolkit(home: Path) -> None:
    with world(home.parent, CARD, modes={"cuda": "new-glibc", "vulkan": "illegal"}) as net:
        job, told = net.job(engine_only=True), list[FetchState]()
        job.on_change(told.append)
        job.run()
        tried = in_order([item(state, "engine").name for state in told if state.items])
        assert [name.rpartition("-x64")[0].rpartition("-bin-")[2] for name in tried] == [
            "linux-cuda-12.8",
            "linux-cuda-12.4",
            "ubuntu-vulkan",
            "ubuntu",
        ]


def test_when_none_runs_the_last_archive_stays_for_another_try(home: Path) -> None:
    with world(home.parent, modes={"cpu": "illegal"}) as net:
        job = net.job(engine_only=True)
        with pytest.raises(NotAnEngine, match="newer CPU"):
            job.run()
        sent = net.sent()
        again = net.job(engine_only=True)
        again.begin()
        state = wait_for(again, "failed")
        assert "newer CPU" in state.error
        assert state.remedy
        assert item(state, "engine").state == "failed"
        assert net.sent() == sent
        assert not list(net.paths.engines.iterdir())


# -- what stands against it ---------------------------------------------------------------------------------


@pytest.mark.case("C-08")
def test_offline_is_one_sentence_and_no_request(net: World) -> None:
    job = net.job(offline="1")
    with pytest.raises(NetworkProblem, match="BONSAI_OFFLINE forbids") as caught:
        job.run()
    assert "BONSAI_MODEL=practice" in caught.value.remedy
    assert (net.hub.requests, net.releases.requests) == ([], [])


@pytest.mark.case("C-03")
def test_room_is_looked_for_before_anything_comes(net: World) -> None:
    file = net.files.choice.weights.file
    net.hub.trouble(file.repo, file.name, Fault(headers={"X-Linked-Size": str(10**17)}))
    job = net.job()
    with pytest.raises(NoSpace, match="are needed") as caught:
        job.run()
    assert str(net.paths.models) in caught.value.what
    assert net.sent() == 0
    assert net.releases.requests == []


def test_engine_and_files_must_fit_together(net: World) -> None:
    free = shutil.disk_usage(existing(net.paths.data)).free
    file, choice = net.files.choice.weights.file, net.files.choice
    net.hub.trouble(file.repo, file.name, Fault(headers={"X-Linked-Size": str(round(free * 0.7))}))
    asset = choice.builds[0].assets[0].name  # takes room packed and unpacked
    net.releases.change[(choice.line.repo, choice.line.tag, asset)] = {"size": round(free * 0.1)}
    with pytest.raises(NoSpace, match="are needed"):
        net.job().run()
    assert net.sent() == 0


def test_a_place_for_models_that_is_no_folder_is_said_before_anybody_is_asked(net: World) -> None:
    net.paths.models.parent.mkdir(parents=True, exist_ok=True)
    net.paths.models.write_text("a file")
    with pytest.raises(FolderError, match=re.escape(str(net.paths.models))):
        net.job().run()
    assert (net.hub.requests, net.releases.requests) == ([], [])


def test_a_file_that_the_hub_does_not_have(net: World) -> None:
    del net.hub.repos[net.files.choice.weights.file.repo][net.weights[0]]
    job = net.job()
    job.begin()
    state = wait_for(job, "failed")
    assert net.weights[0] in state.error
    assert [it.state for it in state.items] == ["waiting", "waiting", "waiting"]
    with pytest.raises(HubProblem):
        net.job().run()


@pytest.mark.case("C-03")
@pytest.mark.parametrize("left", [b"GGUF, and the disk was full", None])
def test_a_wrong_file_under_the_final_name_is_replaced(net: World, left: bytes | None) -> None:
    path, data = net.weights_path, net.weights[1]
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(len(data)) if left is None else left)
    net.job().run()
    net.whole()


@pytest.mark.case("C-03")
def test_wrong_bytes_get_no_name(net: World) -> None:
    net.fault(net.weights[0], Fault(wrong_at=5000))
    with pytest.raises(DigestMismatch):
        net.job().run()
    assert not net.weights_path.exists()


@pytest.mark.case("C-07")
def test_a_refused_token_is_said_to_the_end_and_never_shown(net: World) -> None:
    net.env["HF_TOKEN"] = "hf_expiredEXPIREDexpired"
    job, told = net.job(), list[FetchState]()
    job.on_change(told.append)
    job.run()
    assert "going on without it" in item(job.state(), "weights").note
    assert "hf_expired" not in str(told)
    net.whole()


def test_what_nobody_foresaw_is_told_too(net: World) -> None:
    def machine() -> object:
        raise RuntimeError("a driver went mad")

    done: list[int] = []
    job = net.job(machine=machine, done=lambda: done.append(1))  # type: ignore[arg-type]
    job.begin()
    state = wait_for(job, "failed")
    assert "a driver went mad" in state.error
    job.close()
    assert done == []


def test_whoever_waits_for_the_end_hears_of_it_once(net: World) -> None:
    done: list[str] = []
    job = net.job(engine_only=True, done=lambda: done.append(job.state().phase))
    job.begin()
    wait_for(job, "done")
    job.close()
    assert done == ["done"]


# -- several at once ----------------------------------------------------------------------------------------


def test_two_jobs_in_one_home_fetch_everything_once(net: World) -> None:
    jobs = [net.job(), net.job()]
    for job in jobs:
        job.begin()
    for job in jobs:
        assert wait_for(job, "done", "failed").phase == "done"
    net.whole()
    # The engine's archive may come twice where the first is unpacked and gone before the second looks.
    assert sum(net.hub.store.sent.values()) == sum(
        len(data) for part in net.files.hub.values() for data in part.values()
    )


def test_who_finishes_meanwhile_keeps_the_file(net: World) -> None:
    """The first job looked before the second one was done, and then has the right file under its name."""
    slow(net)
    first = net.job()
    first.begin()
    some_of(first, "weights")
    second = net.job()
    second.begin()
    wait_until(
        lambda: any("another Bonsai" in it.note for it in second.state().items), LONG_S, "the second to wait"
    )
    fast(net)
    hold(first)
    first.resume()
    for job in (first, second):
        assert wait_for(job, "done", "failed").phase == "done"
    net.whole()


def test_callbacks_hear_the_newest_last_from_whatever_thread(net: World) -> None:
    slow(net, 3)
    job, told = net.job(), list[FetchState]()

    def nosy(state: FetchState) -> None:
        told.append(state)
        job.state()
        if state.phase == "running" and item(state, "weights").have > 20_000:
            job.pause()  # from the job's own thread
        elif state.phase == "paused":
            job.resume()

    job.on_change(nosy)
    off = job.on_change(lambda _: pytest.fail("it was taken off"))
    off()
    off()
    job.begin()
    stop = threading.Event()

    def play() -> None:
        while not stop.wait(0.02):
            job.pause()
            job.resume()

    threads = [threading.Thread(target=play) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(told) > 60, LONG_S, "some changes")
    stop.set()
    for thread in threads:
        thread.join(LONG_S)
        assert not thread.is_alive()
    job.cancel()
    wait_for(job, "cancelled")
    job.close()
    assert told[-1] == job.state()


def test_cancelled_is_raised_on_the_callers_own_thread(net: World) -> None:
    slow(net)
    job = net.job()
    job.on_change(lambda state: job.cancel() if state.phase == "running" else None)
    with pytest.raises(Cancelled):
        job.run()
