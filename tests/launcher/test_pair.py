"""Drafters that fit and drafters that do not, as real files with real headers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.gguf_header import GgufHeader, TensorInfo, read_header
from launcher.pair import misfit, remedy
from launcher.practice import PracticeSize, write_pair
from launcher.practice_recipe import CONTROL, Token, make_recipe

CAPTURED = Path(__file__).parent.parent / "captured"
SHAPE = PracticeSize("tiny", 64, 4, 64, 2)
RECIPE = make_recipe()
LONGER = replace(RECIPE, tokens=(*RECIPE.tokens, *(Token(f"<|more{i}|>", CONTROL) for i in range(30))))
OTHER = replace(RECIPE, tokens=(*RECIPE.tokens[:-1], Token("<|other|>", CONTROL)))


def headers(folder: Path, **drafter: Any) -> tuple[GgufHeader, GgufHeader]:
    write_pair(folder / "target.gguf", folder / "drafter.gguf", SHAPE, **drafter)
    return read_header(folder / "target.gguf"), read_header(folder / "drafter.gguf")


@pytest.fixture(scope="module")
def fitting(tmp_path_factory: pytest.TempPathFactory) -> tuple[GgufHeader, GgufHeader]:
    return headers(tmp_path_factory.mktemp("fitting"))


def test_a_pair_that_fits(fitting: tuple[GgufHeader, GgufHeader]) -> None:
    assert misfit(*fitting) is None
    assert remedy(*fitting) == ""


@pytest.mark.parametrize(
    ("drafter", "said"),
    [
        ({"drafter_n_embd": 128}, "its hidden size is 128, but the target's is 64."),
        ({"drafter_recipe": LONGER}, "its vocabulary has {more} tokens, but the target's has {count}."),
        ({"drafter_recipe": OTHER}, "its vocabulary is as long as the target's, but the tokens differ."),
        ({"target_layers": (1, 2, 5)}, "it reads layer 5 of its target, but this target has 4 layers."),
        ({"target_layers": (5, 6)}, "it reads layer 5, 6 of its target, but this target has 4 layers."),
        ({"target_layers": (-1, 2)}, "it reads layer -1 of its target, but this target has 4 layers."),
        ({"block_size": 0}, "its block size is 0."),
        (
            {"drafter_arch": "qwen3"},
            "its architecture is qwen3, which makes it a model of its own, not a drafter.",
        ),
    ],
    ids=lambda value: str(next(iter(value))) if isinstance(value, dict) else "",
)
def test_the_part_that_does_not_fit_is_named(tmp_path: Path, drafter: dict[str, Any], said: str) -> None:
    target, found = headers(tmp_path, **drafter)
    count = target.vocab_size or 0
    assert misfit(target, found) == said.format(count=count, more=count + 30)
    assert remedy(target, found).endswith(".")


def test_the_input_of_no_layer_beyond_the_last_output_is_refused(tmp_path: Path) -> None:
    """llama.cpp takes layer n of n for the output of the last one."""
    assert misfit(*headers(tmp_path, target_layers=(0, 4))) is None


def test_a_target_is_no_drafter(fitting: tuple[GgufHeader, GgufHeader]) -> None:
    target, _ = fitting
    assert (
        misfit(target, target)
        == "its architecture is qwen3, which makes it a model of its own, not a drafter."
    )


def test_a_drafter_without_markov_head_is_not_dspark(fitting: tuple[GgufHeader, GgufHeader]) -> None:
    target, drafter = fitting
    plain = replace(drafter, tensors=tuple(t for t in drafter.tensors if "markov" not in t.name))
    assert (
        misfit(target, plain) == "it has no Markov head, so it is a plain dflash drafter, not a DSpark one."
    )
    assert "draft" in remedy(target, plain)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"target_layers": ()}, "its file does not say which layers of the target it reads."),
        ({"block_size": None}, "its file names no block size."),
    ],
)
def test_mainline_drafters_need_layers_and_block_size(
    fitting: tuple[GgufHeader, GgufHeader], changes: dict[str, Any], said: str
) -> None:
    target, drafter = fitting
    assert misfit(target, replace(drafter, **changes)) == said
    # The frozen line's files may spell the keys in ways that we do not know: not held against them.
    assert misfit(target, replace(drafter, architecture="dspark", **changes)) is None


def test_what_a_header_lacks_is_not_held_against_it(fitting: tuple[GgufHeader, GgufHeader]) -> None:
    target, _ = fitting
    assert misfit(target, read_header(CAPTURED / "arch_dspark_header.gguf")) is None
    bare = replace(target, hidden_size=None, vocab_size=None, vocab_fingerprint=None, layers=None)
    assert misfit(bare, fitting[1]) is None


def test_published_spelling_of_the_markov_head_counts(fitting: tuple[GgufHeader, GgufHeader]) -> None:
    target, drafter = fitting
    published = replace(
        drafter, architecture="dspark", tensors=(TensorInfo("dspark.markov_w1.weight", (256, 9), 3, 0),)
    )
    assert misfit(target, published) is None
