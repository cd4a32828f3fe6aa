"""The set of prompts: complete, distinct, and of the kind that it says, for the practice pair too."""

from __future__ import annotations

import pytest

from launcher.errors import BadInput
from launcher.practice_recipe import kind_of
from launcher.practice_texts import REWRITE_INPUT
from launcher.race_prompts import ALIASES, KINDS, LANGUAGES, prompt, whole_set

EVERY = [(kind, language) for kind in KINDS for language in LANGUAGES]


@pytest.mark.parametrize(("kind", "language"), EVERY)
def test_the_practice_pair_answers_with_the_same_kind(kind: str, language: str) -> None:
    assert kind_of(prompt(kind, language).text) == kind


def test_all_kinds_in_all_languages_and_none_twice() -> None:
    texts = [prompt(*which).text for which in EVERY]
    assert len(set(texts)) == len(KINDS) * len(LANGUAGES) == 18
    assert all(len(text) > 80 for text in texts)


@pytest.mark.parametrize("language", LANGUAGES)
def test_rewriting_brings_a_long_input(language: str) -> None:
    assert REWRITE_INPUT.strip() in prompt("rewrite", language).text


def test_the_set_has_one_of_each_kind() -> None:
    assert [(made.kind, made.language) for made in whole_set("it")] == [(kind, "it") for kind in KINDS]


@pytest.mark.parametrize(("alias", "kind"), ALIASES.items())
def test_other_names(alias: str, kind: str) -> None:
    assert prompt(f" {alias.upper()} ").kind == kind


@pytest.mark.parametrize(("kind", "language"), [("sonnet", "en"), ("code", "xx"), ("", "en")])
def test_what_there_is_not_is_refused(kind: str, language: str) -> None:
    with pytest.raises(BadInput):
        prompt(kind, language)
