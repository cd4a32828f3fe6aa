"""Every option of the table is llama-server's, and does to the parameters what it should."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from launcher.embedded import configured, supported_flags, supported_spec_types
from launcher.embedded_flags import FLAGS, help_text, parse
from launcher.embedded_values import CACHE_TYPES, NO_CONTEXT_FITTING, FlagError
from launcher.engine_probe import parse_help

HELP = (Path(__file__).resolve().parents[1] / "captured/llama_server_b11434_help.txt").read_text(
    encoding="utf-8"
)
CORES = os.cpu_count() or 1
D, S = "speculative.draft", "sampling"

# option and value | where it goes | what must stand there (a string is an enum member's name)
EFFECTS: list[tuple[str, str, object]] = [
    ("-m a.gguf", "model.path", "a.gguf"),
    ("-c 4096", "n_ctx", 4096),
    ("-c 0", "fit_params_min_ctx", NO_CONTEXT_FITTING),
    ("-n 7", "n_predict", 7),
    ("-b 64", "n_batch", 64),
    ("-ub 32", "n_ubatch", 32),
    ("--keep -1", "n_keep", -1),
    ("-t 3", "cpuparams.n_threads", 3),
    ("-t 0", "cpuparams.n_threads", CORES),
    ("-tb 5", "cpuparams_batch.n_threads", 5),
    ("-fa on", "flash_attn_type", "LLAMA_FLASH_ATTN_TYPE_ENABLED"),
    ("-fa 0", "flash_attn_type", "LLAMA_FLASH_ATTN_TYPE_DISABLED"),
    ("-ctk q4_0", "cache_type_k", "GGML_TYPE_Q4_0"),
    ("-ctv iq4_nl", "cache_type_v", "GGML_TYPE_IQ4_NL"),
    ("-lm mmap+mlock", "load_mode", "LLAMA_LOAD_MODE_MMAP_MLOCK"),
    ("-lm dio", "load_mode", "LLAMA_LOAD_MODE_DIRECT_IO"),
    ("-ngl 999", "n_gpu_layers", 999),
    ("-ngl all", "n_gpu_layers", -2),
    ("-sm none", "split_mode", "LLAMA_SPLIT_MODE_NONE"),
    ("-mg 1", "main_gpu", 1),
    ("-fit off", "fit_params", False),
    ("-fitc 2048", "fit_params_min_ctx", 2048),
    ("-nkvo", "no_kv_offload", True),
    ("-kvu", "kv_unified", True),
    ("--swa-full", "swa_full", True),
    ("--no-warmup", "warmup", False),
    ("-md d.gguf", f"{D}.mparams.path", "d.gguf"),
    ("--spec-draft-n-max 4", f"{D}.n_max", 4),
    ("--spec-draft-n-min 2", f"{D}.n_min", 2),
    ("--spec-draft-p-min 0.5", f"{D}.p_min", 0.5),
    ("--spec-draft-p-split 0.25", f"{D}.p_split", 0.25),
    ("--spec-draft-sampling probabilistic", f"{D}.probabilistic", True),
    ("--no-spec-draft-backend-sampling", f"{D}.backend_sampling", False),
    ("-ngld 5", f"{D}.n_gpu_layers", 5),
    ("-td 2", f"{D}.cpuparams.n_threads", 2),
    ("-tbd 2", f"{D}.cpuparams_batch.n_threads", 2),
    ("-ctkd q8_0", f"{D}.cache_type_k", "GGML_TYPE_Q8_0"),
    ("-ctvd bf16", f"{D}.cache_type_v", "GGML_TYPE_BF16"),
    ("--spec-ngram-mod-n-min 8", "speculative.ngram_mod.n_min", 8),
    ("--spec-ngram-mod-n-max 9", "speculative.ngram_mod.n_max", 9),
    ("--spec-ngram-mod-n-match 10", "speculative.ngram_mod.n_match", 10),
    ("--spec-ngram-simple-size-n 3", "speculative.ngram_simple.size_n", 3),
    ("--spec-ngram-simple-size-m 4", "speculative.ngram_simple.size_m", 4),
    ("--spec-ngram-simple-min-hits 5", "speculative.ngram_simple.min_hits", 5),
    ("--spec-ngram-map-k-size-n 3", "speculative.ngram_map_k.size_n", 3),
    ("--spec-ngram-map-k-size-m 4", "speculative.ngram_map_k.size_m", 4),
    ("--spec-ngram-map-k-min-hits 5", "speculative.ngram_map_k.min_hits", 5),
    ("--spec-ngram-map-k4v-size-n 3", "speculative.ngram_map_k4v.size_n", 3),
    ("--spec-ngram-map-k4v-size-m 4", "speculative.ngram_map_k4v.size_m", 4),
    ("--spec-ngram-map-k4v-min-hits 5", "speculative.ngram_map_k4v.min_hits", 5),
    ("-lcs s.bin", "speculative.ngram_cache.lookup_cache_static", "s.bin"),
    ("-lcd d.bin", "speculative.ngram_cache.lookup_cache_dynamic", "d.bin"),
    ("--temp 0.25", f"{S}.temp", 0.25),
    ("--temp -3", f"{S}.temp", 0.0),
    ("--temp 0.7", f"{S}.user_sampling_config", 64),
    ("--top-k 20", f"{S}.top_k", 20),
    ("--top-p 0.5", f"{S}.top_p", 0.5),
    ("--min-p 0", f"{S}.min_p", 0.0),
    ("--top-k 20 --top-p 0.5 --min-p 0", f"{S}.user_sampling_config", 2 + 4 + 8),
    ("-s 42", f"{S}.seed", 42),
    ("--repeat-penalty 1.5", f"{S}.penalty_repeat", 1.5),
    ("--presence-penalty 0.5", f"{S}.penalty_present", 0.5),
    ("--frequency-penalty 0.5", f"{S}.penalty_freq", 0.5),
    ("--ignore-eos", f"{S}.ignore_eos", True),
    ("--no-jinja", "use_jinja", False),
    ("--chat-template chatml", "chat_template", "chatml"),
    ("--chat-template-kwargs {\"a\":1}", "default_template_kwargs", {"preserve_reasoning": "true", "a": "1"}),
    ("--reasoning-format deepseek-legacy", "reasoning_format", "COMMON_REASONING_FORMAT_DEEPSEEK_LEGACY"),
    ("-rea off", "enable_reasoning", 0),
    ("-rea on", "default_template_kwargs", {"preserve_reasoning": "true", "enable_thinking": "true"}),
    ("--reasoning-budget 100", f"{S}.reasoning_budget_tokens", 100),
    ("--reasoning-budget-message done", f"{S}.reasoning_budget_message", "done"),
    ("--no-reasoning-preserve", "default_template_kwargs", {"preserve_reasoning": "false"}),
    ("--host 127.0.0.1,::1", "hostnames", ["127.0.0.1", "::1"]),
    ("--port 8123", "port", 8123),
    ("-np 2", "n_parallel", 2),
    ("-nocb", "cont_batching", False),
    ("-a bonsai,27b", "model_alias", {"bonsai", "27b"}),
    ("--api-key one,two", "api_keys", ["one", "two"]),
    ("--api-prefix /v", "api_prefix", "/v"),
    ("--cors-origins localhost", "cors_origins", "localhost"),
    ("--cors-origins localhost", "cors_origins_explicit", True),
    ("--no-webui", "ui", False),
    ("--metrics", "endpoint_metrics", True),
    ("--props", "endpoint_props", True),
    ("--no-slots", "endpoint_slots", False),
    ("--no-cache-prompt", "cache_prompt", False),
    ("--cache-reuse 256", "n_cache_reuse", 256),
    ("--cache-ram 0", "cache_ram_mib", 0),
    ("--no-cache-idle-slots", "cache_idle_slots", False),
    ("--ctx-checkpoints 4", "n_ctx_checkpoints", 4),
    ("--checkpoint-min-step 16", "checkpoint_min_step", 16),
    ("--context-shift", "ctx_shift", True),
    ("-sps 0.5", "slot_prompt_similarity", 0.5),
    ("-to 30", "timeout_read", 30),
    ("-to 30", "timeout_write", 30),
    ("--sse-ping-interval 5", "sse_ping_interval", 5),
    ("--threads-http 3", "n_threads_http", 3),
    ("--sleep-idle-seconds 60", "sleep_idle_seconds", 60),
    ("-lv 5", "verbosity", 5),
]  # fmt: skip
# Tested apart: a file, the list of kinds, a device that must exist.
ELSEWHERE = {"--api-key-file", "--chat-template-file", "--spec-type", "--spec-draft-device"}


@pytest.fixture(scope="module")
def wheel() -> Any:
    return pytest.importorskip("xllamacpp", reason="no embedded engine on this platform")


def value_at(params: Any, path: str) -> Any:
    for name in path.split("."):
        params = getattr(params, name)
    return params


@pytest.mark.parametrize(("words", "path", "expected"), EFFECTS, ids=[words for words, _, _ in EFFECTS])
def test_effect(wheel: Any, words: str, path: str, expected: object) -> None:
    argv = words.split(" ")
    found = value_at(configured(wheel, parse(argv)), path)
    default = value_at(configured(wheel, parse(["-np", "1"])), path)
    assert getattr(found, "name", found) == expected
    assert getattr(default, "name", default) != expected, "the default already is that value"


def test_every_option_has_a_test() -> None:
    tested = {word for words, _, _ in EFFECTS for word in words.split(" ")}
    assert [flag.names[0] for flag in FLAGS if not {*flag.all_names} & (tested | ELSEWHERE)] == []


def test_every_option_is_llama_servers_and_each_name_stands_once() -> None:
    names = [name for flag in FLAGS for name in flag.all_names]
    assert len(names) == len(set(names))
    assert set(names) - parse_help(HELP)[0] == set()


def test_own_help_reads_like_llama_servers() -> None:
    assert parse_help(help_text()) == (supported_flags(), supported_spec_types())


def test_kinds_of_speculation_are_those_of_the_help_and_the_wheel(wheel: Any) -> None:
    members = {member.name for member in wheel.common_speculative_type}
    in_wheel = {name.removeprefix("COMMON_SPECULATIVE_TYPE_").lower().replace("_", "-") for name in members}
    assert supported_spec_types() == in_wheel - {"count"} == parse_help(HELP)[1]


def test_cache_types_are_those_of_the_help(wheel: Any) -> None:
    allowed = re.search(r"--cache-type-k TYPE.*?allowed values: ([\w, ]+)", HELP, re.DOTALL)
    assert allowed
    assert set(CACHE_TYPES) == set(allowed[1].split(", "))
    assert all(hasattr(wheel.ggml_type, f"GGML_TYPE_{name.upper()}") for name in CACHE_TYPES)


def test_spec_type_takes_lists_and_adds_up(wheel: Any) -> None:
    params = configured(
        wheel, parse(["--spec-type", "draft-dspark,ngram-mod", "--spec-type", "ngram-simple"])
    )
    kinds = [kind.name.removeprefix("COMMON_SPECULATIVE_TYPE_") for kind in params.speculative.types]
    assert kinds == ["NONE", "DRAFT_DSPARK", "NGRAM_MOD", "NGRAM_SIMPLE"]


def test_a_device_must_exist(wheel: Any) -> None:
    configured(wheel, parse(["-devd", "none"]))
    with pytest.raises(FlagError, match="invalid device: NPU9"):
        configured(wheel, parse(["-devd", "NPU9"]))


def test_defaults_are_llama_servers(wheel: Any) -> None:
    params = configured(wheel, ())
    assert (params.port, params.hostnames, params.n_ctx) == (8080, ["127.0.0.1"], 0)
    assert (params.n_parallel, params.kv_unified) == (4, True)
    assert params.default_template_kwargs == {"preserve_reasoning": "true"}
    fixed = configured(wheel, parse(["-np", "1"]))
    assert (fixed.n_parallel, fixed.kv_unified) == (1, False)


def test_keys_and_template_from_files(wheel: Any, tmp_path: Path) -> None:
    keys, template = tmp_path / "kéys", tmp_path / "t.jinja"
    keys.write_text("# a comment\nfirst\n\nsecond\n", encoding="utf-8")
    template.write_text("{{ messages }}é", encoding="utf-8")
    argv = ["--api-key", "zero", "--api-key-file", str(keys), "--chat-template-file", str(template)]
    params = configured(wheel, parse(argv))
    assert params.api_keys == ["zero", "first", "second"]
    assert params.chat_template == "{{ messages }}é"


def test_seed_of_minus_one_is_llama_servers_word_for_random(wheel: Any) -> None:
    assert parse(["-s", "-1"])[0][1] == wheel.LLAMA_DEFAULT_SEED


def test_underscores_in_long_names_are_taken_as_llama_server_does() -> None:
    assert parse(["--ctx_size", "5"])[0][1] == 5
    with pytest.raises(FlagError):
        parse(["-n_gpu", "5"])


UNKNOWN = [
    "--foo",
    "--draft-max",
    "--mlock",
    "--tools",
    "--spec-synth-len",
    "model.gguf",
    "",
    "--ctx-size=4096",
]


@pytest.mark.parametrize("word", UNKNOWN)
def test_unknown_option(word: str) -> None:
    with pytest.raises(FlagError, match=f"^error: invalid argument: {re.escape(word)}$"):
        parse(["-c", "4096", word, "4"])


@pytest.mark.parametrize("argv", [["-m", "caf\udce9.gguf"], ["caf\udce9.gguf"]])
def test_words_that_are_no_text(argv: list[str]) -> None:
    with pytest.raises(FlagError, match=r"error: not UTF-8: 'caf\\udce9.gguf'"):
        parse(argv)


BAD_VALUES = """-c many|-c 4096.5|-c 12abc|-c -1|-c 99999999999|-fa maybe|-ctk q9_9|-ngl some|-np 0|-np
--port 65536|--port -1|--spec-type dspark|--spec-type draft-dspark,|--spec-draft-n-max -1|--spec-draft-n-max
--temp hot|--temp 1e39|--spec-ngram-simple-min-hits 65536
--temp nan|--top-p inf|--repeat-penalty 0|-s -2|-s 4294967296|-fit auto|--reasoning-format xml
--reasoning-budget -2|--chat-template-kwargs [1]|--chat-template-kwargs {|--api-key-file /nowhere/key|-lm fast
--spec-ngram-mod-n-match 0|--spec-ngram-mod-n-max 1025|-rea perhaps|--host ,|-t two|--spec-draft-sampling any"""


@pytest.mark.parametrize("words", BAD_VALUES.replace("\n", "|").split("|"))
def test_bad_value(words: str) -> None:
    option = words.split(" ", maxsplit=1)[0]
    with pytest.raises(FlagError, match=f'^error while handling argument "{option}": ') as caught:
        parse(words.split(" "))
    assert "\n\nusage:\n" in str(caught.value)
