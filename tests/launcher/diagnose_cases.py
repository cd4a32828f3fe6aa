"""Ways for an engine to end, and the cause that has to be found: logs of this folder's ``captured`` and single lines."""

from __future__ import annotations

from pathlib import Path

from launcher.supervise.diagnose import Diagnosis

LOGS = Path(__file__).parents[1] / "captured" / "logs"
WINDOWS = {"ILLEGAL": 0xC000001D, "NO_DLL": 0xC0000135, "ABORT": 0xC0000409, "ACCESS": 0xC0000005}

# What llama-server b11434 (CPU build) really wrote and how it ended, run once in each of these ways.
CAPTURED = {
    "unknown_flag": (1, "unknown-flag", "--no-such-flag"),
    "removed_flag": (1, "unknown-flag", "--draft-max"),
    "unknown_spec": (1, "unknown-flag", "draft-nonsense"),
    "bad_value": (1, "bad-value", "-c"),
    "missing_model": (1, "missing-file", "none.gguf (No such file or directory)"),
    "web_page": (1, "corrupt-file", "page.gguf begins with '<!DO'"),
    "empty_model": (1, "corrupt-file", "empty.gguf"),
    "truncated": (1, "corrupt-file", "cut.gguf"),
    "truncated_header": (1, "corrupt-file", "cuthead.gguf"),
    "dspark_target": (1, "unknown-architecture", "is a drafter"),
    "type_142": (1, "unknown-type", "type 142"),
    "offset_mismatch": (1, "legacy-q2_0", "another build"),
    "port_taken": (1, "port", "Port 34087 on 127.0.0.1"),
    "bad_host": (1, "port", "10.255.255.1"),
    "memory_kv": (1, "ram", "320 MiB could not be had"),
    "memory_ggml_context": (-6, "ram", "19.73 MB"),
    "memory_backtrace": (-6, "ram", "19.73 MB"),
    "killed": (-9, "ram", "SIGKILL"),
    "aborted": (-6, "assert", "SIGABRT"),
    "segfault": (-11, "segfault", "SIGSEGV"),
    "illegal": (-4, "old-cpu", "newer processor"),
    "terminated": (0, "ended", "exit code 0"),
    "context": (0, "ended", "exit code 0"),
    "file_cut_while_mapped": (-7, "file-lost", "SIGBUS"),
    "dflash_target": (-11, "segfault", "before it wrote a line"),
    "loader_libcudart": (127, "missing-library", "libcudart.so.12"),
    "loader_version": (1, "old-system", "V_2.38"),
}
CAPTURED_WITH_DRAFTER = {
    "dspark_drafter": (1, "drafter-architecture", "dspark"),
    "offset_drafter": (1, "drafter-architecture", "blk.1.attn_norm.weight"),
    "ordinary_drafter": (-6, "drafter-misfit", "no target_layer_ids"),
    "hidden_size": (-6, "drafter-misfit", "1536 instead of 2304"),
    "drafter_mtp": (1, "drafter-misfit", "failed to create MTP context"),
    "page_drafter": (1, "corrupt-file", "The drafter is not a GGUF file: page.gguf"),
    "cut_drafter": (1, "corrupt-file", "The drafter is cut off"),
}
# Made from public reports and the message texts of the sources: what cannot be met on this machine.
COMPOSED = {
    "cuda_oom_weights": (1, "gpu-memory", "6822.71 MiB could not be had on device 0", "Linux"),
    "cuda_oom_request": (-6, "gpu-memory", "CUDA error: out of memory", "Linux"),
    "vulkan_oom": (1, "gpu-memory", "3776 MiB could not be had", "Windows"),
    "vulkan_device_lost": (-6, "gpu-lost", "DeviceLostError", "Linux"),
    "old_driver": (1, "old-driver", "insufficient", "Linux"),
    "forward_compatibility": (1, "old-driver", "forward compatibility", "Linux"),
    "no_kernel_image": (-6, "old-gpu", "no kernel image", "Linux"),
    "metal_shader": (-6, "metal-shader", "command buffer 0 failed", "Darwin"),
    "metal_library": (1, "metal-shader", "failed to initialize the Metal library", "Darwin"),
    "metal_oom": (-6, "metal-oom", "OutOfMemory", "Darwin"),
    "legacy_q2_0": (1, "legacy-q2_0", "337715200", "Linux"),
    "legacy_q2_0_fork": (1, "legacy-q2_0", "groups of 128", "Linux"),
    "no_cpu_backend": (1, "no-backend", "no CPU backend", "Windows"),
    "glibc": (1, "old-system", "GLIBC_2.38", "Linux"),
    "dyld_missing": (-6, "missing-library", "libllama.0.dylib", "Darwin"),
    "dyld_policy": (-6, "blocked", "libggml.0.dylib", "Darwin"),
    "dyld_symbol": (-6, "old-system", "needs macOS 15.0", "Darwin"),
    "bad_alloc": (-6, "ram", "std::bad_alloc", "Linux"),
}
COMPOSED_WITH_DRAFTER = {
    "cuda_oom_drafter": (1, "gpu-memory", "for the drafter: 1024.00 MiB", "Linux"),
    "fit_invalid_subscript": (1, "gpu-memory", "invalid vector subscript", "Windows"),
    "dspark_offset": (1, "drafter-architecture", "dspark.fc.weight", "Linux"),
    "drafter_tensors": (1, "drafter-misfit", "expected 79, got 75", "Linux"),
    "drafter_block_assert": (-6, "drafter-block", "n_max == block_size", "Linux"),
}
LOADER = "x: error while loading shared libraries"
MLOCK = (
    "warning: failed to mlock 1048576-byte buffer (after previously locking 0 bytes): Cannot allocate memory"
)
FIT = "failed to fit params to free device memory: n_gpu_layers already set by user to 90, abort"
# Not in a log that is kept: one line, or no line at all.
INLINE = [
    ("", "Windows", WINDOWS["NO_DLL"], "missing-library"),
    ("", "Windows", WINDOWS["ILLEGAL"], "old-cpu"),
    ("", "Windows", WINDOWS["ILLEGAL"] - (1 << 32), "old-cpu"),
    ("", "Windows", WINDOWS["ABORT"], "assert"),
    ("loading", "Windows", WINDOWS["ACCESS"], "segfault"),
    ("", "Windows", 0xC0000428, "blocked"),
    ("", "Windows", 0xC000012D, "ram"),
    ("", "Windows", 0xC000013A, "ended"),
    ("", "Darwin", -9, "blocked"),
    ("ggml_metal_init: found device: Apple M3", "Darwin", -9, "ram"),
    ("", "Linux", -9, "ram"),
    ("", "Linux", 137, "ram"),
    ("", "Linux", 132, "old-cpu"),
    ("", "Linux", 139, "segfault"),
    ("", "Linux", 127, "missing-library"),
    ("", "Linux", 126, "blocked"),
    ("", "Linux", -15, "ended"),
    ("", "Linux", -1, "ended"),
    ("", "Darwin", -10, "file-lost"),
    ("loading", "Linux", None, "stood-still"),
    ("0.00.529.262 I srv    operator(): operator(): cleaning up before exit...", "Linux", None, "ended"),
    ("cudart64_12.dll was not found", "Windows", 1, "missing-library"),
    ("error: unknown argument: --spec-type", "Linux", 1, "unknown-flag"),
    ("couldn't bind to server socket: hostname=127.0.0.1 port=8080", "Linux", 1, "port"),
    ("bind: Address already in use", "Linux", 1, "port"),
    (r"error: invalid argument: LLMS\model.gguf", "Windows", 1, "unknown-flag"),
    (f"{LOADER}: libgomp.so.1: cannot open shared object file", "Linux", 127, "missing-library"),
    (f"{LOADER}: liba.so: failed to map segment from shared object", "Linux", 127, "blocked"),
    (f"{LOADER}: liba.so: file too short", "Linux", 127, "missing-library"),
    (MLOCK, "Linux", 1, "ram"),
    (FIT, "Linux", 1, "gpu-memory"),
    ("llama_model_load: error loading model: unable to allocate CPU buffer", "Linux", 1, "ram"),
    ("ggml_gallocr_reserve_n_impl: failed to allocate ROCm0 buffer of size 1024", "Linux", 1, "gpu-memory"),
    ("dyld[1]: Symbol not found: _objc_x", "Darwin", -6, "old-system"),
    ("read error: Input/output error", "Linux", 1, "corrupt-file"),
    ("srv load_model: failed to create_context with model 'm.gguf'", "Linux", 1, "context"),
    ("something that nobody has seen", "Linux", 3, "unknown"),
]  # fmt: skip
# Enough to meet the rows that no log above meets.
EXTRA = (
    ("llama_model_loader: unknown type 143\nerror loading model", False),
    ("llama_model_load: error loading model: missing tensor 'blk.0.x'", False),
    ("llama_model_load: error loading model: unknown model architecture: 'newthing'", False),
    ("GGML_ASSERT(x > 0) failed", False),
    ("GGML_ASSERT(x > 0) failed", True),
    ("srv load_model: failed to load draft model, 'd.gguf'", True),
)


def log(name: str) -> str:
    return (LOGS / f"{name}.log").read_text(encoding="utf-8")


def check(found: Diagnosis, cause: str, said: str) -> None:
    assert found.cause == cause, found
    assert said in found.sentence, found.sentence
    assert_readable(found)


def assert_readable(found: Diagnosis) -> None:
    for text in (found.sentence, found.remedy, found.evidence):
        assert text.isprintable(), text
        assert "{" not in text
    assert found.sentence.endswith(".")
    assert found.remedy.endswith(".")
    assert found.evidence
    assert len(found.sentence) < 700
