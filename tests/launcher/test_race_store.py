"""Races on disk: whole, private, listed, and set aside when they make no sense."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import StoreError
from launcher.plain_values import UnfitError, from_plain, to_plain
from launcher.race_store import HEAD_LENGTH, RaceStore
from launcher.race_types import Mark, Race, Step
from tests.launcher.race_samples import race, rounds, run


@pytest.fixture
def store(tmp_path: Path) -> RaceStore:
    return RaceStore(tmp_path / "data")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "races" / f"{race().id}.json"


DIFFERING = [run(0, 1, 100, text="one two", thinking="hm"), run(1, 1, 90.5, text="one too", blocks=[(4, 2)])]


@pytest.mark.parametrize(
    "made",
    [
        race(),
        race([], ended="failed", problem="The engine ended.", remedy="Look at its log.", machine=()),
        race(DIFFERING, swapped=True),
        race([*rounds((1, 2)), run(0, 2, 3, ended="stopped", text="half \ud83d")]),
    ],
    ids=["whole", "nothing measured", "differing", "stopped inside a character"],
)
def test_what_is_saved_is_loaded_again_by_another_store(store: RaceStore, tmp_path: Path, made: Race) -> None:
    store.save(made)
    again = RaceStore(tmp_path / "data").load(made.id)
    assert again == made
    assert all(type(mark) is Mark for one in again.runs for mark in one.marks)
    assert all(type(step) is Step for one in again.runs for step in one.steps)


def test_nothing_is_written_before_there_is_something(store: RaceStore, tmp_path: Path) -> None:
    assert store.list().races == ()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.system("posix")
def test_files_are_the_owners_alone(store: RaceStore, file: Path) -> None:
    store.save(race())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_the_list_is_newest_first_and_short(store: RaceStore) -> None:
    long = "many words " * 40
    store.save(race(id="old", created=1.0, prompt=replace(race().prompt, text=long)))
    store.save(race(id="new", created=2.0))
    new, old = store.list().races
    assert (new.id, new.kind, new.language, new.sides) == ("new", "code", "en", ("plain", "dspark 4"))
    assert (new.word, new.ratio) == ("faster", race().verdict.ratio)
    assert new.prompt == "Say | something. Please."
    assert old.prompt.startswith("many words many")
    assert old.prompt.endswith(" …")
    assert len(old.prompt) <= HEAD_LENGTH + 2
    store.delete("old")
    store.delete("old")
    assert [summary.id for summary in store.list().races] == ["new"]


def test_the_list_sees_what_another_process_did(store: RaceStore, tmp_path: Path) -> None:
    store.save(race(ended="stopped"))
    assert store.list().races[0].ended == "stopped"
    RaceStore(tmp_path / "data").save(race(ended="sure"))
    assert store.list().races[0].ended == "sure"


def spoiled(file: Path, change: dict[str, Any]) -> str:
    plain = json.loads(file.read_text())
    plain["race"].update(change)
    return json.dumps(plain)


@pytest.mark.parametrize(
    "change",
    [
        {"runs": 3},
        {"runs": [{"side": 0}]},
        {"created": "today"},
        {"sides": []},
        {"swapped": 1},
        {"id": "another"},
        {"verdict": None},
        {"max_tokens": True},
        {"created": 1e999},
    ],
)
def test_a_file_that_makes_no_sense_is_kept_aside(
    store: RaceStore, file: Path, change: dict[str, Any]
) -> None:
    store.save(race())
    file.write_text(spoiled(file, change))
    with pytest.raises(StoreError, match=r"broken.*kept as"):
        store.load(race().id)
    assert not file.exists()
    assert len(list(file.parent.glob("*.broken-*"))) == 1


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b'{"format":"x"}', b"[" * 100_000])
def test_the_rest_goes_on_loading(store: RaceStore, file: Path, data: bytes) -> None:
    store.save(race())
    store.save(race(id="sound"))
    file.write_bytes(data)
    listing = store.list()
    assert [summary.id for summary in listing.races] == ["sound"]
    assert len(listing.set_aside) == 1
    assert store.list().set_aside == ()


def test_a_newer_file_is_left_as_it_is(store: RaceStore, file: Path) -> None:
    store.save(race())
    file.write_text(file.read_text().replace('"version":1', '"version":2', 1))
    assert "newer version" in store.list().unreadable[0]
    assert file.exists()


@pytest.mark.parametrize("bad", ["", "../x", "A", "con", "a/b", "x" * 65])
def test_ids_lead_nowhere_else(store: RaceStore, bad: str) -> None:
    with pytest.raises(StoreError, match="not the id"):
        store.load(bad)


def test_a_race_that_is_gone_is_said(store: RaceStore) -> None:
    with pytest.raises(StoreError, match="not there"):
        store.load("gone")


@pytest.mark.system("posix")
def test_a_folder_that_cannot_be_written_is_said(store: RaceStore, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(StoreError, match="in the place of a folder"):
        store.save(race())
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_unknown_fields_are_passed_over_and_missing_ones_take_their_default() -> None:
    plain = json.loads(json.dumps(to_plain(race()))) | {"later": 1}
    del plain["swapped"]
    assert from_plain(Race, plain) == race()
    del plain["id"]
    with pytest.raises(UnfitError, match="Race has no id"):
        from_plain(Race, plain)
