"""The trio for settings and machine: the right assets, a reason for every part, and refusals that help."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

from launcher.catalog import Catalog
from launcher.choose import choose, choose_line
from launcher.errors import PlanRefused
from launcher.settings import Value
from tests.launcher.choosing import BIG, CATALOG, DSPARK, chosen, left, settings, short
from tests.machines import MADE, PC, load

# --- machines -------------------------------------------------------------------------------

# machine: the asset of the default (prism-legacy), of prism, and of mainline, without the line's beginning.
TABLE = {
    "rtx4090-cuda-12.4": (
        "linux-cuda-12.4-x64.tar.gz",
        "linux-cuda-12.4-x64.tar.gz",
        "ubuntu-vulkan-x64.tar.gz",
    ),
    "rtx4090-cuda-12.8": (
        "linux-cuda-12.8-x64.tar.gz",
        "linux-cuda-12.8-x64.tar.gz",
        "ubuntu-cuda-12.8-x64.tar.gz",
    ),
    "rtx4090-cuda-13.0": (
        "linux-cuda-12.8-x64.tar.gz",
        "linux-cuda-12.8-x64.tar.gz",
        "ubuntu-cuda-12.8-x64.tar.gz",
    ),
    "rtx4090-cuda-13.3": (
        "linux-cuda-12.8-x64.tar.gz",
        "linux-cuda-13.3-x64.tar.gz",
        "ubuntu-cuda-12.8-x64.tar.gz",
    ),
    "rtx4090-old-driver": (
        "ubuntu-vulkan-x64.tar.gz",
        "ubuntu-vulkan-x64.tar.gz",
        "ubuntu-vulkan-x64.tar.gz",
    ),
    "rtx5090": ("linux-cuda-12.8-x64.tar.gz", "linux-cuda-12.8-x64.tar.gz", "ubuntu-cuda-12.8-x64.tar.gz"),
    "two-cards": ("linux-cuda-12.8-x64.tar.gz", "linux-cuda-12.8-x64.tar.gz", "ubuntu-cuda-12.8-x64.tar.gz"),
    "gb10": ("ubuntu-vulkan-arm64.tar.gz", "ubuntu-vulkan-arm64.tar.gz", "ubuntu-cuda-13.4-arm64.tar.gz"),
    "wsl-unreadable-cuda": (
        "linux-cuda-12.4-x64.tar.gz",
        "linux-cuda-12.4-x64.tar.gz",
        "ubuntu-vulkan-x64.tar.gz",
    ),
    "windows-cuda-12.4": ("win-cuda-12.4-x64.zip", "win-cuda-12.4-x64.zip", "win-cuda-12.4-x64.zip"),
    "windows-cuda-13.3": ("win-cuda-12.4-x64.zip", "win-cuda-12.4-x64.zip", "win-cuda-12.4-x64.zip"),
    "windows-rtx5090": ("win-cuda-12.4-x64.zip", "win-cuda-12.4-x64.zip", "win-cuda-12.4-x64.zip"),
    "windows-arm64": ("win-cpu-arm64.zip", "win-cpu-arm64.zip", "win-cpu-arm64.zip"),
    "no-gpu": ("ubuntu-x64.tar.gz", "ubuntu-x64.tar.gz", "ubuntu-x64.tar.gz"),
    "no-gpu-no-avx2": ("ubuntu-x64.tar.gz", "ubuntu-x64.tar.gz", "ubuntu-x64.tar.gz"),
    "vulkan-software-only": ("ubuntu-x64.tar.gz", "ubuntu-x64.tar.gz", "ubuntu-x64.tar.gz"),
    "vulkan-integrated": ("ubuntu-vulkan-x64.tar.gz", "ubuntu-vulkan-x64.tar.gz", "ubuntu-vulkan-x64.tar.gz"),
    "rocm": ("ubuntu-rocm-7.2-x64.tar.gz", "ubuntu-rocm-7.2-x64.tar.gz", "ubuntu-rocm-10.0-x64.tar.gz"),
    "apple-m2": ("macos-arm64.tar.gz", "macos-arm64.tar.gz", "macos-arm64.tar.gz"),
    "apple-m2-rosetta": ("macos-arm64.tar.gz", "macos-arm64.tar.gz", "macos-arm64.tar.gz"),
    "intel-mac": ("macos-x64.tar.gz", "macos-x64.tar.gz", "macos-x64.tar.gz"),
}
BEGINNINGS = {
    "prism-legacy": ("llama-prism-b9596-9fcaed7-bin-", "llama-prism-b1-9fcaed7-bin-", "llama-bin-"),
    "prism": ("llama-prism-b10743-adfffbe-bin-",),
    "mainline": ("llama-b11434-bin-",),
}
LINES = tuple(BEGINNINGS)
# Where mainline has no build that suits the driver, common models run on prism.
FOR_PRISM = ("rtx4090-cuda-12.4", "wsl-unreadable-cuda")


def expected(machine: str, line: str) -> list[str]:
    return [beginning + TABLE[machine][LINES.index(line)] for beginning in BEGINNINGS[line]]


def test_every_machine_is_in_the_table() -> None:
    assert set(TABLE) == set(MADE)


@pytest.mark.parametrize("speculative", ["0", "1"])
@pytest.mark.parametrize("name", sorted(set(MADE) - {"no-gpu-no-avx2"}))
def test_the_default_is_the_trio_that_needs_no_conversion(name: str, speculative: str) -> None:
    choice = chosen(load(name), model="27B", speculative=speculative)
    asset, weights, drafter = short(choice)
    assert choice.line.name == "prism-legacy"
    assert asset in expected(name, "prism-legacy")
    assert (weights, drafter) == ("Ternary-Bonsai-27B-Q2_0.gguf", DSPARK)


@pytest.mark.parametrize("name", sorted(set(MADE) - {"no-gpu-no-avx2"}))
def test_one_bit_bonsai_takes_the_line_that_loads_its_drafter(name: str) -> None:
    asset, weights, drafter = short(chosen(load(name), model="27B", family="bonsai"))
    assert asset in expected(name, "prism-legacy")
    assert (weights, drafter) == ("Bonsai-27B-Q1_0.gguf", "Bonsai-27B-dspark-Q4_1.gguf")


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("name", sorted(MADE))
def test_an_engine_asked_for_gets_its_build_for_the_machine(name: str, line: str) -> None:
    assert short(chosen(load(name), model="27B", engine=line))[0] in expected(name, line)


@pytest.mark.parametrize("model", ["8B", "qwen3.5-0.8b", "qwen2.5-coder-7b", "qwen2.5-coder-1.5b"])
@pytest.mark.parametrize("name", sorted(MADE))
def test_formats_that_several_lines_read_take_the_one_with_the_gpus_build(name: str, model: str) -> None:
    line = "prism" if name in FOR_PRISM else "mainline"
    assert short(chosen(load(name), model=model))[0] in expected(name, line)


@pytest.mark.parametrize("name", sorted(MADE))
def test_bonsai_2_runs_on_prism_without_a_drafter(name: str) -> None:
    choice = chosen(load(name), model="27B", family="bonsai2", speculative="1")
    assert short(choice)[0] in expected(name, "prism")
    assert (choice.weights.format, choice.drafter) == ("ptq1_0", None)
    assert "no official drafter" in choice.drafter_why
    assert any("BONSAI_SPECULATIVE asks for speculation" in it and "plain" in it for it in choice.notices)
    assert choice.model.notice in chosen(load(name), model="27B", family="bonsai2").notices


def test_smaller_sizes_have_no_drafter() -> None:
    choice = chosen(BIG, model="8b", speculative="1")
    assert (choice.model.label, choice.drafter) == ("Ternary Bonsai 8B", None)
    assert "no drafter" in choice.drafter_why
    assert any("runs plain" in it for it in choice.notices)


@pytest.mark.parametrize("line", ["mainline", "prism", "embedded"])
def test_n_gram_speculation_is_offered_where_the_line_can_do_it(line: str) -> None:
    choice = chosen(model="8B", speculative="1", line=line)
    types = [it for it in choice.model.methods if it in choice.line.spec_types]
    (offer,) = [it for it in choice.offers if "N-gram" in it] or [""]
    assert bool(offer) == bool(types)
    assert all(it in offer for it in types)
    with_drafter = chosen(load("rtx4090-cuda-12.8"), model="qwen2.5-coder-7b", speculative="1")
    assert not any("N-gram" in it for it in with_drafter.offers)


def test_lab_pairs_come_with_their_drafters() -> None:
    newer = load("rtx4090-cuda-12.8")
    for name, drafter in (
        ("Qwen2.5-Coder-7B", "qwen2.5-coder-0.5b-q8_0.gguf"),
        ("qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b-q8_0.gguf"),
        ("GEMMA-4-E4B", "mtp-gemma-4-E4B-it-Q4_0.gguf"),
    ):
        choice = chosen(newer, model=name, speculative="1")
        assert (choice.line.name, choice.drafter and choice.drafter.file.name) == ("mainline", drafter)


def test_speculation_asked_for_matters_more_than_the_gpu() -> None:
    """Only prism has a build for this driver, and it does not draft with prediction heads."""
    plain, asked = (chosen(BIG, model="gemma-4-e4b", speculative=it) for it in "01")
    assert (plain.line.name, plain.drafter) == ("prism", None)
    assert (asked.line.name, asked.builds[0].backend) == ("mainline", "vulkan")
    assert asked.drafter is not None
    assert any("update the driver" in it for it in asked.notices)
    assert any(it.startswith("BONSAI_ENGINE=prism computes with CUDA here") for it in asked.offers)


# --- the engine asked for, or there ---------------------------------------------------------


@pytest.mark.case("A-02")
@pytest.mark.parametrize(
    ("engine", "weights", "drafter"),
    [
        ("prism-legacy", "Ternary-Bonsai-27B-Q2_0.gguf", DSPARK),
        ("prism", "Ternary-Bonsai-27B-PQ2_0.gguf", None),
        ("mainline", "Ternary-Bonsai-27B-Q2_g64.gguf", None),
        ("embedded", "Ternary-Bonsai-27B-Q2_g64.gguf", None),
    ],
)
def test_an_engine_asked_for_gets_weights_that_fit_it(engine: str, weights: str, drafter: str | None) -> None:
    for choice in (chosen(engine=engine), chosen(line=engine)):
        assert choice.line.name == engine
        assert choice.weights.file.name == weights
        assert (choice.drafter.file.name if choice.drafter else None) == drafter
    assert chosen(line=engine).builds == ()
    assert bool(chosen(engine=engine).builds) == (engine != "embedded")


@pytest.mark.case("A-01")
@pytest.mark.parametrize("engine", ["prism", "mainline", "embedded"])
def test_the_published_drafter_is_left_out_where_it_would_end_the_server(engine: str) -> None:
    choice = chosen(engine=engine, speculative="1")
    assert choice.drafter is None
    assert "converted to dflash" in choice.drafter_why
    assert left(choice)[DSPARK] == choice.drafter_why
    assert any("BONSAI_ENGINE=prism-legacy with Ternary-Bonsai-27B-Q2_0.gguf" in it for it in choice.offers)


@pytest.mark.parametrize(
    ("env", "part", "way"),
    [
        ({"engine": "prism-legacy", "family": "bonsai2"}, "weights", "BONSAI_ENGINE=prism"),
        ({"engine": "mainline", "family": "bonsai2"}, "weights", "BONSAI_ENGINE=prism"),
        ({"engine": "embedded", "family": "bonsai2"}, "weights", "Leave BONSAI_ENGINE out"),
    ],
)
def test_parts_that_cannot_work_are_refused_with_a_way_out(env: dict[str, str], part: str, way: str) -> None:
    with pytest.raises(PlanRefused) as caught:
        chosen(BIG, **env)
    assert part in caught.value.what
    assert env["engine"] in caught.value.what
    assert way in caught.value.remedy


def test_an_engine_that_is_there_and_reads_nothing_of_it_is_refused_by_its_source() -> None:
    with pytest.raises(PlanRefused) as caught:
        chosen(line="mainline", family="bonsai2", llama_server="/somewhere/llama-server")
    assert "BONSAI_LLAMA_SERVER" in caught.value.what
    assert caught.value.remedy.endswith("Leave BONSAI_LLAMA_SERVER out, or set BONSAI_ENGINE=prism.")


def test_a_system_without_any_build_is_refused() -> None:
    strange = replace(PC, arch="riscv64")
    with pytest.raises(PlanRefused, match="Linux on riscv64"):
        chosen(strange)
    with pytest.raises(PlanRefused, match="has no build for Linux on riscv64"):
        chosen(strange, engine="prism")
    assert chosen(strange, line="mainline").builds == ()


@pytest.mark.case("B-13")
def test_without_avx2_mainline_is_preferred() -> None:
    old = load("no-gpu-no-avx2")
    choice = chosen(old, speculative="1")
    assert (choice.line.name, choice.weights.format) == ("mainline", "q2_0-g64")
    assert "without AVX2" in left(choice)["prism-legacy"]
    asked = chosen(old, engine="prism-legacy")
    assert asked.line.name == "prism-legacy"
    assert any("no AVX2" in it for it in asked.notices)
    assert any("no AVX2" in it for it in chosen(old, family="bonsai2").notices)


@pytest.mark.case("B-05")
def test_gb10_is_told_what_else_can_be_done() -> None:
    choice = chosen(load("gb10"))
    assert any("BONSAI_LLAMA_SERVER" in it for it in choice.notices)
    assert any(it.startswith("BONSAI_ENGINE=mainline computes with CUDA here") for it in choice.offers)


# --- drafters -------------------------------------------------------------------------------


def test_a_drafter_given_by_path_is_judged_elsewhere() -> None:
    choice = chosen(drafter="mine.gguf", speculative="1")
    assert choice.drafter is None
    assert choice.drafter_why == "given by BONSAI_DRAFTER"
    assert not any("plain" in it for it in choice.notices)
    assert left(choice)[DSPARK] == "BONSAI_DRAFTER names another"


@pytest.mark.case("A-10")
def test_a_line_that_cannot_draft_its_way_does_not_get_the_drafter() -> None:
    lines = tuple(
        replace(it, spec_types=frozenset()) if it.name == "prism-legacy" else it for it in CATALOG.lines
    )
    choice = choose(settings(engine="prism-legacy"), BIG, Catalog(CATALOG.models, lines))
    assert choice.drafter is None
    assert "cannot do draft-dspark" in choice.drafter_why


@pytest.mark.case("A-06")
def test_macs_are_told_to_race_it_and_it_is_honoured() -> None:
    choice = chosen(load("apple-m2"), speculative="1")
    assert choice.drafter is not None
    assert any("race it" in it for it in choice.notices)
    there = chosen(load("apple-m2"), line="embedded", model="qwen2.5-coder-7b", speculative="1")
    assert any("race it" in it for it in there.notices)
    for quiet in (chosen(load("apple-m2")), chosen(speculative="1")):
        assert not any("race it" in it for it in quiet.notices)


# --- what was left out ----------------------------------------------------------------------


def test_every_alternative_is_named_with_its_reason() -> None:
    choice = chosen()
    found = left(choice)
    for name in ("mainline", "prism", "embedded", "prism-legacy for CUDA 12.8", "prism-legacy for ROCm"):
        assert found[name]
    for name in ("Ternary-Bonsai-27B-PQ2_0.gguf", "Ternary-Bonsai-27B-Q2_g64.gguf", "F16 and BF16 files"):
        assert found[name]
    for name in ("Ternary Bonsai 8B", "Bonsai 27B (1-bit)", "Ternary Bonsai 2 27B"):
        assert found[name]
    assert [part for part, _ in choice.why] == ["model", "engine", "weights", "drafter"]


# --- weights given by path ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formats", "name", "line"),
    [
        ({"q2_0-g128"}, "rtx4090-cuda-12.4", "prism-legacy"),
        ({"pq2_0", "common"}, "rtx4090-cuda-12.4", "prism"),
        ({"common"}, "rtx4090-cuda-12.4", "prism"),
        ({"common"}, "rtx4090-cuda-12.8", "mainline"),
        ({"common"}, "no-gpu-no-avx2", "mainline"),
        ({"q2_0-g64"}, "apple-m2", "mainline"),
    ],
)
def test_a_line_for_given_weights(formats: set[str], name: str, line: str) -> None:
    found = choose_line(settings(), load(name), CATALOG, frozenset(formats))
    assert found is not None
    assert found[0].name == line
    assert found[1]


def test_no_line_for_given_weights() -> None:
    both = frozenset({"q2_0-g128", "pq2_0"})
    assert choose_line(settings(), BIG, CATALOG, both) is None
    assert choose_line(settings(), replace(PC, arch="riscv64"), CATALOG, frozenset({"pq2_0"})) is None
    with pytest.raises(PlanRefused) as caught:
        choose_line(settings(engine="mainline"), BIG, CATALOG, frozenset({"pq2_0"}))
    assert "prism can read them" in caught.value.remedy


@pytest.mark.case("B-13")
def test_given_weights_without_avx2_take_mainline_before_the_gpu() -> None:
    machine = replace(BIG, cpu_features=("sse4_2",))
    found = choose_line(settings(), machine, CATALOG, frozenset({"common"}))
    assert found is not None
    assert (found[0].name, found[1][0].backend) == ("mainline", "vulkan")


def test_the_embedded_engine_is_the_last_resort_for_given_weights() -> None:
    found = choose_line(settings(), replace(PC, arch="riscv64"), CATALOG, frozenset({"common"}))
    assert found is not None
    assert (found[0].name, found[1]) == ("embedded", ())


# --- what always holds ----------------------------------------------------------------------

NAMES = sorted(MADE)
MODELS = st.one_of(
    st.just(("auto", "ternary")),
    st.sampled_from([(it.name, it.family or "ternary") for it in CATALOG.models]),
)


@tries(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    model=MODELS,
    engine=st.sampled_from(["auto", "auto", "prism-legacy", "prism", "mainline", "embedded"]),
    speculative=st.booleans(),
    ngl=st.sampled_from([None, 0]),
    shuffle=st.randoms(use_true_random=False),
)
def test_what_always_holds(
    name: str, model: tuple[str, str], engine: str, speculative: bool, ngl: int | None, shuffle: random.Random
) -> None:
    machine, lines = load(name), list(CATALOG.lines)
    shuffle.shuffle(lines)
    wanted = replace(
        settings(model=model[0], family=model[1], engine=engine),
        speculative=Value(speculative, "the test"),
        ngl=Value(ngl),
    )
    known = Catalog(CATALOG.models, tuple(lines))
    choice, remedy = None, ""
    try:
        choice = choose(wanted, machine, known)
    except PlanRefused as refused:
        remedy = refused.remedy
    if choice is None:
        assert remedy
        return
    assert all((it.system, it.arch) == (machine.system, machine.arch) for it in choice.builds)
    assert len(set(choice.builds)) == len(choice.builds)
    assert set(choice.builds) <= set(choice.line.builds)
    assert bool(choice.builds) == (choice.line.name != "embedded")
    assert engine in ("auto", choice.line.name)
    assert choice.weights in choice.model.weights
    assert choice.weights.format in choice.line.formats
    if choice.drafter is None:
        assert choice.drafter_why
        assert not choice.drafter_why.endswith(".")
    else:
        assert choice.line.drafts_with(choice.drafter)
    assert [part for part, why in choice.why if why] == ["model", "engine", "weights", "drafter"]
    assert all(it.why and it.part in ("engine", "weights", "drafter", "model") for it in choice.left_out)
    assert choice == choose(wanted, machine, known)
