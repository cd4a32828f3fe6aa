"""The llama-server options that the embedded engine can express: names, kind of value, where it goes.

xllamacpp has parameters but no argument parser, so this table stands for one. An option that is not
in ``FLAGS`` is an error, never dropped. Missing on purpose: what xllamacpp cannot express (-dev,
--log-file), and options that fake results or open files and tools (--spec-synth-*, --tools, --path).
"""

from __future__ import annotations

from dataclasses import dataclass

from launcher import embedded_values as to
from launcher.embedded_values import Apply, Convert, FlagError, one_of, sampling, to_field

Parsed = tuple[tuple["Flag", object], ...]


@dataclass(frozen=True)
class Flag:
    """One option. ``hint`` is its value in the help, "" for a switch, which may have ``negative`` names."""

    names: tuple[str, ...]
    hint: str
    convert: Convert
    apply: Apply
    note: str
    negative: tuple[str, ...] = ()

    @property
    def all_names(self) -> tuple[str, ...]:
        """Every name that means this option, those that turn it off last."""
        return (*self.names, *self.negative)


def _val(names: str, hint: str, convert: Convert, apply: Apply | str, note: str) -> Flag:
    where = to_field(apply) if isinstance(apply, str) else apply
    return Flag(tuple(names.split()), hint, convert, where, note)


def _yes(names: str, negative: str, apply: Apply | str, note: str) -> Flag:
    where = to_field(apply) if isinstance(apply, str) else apply
    return Flag(tuple(names.split()), "", bool, where, note, tuple(negative.split()))


def _ngram(kind: str) -> tuple[Flag, ...]:
    name, field = f"--spec-ngram-{kind}", f"speculative.ngram_{kind.replace('-', '_')}"
    return (
        _val(f"{name}-size-n", "N", _to1024, f"{field}.size_n", "length of the n-gram looked up"),
        _val(f"{name}-size-m", "N", _to1024, f"{field}.size_m", "length of the draft"),
        _val(f"{name}-min-hits", "N", to.integer(1, 65535), f"{field}.min_hits", "fewest hits to draft"),
    )


def _enum(path: str, enum: str) -> Apply:
    return to_field(path, enum)


_int, _natural, _to1024 = to.integer(), to.integer(0), to.integer(1, 1024)
_cache = one_of({name: f"GGML_TYPE_{name.upper()}" for name in to.CACHE_TYPES})
_flash = one_of(
    {
        **dict.fromkeys(to.TRUE, "LLAMA_FLASH_ATTN_TYPE_ENABLED"),
        **dict.fromkeys(to.FALSE, "LLAMA_FLASH_ATTN_TYPE_DISABLED"),
        **dict.fromkeys(to.AUTO, "LLAMA_FLASH_ATTN_TYPE_AUTO"),
    }
)
_modes = {"auto": "AUTO", "none": "NONE", "mmap": "MMAP", "mlock": "MLOCK", "mmap+mlock": "MMAP_MLOCK"}
_load = one_of({name: f"LLAMA_LOAD_MODE_{member}" for name, member in {**_modes, "dio": "DIRECT_IO"}.items()})
_split = one_of({name: f"LLAMA_SPLIT_MODE_{name.upper()}" for name in ("none", "layer", "row", "tensor")})
_formats = ("none", "auto", "deepseek", "deepseek-legacy")
_format = one_of({name: "COMMON_REASONING_FORMAT_" + name.upper().replace("-", "_") for name in _formats})
_greedy = one_of({"greedy": "", "probabilistic": "1"})
_d, _m, _c = "speculative.draft", "speculative.ngram_mod", "speculative.ngram_cache"
_types = ",".join(to.SPEC_TYPES)

