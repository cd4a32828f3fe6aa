"""What was found on this machine and never read: looks show it, a start reads it first, and it may be stopped."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher import catalog, inventory
from launcher.catalog import HubFile
from launcher.doctor import examine
from launcher.errors import NotFetched
from launcher.fetch_command import ensure_here, run_fetch
from launcher.fetch_found import ELSEWHERE
from launcher.fetch_lock import only_one
from launcher.fetch_types import FetchState, Offer
from launcher.fetching import FetchJob
from launcher.offer import make_offer
from launcher.provision import resolve_all
from launcher.resolved import Resolved
from tests.conftest import Bonsai, wait_until
from tests.fakes.file_server import sha256
from tests.launcher.fetch_world import LONG_S, PLAIN, World, in_order, item, wait_for, world

pytestmark = pytest.mark.system("posix")  # the engines of these tests are shell scripts


class Found:
    """A world whose small files are the catalog's, and a folder of somebody's who has them already."""

    def __init__(self, net: World, folder: Path) -> None:
        self.net, self.folder = net, folder
        choice = net.files.choice
        assert choice.drafter is not None
        self.names = {"weights": choice.weights.file, "drafter": choice.drafter.file}

    def lay(self, part: str, *, right: bool = True) -> Path:
        """The file of that part, or another one of its size."""
        file = self.names[part]
        data = self.net.files.hub[file.repo][file.name]
        self.folder.mkdir(exist_ok=True)
        path = self.folder / file.name
        path.write_bytes(data if right else data[:-1] + b"?")
        return path

    def job(self, done: threading.Event | None = None) -> FetchJob:
        return self.net.job(done=done.set if done else lambda: None, models_dir=str(self.folder))

    def offer(self) -> Offer | None:
        settings = self.net.settings(models_dir=str(self.folder))
        return make_offer(settings, self.net.paths, self.net.env, PLAIN)

    def resolve(self, *, expect: bool = False) -> Resolved:
        settings = self.net.settings(models_dir=str(self.folder))
        return resolve_all(settings, self.net.paths, self.net.env, PLAIN, expect=expect)

    @property
    def lock(self) -> Path:
        """Held by whoever reads."""
        self.net.paths.data.mkdir(parents=True, exist_ok=True)
        return self.net.paths.data / "verified.json.lock"

    @property
    def notes(self) -> Path:
        """Whatever was read to its end is noted."""
        return self.net.paths.data / "verified.json"


@pytest.fixture
def here(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Found]:
    with world(home.parent) as net:
        small = pinned(net)
        monkeypatch.setattr(catalog, "load", lambda: small)
        yield Found(net, home.parent / "their models")


def pinned(net: World) -> catalog.Catalog:
    """The catalog with the pins of the world's files."""

    def pin(file: HubFile) -> HubFile:
        data = net.files.hub.get(file.repo, {}).get(file.name)
        return file if data is None else replace(file, bytes=len(data), sha256=sha256(data))

    whole = catalog.load()
    models = tuple(
        replace(
            model,
            weights=tuple(replace(it, file=pin(it.file)) for it in model.weights),
            drafters=tuple(replace(it, file=pin(it.file)) for it in model.drafters),
        )
        for model in whole.models
    )
    return replace(whole, models=models)


# -- looks --------------------------------------------------------------------------------------------------


