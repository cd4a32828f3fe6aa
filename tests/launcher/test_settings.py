"""Settings: who wins, what is refused, and that every refusal names the place and the nearest name."""

from __future__ import annotations

import pytest

from launcher.errors import SettingsError
from launcher.settings import SPECS, resolve, table_markdown


def test_defaults_keep_speculation_off_and_the_model_open() -> None:
    settings = resolve({}, {})
    assert settings.speculative.value is False
    assert settings.model.value == "auto"
    assert not settings.model.asked
    assert settings.notices == ()


def test_flag_wins_over_variable_wins_over_file() -> None:
    file = 'ctx = 1024\nport = 1\nspec_nmax = "2"\n'
    settings = resolve({"ctx": "4096"}, {"BONSAI_CTX": "2048", "BONSAI_PORT": "2"}, file, "config.toml")
    assert (settings.ctx.value, settings.ctx.source) == (4096, "--ctx")
    assert (settings.port.value, settings.port.source) == (2, "BONSAI_PORT")
    assert (settings.spec_nmax.value, settings.spec_nmax.source) == (2, "config.toml, line 3")


def test_empty_variable_counts_as_unset() -> None:
    assert resolve({}, {"BONSAI_CTX": ""}).ctx.source == "default"


@pytest.mark.parametrize("word", ["1", "true", "YES", "On", " on "])
def test_truth_words(word: str) -> None:
    assert resolve({}, {"BONSAI_SPECULATIVE": word}).speculative.value is True


@pytest.mark.parametrize("word", ["0", "False", "no", "OFF"])
def test_false_words(word: str) -> None:
    assert resolve({}, {"BONSAI_SPECULATIVE": word}).speculative.value is False


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"BONSAI_SPECULATIVE": "maybe"}, ["BONSAI_SPECULATIVE", "'maybe'", "true/false"]),
        ({"BONSAI_SPECULATVE": "1"}, ["BONSAI_SPECULATVE", "Did you mean BONSAI_SPECULATIVE?"]),
        ({"BONSAI_CTX": "16k"}, ["BONSAI_CTX", "'16k'", "whole number"]),
        ({"BONSAI_CTX": "-1"}, ["BONSAI_CTX", "from 0"]),
        ({"BONSAI_CTX": "٣"}, ["BONSAI_CTX"]),
        ({"BONSAI_PORT": "70000"}, ["BONSAI_PORT", "65535"]),
        ({"BONSAI_MODEL": "27\x07B"}, ["BONSAI_MODEL", "control"]),
        ({"BONSAI_FAMILY": "oak"}, ["BONSAI_FAMILY", "ternary"]),
        ({"BONSAI_HOST": "0.0.0.0"}, ["BONSAI_HOST", "BONSAI_ALLOW_REMOTE=1"]),
        ({"BONSAI_LLAMA_SERVER": "a\x00b"}, ["BONSAI_LLAMA_SERVER", "control"]),
    ],
)
def test_bad_environment_is_one_sentence_with_the_name(env: dict[str, str], words: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        resolve({}, env)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ctx = 1\nspeculativ = true\n", ["line 2", "speculativ", "Did you mean speculative?"]),
        ("ctx = 1\nport = 'x'\n", ["config.toml, line 2: port is 'x'", "whole number"]),
        ("ctx = 1\nport 8080\n", ["config.toml", "line 2"]),
        ("[ctx]\na = 1\n", ["line 1", "ctx", "text, a number or true/false"]),
        ("ctx = [1]\n", ["line 1", "ctx"]),
    ],
)
def test_bad_config_names_line_and_key(text: str, words: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        resolve({}, {}, text, "config.toml")
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_config_booleans_and_numbers() -> None:
    settings = resolve({}, {}, "speculative = true\nui_port = 9\n")
    assert settings.speculative.value is True
    assert settings.ui_port.value == 9


def test_image_variables_are_known_and_answered_with_a_notice() -> None:
    settings = resolve({}, {"BONSAI_IMAGE_MAX_TOKENS": "5"})
    assert "images are not supported yet" in settings.notices[0]


def test_secret_is_never_shown() -> None:
    settings = resolve({}, {"HF_TOKEN": "hf_secret"})
    assert settings.token.value == "hf_secret"
    assert "hf_secret" not in str(settings.rows())
    with pytest.raises(SettingsError) as caught:
        resolve({}, {"BONSAI_TOKEN": "hf_secret\x01"})
    assert "hf_secret" not in str(caught.value)


def test_every_setting_stands_in_the_table() -> None:
    table = table_markdown()
    assert all(f"`{spec.env}`" in table for spec in SPECS)


def test_models_in_any_case_and_paths_as_they_are() -> None:
    assert resolve({}, {"BONSAI_MODEL": "Practice-LARGE"}).model.value == "practice-large"
    assert resolve({}, {"BONSAI_MODEL": "a/B.gguf"}).model.value == "a/B.gguf"
