"""Labs on disk: whole, each text once, gone on with only where target, drafter, engine and machine are the same."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import BadInput, StoreError
from launcher.lab_store import LabStore, differences
from launcher.lab_types import Cell, Lab, Place
from launcher.methods import PLAIN, Method
from tests.launcher.lab_samples import DSPARK, SUBJECT, lab, run

CODE = Cell("code", PLAIN, 0.0)
CODE_4 = Cell("code", DSPARK, 0.0)


def sample(**changes: Any) -> Lab:
    runs = [
        run(CODE, 1, 100.25, text="the same"),
        run(CODE_4, 1, 150, text="the same", drafted=8, accepted=6, places=[(2, 2), (2, 1)]),
        run(Cell("code", Method("ngram-mod,draft-dspark", 4, 0.5, "cpu"), 1.0), 1, 90, text="half \ud83d"),
    ]
    return replace(lab([CODE, CODE_4], runs), **changes)


@pytest.fixture
def store(tmp_path: Path) -> LabStore:
    return LabStore(tmp_path / "data")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "labs" / f"{sample().id}.json"


def test_what_is_saved_is_loaded_again(store: LabStore, tmp_path: Path) -> None:
    store.save(sample())
    again = LabStore(tmp_path / "data").load(sample().id)
    assert again == sample()
    assert [type(place) for place in again.runs[1].places] == [Place, Place]


@pytest.mark.system("posix")
def test_private_and_each_text_once(store: LabStore, file: Path) -> None:
    store.save(sample())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text().count("the same") == 1


def test_the_list(store: LabStore) -> None:
    assert store.list().labs == ()
    store.save(sample(id="old", created=1.0, ended="sure"))
    store.save(sample(id="new", created=2.0, ended="budget"))
    new, old = store.list().labs
    assert (new.id, new.model, new.cells, new.done, new.runs) == ("new", "a target", 2, 3, 3)
    assert (new.unfinished, old.unfinished) == (True, False)
    store.delete("old")
    assert len(store.list().labs) == 1


def damage(change: Callable[[dict[str, Any]], object]) -> Callable[[str], str]:
    def apply(text: str) -> str:
        plain = json.loads(text)
        change(plain["lab"])
        return json.dumps(plain)

    return apply


@pytest.mark.parametrize(
    "broken",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("bonsai-lab", "bonsai-race"),
        damage(lambda kept: kept["which"].append(0)),
        damage(lambda kept: kept.update(which=[0, 0, 9])),
        damage(lambda kept: kept["lab"].update(id="another")),
        damage(lambda kept: kept["lab"]["runs"][0]["timings"].update(tokens_per_second=None)),
        damage(lambda kept: kept["lab"]["runs"][0].update(block=0)),
    ],
)
def test_a_file_that_makes_no_sense_is_set_aside(
    store: LabStore, file: Path, broken: Callable[[str], str]
) -> None:
    store.save(sample())
    file.write_text(broken(file.read_text()))
    with pytest.raises(StoreError, match="broken"):
        store.load(sample().id)
    assert not file.exists()
    listed = store.list()
    assert (listed.labs, len(listed.set_aside)) == ((), 1)


def test_the_latest_is_gone_on_with(store: LabStore) -> None:
    with pytest.raises(BadInput, match="no lab to go on with"):
        store.resumable(SUBJECT)
    store.save(sample(id="old", created=1.0))
    store.save(sample(id="new", created=2.0))
    assert store.resumable(SUBJECT).id == "new"
    assert store.resumable(SUBJECT, "old").id == "old"
    with pytest.raises(StoreError):
        store.resumable(SUBJECT, "neither")


@pytest.mark.parametrize("what", ["target", "drafter", "engine", "machine"])
def test_another_is_refused_with_one_sentence(store: LabStore, what: str) -> None:
    store.save(sample())
    marks = {**dict(SUBJECT.marks), what: "another"}
    other = replace(SUBJECT, marks=tuple(marks.items()), facts=())
    assert differences(SUBJECT, other) == (what,)
    with pytest.raises(BadInput, match=f"another {what}, so"):
        store.resumable(other)
