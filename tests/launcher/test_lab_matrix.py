"""What a lab offers for given files, engines and machines, why not the rest, and what people may write for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.errors import BadInput
from launcher.hardware.model import Gpu, Machine
from launcher.lab_matrix import cells, chosen, kinds_of, matrix, quick, refused, usable, varied
from launcher.methods import PLAIN, Method
from launcher.plan import make_plan
from launcher.resolved import Device, Resolved
from launcher.settings import resolve
from tests.plans import DRAFTER, ENGINE, MACHINE, TARGET, resolved

TYPES = frozenset(
    {"none", "draft-simple", "draft-dspark", "draft-mtp", "draft-eagle3"}
    | {"ngram-simple", "ngram-mod", "ngram-map-k", "ngram-map-k4v", "ngram-cache"}
)
FLAGS = ENGINE.flags | {"--spec-draft-p-min", "-devd", "-ngld"}
CARD = Device("CUDA0", "a card", "cuda", 2**34, 2**33)
ON_GPU = replace(ENGINE, spec_types=TYPES, flags=FLAGS, devices=(CARD,))
ON_CPU = replace(ON_GPU, devices=())
GPU_MACHINE = replace(MACHINE, gpus=(Gpu("nvidia", "a card", "cuda", total_bytes=2**34, free_bytes=2**33),))
SIBLING = replace(TARGET, path="sibling.gguf", hidden_size=64, layers=2)
WITHOUT_HEAD = replace(DRAFTER, metadata={"dflash.has_confidence_head": False})


def names(given: Resolved, machine: Machine = GPU_MACHINE) -> set[str]:
    return {method.name for method in usable(matrix(given, machine))}


def reasons(given: Resolved, machine: Machine = GPU_MACHINE) -> dict[str, str]:
    return {one.method.name: one.why for one in refused(matrix(given, machine))}


TABLES = {"ngram-cache", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-simple"}


def test_a_dspark_pair_on_a_gpu_can_do_everything_but_what_needs_other_files() -> None:
    given = resolved(engine=ON_GPU)
    lengths = {f"dspark {length}" for length in (1, 2, 3, 4)}
    places = {"dspark 4, draft on CPU", "dspark 4, draft off the GPU's memory"}
    more = {"dspark 4, p-min 0.5", "ngram-mod + dspark 4"}
    assert names(given) == {"plain"} | lengths | TABLES | places | more
    assert set(reasons(given)) == {"draft-simple", "eagle3", "mtp"}
    assert "whole model" in reasons(given)["draft-simple"]


def test_a_sibling_at_the_lengths_of_the_field() -> None:
    given = resolved(engine=ON_GPU, drafter=SIBLING)
    found = {name for name in names(given) if name.startswith("draft-simple") and "," not in name}
    assert found == {f"draft-simple {length}" for length in (2, 3, 4, 8, 16)}
    assert "ngram-mod + draft-simple 3" in names(given)
    assert "model of its own" in reasons(given)["dspark"] or reasons(given)["dspark"]


def test_on_the_processor_there_is_no_other_place_for_the_drafter() -> None:
    given = resolved(engine=ON_CPU)
    assert not any("draft on CPU" in name for name in names(given, MACHINE))
    assert "runs there anyway" in reasons(given, MACHINE)["dspark 4, draft on CPU"]


def test_a_drafter_without_a_confidence_head_takes_no_least_probability() -> None:
    given = resolved(engine=ON_GPU, drafter=WITHOUT_HEAD)
    assert "dspark 4, p-min 0.5" not in names(given)
    assert "no confidence head" in reasons(given)["dspark 4, p-min 0.5"]


def test_the_frozen_build_takes_whole_blocks_and_one_type() -> None:
    engine = replace(ON_GPU, line="prism-legacy", spec_types=frozenset({"draft-dspark", "ngram-mod"}))
    given = resolved(engine=engine, drafter=replace(DRAFTER, architecture="dspark"))
    assert {name for name in names(given) if "," not in name} == {"plain", "dspark 4", "ngram-mod"}
    assert "several types" in reasons(given)["ngram-mod + dspark 4"]


def test_what_neither_engine_nor_files_have_is_named_with_the_reason() -> None:
    bare = replace(ON_GPU, spec_types=frozenset({"none", "draft-dspark", "ngram-mod"}))
    why = reasons(resolved(engine=bare, drafter=None))
    for name in TABLES - {"ngram-mod"}:
        assert "does not offer it" in why[name]
    for name in ("dspark 3, p-min 0.5", "dspark 3, draft on CPU", "ngram-mod + dspark 3"):
        assert "needs a drafter" in why[name]


def test_an_engine_without_the_flags_says_so() -> None:
    bare = replace(ON_GPU, flags=ENGINE.flags)
    why = reasons(resolved(engine=bare))
    assert "no --spec-draft-p-min" in why["dspark 4, p-min 0.5"]
    assert "no -devd" in why["dspark 4, draft on CPU"]


def test_the_targets_own_heads_stay_where_the_target_is() -> None:
    target = replace(TARGET, metadata={"qwen3.nextn_predict_layers": 1})
    given = resolved(engine=ON_GPU, drafter=None, target=target)
    assert {"mtp 1", "mtp 2", "mtp 3", "mtp 3, p-min 0.5", "ngram-mod + mtp 3"} <= names(given)
    assert "part of the target's file" in reasons(given)["mtp 3, draft on CPU"]


def test_every_offer_makes_a_plan_of_its_own_with_a_reason_for_each_word() -> None:
    given = resolved(engine=ON_GPU)
    plans = [
        make_plan(resolve({}, {}), GPU_MACHINE, given, method)
        for method in usable(matrix(given, GPU_MACHINE))
    ]
    assert len({plan.argv for plan in plans}) == len(plans)
    for plan in plans:
        told = " ".join(reason.part for reason in plan.reasons).split(" ")
        assert all(word in told for word in plan.argv[1:])


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (Method("draft-dspark", 4, 0.5), ["--spec-draft-p-min", "0.5"]),
        (Method("draft-dspark", 4, draft_on="cpu"), ["-devd", "none"]),
        (Method("draft-dspark", 4, draft_on="ngld0"), ["-ngld", "0"]),
        (Method("ngram-mod,draft-dspark", 4), ["--spec-type", "ngram-mod,draft-dspark"]),
    ],
)
def test_the_words_for_the_engine(method: Method, words: list[str]) -> None:
    argv = make_plan(resolve({}, {}), GPU_MACHINE, resolved(engine=ON_GPU), method).argv
    assert list(argv[argv.index(words[0]) :][:2]) == words
    assert argv.count("-ngld") == (0 if method.draft_on == "cpu" else 1)
    assert "-md" in argv


def test_quick_is_plain_every_length_and_two_tables() -> None:
    offers = matrix(resolved(engine=ON_GPU), GPU_MACHINE)
    found = [method.name for method in quick(offers)]
    assert found == ["plain", "dspark 1", "dspark 2", "dspark 3", "dspark 4", "ngram-mod", "ngram-simple"]
    bare = matrix(resolved(engine=ON_GPU, drafter=None), GPU_MACHINE)
    assert [method.name for method in quick(bare)] == ["plain", "ngram-mod", "ngram-simple"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none,dspark:2", ["plain", "dspark 2"]),
        ("dspark:2", ["plain", "dspark 2"]),
        ("dspark", ["plain", "dspark 1", "dspark 2", "dspark 3", "dspark 4"]),
        ("ngram-mod+dspark:3, ngram-simple", ["plain", "ngram-mod + dspark 3", "ngram-simple"]),
        ("ngram-mod,ngram-mod", ["plain", "ngram-mod"]),
        (
            "quick",
            ["plain", "dspark 1", "dspark 2", "dspark 3", "dspark 4", "ngram-mod", "ngram-simple"],
        ),
    ],
)
def test_methods_that_a_person_names(text: str, expected: list[str]) -> None:
    found = chosen(text, resolve({}, {}), resolved(engine=ON_GPU), GPU_MACHINE)
    assert [method.name for method in found] == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("turbo", "no method"),
        ("dspark:9", "block holds 4"),
        ("draft-simple:3", "whole model"),
        ("none+dspark", "mixes plain"),
    ],
)
def test_methods_that_cannot_be_had_are_refused(text: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        chosen(text, resolve({}, {}), resolved(engine=ON_GPU), GPU_MACHINE)


def test_variants_of_what_was_named() -> None:
    methods = (PLAIN, Method("draft-dspark", 2), Method("ngram-mod"))
    found = varied(methods, (None, 0.5), (None, "cpu"), resolved(engine=ON_GPU))
    assert [method.name for method in found] == [
        "plain",
        "dspark 2",
        "dspark 2, draft on CPU",
        "dspark 2, p-min 0.5",
        "dspark 2, p-min 0.5, draft on CPU",
        "ngram-mod",
    ]


def test_kinds() -> None:
    assert kinds_of("Prose, math") == ("prose", "maths")
    assert len(kinds_of("all")) == 6
    for wrong in ("sonnet", " , "):
        with pytest.raises(BadInput):
            kinds_of(wrong)


def test_every_cell_has_its_baseline() -> None:
    made = cells(("code", "prose"), (Method("ngram-mod"),), (0.0, 1.0))
    assert len(made) == 8
    assert {cell.baseline for cell in made} <= set(made)