@pytest.mark.case("C-08")
def test_looks_read_nothing_and_say_so(here: Found, capsys: pytest.CaptureFixture[str]) -> None:
    path = here.lay("weights")
    settings = here.net.settings(models_dir=str(here.folder))
    offer = here.offer()
    assert offer is not None
    weights = next(it for it in offer.items if it.part == "weights")
    assert (weights.state, weights.where, weights.have) == ("found", str(path), 0)
    drafter = here.names["drafter"]  # the engine's size is not pinned
    assert offer.to_fetch == len(here.net.files.hub[drafter.repo][drafter.name])
    assert not offer.usable

    plan = here.resolve(expect=True)
    assert (plan.target.path, plan.on_disk) == (str(path), False)  # the engine is to come
    assert here.names["weights"].name not in plan.to_fetch
    assert any(f"{path} has not been checked yet" in it for it in plan.notices)

    report = examine(settings, here.net.paths, here.net.env, PLAIN, elsewhere=False)
    assert report.healthy
    said = [check.what for check in report.checks if check.name in ("Plan", "Files")]
    assert any(f"{path} has not been checked yet" in it for it in said)
    assert path.name not in next(it for it in said if it.startswith("Not here yet"))

    rows = inventory.models(settings, here.net.paths, here.net.env, PLAIN)
    row = next(it for it in rows if it["path"] == str(path))
    assert (row["on_disk"], row["checked"], row["bytes"]) == (True, False, path.stat().st_size)
    assert "reads it once" in row["note"]
    inventory.print_models(rows)
    assert "on disk, not checked yet" in capsys.readouterr().out
    assert not here.notes.exists()


def test_no_start_uses_what_was_not_proved(here: Found) -> None:
    here.net.job(engine_only=True).run()
    weights = here.lay("weights")
    with pytest.raises(NotFetched, match="was found, but not checked yet") as caught:
        here.resolve()
    assert "`bonsai fetch`" in caught.value.remedy
    planned = here.resolve(expect=True)
    assert (planned.on_disk, planned.target.path) == (True, str(weights))

    here.job().check()
    assert here.resolve().target.path == str(weights)
    drafter = here.lay("drafter")
    plain = here.resolve()
    assert plain.drafter is None
    assert "not checked yet" in plain.drafter_why
    planned = here.resolve(expect=True)
    assert planned.drafter is not None
    assert planned.drafter.path == str(drafter)
    here.job().check()
    proved = here.resolve()
    assert proved.drafter is not None


# -- reading ------------------------------------------------------------------------------------------------


def test_a_reading_tells_how_far_it_is_and_fetches_nothing(here: Found) -> None:
    path, drafter = here.lay("weights"), here.lay("drafter", right=False)
    done, told = threading.Event(), list[FetchState]()
    job = here.job(done)
    job.on_change(told.append)
    job.check()
    assert in_order([state.phase for state in told]) == ["checking", "idle"]
    assert told.pop().items == ()
    begun, ended = told[0], told[-1]
    assert [it.part for it in begun.items] == ["weights", "drafter"]
    assert (begun.have, begun.total) == (0, path.stat().st_size + drafter.stat().st_size)
    states = in_order([item(state, "weights").state for state in told])
    assert states == ["found", "checking", "done"]
    assert (item(ended, "weights").in_place, item(ended, "weights").where) == (True, str(path))
    assert item(ended, "drafter").state == "failed"
    assert any(item(state, "weights").have == path.stat().st_size for state in told)
    assert (here.net.hub.requests, here.net.releases.requests) == ([], [])
    assert not done.is_set()

    told.clear()
    job.check()
    assert told == []  # it is known
    offer = here.offer()
    assert offer is not None
    assert {it.part: it.state for it in offer.items}["weights"] == "done"
    assert any(f"{drafter} is not used" in notice for notice in offer.notices)
    assert drafter.exists()


def test_behind_the_page_a_whole_trio_is_checked_and_used(here: Found) -> None:
    here.net.job(engine_only=True).run()
    here.lay("weights")
    here.lay("drafter")
    done = threading.Event()
    job = here.job(done)
    job.begin_check()
    state = wait_for(job, "done")
    assert done.wait(LONG_S)
    assert [(it.part, it.state, it.in_place) for it in state.items] == [
        (part, "done", True) for part in ("engine", "weights", "drafter")
    ]
    assert here.offer() is None
    assert here.resolve().on_disk


