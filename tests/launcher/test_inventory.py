"""What is known, on disk and in use; and that only what we fetched is ever deleted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from launcher import catalog, inventory
from launcher.choose_model import name_of
from launcher.engine_install import install
from launcher.errors import BadInput, LauncherError
from launcher.fetch_lock import only_one
from launcher.paths import locate, make_folder
from launcher.practice import ensure_pair
from launcher.settings import Settings, resolve
from launcher.shelf import Shelf, place_of
from tests.conftest import Bonsai
from tests.fakes.file_server import sha256
from tests.machines import load
from tests.standins import engine_archive, engine_script, model

PLAIN = load("no-gpu")
TERNARY = next(it for it in catalog.load().models if (it.family, it.name) == ("ternary", "27B"))
WEIGHTS, DRAFTER = TERNARY.weights[0].file, TERNARY.drafters[0].file
LEGACY = catalog.load().line("prism-legacy")


class Home:
    def __init__(self, folder: Path) -> None:
        self.folder, self.paths = folder, locate(str(folder / "home"))
        self.env = {"HF_HOME": str(folder / "hf")}

    def settings(self, **env: str) -> Settings:
        return resolve({}, {f"BONSAI_{name.upper()}": text for name, text in env.items()})

    def models(self, **env: str) -> dict[str, dict[str, Any]]:
        rows = inventory.models(self.settings(**env), self.paths, self.env, PLAIN)
        return {row["model"]: row for row in rows}

    def engines(self, **env: str) -> dict[str, dict[str, Any]]:
        rows = inventory.engines(self.settings(**env), self.paths, self.env, PLAIN)
        return {row["engine"]: row for row in rows}

    def removable(self, name: str) -> list[Path]:
        return inventory.removable(self.settings(), self.paths, name)

    def trio(self) -> list[Path]:
        shelf, files = Shelf(self.settings(), self.paths, {}), []
        for file, facts in ((WEIGHTS, TERNARY.facts), (DRAFTER, TERNARY.drafters[0].facts)):
            path, data = place_of(self.paths, file), model(facts, 40_000)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            shelf.verified.remember(path, sha256(data))
            files.append(path)
        return files

    def engine(self, backend: str = "cpu") -> Path:
        build = next(
            it for it in LEGACY.builds if (it.system, it.arch, it.backend) == ("Linux", "x86_64", backend)
        )
        archive = self.folder / "engine.tar.gz"
        archive.write_bytes(engine_archive(LEGACY, build, engine_script("fork")))
        return install(self.paths.engines, LEGACY, build, [archive], lambda step: None)  # noqa: ARG005


@pytest.fixture
def here(home: Path) -> Home:
    return Home(home.parent)


# -- models -------------------------------------------------------------------------------------------------


def test_every_model_that_can_be_had_has_a_row(here: Home) -> None:
    rows = here.models()
    known = {name_of(it) for it in catalog.load().models}
    assert known | {"practice", "practice-medium", "practice-large", "practice-xlarge"} == set(rows)
    assert not any(row["on_disk"] or row["path"] for row in rows.values())
    assert rows["ternary/27B"]["bytes"] == WEIGHTS.bytes  # what it would take
    assert rows["ternary/27B"]["drafter"] == "draft-dspark"
    assert "no official drafter" in rows["bonsai2/27B"]["note"]
    assert not here.paths.data.exists()


@pytest.mark.system("posix")
def test_what_is_here_and_used(here: Home) -> None:
    files = here.trio()
    here.engine()
    row = here.models()["ternary/27B"]
    assert (row["on_disk"], row["in_use"], row["path"]) == (True, True, str(files[0]))
    assert row["bytes"] == sum(path.stat().st_size for path in files)
    assert [name for name, it in here.models(model="8B").items() if it["in_use"]] == []


def test_practice_once_it_is_written(here: Home) -> None:
    assert not here.models(model="practice")["practice"]["on_disk"]
    pair = ensure_pair(make_folder(here.paths.practice), "small")
    for model_name in ("practice", "27B"):  # asked for, or standing in
        row = here.models(model=model_name)["practice"]
        assert (row["on_disk"], row["in_use"], row["path"]) == (True, True, str(pair.target))
    assert here.removable("practice") == [pair.target, pair.drafter]


def test_a_file_of_ones_own_is_in_use_and_marked_as_no_business_of_ours(here: Home) -> None:
    own = here.folder / "own.gguf"
    own.write_bytes(model(TERNARY.facts, 40_000))
    row = here.models(model=str(own))[str(own)]
    assert (row["on_disk"], row["in_use"], row["bytes"]) == (True, True, own.stat().st_size)
    assert "never moved, changed or deleted" in row["note"]


def test_a_trouble_is_said_and_the_table_stays(here: Home, capsys: pytest.CaptureFixture[str]) -> None:
    rows = here.models(model=str(here.folder / "nowhere.gguf"))
    assert "There is no file" in capsys.readouterr().err
    assert "ternary/27B" in rows


# -- removing models ----------------------------------------------------------------------------------------


def test_what_was_fetched_goes_with_its_parts_and_nothing_else(here: Home) -> None:
    files = here.trio()
    place = place_of(here.paths, TERNARY.weights[2].file)
    left = [place.with_name(place.name + suffix) for suffix in (".part", ".part.json")]
    beside = place.with_name("my notes.txt")
    for path in (*left, beside):
        path.write_bytes(b"0123456789")
    found = here.removable("27B")
    assert set(found) == {*files, *left}
    sizes = sum(path.stat().st_size for path in found)
    assert inventory.remove(found) == sizes
    assert not any(path.exists() for path in found)
    assert beside.exists()
    assert not here.models()["ternary/27B"]["on_disk"]


@pytest.mark.parametrize("name", ["ternary/27B", "ternary/27b", "27b"])
def test_names_that_mean_it(here: Home, name: str) -> None:
    assert set(here.trio()) == set(here.removable(name))


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("auto", BadInput, "no model's name"),
        ("AUTO", BadInput, "no model's name"),
        ("", BadInput, "No model is called ''"),
        ("28B", BadInput, "No model is called '28B'"),
        ("nonsense", BadInput, "No model is called 'nonsense'"),
        ("bonsai/28B", BadInput, "No model is called 'bonsai/28B'"),
        ("8B", BadInput, "nothing of 8B here that was fetched"),
        ("practice", BadInput, "nothing of practice here"),
        ("mine/27B", BadInput, "There is no family mine"),
        ("../27B", BadInput, r"There is no family \.\."),
        ("/etc/passwd", BadInput, "There is no family /etc"),
        ("../../x.gguf", BadInput, "is a file of yours"),
        ("/models/Ternary-Bonsai-27B-Q2_0.gguf", BadInput, "is a file of yours"),
    ],
)
def test_names_that_mean_nothing_delete_nothing(
    here: Home, name: str, error: type[LauncherError], words: str
) -> None:
    files = here.trio()
    with pytest.raises(error, match=words) as caught:
        here.removable(name)
    assert caught.value.remedy
    assert "BONSAI_MODEL" not in str(caught.value)
    assert all(path.exists() for path in files)


@pytest.mark.system("posix")
def test_a_link_goes_and_what_it_leads_to_stays(here: Home) -> None:
    weights, _ = here.trio()
    kept = here.folder / "a big disk.gguf"
    weights.rename(kept)
    weights.symlink_to(kept)
    inventory.remove(here.removable("27B"))
    assert kept.exists()
    assert not os.path.lexists(weights)


def test_a_file_that_was_here_before_is_no_business_of_ours(here: Home) -> None:
    cache = Path(here.env["HF_HOME"]) / "hub" / "models--prism-ml--Ternary-Bonsai-27B-gguf" / "blobs"
    cache.mkdir(parents=True)
    (cache / "x").write_bytes(b"GGUF")
    with pytest.raises(BadInput, match="nothing of 27B"):
        here.removable("27B")
    assert (cache / "x").exists()


@pytest.mark.parametrize("whose", ["never fetched", "changed since", "the notes are lost"])
def test_a_file_that_somebody_put_into_our_folder_is_named_and_stays(
    here: Home, capsys: pytest.CaptureFixture[str], whose: str
) -> None:
    weights, drafter = here.trio()
    if whose == "the notes are lost":
        (here.paths.data / "verified.json").unlink()
        theirs = [weights, drafter]
    else:
        data = weights.read_bytes()
        if whose == "never fetched":
            weights.unlink()
        weights.write_bytes(data + b"more")
        theirs = [weights]
        assert here.removable("27B") == [drafter]
        said = capsys.readouterr().err
        assert f"{weights} was not fetched by Bonsai, or was changed since: it stays." in said
        assert str(drafter) not in said
        inventory.remove([drafter])
    with pytest.raises(BadInput, match="was not fetched by Bonsai") as caught:
        here.removable("27B")
    assert str(weights) in str(caught.value)
    for path in theirs:
        assert path.name in caught.value.remedy
        assert path.exists()


def test_what_an_unfinished_fetch_left_beside_somebodys_file_goes_alone(here: Home) -> None:
    weights, _ = here.trio()
    weights.write_bytes(b"of somebody's own")
    part = weights.with_name(weights.name + ".part")
    part.write_bytes(b"GGUF")
    inventory.remove(here.removable("27B"))
    assert weights.exists()
    assert not part.exists()


def test_what_is_being_fetched_stays(here: Home) -> None:
    place = place_of(here.paths, WEIGHTS)
    place.parent.mkdir(parents=True)
    part, lock = (place.with_name(place.name + suffix) for suffix in (".part", ".part.lock"))
    part.write_bytes(b"GGUF")
    with only_one(lock, lambda: None):
        with pytest.raises(BadInput, match="is being fetched at this moment"):
            inventory.remove(here.removable("27B"))
        assert part.exists()
    assert inventory.remove(here.removable("27B")) == 4


# -- engines ------------------------------------------------------------------------------------------------


@pytest.mark.system("posix")
def test_engines_on_disk_and_in_use(here: Home) -> None:
    here.trio()
    cpu, vulkan = here.engine(), here.engine("vulkan")
    rows = here.engines()
    assert {"embedded", "built", cpu.name, vulkan.name} == set(rows)
    assert [name for name, row in rows.items() if row["in_use"]] == [cpu.name]
    assert rows[cpu.name]["spec_types"] == ["draft-dspark", "ngram-cache", "ngram-simple", "none"]
    assert rows[cpu.name]["note"].startswith("fetched, ")
    assert rows["built"]["available"] is False


@pytest.mark.case("D-12")
@pytest.mark.system("posix")
def test_an_engine_that_is_not_whole_says_what_is_gone(here: Home) -> None:
    folder = here.engine()
    (folder / "llama-server").unlink()
    row = here.engines()[folder.name]
    assert row["available"] is False
    assert "llama-server is gone" in row["note"]
    assert "antivirus" in row["note"]


@pytest.mark.system("posix")
@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("#!/bin/sh\necho hello\n", 0o755, "is not a llama-server: to --version it answers 'hello'"),
        (engine_script("missing-library"), 0o755, "libcudart.so.12 is missing"),
        ("#!/bin/sh\necho hello\n", 0o644, "may not be run"),
        (None, 0, "There is no"),
    ],
)
def test_a_named_program_that_cannot_serve_says_so_in_its_row(
    here: Home, text: str | None, mode: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own = here.folder / "my engine"
    if text is not None:
        own.write_text(text)
        own.chmod(mode)
    rows = here.engines(llama_server=str(own), model="practice")
    row = rows["own"]
    assert (row["available"], row["version"], row["in_use"]) == (False, None, False)
    assert words in row["problem"]
    assert row["problem"] in row["note"]
    assert "named by BONSAI_LLAMA_SERVER" in row["note"]
    assert row["remedy"]
    assert "embedded" in rows
    capsys.readouterr()
    inventory.print_engines(list(rows.values()))
    assert "unusable" in capsys.readouterr().out


@pytest.mark.system("posix")
def test_a_named_llama_server_tells_its_version(here: Home) -> None:
    own = here.folder / "llama-server"
    own.write_text(engine_script("fork"))
    own.chmod(0o755)
    row = here.engines(llama_server=str(own), model="practice")["own"]
    assert (row["available"], row["in_use"], row["problem"], row["remedy"]) == (True, True, "", "")
    assert row["version"] == "b9596 (9fcaed7)"


@pytest.mark.system("posix")
def test_an_engine_is_removed_by_its_name_alone(here: Home) -> None:
    folder = here.engine()
    assert inventory.fetched_engine(here.paths, folder.name).folder == folder
    for name in ("built", "..", str(folder), folder.name + "/..", ""):
        with pytest.raises(BadInput, match="No fetched engine is called") as caught:
            inventory.fetched_engine(here.paths, name)
        assert folder.name in caught.value.remedy


# -- the commands -------------------------------------------------------------------------------------------


def test_on_paper(here: Home, capsys: pytest.CaptureFixture[str]) -> None:
    inventory.print_models(list(here.models(model="practice").values()))
    inventory.print_engines(list(here.engines(model="practice").values()))
    out = capsys.readouterr().out
    assert "ternary/27B" in out
    assert "7,165 MB" in out
    assert "not here" in out
    assert "embedded" in out


def test_the_commands(bonsai: Bonsai) -> None:
    done = bonsai("models", "remove", "../../etc/passwd", "--yes")
    assert done.returncode == 2
    assert "There is no family" in done.stderr
    listed = bonsai("engines", "--json", env={"BONSAI_LLAMA_SERVER": __file__})
    assert listed.returncode == 0
    (own,) = (row for row in json.loads(listed.stdout) if row["engine"] == "own")
    assert not own["available"]
    assert __file__ in own["problem"]
    gone = bonsai("engines", "remove", "nothing", "--yes")
    assert gone.returncode == 2
    assert "None was fetched here." in gone.stderr
