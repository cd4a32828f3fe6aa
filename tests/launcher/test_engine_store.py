"""Fetched engines on disk: put there side by side, proved, looked after, removed."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from launcher import catalog, engine_store
from launcher.catalog import Build, Line
from launcher.engine_install import install
from launcher.engine_store import all_installed, find, folder_name, installed, server_binary
from launcher.errors import ArchiveError, Cancelled, FolderError, NotAnEngine
from launcher.fetch_lock import only_one
from tests.conftest import wait_until
from tests.standins import engine_archive, engine_script

pytestmark = pytest.mark.system("posix")  # the engines of these tests are shell scripts

LINE = catalog.load().line("prism-legacy")
OLD = replace(LINE, tag="prism-b9001-0000000")


def build_for(backend: str, cuda: str | None = None) -> Build:
    wanted = ("Linux", "x86_64", backend, cuda)
    return next(it for it in LINE.builds if (it.system, it.arch, it.backend, it.cuda) == wanted)


CPU, VULKAN = build_for("cpu"), build_for("vulkan")
CUDA, OLD_CUDA = build_for("cuda", "12.8"), build_for("cuda", "12.4")


class Store:
    """A folder for engines, and archives to install from."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.engines = folder, folder / "engines"

    def archive(self, line: Line = LINE, build: Build = CPU, mode: str = "fork") -> Path:
        path = self.folder / f"{line.tag}-{build.backend}-{mode}.tar.gz"
        path.write_bytes(engine_archive(line, build, engine_script(mode)))
        return path

    def install(
        self,
        line: Line = LINE,
        build: Build = CPU,
        mode: str = "fork",
        *,
        tell: Callable[[str], None] = lambda step: None,  # noqa: ARG005
        instead_of: Mapping[str, str] | None = None,
        wait: Callable[[], None] = lambda: None,
    ) -> Path:
        archive = self.archive(line, build, mode)
        return install(self.engines, line, build, [archive], tell, instead_of=instead_of, wait=wait)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.engines.iterdir()) if self.engines.exists() else []


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_it_is_unpacked_and_proved_before_it_has_its_name(store: Store) -> None:
    steps: list[tuple[str, list[str]]] = []
    folder = store.install(tell=lambda step: steps.append((step, store.names())))
    name = folder_name(LINE, CPU)
    assert [step for step, _ in steps] == ["unpacking", "proving"]
    assert all(name not in names for _, names in steps)
    assert folder == store.engines / name
    assert store.names() == [name]
    assert installed(store.engines, LINE, CPU) == folder

    engine = engine_store.engine(folder, LINE.name, "cpu", "because")
    assert (engine.kind, engine.line, engine.backend, engine.why) == (
        "fetched",
        "prism-legacy",
        "cpu",
        "because",
    )
    assert engine.probed
    assert "draft-dspark" in engine.spec_types
    (row,) = all_installed(store.engines)
    assert (row.name, row.tag, row.version, row.missing) == (name, LINE.tag, "b9596 (9fcaed7)", ())
    assert row.used_bytes > 100_000


def test_it_can_be_ended_while_it_unpacks(store: Store) -> None:
    def leave() -> None:
        raise Cancelled("Fetching was cancelled.")

    steps: list[str] = []
    with pytest.raises(Cancelled):
        store.install(tell=steps.append, wait=leave)
    assert steps == ["unpacking"]
    assert store.names() == []


def test_builds_and_lines_lie_side_by_side(store: Store) -> None:
    mainline = catalog.load().line("mainline")
    other = next(
        it for it in mainline.builds if (it.system, it.arch, it.backend) == ("Linux", "x86_64", "cpu")
    )
    for line, build in ((LINE, CPU), (LINE, VULKAN), (LINE, CUDA), (LINE, OLD_CUDA), (mainline, other)):
        store.install(line, build)
    assert len(store.names()) == 5
    for line, build in ((LINE, CPU), (LINE, VULKAN), (LINE, CUDA), (LINE, OLD_CUDA), (mainline, other)):
        assert installed(store.engines, line, build) is not None


