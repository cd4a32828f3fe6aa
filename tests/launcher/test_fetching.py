"""One fetch of everything that is lacking, in this process, against servers on loopback."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from launcher.fetch_types import FetchState
from tests.conftest import wait_until
from tests.fakes.file_server import Fault
from tests.launcher.fetch_world import (
    LONG_S,
    PLAIN,
    World,
    fast,
    hold,
    in_order,
    item,
    slow,
    some_of,
    wait_for,
)
from tests.standins import engine_script

pytestmark = pytest.mark.system("posix")  # the engines of these tests are shell scripts


# -- all goes well ------------------------------------------------------------------------------------------


def test_everything_comes_and_every_state_is_toldin_order(net: World) -> None:
    job, told = net.job(), list[FetchState]()
    job.on_change(told.append)
    job.run()
    net.whole()
    assert in_order([state.phase for state in told]) == ["looking", "running", "done"]
    parts = [state for state in told if state.items]
    engine = in_order([item(state, "engine").state for state in parts])
    assert engine == ["waiting", "running", "unpacking", "proving", "done"]
    assert in_order([item(state, "weights").state for state in parts]) == ["waiting", "running", "done"]
    assert in_order([item(state, "drafter").state for state in parts]) == ["waiting", "running", "done"]
    last = told[-1]
    assert last == job.state()
    assert last.have == last.total == net.sent()
    assert last.rate is None
    assert item(last, "weights").where == str(net.weights_path)
    assert not item(last, "weights").in_place


@pytest.mark.case("C-06")
def test_files_are_plain_and_come_one_at_a_time(net: World) -> None:
    """No link and no cache layout of anybody's, which need rights on Windows; and never two workers at once."""
    job, at_once = net.job(), list[int]()
    job.on_change(lambda state: at_once.append(sum(it.state == "running" for it in state.items)))
    job.run()
    assert max(at_once) == 1
    files = [path for path in net.paths.models.rglob("*") if not path.is_dir()]
    assert len(files) == 2
    assert not any(path.is_symlink() for path in [*files, *(path.parent for path in files)])
    assert {path.stat().st_nlink for path in files} == {1}


@pytest.mark.case("C-08")
def test_a_second_job_asks_nobody(net: World) -> None:
    net.job().run()
    net.hub.requests.clear()
    net.releases.requests.clear()
    job = net.job()
    job.run()
    state = job.state()
    assert state.phase == "done"
    assert all(it.in_place and it.state == "done" for it in state.items)
    assert (net.hub.requests, net.releases.requests) == ([], [])


def test_the_engine_alone(net: World) -> None:
    job = net.job(engine_only=True)
    job.run()
    assert [it.part for it in job.state().items] == ["engine"]
    assert net.hub.requests == []


def test_an_engine_that_is_named_needs_no_fetching(net: World, tmp_path: Path) -> None:
    own = tmp_path / "llama-server"
    own.write_text(engine_script("fork"))
    own.chmod(0o755)
    job = net.job(engine_only=True, llama_server=str(own))
    job.run()
    assert (job.state().phase, job.state().items) == ("done", ())
    assert net.releases.requests == []


# -- pause, resume, cancel, retry ---------------------------------------------------------------------------


def test_a_pause_lasts_until_it_is_ended(net: World) -> None:
    slow(net)
    job = net.job()
    job.begin()
    some_of(job, "weights")
    hold(job)
    assert job.state().phase == "paused"
    wait_until(lambda: net.hub.store.open_connections == 0, LONG_S, "the connection to close")
    sent = net.sent()
    assert job.state().rate is None
    fast(net)
    job.resume()
    assert wait_for(job, "done", "failed").phase == "done"
    net.whole()
    assert net.sent() - sent <= len(net.weights[1]) - 4096 + len(_drafter(net))


def _drafter(net: World) -> bytes:
    return next(data for part in net.files.hub.values() for name, data in part.items() if "dspark" in name)


