"""From settings and machine to the files of a start: what is here, what would be, and what stands in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from launcher import catalog, embedded
from launcher.catalog import HubFile
from launcher.engine_install import install
from launcher.errors import EngineMissing, GgufError, NotFetched, PlanRefused, SettingsError
from launcher.hardware.model import Machine
from launcher.paths import locate
from launcher.provision import resolve_all
from launcher.resolved import Resolved
from launcher.settings import resolve
from launcher.shelf import Shelf, place_of
from tests.fakes.file_server import sha256
from tests.launcher.gguf_bytes import STR, U32, entry, gguf, tensor
from tests.machines import load
from tests.standins import engine_archive, engine_script, model

pytestmark = pytest.mark.system("posix")  # the engines of these tests are shell scripts

PLAIN, CARD = load("no-gpu"), load("rtx4090-cuda-12.8")
TERNARY = next(it for it in catalog.load().models if (it.family, it.name) == ("ternary", "27B"))
WEIGHTS, DRAFTER = TERNARY.weights[0].file, TERNARY.drafters[0].file
LEGACY = catalog.load().line("prism-legacy")


class Home:
    """A fresh home, and what is put into it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.paths = folder, locate(str(folder / "home"))
        self.env = {"HF_HOME": str(folder / "hf")}

    def resolve(
        self,
        machine: Machine = PLAIN,
        *,
        expect: bool = False,
        stand_in: bool = False,
        **env: str,
    ) -> Resolved:
        settings = resolve({}, {f"BONSAI_{name.upper()}": text for name, text in env.items()})
        return resolve_all(settings, self.paths, self.env, machine, expect=expect, stand_in=stand_in)

    def fetched(self, file: HubFile, data: bytes) -> Path:
        """As if the launcher had fetched it from a mirror on this machine."""
        path = place_of(self.paths, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        Shelf(resolve({}, {}), self.paths, {}).verified.remember(path, sha256(data))
        return path

    def engine(
        self,
        line_name: str = "prism-legacy",
        backend: str = "cpu",
        instead_of: Mapping[str, str] | None = None,
    ) -> Path:
        line = catalog.load().line(line_name)
        build = next(
            it for it in line.builds if (it.system, it.arch, it.backend) == ("Linux", "x86_64", backend)
        )
        archive = self.folder / "engine.tar.gz"
        archive.write_bytes(engine_archive(line, build, engine_script("fork")))
        return install(
            self.paths.engines,
            line,
            build,
            [archive],
            lambda step: None,  # noqa: ARG005
            instead_of=instead_of,
        )

    def trio(self) -> None:
        self.engine()
        self.fetched(WEIGHTS, model(TERNARY.facts, 40_000))
        self.fetched(DRAFTER, model(TERNARY.drafters[0].facts, 20_000))


@pytest.fixture
def here(home: Path) -> Home:
    return Home(home.parent)


# -- models of the catalog ----------------------------------------------------------------------------------


def test_nothing_is_here_and_nobody_expects_it(here: Home) -> None:
    with pytest.raises(
        NotFetched, match="the engine and the weights and the drafter would have to"
    ) as caught:
        here.resolve()
    assert "`bonsai fetch`" in caught.value.remedy
    assert not here.paths.data.exists()


def test_what_it_will_be(here: Home) -> None:
    found = here.resolve(expect=True)
    assert (found.on_disk, found.engine.probed) == (False, False)
    assert found.target.header.layers == 64
    assert found.drafter is not None
    assert found.drafter.header.block_size == 4
    assert found.to_fetch == (
        "llama-prism-b9596-9fcaed7-bin-ubuntu-x64.tar.gz",
        WEIGHTS.name,
        DRAFTER.name,
    )
    assert dict(found.reasons)["weights"].startswith(WEIGHTS.name)


def test_a_whole_trio(here: Home) -> None:
    here.trio()
    found = here.resolve()
    assert found.on_disk
    assert found.engine.probed
    assert (found.engine.kind, found.engine.line, found.engine.backend) == ("fetched", "prism-legacy", "cpu")
    assert found.target.header.file_bytes < 100_000  # the file's own header, not the catalog's
    assert found.drafter is not None
    assert found.to_fetch == ()


@pytest.mark.case("C-08")
def test_the_drafter_alone_is_missing(here: Home) -> None:
    here.trio()
    place_of(here.paths, DRAFTER).unlink()
    found = here.resolve(speculative="1")
    assert found.on_disk
    assert found.drafter is None
    assert "is not on this machine (`bonsai fetch` brings it)" in found.drafter_why
    assert found.to_fetch == (DRAFTER.name,)


@pytest.mark.parametrize("gone", [WEIGHTS, DRAFTER])
@pytest.mark.case("C-03")
def test_a_file_of_ours_that_was_spoiled_is_not_taken_even_the_second_time(here: Home, gone: HubFile) -> None:
    here.trio()
    path = place_of(here.paths, gone)
    path.write_bytes(path.read_bytes()[:-1])
    for _ in range(2):
        found = here.resolve(expect=True)
        assert gone.name in found.to_fetch
    assert path.exists()  # looking deletes nothing


def test_a_drafter_of_ones_own_beside_a_model_of_the_catalog(here: Home) -> None:
    here.trio()
    own = here.folder / "own.gguf"
    own.write_bytes(model(TERNARY.drafters[0].facts, 20_000))
    found = here.resolve(drafter=str(own))
    assert found.drafter is not None
    assert found.drafter.path == str(own)
    assert found.drafter_why == "given by BONSAI_DRAFTER"
    with pytest.raises(GgufError, match="There is no file"):
        here.resolve(drafter=str(own) + "x")


def test_unknown_models_are_refused(here: Home) -> None:
    with pytest.raises(SettingsError, match="28B"):
        here.resolve(model="28B")


# -- what stands in -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["auto", "prism-legacy", "prism", "mainline"])
def test_the_practice_pair_stands_in_whatever_engine_was_asked_for(here: Home, engine: str) -> None:
    if embedded.available() is not None:
        pytest.skip("there is no embedded engine here")
    found = here.resolve(stand_in=True, engine=engine)
    assert found.practice
    assert found.stands_in_for == "Ternary Bonsai 27B"
    assert found.engine.kind == "embedded"


def test_nothing_stands_in_for_what_is_here(here: Home) -> None:
    here.trio()
    found = here.resolve(stand_in=True)
    assert (found.practice, found.stands_in_for) == (False, "")


# -- a lesser engine ----------------------------------------------------------------------------------------


@pytest.mark.case("B-01")
def test_a_gpu_that_came_later_is_not_left_to_the_processor_in_silence(here: Home) -> None:
    here.trio()
    found = here.resolve(CARD)
    assert found.on_disk
    assert found.engine.backend == "cpu"
    (notice,) = [it for it in found.notices if "would be better" in it]
    assert "prism-legacy for CUDA 12.8" in notice
    assert found.to_fetch == ("llama-prism-b9596-9fcaed7-bin-linux-cuda-12.8-x64.tar.gz",)
    assert "CUDA" not in found.engine.why  # no word that this one would use it


@pytest.mark.case("D-10")
def test_a_build_that_does_not_run_here_is_told_at_every_start_and_not_fetched_again(here: Home) -> None:
    here.trio()
    cuda = [it for it in LEGACY.builds if (it.system, it.backend) == ("Linux", "cuda")]
    why = "It cannot start: the shared library libcudart.so.12 is missing."
    tried = {f"prism-legacy-{LEGACY.tag}-cuda-{it.cuda}-linux-x86_64": why for it in cuda}
    here.engine(backend="vulkan", instead_of=tried)
    found = here.resolve(CARD)
    assert found.engine.backend == "vulkan"
    assert found.to_fetch == ()
    assert any("libcudart.so.12 is missing. Instead prism-legacy for Vulkan" in it for it in found.notices)
    assert not any("carry no CUDA runtime" in it for it in found.notices)  # true of another build


# -- files given by path ------------------------------------------------------------------------------------


def _q2_0(group: int) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        size = 2560 * 4 // 128 * 34 if group == 128 else 2560 * 4 // 64 * 18
        return _write(folder / f"g{group}.gguf", 42, size)

    return write


def _write(path: Path, kind: int, size: int) -> Path:
    entries = [entry("general.architecture", STR, "qwen3"), entry("qwen3.block_count", U32, 2)]
    tensors = [tensor("a", (2560, 4), kind, 0), tensor("b", (2560,), 0, -(-size // 32) * 32)]
    path.write_bytes(gguf(entries, tensors, -(-size // 32) * 32 + 2560 * 4))
    return path


@pytest.mark.case("A-02")
@pytest.mark.parametrize(
    ("write", "line"),
    [
        (_q2_0(128), "prism-legacy"),
        (lambda folder: _write(folder / "pq.gguf", 142, 2560 * 4 // 128 * 34), "prism"),
    ],
)
def test_a_file_that_one_line_alone_reads_goes_to_it(
    here: Home, write: Callable[[Path], Path], line: str
) -> None:
    path = write(here.folder)
    with pytest.raises(NotFetched, match=f"weights that only the {line} engine reads") as caught:
        here.resolve(model=str(path))
    assert "`bonsai fetch --engine-only`" in caught.value.remedy
    here.engine(line)
    found = here.resolve(model=str(path))
    assert found.engine.line == line
    assert found.target.path == str(path)
    assert found.drafter_why == "no drafter was given with BONSAI_DRAFTER"


@pytest.mark.case("A-02")
def test_a_file_and_an_engine_that_does_not_read_it(here: Home) -> None:
    path = _q2_0(128)(here.folder)
    with pytest.raises(PlanRefused, match="asks for prism, which does not read q2_0-g128") as caught:
        here.resolve(model=str(path), engine="prism")
    assert "prism-legacy can read them" in caught.value.remedy


def test_a_common_file_runs_on_what_is_here_and_is_told_of_a_better_engine(here: Home) -> None:
    if embedded.available() is not None:
        pytest.skip("there is no embedded engine here")
    path = _write(here.folder / "q8.gguf", 8, 2560 * 4 // 32 * 34)
    plain = here.resolve(model=str(path))
    assert plain.engine.kind == "embedded"
    assert plain.notices == ()
    beside_a_card = here.resolve(CARD, model=str(path))
    assert "`bonsai fetch --engine-only` brings one for the GPU" in beside_a_card.notices[0]


def test_a_macs_embedded_engine_uses_its_gpu_already(here: Home) -> None:
    if embedded.available() is not None:
        pytest.skip("there is no embedded engine here")
    path = _write(here.folder / "q8.gguf", 8, 2560 * 4 // 32 * 34)
    assert here.resolve(load("apple-m2"), model=str(path)).notices == ()


def test_a_file_that_is_not_there(here: Home) -> None:
    with pytest.raises(GgufError, match=r"There is no file .*nowhere\.gguf") as caught:
        here.resolve(model=str(here.folder / "nowhere.gguf"))
    assert "BONSAI_MODEL" in caught.value.remedy


# -- practice -----------------------------------------------------------------------------------------------


def test_practice_with_an_engine_that_is_not_here(here: Home) -> None:
    with pytest.raises(EngineMissing, match="asks for a prism engine, but none is on this machine") as caught:
        here.resolve(model="practice", engine="prism")
    assert "Leave BONSAI_ENGINE out" in caught.value.remedy  # `bonsai fetch` fetches nothing for it


BLIND = """#!/bin/sh
case "$1" in
--version) echo "version: 9596 (9fcaed7)" ;;
--help) printf -- '--model F\\n--host H\\n--port P\\n--list-devices\\n' ;;
*) echo "Available devices:" ;;
esac
"""


def test_what_an_engine_says_here_does_not_count_elsewhere(here: Home) -> None:
    own = here.folder / "llama-server"
    own.write_text(BLIND)
    own.chmod(0o755)
    settings = resolve({}, {"BONSAI_LLAMA_SERVER": str(own), "BONSAI_MODEL": "practice"})
    at_home = resolve_all(settings, here.paths, here.env, CARD)
    assert at_home.engine.devices == ()  # it sees no GPU, and its word counts
    other = resolve_all(settings, here.paths, here.env, CARD, elsewhere=True)
    assert other.engine.devices is None
    assert other.engine == at_home.engine