def test_an_older_release_goes_once_the_new_one_has_proved_itself(store: Store) -> None:
    old, beside = store.install(OLD), store.install(OLD, VULKAN)
    seen: list[bool] = []
    store.install(tell=lambda step: seen.append(old.exists()))  # noqa: ARG005
    assert seen == [True, True]
    assert not old.exists()
    assert beside.exists()  # another backend: nothing has taken its place
    assert installed(store.engines, LINE, CPU) is not None


@pytest.mark.case("B-13")
@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("illegal", "needs a newer CPU"),
        ("missing-library", "libcudart.so.12 is missing"),
        ("new-glibc", "GLIBC_2.38"),
        ("tells-nothing", "printed nothing"),
        ("not-an-engine", "is not a llama-server"),
    ],
)
def test_one_that_does_not_run_here_leaves_nothing_and_the_old_one_stays(
    store: Store, mode: str, words: str
) -> None:
    old = store.install(OLD, CUDA)
    with pytest.raises(NotAnEngine, match=words) as caught:
        store.install(LINE, CUDA, mode)
    assert "prism-legacy for CUDA 12.8" in caught.value.what  # the build by its name: its folder is gone
    assert ".new" not in str(caught.value)
    assert store.names() == [old.name]
    assert installed(store.engines, OLD, CUDA) == old


def test_a_damaged_archive_leaves_nothing(store: Store) -> None:
    archive = store.archive()
    archive.write_bytes(archive.read_bytes()[:500])
    with pytest.raises(ArchiveError):
        install(store.engines, LINE, CPU, [archive], lambda step: None)  # noqa: ARG005
    assert store.names() == []


def test_an_engines_folder_that_cannot_be_used(store: Store) -> None:
    store.engines.write_text("a file")
    with pytest.raises(FolderError, match="engines"):
        store.install()


# -- what happens to it later -------------------------------------------------------------------------------


@pytest.mark.case("D-12")
@pytest.mark.parametrize("name", ["llama-server", "libllama.so.0.13.1", "libllama.so.0"])
def test_a_file_that_vanishes_later_is_noticed_and_named(store: Store, name: str) -> None:
    folder = store.install()
    (folder / name).unlink()
    assert installed(store.engines, LINE, CPU) is None
    assert name in all_installed(store.engines)[0].missing
    assert store.install() == folder  # put in its place again
    assert installed(store.engines, LINE, CPU) == folder
    assert all_installed(store.engines)[0].missing == ()


@pytest.mark.case("D-12")
def test_a_file_that_was_changed_is_noticed(store: Store) -> None:
    folder = store.install()
    with (folder / "libllama.so.0.13.1").open("ab") as file:
        file.write(b"more")
    assert installed(store.engines, LINE, CPU) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"assets": 3, "files": {}}', '{"assets": []}'])
def test_a_spoiled_manifest_is_no_engine(store: Store, text: str) -> None:
    folder = store.install()
    (folder / "manifest.json").write_text(text)
    assert installed(store.engines, LINE, CPU) is None
    assert all_installed(store.engines) == []
    store.install()
    assert installed(store.engines, LINE, CPU) == folder


def test_other_assets_are_another_engine(store: Store) -> None:
    store.install()
    assert installed(store.engines, LINE, replace(CPU, assets=CUDA.assets)) is None


def test_what_killed_installs_left_is_no_engine_and_goes(store: Store) -> None:
    store.install()
    left = store.engines / f"{folder_name(LINE, CPU)}.new"
    going = store.engines / f"{engine_store.GOING}0-x"
    for folder in (left, going):
        folder.mkdir()
        (folder / "manifest.json").write_text(json.dumps({"assets": [], "files": {}}))
    assert len(all_installed(store.engines)) == 1
    store.install(LINE, VULKAN)
    assert not going.exists()
    (store.engines / folder_name(LINE, CPU) / "llama-server").unlink()
    store.install()
    assert not left.exists()