# fmt: off
FLAGS: tuple[Flag, ...] = (
    # the target, its context and its memory
    _val("-m --model", "FNAME", to.as_is, "model.path", "the target"),
    _val("-c --ctx-size", "N", _natural, to.apply_context, "context in tokens, 0: the model's own"),
    _val("-n --predict --n-predict", "N", _int, "n_predict", "most tokens of an answer, -1: no limit"),
    _val("-b --batch-size", "N", _int, "n_batch", "logical batch in tokens"),
    _val("-ub --ubatch-size", "N", _int, "n_ubatch", "physical batch in tokens"),
    _val("--keep", "N", _int, "n_keep", "prompt tokens kept when the context shifts"),
    _val("-t --threads", "N", to.threads, "cpuparams.n_threads", "threads for decoding"),
    _val("-tb --threads-batch", "N", to.threads, "cpuparams_batch.n_threads", "threads for prompts"),
    _val("-fa --flash-attn", "[on|off|auto]", _flash,
         _enum("flash_attn_type", "llama_flash_attn_type"), "flash attention"),
    _val("-ctk --cache-type-k", "TYPE", _cache, _enum("cache_type_k", "ggml_type"), "KV cache, K"),
    _val("-ctv --cache-type-v", "TYPE", _cache, _enum("cache_type_v", "ggml_type"), "KV cache, V"),
    _val("-lm --load-mode", "MODE", _load, _enum("load_mode", "llama_load_mode"), "how files are read"),
    _val("-ngl --gpu-layers --n-gpu-layers", "N", to.layers, "n_gpu_layers", "layers on the GPU"),
    _val("-sm --split-mode", "MODE", _split, _enum("split_mode", "llama_split_mode"), "split across GPUs"),
    _val("-mg --main-gpu", "INDEX", _int, "main_gpu", "main GPU"),
    _val("-fit --fit", "[on|off]", to.onoff, "fit_params", "fit unset arguments to device memory"),
    _val("-fitc --fit-ctx", "N", _natural, "fit_params_min_ctx", "smallest context that fitting may choose"),
    _yes("-kvo --kv-offload", "-nkvo --no-kv-offload", to.to_negated("no_kv_offload"), "KV cache on the GPU"),
    _yes("-kvu --kv-unified", "-no-kvu --no-kv-unified", "kv_unified", "one KV cache for all slots"),
    _yes("--swa-full", "", "swa_full", "full-size cache for sliding windows"),
    _yes("--warmup", "--no-warmup", "warmup", "an empty run after loading"),
    # speculation
    _val("--spec-type", _types, to.spec_types, to.apply_spec_types, "kinds of speculation, comma-separated"),
    _val("--spec-draft-model -md --model-draft", "FNAME", to.as_is, f"{_d}.mparams.path", "the drafter"),
    _val("--spec-draft-n-max", "N", _natural, f"{_d}.n_max", "draft length in tokens"),
    _val("--spec-draft-n-min", "N", _int, f"{_d}.n_min", "shortest draft worth verifying"),
    _val("--spec-draft-p-min --draft-p-min", "P", to.number, f"{_d}.p_min", "least probability drafted"),
    _val("--spec-draft-p-split --draft-p-split", "P", to.number, f"{_d}.p_split", "split probability"),
    _val("--spec-draft-sampling", "{greedy,probabilistic}", _greedy, to.apply_sampler, "of the drafter"),
    _yes("--spec-draft-backend-sampling", "--no-spec-draft-backend-sampling", f"{_d}.backend_sampling",
         "drafts sampled on the device"),
    _val("--spec-draft-ngl -ngld --gpu-layers-draft --n-gpu-layers-draft", "N", to.layers,
         f"{_d}.n_gpu_layers", "layers of the drafter on the GPU"),
    _val("--spec-draft-device -devd --device-draft", "<dev1,dev2,..>", to.as_is, to.apply_devices,
         "devices of the drafter, none: the processor"),
    _val("--spec-draft-threads -td --threads-draft", "N", to.threads, f"{_d}.cpuparams.n_threads",
         "the drafter's threads for decoding"),
    _val("--spec-draft-threads-batch -tbd --threads-batch-draft", "N", to.threads,
         f"{_d}.cpuparams_batch.n_threads", "the drafter's threads for prompts"),
    _val("--spec-draft-type-k -ctkd --cache-type-k-draft", "TYPE", _cache,
         _enum(f"{_d}.cache_type_k", "ggml_type"), "the drafter's KV cache, K"),
    _val("--spec-draft-type-v -ctvd --cache-type-v-draft", "TYPE", _cache,
         _enum(f"{_d}.cache_type_v", "ggml_type"), "the drafter's KV cache, V"),
    _val("--spec-ngram-mod-n-min", "N", to.integer(0, 1024), f"{_m}.n_min", "shortest draft of ngram-mod"),
    _val("--spec-ngram-mod-n-max", "N", to.integer(0, 1024), f"{_m}.n_max", "longest draft of ngram-mod"),
    _val("--spec-ngram-mod-n-match", "N", _to1024, f"{_m}.n_match", "length looked up by ngram-mod"),
    *_ngram("simple"),
    *_ngram("map-k"),
    *_ngram("map-k4v"),
    _val("-lcs --lookup-cache-static", "FNAME", to.as_is, f"{_c}.lookup_cache_static", "ngram-cache, read"),
    _val("-lcd --lookup-cache-dynamic", "FNAME", to.as_is, f"{_c}.lookup_cache_dynamic", "ngram-cache, kept"),
    # sampling where a request names none
    _val("--temp --temperature", "N", to.temperature, sampling("temp", "TEMP"), "temperature"),
    _val("--top-k", "N", _int, sampling("top_k", "TOP_K"), "top-k, 0: off"),
    _val("--top-p", "N", to.number, sampling("top_p", "TOP_P"), "top-p, 1: off"),
    _val("--min-p", "N", to.number, sampling("min_p", "MIN_P"), "min-p, 0: off"),
    _val("-s --seed", "SEED", to.seed, "sampling.seed", "seed, -1: random"),
    _val("--repeat-penalty", "N", to.positive, sampling("penalty_repeat", "PENALTY_REPEAT"), "1: off"),
    _val("--presence-penalty", "N", to.number, "sampling.penalty_present", "0: off"),
    _val("--frequency-penalty", "N", to.number, "sampling.penalty_freq", "0: off"),
    _yes("--ignore-eos", "", "sampling.ignore_eos", "go on after an answer's end"),
    # the chat
    _yes("--jinja", "--no-jinja", "use_jinja", "chat templates in full"),
    _val("--chat-template", "JINJA_TEMPLATE", to.as_is, "chat_template", "another chat template"),
    _val("--chat-template-file", "FNAME", to.read, "chat_template", "another chat template, from a file"),
    _val("--chat-template-kwargs", "STRING", to.json_object, to.apply_template_words, "a JSON object for it"),
    _val("--reasoning-format", "FORMAT", _format, _enum("reasoning_format", "common_reasoning_format"),
         "none, deepseek, deepseek-legacy or auto"),
    _val("-rea --reasoning", "[on|off|auto]", to.onoffauto, to.apply_reasoning, "thinking"),
    _val("--reasoning-budget", "N", to.integer(-1), "sampling.reasoning_budget_tokens", "-1: no limit"),
    _val("--reasoning-budget-message", "MESSAGE", to.as_is, "sampling.reasoning_budget_message", "said then"),
    _yes("--reasoning-preserve", "--no-reasoning-preserve", to.apply_preserve, "keep earlier thoughts"),
    # the server
    _val("--host", "HOST", to.hosts, "hostnames", "addresses to listen on"),
    _val("--port", "PORT", to.integer(0, 65535), "port", "port to listen on"),
    _val("-np --parallel", "N", to.slots, "n_parallel", "slots, -1: automatic"),
    _yes("-cb --cont-batching", "-nocb --no-cont-batching", "cont_batching", "continuous batching"),
    _val("-a --alias", "STRING", to.words, to.apply_alias, "names of the model in the API"),
    _val("--api-key", "KEY", to.words, to.apply_keys, "keys, comma-separated"),
    _val("--api-key-file", "FNAME", to.key_file, to.apply_keys, "a file with one key a line"),
    _val("--api-prefix", "PREFIX", to.as_is, "api_prefix", "prefix of every path"),
    _val("--cors-origins", "ORIGINS", to.as_is, to.apply_cors, "who may read answers"),
    _yes("--ui --webui", "--no-ui --no-webui", "ui", "llama-server's own page"),
    _yes("--metrics", "", "endpoint_metrics", "GET /metrics"),
    _yes("--props", "", "endpoint_props", "POST /props"),
    _yes("--slots", "--no-slots", "endpoint_slots", "GET /slots"),
    _yes("--cache-prompt", "--no-cache-prompt", "cache_prompt", "reuse of what a prompt begins with"),
    _val("--cache-reuse", "N", _int, "n_cache_reuse", "least chunk to reuse by shifting"),
    _val("-cram --cache-ram", "N", _int, "cache_ram_mib", "prompt cache in MiB, 0: none"),
    _yes("--cache-idle-slots", "--no-cache-idle-slots", "cache_idle_slots", "idle slots go to that cache"),
    _val("-ctxcp --ctx-checkpoints --swa-checkpoints", "N", _int, "n_ctx_checkpoints", "checkpoints a slot"),
    _val("-cms --checkpoint-min-step", "N", _natural, "checkpoint_min_step", "tokens between checkpoints"),
    _yes("--context-shift", "--no-context-shift", "ctx_shift", "drop the oldest tokens when full"),
    _val("-sps --slot-prompt-similarity", "SIMILARITY", to.number, "slot_prompt_similarity", "to reuse one"),
    _val("-to --timeout", "N", _int, to.apply_timeout, "read and write time-out in seconds"),
    _val("--sse-ping-interval", "N", _int, "sse_ping_interval", "seconds between pings"),
    _val("--threads-http", "N", _int, "n_threads_http", "threads for requests"),
    _val("--sleep-idle-seconds", "SECONDS", to.integer(-1), "sleep_idle_seconds", "unload when idle"),
    _val("-lv --verbosity --log-verbosity", "N", _int, "verbosity", "0 to 5"),
)
# fmt: on