def test_behind_the_page_nothing_is_told_where_nothing_is_unread(here: Found) -> None:
    done, told = threading.Event(), list[FetchState]()
    job = here.job(done)
    job.on_change(told.append)
    job.begin_check()
    job.close()
    assert told == []
    assert not done.is_set()


def test_behind_the_page_the_offer_stays_when_something_is_lacking(here: Found) -> None:
    """What is here may already be enough, so that the engine is asked to look again."""
    here.lay("weights")
    done = threading.Event()
    job = here.job(done)
    job.begin_check()
    assert done.wait(LONG_S)
    assert (job.state().phase, job.state().items) == ("idle", ())
    assert here.offer() is not None


@pytest.mark.case("C-03")
def test_what_is_not_the_file_is_told_before_more_is_fetched_than_was_agreed(here: Found) -> None:
    path = here.lay("weights", right=False)
    job = here.job()
    job.begin()
    state = wait_for(job, "failed")
    assert f"{path} is not used" in state.error
    assert item(state, "weights").state == "waiting"
    assert (here.net.hub.requests, here.net.releases.requests) == ([], [])
    with pytest.raises(NotFetched):
        here.resolve()
    job.retry()
    assert wait_for(job, "done", "failed").phase == "done"
    here.net.whole()
    assert path.exists()


def test_begin_reads_first_and_then_fetches_the_rest(here: Found) -> None:
    path = here.lay("weights")
    job, told = here.job(), list[FetchState]()
    job.on_change(told.append)
    job.run()
    assert in_order([state.phase for state in told]) == ["looking", "checking", "looking", "running", "done"]
    assert item(job.state(), "weights").where == str(path)
    assert here.net.weights[0] not in {file.name for file in here.net.paths.models.rglob("*.gguf")}


# -- stopping -----------------------------------------------------------------------------------------------


def test_a_check_can_be_stopped_and_taken_up_again(here: Found) -> None:
    here.net.job(engine_only=True).run()
    here.lay("weights")
    done, job = threading.Event(), None
    with only_one(here.lock, lambda: None):  # as if another launcher read it: nothing moves here
        job = here.job(done)
        job.begin_check()
        wait_for(job, "checking")
        wait_until(lambda: item(job.state(), "weights").note == ELSEWHERE, LONG_S, "its turn")
        job.pause()  # there is no such button, and no such thing
        assert job.state().phase == "checking"
        job.cancel()
        assert wait_for(job, "idle").items == ()
        assert not done.is_set()
        assert not here.notes.exists()
        job.begin()  # "Check it"
        wait_for(job, "checking")
        job.cancel()
        wait_for(job, "cancelled")
        job.begin()
        wait_for(job, "checking")
    assert wait_for(job, "done", "failed").phase == "done"
    assert done.wait(LONG_S)


def test_quitting_ends_a_check_at_once(here: Found) -> None:
    here.lay("weights")
    with only_one(here.lock, lambda: None):
        job = here.job()
        job.begin_check()
        wait_for(job, "checking")
        job.close()
        assert [it for it in threading.enumerate() if it.name == "fetch"] == []
    assert not here.notes.exists()


def test_fetching_takes_over_from_a_look_that_has_told_nothing_yet(here: Found) -> None:
    here.lay("weights")
    looking = threading.Event()

    def machine() -> object:
        looking.wait(LONG_S)
        return PLAIN

    job = here.net.job(machine=machine, models_dir=str(here.folder))  # type: ignore[arg-type]
    told: list[FetchState] = []
    job.on_change(told.append)
    job.begin_check()
    job.begin()
    looking.set()
    wait_for(job, "done")
    assert in_order([state.phase for state in told]) == ["looking", "checking", "looking", "running", "done"]


# -- the terminal -------------------------------------------------------------------------------------------