# -- two at once --------------------------------------------------------------------------------------------


def test_who_waits_for_another_finds_its_engine(store: Store) -> None:
    waiting, proving, steps = threading.Event(), threading.Event(), list[str]()

    def tell(step: str) -> None:
        if step == "proving":
            proving.set()
            waiting.wait(10)

    first = threading.Thread(target=store.install, kwargs={"tell": tell})
    first.start()
    assert proving.wait(10)
    folder = store.install(tell=steps.append, wait=waiting.set)
    first.join(10)
    assert steps == []  # nothing was unpacked a second time
    assert installed(store.engines, LINE, CPU) == folder


def test_waiting_can_be_given_up(store: Store) -> None:
    store.engines.mkdir()

    def give_up() -> None:
        raise Cancelled("enough")

    lock = store.engines / f"{folder_name(LINE, CPU)}.lock"
    with only_one(lock, lambda: None), pytest.raises(Cancelled):
        store.install(wait=give_up)
    assert store.names() == []


# -- the best of several ------------------------------------------------------------------------------------


@pytest.mark.case("B-01")
def test_a_lesser_build_is_used_and_said_and_the_better_one_stays_wanted(store: Store) -> None:
    store.install(LINE, CPU)
    found = find(store.engines, LINE, [CUDA, VULKAN, CPU])
    assert found is not None
    assert (found.build, found.better) == (CPU, CUDA)
    assert "prism-legacy for CUDA 12.8 would be better here" in found.notice
    assert "`bonsai fetch` brings" in found.notice
    store.install(LINE, CUDA)
    best = find(store.engines, LINE, [CUDA, VULKAN, CPU])
    assert best is not None
    assert (best.build, best.better, best.notice) == (CUDA, None, "")


@pytest.mark.case("D-10")
def test_a_build_that_was_tried_in_vain_is_told_of_and_not_wanted_again(store: Store) -> None:
    tried = {folder_name(LINE, CUDA): "It cannot start: libcudart.so.12 is missing."}
    folder = store.install(LINE, CPU, instead_of=tried)
    found = find(store.engines, LINE, [CUDA, CPU])
    assert found is not None
    assert found.better is None
    assert "libcudart.so.12 is missing. Instead prism-legacy for the processor is used." in found.notice
    assert f"`bonsai engines remove {folder.name}`" in found.notice
    again = find(store.engines, LINE, [CUDA, VULKAN, CPU])  # one that nobody has tried yet
    assert again is not None
    assert again.better == VULKAN


def test_nothing_is_here(store: Store) -> None:
    assert find(store.engines, LINE, [CUDA, CPU]) is None
    assert all_installed(store.engines) == []


def test_one_that_does_not_run_any_more_says_how_to_get_another(store: Store) -> None:
    folder = store.install()
    script = engine_script("missing-library")
    (folder / "llama-server").write_text(script)
    with pytest.raises(NotAnEngine, match=r"libcudart\.so\.12 is missing") as caught:
        engine_store.engine(folder, LINE.name, "cpu", "why")
    assert f"`bonsai engines remove {folder.name}`, then `bonsai fetch`" in caught.value.remedy


def spoil(folder: Path) -> None:
    """The engine is whole, but a library that was there when it was fetched is gone from the system."""
    script, manifest = engine_script("missing-library"), folder / "manifest.json"
    (folder / "llama-server").write_text(script)
    facts = json.loads(manifest.read_text())
    facts["files"]["llama-server"] = len(script)
    manifest.write_text(json.dumps(facts))