_BY_NAME = {name: (flag, name not in flag.negative) for flag in FLAGS for name in flag.all_names}


def parse(argv: list[str]) -> Parsed:
    """The options of a llama-server command line, in order, with their values.

    Raises FlagError with llama-server's own words for an unknown option, a missing or a bad value.
    """
    found: list[tuple[Flag, object]] = []
    words = iter(argv)
    for word in words:
        to.check_utf8(word)
        # llama-server takes --ctx_size for --ctx-size.
        name = word.replace("_", "-") if word.startswith("--") else word
        if name not in _BY_NAME:
            raise FlagError(f"error: invalid argument: {name}")
        flag, positive = _BY_NAME[name]
        if not flag.hint:
            found.append((flag, positive))
            continue
        text = next(words, None)
        try:
            if text is None:
                raise FlagError("expected value for argument")
            to.check_utf8(text)
            found.append((flag, flag.convert(text)))
        except FlagError as error:
            usage = f"{', '.join(flag.names)} {flag.hint}"
            raise FlagError(f'error while handling argument "{name}": {error}\n\nusage:\n{usage}') from None
    return tuple(found)


def help_text() -> str:
    """The table in the form of ``llama-server --help``."""
    lines = []
    for flag in FLAGS:
        left = f"{', '.join(flag.all_names)} {flag.hint}".rstrip()
        lines.append(f"{left:<39} {flag.note}" if len(left) < 40 else f"{left}\n{'':<40}{flag.note}")
    return "\n".join(lines)
