"""The list to choose a model from: every one of the catalog, with what it takes and what stands against it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from launcher import catalog
from launcher.choose_model import name_of, named
from launcher.errors import PlanRefused
from launcher.fetch_types import ModelList, ModelRow
from launcher.hardware.model import Machine
from launcher.model_list import list_models, refuse_what_cannot_run
from launcher.paths import Paths, locate
from launcher.settings import Settings, resolve
from launcher.shelf import place_of
from launcher.verified import Verified
from tests.fakes.file_server import sha256
from tests.machines import load

GB = 2**30


def settings_of(**env: str) -> Settings:
    return resolve({}, {f"BONSAI_{name.upper()}": text for name, text in env.items()})


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return locate(str(tmp_path / "home"))


def listed(paths: Paths, machine: Machine | None = None, **env: str) -> ModelList:
    return list_models(
        settings_of(**env), paths, {"HF_HOME": str(paths.data / "hf")}, machine or load("no-gpu")
    )


def row(found: ModelList, name: str) -> ModelRow:
    return next(it for it in found.rows if it.name == name)


def test_every_model_is_listed_and_its_name_chooses_it(paths: Paths) -> None:
    found = listed(paths)
    models = catalog.load().models
    assert [it.name for it in found.rows] == [name_of(it) for it in models]
    assert [named(settings_of(), it.name, catalog.load()) for it in found.rows] == list(models)
    assert [it.label for it in found.rows] == [it.label for it in models]
    assert all(it.licence and it.says and it.drafter for it in found.rows)
    assert not paths.data.exists(), "looking makes nothing"


def test_the_figures_are_those_of_what_would_come(paths: Paths) -> None:
    found = listed(paths, load("rtx4090-cuda-12.8"))
    large, small, other = (row(found, it) for it in ("ternary/27B", "ternary/8B", "bonsai/27B"))
    assert large.size == 7_165_121_600 + 1_946_393_568
    assert (small.size, small.size_about, small.drafts) == (2_310_125_920, False, False)
    assert small.drafter == "No drafter is published for this size"
    assert (other.size, other.size_about) == (3_803_452_480, True), "its drafter's size is not known"
    assert large.drafter == "Comes with a drafter that was trained for it (draft-dspark)"
    assert row(found, "qwen2.5-coder-7b").drafter.startswith("A small model drafts for it")
    assert {large.fits, small.fits} == {"Fits on the GPU"}
    assert "GiB" in large.says


def test_what_does_not_fit_says_how_far(paths: Paths) -> None:
    card = load("rtx4090-cuda-12.8")
    (gpu,) = card.gpus
    small = replace(card, gpus=(replace(gpu, total_bytes=4 * GB, free_bytes=4 * GB),), ram_free_bytes=12 * GB)
    found = listed(paths, small)
    assert row(found, "ternary/27B").fits == "Partly on the GPU"
    assert row(found, "ternary/1.7B").fits == "Fits on the GPU"
    assert found.automatic == "Ternary Bonsai 27B"
    smaller = replace(small, ram_bytes=5 * GB, ram_free_bytes=3 * GB)
    found = listed(paths, smaller)
    large = row(found, "ternary/27B")
    assert (large.runs, large.fits) == (False, "Does not fit")
    assert "does not fit into this machine's memory" in large.says
    assert found.automatic == next(it.label for it in found.rows if it.automatic)
    assert found.automatic != "Ternary Bonsai 27B"
    with pytest.raises(PlanRefused, match="does not fit into"):
        refuse_what_cannot_run(settings_of(model="8B"), paths, smaller, catalog.load().models[0])


def test_what_no_engine_here_reads_says_why(paths: Paths) -> None:
    found = listed(paths, engine="embedded", model="8B")
    newest = row(found, "bonsai2/27B")
    assert (newest.runs, newest.fits) == (False, "Does not run here")
    assert "does not read" in newest.says
    assert row(found, "ternary/27B").drafter.startswith("No drafter here: embedded engines load only")
    assert [it.name for it in found.rows if it.chosen] == ["ternary/8B"]


@pytest.mark.parametrize(
    ("env", "chosen", "automatic", "other"),
    [
        ({}, None, "ternary/27B", ""),
        ({"family": "bonsai"}, None, "bonsai/27B", ""),
        ({"model": "4B", "family": "bonsai"}, "bonsai/4B", None, ""),
        ({"model": "gemma-4-e4b"}, "gemma-4-e4b", None, ""),
        ({"model": "practice"}, None, None, "the practice pair"),
        ({"model": "/x/own.gguf"}, None, None, "/x/own.gguf"),
        ({"model": "9B"}, None, None, ""),
    ],
)
def test_which_one_is_asked_for(
    paths: Paths, env: dict[str, str], chosen: str | None, automatic: str | None, other: str
) -> None:
    found = listed(paths, None, **env)
    assert [it.name for it in found.rows if it.chosen] == ([chosen] if chosen else [])
    assert [it.name for it in found.rows if it.automatic] == ([automatic] if automatic else [])
    assert (found.automatic, found.other) == ("Ternary Bonsai 27B", other)


@pytest.mark.system("posix")  # where such files are sparse
def test_what_is_here_is_seen_without_reading_it(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> str:
        raise AssertionError("it was read")

    monkeypatch.setattr(Verified, "_read", read)
    large = catalog.load().models[0]
    small = named(settings_of(), "8B", catalog.load())
    weights, drafter = large.weights[0].file, large.drafters[0].file
    for file in (weights, small.weights[0].file):
        place = place_of(paths, file)
        place.parent.mkdir(parents=True)
        place.touch()
        os.truncate(place, file.bytes or 0)
    assert [row(listed(paths), it).here for it in ("ternary/27B", "ternary/8B", "ternary/4B")] == [
        "unread",
        "unread",
        "no",
    ]
    verified = Verified(paths.data)
    for file in (weights, small.weights[0].file):
        verified.remember(place_of(paths, file), file.sha256 or "")
    assert [row(listed(paths), it).here for it in ("ternary/27B", "ternary/8B")] == ["partly", "yes"]
    place = place_of(paths, drafter)
    place.write_bytes(b"x")
    verified.remember(place, sha256(b"x"))
    assert row(listed(paths), "ternary/27B").here == "yes"