@pytest.mark.case("D-10")
def test_one_that_does_not_run_any_more_is_passed_over_aloud(store: Store) -> None:
    broken, working = store.install(LINE, CUDA), store.install(LINE, CPU)
    spoil(broken)
    found = engine_store.ready(store.engines, LINE, [CUDA, VULKAN, CPU], "why")
    assert found is not None
    engine, here = found
    assert (engine.backend, here.folder, here.better) == ("cpu", working, None)
    assert "libcudart.so.12 is missing. Instead prism-legacy for the processor is used." in here.notice
    assert f"`bonsai engines remove {broken.name}`" in here.notice
    spoil(working)
    with pytest.raises(NotAnEngine, match=re.escape(broken.name)):
        engine_store.ready(store.engines, LINE, [CUDA, VULKAN, CPU], "why")
    assert engine_store.ready(store.engines, LINE, [VULKAN], "why") is None


def test_a_program_is_known_as_the_fetched_engine_that_it_is(store: Store) -> None:
    folder = store.install(LINE, VULKAN)
    found = engine_store.holding(store.engines, folder / "llama-server", "why")
    assert found is not None
    assert (found.line, found.backend) == ("prism-legacy", "vulkan")
    assert engine_store.holding(store.engines, folder / "another", "why") is None
    assert engine_store.holding(store.engines, store.engines.parent / "llama-server", "why") is None


# -- layouts, expectation, removal --------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["llama-server", "bin/llama-server", "build/bin/llama-server.exe"])
def test_the_server_is_found_in_every_layout(tmp_path: Path, place: str) -> None:
    program = tmp_path / place
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text("")
    assert server_binary(tmp_path) == program


@pytest.mark.case("D-12")
def test_a_folder_without_a_server_says_who_may_have_taken_it(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="no llama-server") as caught:
        server_binary(tmp_path)
    assert "antivirus" in caught.value.remedy


@pytest.mark.parametrize(("system", "program"), [("Linux", "llama-server"), ("Windows", "llama-server.exe")])
def test_what_an_engine_will_be(tmp_path: Path, system: str, program: str) -> None:
    build = next(it for it in LINE.builds if (it.system, it.arch, it.backend) == (system, "x86_64", "cpu"))
    engine = engine_store.expected(tmp_path, LINE, build, "why")
    assert not engine.probed
    assert Path(engine.program[0]).name == program
    assert engine.devices is None


def test_removing_gives_its_bytes_back_and_touches_no_other(store: Store) -> None:
    gone, stays = store.install(), store.install(LINE, VULKAN)
    used = sum(path.lstat().st_size for path in gone.rglob("*") if not path.is_dir())
    row = next(it for it in all_installed(store.engines) if it.folder == gone)
    assert engine_store.remove(row) == used
    assert store.names() == [stays.name]
    with pytest.raises(FolderError, match="cannot be changed"):
        engine_store.remove(row)


def test_what_cannot_be_moved_away_as_one_stays_whole(store: Store) -> None:
    """As on Windows, where a running program holds its folder; here by a name that leaves no room for another."""
    store.install()
    row = all_installed(store.engines)[0]
    held = row.folder.rename(store.engines / ("x" * 250))
    before = sorted(held.rglob("*"))
    with pytest.raises(FolderError, match="cannot be changed") as caught:
        engine_store.remove(replace(row, folder=held))
    assert "Quit Bonsai" in caught.value.remedy
    assert sorted(held.rglob("*")) == before


def test_an_old_release_that_cannot_go_does_not_spoil_the_new_one(store: Store) -> None:
    old = store.install(OLD)
    held = old.rename(store.engines / ("x" * 250))
    assert store.install().exists()
    assert (held / "llama-server").exists()


def test_a_lock_that_somebody_left_stands_in_nobodys_way(store: Store) -> None:
    store.engines.mkdir()
    (store.engines / f"{folder_name(LINE, CPU)}.lock").touch()
    store.install()
    wait_until(lambda: store.names() == [folder_name(LINE, CPU)], 5, "the lock to go")
