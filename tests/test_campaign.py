"""One fault of each kind of the campaign; and that it would notice what it looks for."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from pathlib import Path

import pytest

from launcher.practice import ensure_pair
from launcher.store import Store, Turn
from tests.campaign.browser import Exchange
from tests.campaign.kinds import FAULTS, KINDS
from tests.campaign.leftovers import check_files, check_processes, check_store
from tests.campaign.report import rows
from tests.campaign.running import Result, chosen, run_one
from tests.campaign.trial import IN_TIME, KEPT, NO_ORPHAN, Kind, Trial
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "campaign.md"
# The fault of a kind that tells most for its time; 0 for those that are not named.
TELLING = {
    "dies-at-load": 29,
    "hangs-at-load": 0,
    "dies-at-request": 7,
    "ignores-sigterm": 2,
    "real-server-struck": 4,
    "embedded-struck": 9,
    "launcher-killed": 1,
    "launcher-ended": 5,
    "two-launchers": 3,
}


@pytest.fixture(scope="session")
def practice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("practice")
    ensure_pair(folder, "small")
    return folder


@pytest.mark.engine
@pytest.mark.system("posix")
@pytest.mark.case("D-01")
@pytest.mark.case("D-05")
@pytest.mark.case("D-06")
@pytest.mark.case("D-08")
@pytest.mark.case("D-14")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_fault_of_each_kind(kind: Kind, tmp_path: Path, built_engine: Path, practice: Path) -> None:
    if kind.name == "embedded-struck":
        pytest.importorskip("xllamacpp", reason="no embedded engine on this platform")
    number = TELLING.get(kind.name, 0)
    result = run_one(
        kind, number, seed=1, folder=tmp_path / "fault", built=built_engine, practice=practice, bounded=False
    )
    assert not result.problems, "\n".join(result.problems)
    assert result.looked


def trial(folder: Path, kind: Kind = KINDS[0], seed: int = 1, number: int = 0) -> Trial:
    return Trial(kind, seed, number, folder, folder, folder)


def test_the_dice_are_the_same_for_the_same_fault(tmp_path: Path) -> None:
    def rolled(seed: int, number: int) -> float:
        return trial(tmp_path, seed=seed, number=number).dice.random()

    assert rolled(1, 2) == rolled(1, 2)
    assert len({rolled(1, 2), rolled(2, 2), rolled(1, 3)}) == 3


def test_a_campaign_has_every_kind_and_every_captured_log() -> None:
    assert FAULTS >= 300
    for faults in (len(KINDS), 100, FAULTS):
        todo = chosen(KINDS, faults)
        assert len(todo) == faults
        assert {kind.name for kind, _ in todo} == {kind.name for kind in KINDS}
    for kind in KINDS:
        assert kind.share == sum(it == kind for it, _ in chosen(KINDS, FAULTS))
    logs = next(kind for kind in KINDS if kind.name == "dies-at-load")
    assert logs.share == len(logs.ways)


def test_a_recovery_that_takes_too_long_is_a_problem(tmp_path: Path) -> None:
    it = trial(tmp_path, Kind("a", "b", 0.01, 1, (1,), lambda *_: None))
    it.fault()
    time.sleep(0.02)
    it.recovered()
    assert len(it.problems) == 1
    assert it.problems[0].startswith(IN_TIME)
    assert rows([Result(it.kind, 0, "1", tuple(it.problems), it.looked, 2.0, 2.0)])[0][2:4] == ("1", "0")


@pytest.mark.system("posix")
def test_an_orphan_is_found_and_ended(tmp_path: Path) -> None:
    orphan = subprocess.Popen(["sleep", "600"], env={**os.environ, "HOME_OF_IT": str(tmp_path)})
    it = trial(tmp_path)
    check_processes(it, tmp_path, since=time.monotonic() - 10)
    orphan.wait(5)
    assert NO_ORPHAN in it.problems[0]
    assert "sleep 600" in it.problems[0]


def test_a_key_that_is_left_is_found(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "bonsai-1.key").touch()
    it = trial(tmp_path)
    check_files(it, tmp_path)
    assert "bonsai-1.key" in it.problems[0]


def exchange(store: Store, kept: str, shown: str, note: str = "Stopped.") -> Exchange:
    """One whose answer is kept as ``kept`` while ``shown`` had been shown."""
    prompt = Turn("u", "user", "Hello", 1.0)
    answer = Turn("a", "assistant", kept, 1.0, ended="stopped", note=note)
    made = store.new()
    made = store.save(type(made)(made.id, "", 1.0, 1.0, (prompt, answer) if kept else (prompt,)))
    it = Exchange.__new__(Exchange)
    it.begun = {"begin": {"id": made.id}, "prompt": {"id": "u"}}
    it.message, it.text, it.done, it.over = {"text": "Hello"}, shown, None, threading.Event()
    return it


@pytest.mark.parametrize(
    ("kept", "shown", "note", "problem"),
    [
        ("some text", "some", "Stopped.", ""),
        ("", "", "Stopped.", ""),
        ("", "some", "Stopped.", "4 characters of an answer were shown, none is kept"),
        ("so", "some", "Stopped.", "shown"),
        ("some text", "some", "", "ended 'stopped', note ''"),
    ],
)
def test_a_lost_answer_is_found(tmp_path: Path, kept: str, shown: str, note: str, problem: str) -> None:
    it = trial(tmp_path)
    check_store(it, tmp_path, [exchange(Store(tmp_path), kept, shown, note)])
    assert bool(it.problems) == bool(problem), it.problems
    assert problem in "".join(it.problems)


def test_a_damaged_and_a_lost_conversation_are_found(tmp_path: Path) -> None:
    lost = exchange(Store(tmp_path), "some text", "some")
    (tmp_path / "conversations" / f"{lost.conversation}.json").write_text('{"format":')
    it = trial(tmp_path)
    check_store(it, tmp_path, [lost])
    assert all(problem.startswith(KEPT) for problem in it.problems)
    assert "damaged" in it.problems[0]
    assert len(it.problems) == 2


def test_the_page_tells_of_a_whole_campaign_without_a_fault_that_went_wrong() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for kind in KINDS:
        assert f"| {kind.name} | {kind.what} |" in text, kind.name
    found = re.search(r"\| \*\*all\*\* \|  \| (\d+) \| (\d+) \|", text)
    assert found
    assert int(found[1]) >= 300
    assert found[1] == found[2]