def test_a_start_on_the_terminal_checks_first_and_then_asks_for_the_rest_alone(
    here: Found, capsys: pytest.CaptureFixture[str]
) -> None:
    path, settings = here.lay("weights"), here.net.settings(models_dir=str(here.folder))
    with pytest.raises(NotFetched, match="lacks its engine and drafter"):
        ensure_here(settings, here.net.paths, here.net.env, PLAIN, agreed=False)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(f"{path.name}: checking, 0")
    assert lines[1].startswith(f"{path.name}: ")
    assert any(f"Weights: {path.name}, here: {path}" in line for line in lines)
    here.net.job(engine_only=True).run()
    capsys.readouterr()
    # What is lacking still is the drafter, which keeps nobody waiting.
    ensure_here(settings, here.net.paths, here.net.env, PLAIN, agreed=False)
    assert capsys.readouterr().err == ""


def test_a_wrong_file_is_asked_for_like_one_that_is_not_there(
    here: Found, capsys: pytest.CaptureFixture[str]
) -> None:
    path, settings = here.lay("weights", right=False), here.net.settings(models_dir=str(here.folder))
    with pytest.raises(NotFetched, match="is not on this machine"):
        ensure_here(settings, here.net.paths, here.net.env, PLAIN, agreed=False)
    assert f"{path} is not used" in capsys.readouterr().err
    ensure_here(settings, here.net.paths, here.net.env, PLAIN, agreed=True)
    here.net.whole()


def test_offline_what_is_here_is_checked_and_used(here: Found) -> None:
    here.net.job(engine_only=True).run()
    here.lay("weights")
    here.lay("drafter")
    settings = here.net.settings(models_dir=str(here.folder), offline="1")
    offer = make_offer(settings, here.net.paths, here.net.env, PLAIN)
    assert offer is not None
    assert (offer.to_fetch, offer.offline, offer.disk_ok) == (0, "", True)
    ensure_here(settings, here.net.paths, here.net.env, PLAIN, agreed=False)
    assert here.offer() is None


def test_fetch_alone_reads_what_is_here(here: Found, capsys: pytest.CaptureFixture[str]) -> None:
    path = here.lay("weights")
    settings = here.net.settings(models_dir=str(here.folder))
    run_fetch(settings, here.net.paths, here.net.env, engine_only=False)
    assert f"Weights: {path} (was here before)" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["models"], ["plan"]])
def test_a_look_at_gigabytes_takes_a_moment_and_keeps_json_clean(
    bonsai: Bonsai, tmp_path: Path, command: list[str]
) -> None:
    file = gigabytes(tmp_path)
    env = {"BONSAI_MODEL": "27B", "BONSAI_MODELS_DIR": str(tmp_path / "theirs")}
    with only_one(bonsai.home / "verified.json.lock", lambda: None):  # who reads would wait for ever
        done = bonsai(*command, "--json", env=env)
    assert done.returncode == 0, done.stderr
    assert str(file) in json.dumps(json.loads(done.stdout))


def test_ctrl_c_ends_a_check_at_once(bonsai: Bonsai, tmp_path: Path) -> None:
    file = gigabytes(tmp_path)
    env = {"BONSAI_MODEL": "27B", "BONSAI_MODELS_DIR": str(tmp_path / "theirs")}
    with only_one(bonsai.home / "verified.json.lock", lambda: None):
        process = bonsai.popen("fetch", env=env | {"BONSAI_OFFLINE": "1"})
        wait_until(lambda: f"{file.name}: checking" in bonsai.output(), LONG_S, "the check")
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
    assert "Traceback" not in bonsai.output()
    assert not (bonsai.home / "verified.json").exists()


def gigabytes(folder: Path) -> Path:
    """A file with name and size of the 27B's weights, which takes no room and is none."""
    model = next(it for it in catalog.load().models if (it.family, it.name) == ("ternary", "27B"))
    file = model.weights[0].file
    assert file.bytes is not None
    (folder / "theirs").mkdir()
    with (folder / "theirs" / file.name).open("wb") as sparse:
        sparse.truncate(file.bytes)
    return folder / "theirs" / file.name
