"""The catalog that comes with the launcher: what is in it, and the headers that are expected from it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from launcher import embedded
from launcher.catalog import Build, Line, Model, load, parse
from launcher.catalog_parse import DRAFT_METHODS, NGRAM_METHODS
from launcher.engine_probe import parse_help
from launcher.expected import expected_drafter, expected_header
from launcher.need import kv_bytes_per_token
from launcher.pair import misfit

CAPTURED = Path(__file__).parent.parent / "captured"
CATALOG = load()
MODELS = {f"{model.family} {model.name}".strip(): model for model in CATALOG.models}
BUILDS = [(line, build) for line in CATALOG.lines for build in line.builds]


def builds(line: str, system: str, arch: str, backend: str) -> list[Build]:
    found = CATALOG.line(line).builds
    return [it for it in found if (it.system, it.arch, it.backend) == (system, arch, backend)]


def names(build: Build) -> list[str]:
    return [asset.name for asset in build.assets]


# -- the shipped catalog ------------------------------------------------------------------------------------------


def test_the_file_is_packaged_and_read_once() -> None:
    assert (resources.files("launcher") / "catalog.toml").is_file()
    assert load() is load()
    with pytest.raises(KeyError):
        CATALOG.line("other")


def test_every_model_that_was_promised_is_there() -> None:
    sizes = ("27B", "8B", "4B", "1.7B")
    bonsai = {f"{family} {size}" for family in ("ternary", "bonsai") for size in sizes} | {"bonsai2 27B"}
    lab = {"qwen2.5-coder-7b", "qwen2.5-coder-1.5b", "gemma-4-e4b", "qwen3.5-0.8b"}
    assert set(MODELS) == bonsai | lab
    assert [line.name for line in CATALOG.lines] == ["mainline", "prism", "prism-legacy", "embedded"]


def test_the_default_trio_needs_no_conversion() -> None:
    model = MODELS["ternary 27B"]
    assert [item.format for item in model.weights] == ["q2_0-g128", "pq2_0", "q2_0-g64"]
    assert [item.file.bytes for item in model.weights] == [7_165_121_600, 7_165_121_600, 7_585_330_240]
    (drafter,) = model.drafters
    assert (drafter.method, drafter.kind, drafter.file.bytes) == ("draft-dspark", "dspark", 1_946_393_568)
    assert drafter.file.revision == "86e89f34c93201c3dfd5e5880fedb0022fc7e34d"
    assert [line.name for line in CATALOG.lines if line.reads(model.weights[0])] == ["prism-legacy"]
    assert [line.name for line in CATALOG.lines if line.drafts_with(drafter)] == ["prism-legacy"]


@pytest.mark.parametrize(
    ("format", "readers"),
    [
        ("q2_0-g128", ["prism-legacy"]),
        ("q2_0-g64", ["mainline", "prism", "embedded"]),
        ("pq2_0", ["prism"]),
        ("ptq1_0", ["prism"]),
        ("q1_0", ["mainline", "prism", "prism-legacy", "embedded"]),
    ],
)
@pytest.mark.case("A-02")
def test_each_format_is_read_by_the_lines_that_can(format: str, readers: list[str]) -> None:
    assert [line.name for line in CATALOG.lines if format in line.formats] == readers


@pytest.mark.case("A-01")
def test_dspark_drafters_belong_to_the_frozen_line_and_dflash_ones_to_the_others() -> None:
    assert [line.name for line in CATALOG.lines if "dspark" in line.drafters] == ["prism-legacy"]
    assert [line.name for line in CATALOG.lines if "dflash" in line.drafters] == [
        "mainline",
        "prism",
        "embedded",
    ]


def test_bonsai2_runs_plain_says_so_and_offers_no_file_that_prints_gibberish() -> None:
    model = MODELS["bonsai2 27B"]
    assert model.drafters == ()
    assert model.no_drafter
    assert "no official drafter" in model.notice
    assert [item.format for item in model.weights] == ["ptq1_0", "pq2_0"]


def test_models_without_a_drafter_say_why() -> None:
    for name, model in MODELS.items():
        assert bool(model.no_drafter) != bool(model.drafters), name


def test_the_lab_pairs_share_one_drafter_file() -> None:
    big, small = (MODELS[f"qwen2.5-coder-{size}"].drafters for size in ("7b", "1.5b"))
    assert big == small
    assert (big[0].method, big[0].kind) == ("draft-simple", "model")
    assert big[0].file.repo == "ggml-org/Qwen2.5-Coder-0.5B-Q8_0-GGUF"
    assert big[0].file.revision is None, "the target's revision belongs to another repository"
    assert MODELS["gemma-4-e4b"].drafters[0].method == "draft-mtp"
    assert MODELS["qwen3.5-0.8b"].methods


def files() -> Iterator[tuple[str, str | None]]:
    for model in CATALOG.models:
        yield from ((item.file.name, item.file.sha256) for item in model.weights)
        yield from ((item.file.name, item.file.sha256) for item in model.drafters)
    for _, build in BUILDS:
        yield from ((asset.name, asset.sha256) for asset in build.assets)


def test_names_are_exact_and_no_digest_stands_for_two_names() -> None:
    seen: dict[str, str] = {}
    for name, digest in files():
        assert not re.search(r"[*?\[\]/\\]|\.\.", name)
        assert "F16" not in name, "54 GB that nobody wants"
        if digest is not None:
            assert re.fullmatch("[0-9a-f]{64}", digest), name
            assert seen.setdefault(digest, name) == name


def test_every_asset_of_the_frozen_line_is_pinned() -> None:
    for build in CATALOG.line("prism-legacy").builds:
        assert all(asset.sha256 for asset in build.assets), names(build)


def test_every_line_has_a_build_for_every_system() -> None:
    wanted = {(system, arch) for system in ("Linux", "Darwin") for arch in ("x86_64", "arm64")}
    wanted |= {("Windows", "x86_64"), ("Windows", "arm64")}
    for line in CATALOG.lines:
        if line.repo:
            assert {(build.system, build.arch) for build in line.builds} == wanted, line.name


@pytest.mark.parametrize(
    ("line", "build"), BUILDS, ids=lambda it: getattr(it, "name", None) or " ".join(names(it))
)
def test_a_build_has_what_its_system_can_unpack(line: Line, build: Build) -> None:
    ending = ".zip" if build.system == "Windows" else ".tar.gz"
    assert all(name.endswith(ending) for name in names(build))
    for name in names(build):
        assert ("arm64" in name) == (build.arch == "arm64")
        assert build.cuda is None or build.cuda in name or "cuda" not in name
    if build.system == "Linux" and build.backend == "cuda":
        runtime = any(name.startswith("cudart") for name in names(build))
        assert runtime or "no CUDA runtime" in build.note, line.name


def test_cuda_on_windows_comes_with_its_runtime() -> None:
    found = [build for _, build in BUILDS if build.system == "Windows" and build.backend == "cuda"]
    assert found
    for build in found:
        assert (
            names(build)[-1]
            == f"cudart-llama-bin-win-cuda-{build.cuda}-{'x64' if build.arch == 'x86_64' else 'arm64'}.zip"
        )


def test_plugins_of_the_frozen_line_come_after_the_program_that_they_plug_into() -> None:
    for backend, plugin in (
        ("vulkan", "llama-bin-win-vulkan-x64.zip"),
        ("rocm", "llama-bin-win-hip-radeon-x64.zip"),
    ):
        (build,) = builds("prism-legacy", "Windows", "x86_64", backend)
        assert names(build) == ["llama-bin-win-cpu-x64.zip", plugin]


def test_the_steadier_cuda_build_of_the_new_line_comes_first_on_windows() -> None:
    first, second = builds("prism", "Windows", "x86_64", "cuda")
    assert (first.cuda, first.note) == ("12.4", "")
    assert second.cuda == "13.3"
    assert "without a word" in second.note


@pytest.mark.case("B-05")
def test_only_mainline_computes_with_cuda_on_linux_arm64() -> None:
    assert builds("mainline", "Linux", "arm64", "cuda")
    assert not builds("prism", "Linux", "arm64", "cuda")
    assert not builds("prism-legacy", "Linux", "arm64", "cuda")


@pytest.mark.case("B-10")
def test_intel_macs_compute_on_the_processor() -> None:
    for line in ("mainline", "prism", "prism-legacy"):
        assert [
            it.backend for it in CATALOG.line(line).builds if (it.system, it.arch) == ("Darwin", "x86_64")
        ] == ["cpu"]


def test_what_is_said_of_mainline_is_in_its_help() -> None:
    flags, spec_types = parse_help((CAPTURED / "llama_server_b11434_help.txt").read_text(encoding="utf-8"))
    line = CATALOG.line("mainline")
    assert line.flags <= flags
    assert line.spec_types <= spec_types
    assert CATALOG.line("embedded").flags <= embedded.supported_flags()
    assert {*DRAFT_METHODS, *NGRAM_METHODS} == spec_types - {"none"}


# -- headers from facts -----------------------------------------------------------------------------------------


def test_the_expected_header_of_27b_counts_its_cache_right() -> None:
    model = MODELS["ternary 27B"]
    header = expected_header(model, model.weights[0])
    assert (header.path, header.file_bytes) == ("Ternary-Bonsai-27B-Q2_0.gguf", 7_165_121_600)
    assert kv_bytes_per_token(header) == 64 * 1024
    assert kv_bytes_per_token(header, 18 / 32) == 18 * 1024
    assert (header.layers, header.vocab_size, header.context_length) == (64, 248_320, 262_144)
    assert header.metadata["qwen35.full_attention_interval"] == 4


def test_the_expected_drafter_fits_its_target_and_no_other() -> None:
    model, other = MODELS["ternary 27B"], MODELS["ternary 8B"]
    drafter = expected_drafter(model.drafters[0])
    assert drafter.is_drafter
    assert (drafter.block_size, drafter.target_layers) == (4, (1, 16, 31, 46, 61))
    assert kv_bytes_per_token(drafter) == 6 * 4 * (128 + 128) * 2
    assert misfit(expected_header(model, model.weights[0]), drafter) is None
    assert misfit(expected_header(other, other.weights[0]), drafter) is not None


def test_what_the_catalog_does_not_know_stays_unknown() -> None:
    model = MODELS["gemma-4-e4b"]
    header = expected_header(model, model.weights[0])
    assert (header.layers, header.vocab_size, header.tensors) == (None, None, ())
    assert kv_bytes_per_token(header) is None
    assert expected_drafter(model.drafters[0]).file_bytes == 0


@pytest.mark.parametrize("model", CATALOG.models, ids=lambda model: f"{model.family} {model.name}".strip())
def test_attention_fits_the_hidden_size_where_no_head_size_is_given(model: Model) -> None:
    facts = model.facts
    if facts.head_count and facts.hidden_size and facts.key_length is None:
        assert facts.hidden_size % facts.head_count == 0
    if facts.head_count and facts.head_count_kv:
        assert facts.head_count % facts.head_count_kv == 0


def test_adding_a_model_is_adding_an_entry() -> None:
    text = (resources.files("launcher") / "catalog.toml").read_text(encoding="utf-8")
    more = (
        text
        + """
[[model]]
name = "another-1b"
label = "Another 1B"
repo = "somebody/Another-1B-GGUF"
licence = "MIT"
no_drafter = "none is published"
[model.facts]
architecture = "llama"
[[model.weights]]
name = "another-1b-Q8_0.gguf"
format = "common"
"""
    )
    assert parse(more, "more.toml").models[-1].name == "another-1b"
    assert len(tomllib.loads(more)["model"]) == len(CATALOG.models) + 1