def test_a_pause_while_it_still_looks_holds_it_before_anything_comes(net: World) -> None:
    looking = threading.Event()

    def machine() -> object:
        looking.wait(LONG_S)
        return PLAIN

    job = net.job(machine=machine)  # type: ignore[arg-type]
    job.begin()
    job.pause()
    looking.set()
    wait_until(lambda: job.state().items and job.state().phase == "paused", LONG_S, "the pause")
    wait_until(lambda: net.releases.requests != [], LONG_S, "the question for the engine")
    assert net.sent() == 0
    job.resume()
    assert wait_for(job, "done", "failed").phase == "done"


@pytest.mark.case("C-03")
def test_what_was_cancelled_goes_on_from_where_it_was(net: World) -> None:
    slow(net)
    job = net.job()
    job.begin()
    some_of(job, "weights")
    job.cancel()
    state = wait_for(job, "cancelled")
    assert item(state, "engine").state == "done"
    assert item(state, "weights").state == "waiting"
    assert not net.weights_path.exists()
    part = net.weights_path.with_name(net.weights_path.name + ".part").stat().st_size
    assert part > 4096

    fast(net)
    again, told = net.job(), list[FetchState]()
    again.on_change(told.append)
    again.run()
    first = next(state for state in told if state.items)
    assert item(first, "weights").have == part  # before anybody was asked
    net.whole()
    assert net.sent() <= sum(net.sizes()) + 65536


def test_cancel_while_paused(net: World) -> None:
    slow(net)
    job = net.job()
    job.begin()
    some_of(job, "weights")
    job.pause()
    wait_for(job, "paused")
    job.cancel()
    wait_for(job, "cancelled")


def test_cancel_while_the_hardware_is_looked_at_asks_nobody(net: World) -> None:
    looking = threading.Event()

    def machine() -> object:
        looking.wait(LONG_S)
        return PLAIN

    job = net.job(machine=machine)  # type: ignore[arg-type]
    job.begin()
    job.cancel()
    looking.set()
    wait_for(job, "cancelled")
    assert (net.hub.requests, net.releases.requests) == ([], [])


def test_cancel_while_a_file_that_was_here_is_read(net: World, tmp_path: Path) -> None:
    file = net.files.choice.weights.file
    assert file.bytes is not None
    models = tmp_path / "models"
    models.mkdir()
    with (models / file.name).open("wb") as sparse:
        sparse.truncate(file.bytes)  # of the right size: only its content can tell
    job = net.job(models_dir=str(models))
    job.begin()
    wait_for(job, "looking")
    job.cancel()
    wait_for(job, "cancelled")
    assert (models / file.name).stat().st_size == file.bytes


def test_an_end_can_be_tried_again_from_the_very_callback_that_tells_it(net: World) -> None:
    name = net.weights[0]
    net.hub.trouble(
        net.files.choice.weights.file.repo,
        name,
        Fault(status=404),
        revision=net.files.choice.weights.file.revision or "main",
    )
    job, tries = net.job(), list[str]()

    def retry(state: FetchState) -> None:
        if state.phase == "failed":
            tries.append(state.error)
            job.retry()

    job.on_change(retry)
    job.begin()
    state = wait_for(job, "done")
    assert len(tries) == 1
    assert "404" in tries[0]
    assert state.error == ""
    net.whole()


def test_begin_while_it_runs_changes_nothing(net: World) -> None:
    slow(net)
    job = net.job()
    job.begin()
    some_of(job, "weights")
    for _ in range(3):
        job.begin()
    assert len([it for it in threading.enumerate() if it.name == "fetch"]) == 1
    job.cancel()
    wait_for(job, "cancelled")


def test_close_ends_it_and_its_thread(net: World) -> None:
    slow(net)
    job = net.job()
    job.begin()
    some_of(job, "weights")
    job.close()
    assert job.state().phase == "cancelled"
    assert [it for it in threading.enumerate() if it.name == "fetch"] == []
    job.close()


def test_pause_and_resume_after_the_end_change_nothing(net: World) -> None:
    job = net.job(engine_only=True)
    for act in (job.pause, job.resume, job.cancel):
        act()
    assert job.state().phase == "idle"
    job.begin()
    wait_for(job, "done")
    for act in (job.pause, job.resume, job.cancel):
        act()
    assert job.state().phase == "done"
