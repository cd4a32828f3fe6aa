"""Causes that lie in the machine: the graphics driver, GPU and RAM memory, the processor; and plain "
"crashes."""

from __future__ import annotations

from dataclasses import replace

from launcher.supervise.cause import Cause

_LESS = "make the context smaller with BONSAI_CTX, put fewer layers on the GPU with BONSAI_NGL"
_GPU_REMEDY = (
    f"Close other programs that use the GPU, switch the drafter off with BONSAI_SPECULATIVE=0, {_LESS}, "
    "or choose a smaller model with BONSAI_MODEL."
)
_RAM_REMEDY = (
    "Close other programs, make the context smaller with BONSAI_CTX, switch the drafter off with "
    "BONSAI_SPECULATIVE=0, or choose a smaller model with BONSAI_MODEL."
)
_MAC_REMEDY = (
    f"Close other programs, {_LESS}, or switch the drafter off with BONSAI_SPECULATIVE=0: macOS lets the "
    "GPU use only about three quarters of the memory."
)
_ENDED_REMEDY = (
    "Start it again; look for whatever ended it if this returns (a closed terminal, a session "
    "manager, another user of this machine)."
)
_DRIVER = "Update the graphics driver, or choose a build that runs without it with BONSAI_ENGINE=embedded."
_COMPILE = r"ggml_metal_library_init_from_source: error compiling source"
_TENSOR = (
    "Start it once with GGML_METAL_TENSOR_DISABLE=1, which keeps the GPU and leaves its tensor units "
    "aside; update macOS when that helps."
)

GPU = (
    Cause(
        "old-driver",
        "The NVIDIA driver is too old for this engine, or does not fit it ({what}).",
        _DRIVER,
        lines=(
            r"(?P<what>CUDA driver version is insufficient for CUDA runtime version)",
            r"(?P<what>forward compatibility was attempted on non supported HW)",
            r"(?P<what>system has unsupported display driver / cuda driver combination)",
            r"(?P<what>PTX was compiled with an unsupported toolchain)",
            r"(?P<what>ErrorIncompatibleDriver)",
        ),
    ),
    Cause(
        "old-gpu",
        "This build of the engine has no code for this GPU ({what}).",
        (
            "Choose the Vulkan or CPU build with BONSAI_ENGINE=mainline, or build one for exactly this "
            "machine with `bonsai engines build`."
        ),
        lines=(
            (
                r"(?P<what>no kernel image is available for execution on the device|device kernel image is "
                r"invalid)"
            ),
        ),
    ),
    Cause(
        "no-backend",
        "The engine has lost the files that compute on the processor, so it cannot load anything ({what}).",
        (
            "Fetch the engine again with `bonsai fetch --engine-only`: a Vulkan or CUDA archive for "
            "Windows needs the CPU files in the same folder."
        ),
        lines=(r"(?P<what>no CPU backend found|no backends are loaded|failed to initialize CPU backend)",),
    ),
    Cause(
        "metal-shader",
        "Metal could not compile code for this Mac's GPU, and the GPU then failed ({what}).",
        _TENSOR,
        lines=(
            r"(?P<what>command buffer \d+ failed with status \d+)",
            r"(?P<what>kIOGPUCommandBufferCallbackError\w+)",
        ),
        also=(_COMPILE,),
    ),
    Cause(
        "metal-shader",
        "Metal could not compile the engine's code for this Mac's GPU ({what}).",
        _TENSOR,
        lines=(
            r"(?P<what>failed to initialize the Metal library)",
            r"(?P<what>failed to create Metal library from source)",
            r"(?P<what>failed to (?:compile pipeline|create pipeline state): base = '\w*')",
            r"(?P<what>kernel not found in any metal library)",
        ),
    ),
    Cause(
        "metal-oom",
        "The memory that macOS lets the GPU use ran out ({what}).",
        _MAC_REMEDY,
        lines=(
            r"(?P<what>kIOGPUCommandBufferCallbackErrorOutOfMemory)",
            r"(?P<what>failed to allocate Metal buffer of \d+ bytes)",
            r"ggml_metal_\w+: error: (?P<what>failed to allocate buffer, size = +[\d.]+ MiB)",
            r"(?P<what>(?:unable|failed) to allocate (?:MTL\d|Metal)\w* buffer)",
        ),
    ),
    Cause(
        "gpu-memory",
        "The GPU's memory was not enough for the {part}: {amount} could not be had on {device}.",
        _GPU_REMEDY,
        lines=(
            (
                r"allocating (?P<amount>[\d.]+ MiB) on (?P<device>device \d+): cudaMalloc failed: out of "
                r"memory"
            ),
        ),
    ),
    Cause(
        "gpu-memory",
        "The GPU's memory was not enough for the {part}: {bytes} could not be had.",
        _GPU_REMEDY,
        lines=(r"ggml_vulkan: Device memory allocation of size (?P<bytes>\d{1,18}) failed",),
    ),
    Cause(
        "gpu-memory",
        "The GPU's memory was not enough for the {part} ({what}).",
        _GPU_REMEDY,
        lines=(
            r"(?P<what>cudaMalloc failed: out of memory)",
            r"(?P<what>(?:CUDA|ROCm|MUSA) error: out of memory)",
            r"(?P<what>CUBLAS_STATUS_ALLOC_FAILED)",
            r"(?P<what>ErrorOutOfDeviceMemory)",
            r"(?P<what>(?:failed|unable) to allocate (?:CUDA|ROCm|MUSA|Vulkan|SYCL|OpenCL|HIP)\d+\w* buffer)",
        ),
    ),
    Cause(
        "gpu-memory",
        "The {part} was planned to take more GPU memory than is free, and then could not be loaded ({what}).",
        _GPU_REMEDY,
        lines=(r"(?P<what>invalid vector subscript)",),
        also=(r"failed to fit params to free device memory",),
    ),
    Cause(
        "gpu-lost",
        "The GPU stopped answering, or its driver restarted it ({what}).",
        "Try again; if it returns, update the graphics driver and undo any overclocking.",
        lines=(
            r"(?P<what>ErrorDeviceLost|DeviceLostError)",
            (
                r"(?P<what>(?:CUDA|ROCm) error: (?:unspecified launch failure|an illegal memory access|"
                r"the launch timed out|device-side assert|unknown error|GPU is lost|uncorrectable ECC)"
                r"[^(]*)"
            ),
            r"(?P<what>kIOGPUCommandBufferCallbackError\w+)",
            r"(?P<what>command buffer \d+ failed with status \d+)",
        ),
        again=True,
    ),
)

MEMORY = (
    Cause(
        "ram",
        "This machine's memory was not enough for the {part}: {bytes} could not be had.",
        _RAM_REMEDY,
        lines=(
            (
                r"(?:failed|unable) to allocate (?:CPU|CUDA_Host|Vulkan_Host|ROCm_Host)\w* buffer of size "
                r"(?P<bytes>\d{1,18})"
            ),
        ),
    ),
    Cause(
        "ram",
        "This machine's memory was not enough for the {part} ({what}).",
        _RAM_REMEDY,
        lines=(
            r"(?P<what>unable to allocate (?:CPU|CUDA_Host|Vulkan_Host|ROCm_Host)\w* buffer)",
            r"(?P<what>std::bad_alloc)",
            r"(?P<what>insufficient memory \(attempted to allocate +[\d.]+ MB\))",
            r"(?P<what>mmap failed: Cannot allocate memory)",
            r"(?P<what>(?:CreateFileMappingA|MapViewOfFile) failed: .+)",
            r"(?P<what>unable to fit model into system memory)",
            r"(?P<what>failed to allocate buffer (?:for (?:kv|rs) cache|of size \d+))",
            r"(?P<what>ErrorOutOfHostMemory)",
            r"(?P<what>(?:mprotect|posix_memalign|fork|pthread_create)[^:]{0,40}: Cannot allocate memory)",
            r"(?P<what>[Pp]aging file is too small|Not enough memory resources)",
        ),
    ),
    Cause(
        "ram",
        "This machine's memory was not enough for the {part} ({exit}).",
        _RAM_REMEDY,
        exits=frozenset({"0xC0000017", "0xC000012D"}),
    ),
)

# What the exit status alone says.
EXITS = (
    Cause(
        "old-cpu",
        "This build of the engine needs a newer processor than this machine has ({exit}).",
        (
            "Choose BONSAI_ENGINE=mainline, whose builds carry code for every processor, or build one "
            "for exactly this machine with `bonsai engines build`."
        ),
        exits=frozenset({"SIGILL", "0xC000001D"}),
    ),
    Cause(
        "ended",
        "The engine was ended from outside ({exit}).",
        _ENDED_REMEDY,
        exits=frozenset({"0", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "0xC000013A", "0x40010004"}),
        again=True,
    ),
    Cause(
        "ram",
        "The system killed the engine at once, as it does when memory runs out ({exit}).",
        _RAM_REMEDY,
        exits=frozenset({"SIGKILL"}),
        again=True,
    ),
    Cause(
        "file-lost",
        "A file that the engine was reading changed or could no longer be read while it ran ({exit}).",
        (
            "Check the disk that holds the model and its free space, then fetch the model again with "
            "`bonsai fetch`."
        ),
        exits=frozenset({"SIGBUS"}),
    ),
    Cause(
        "context",
        "The engine could not set up its context ({what}).",
        "Make the context smaller with BONSAI_CTX (8192 is enough for most chats).",
        lines=(
            r"(?P<what>failed to create_?\s?context with model)",
            r"(?P<what>failed to initialize the context: .+)",
            r"(?P<what>n_ctx_seq == 0)",
            r"(?P<what>Context size has been exceeded)",
            r"(?P<what>n_ctx\S* .{0,80}exceeds.{0,80})",
            r"(?P<what>exceeds the available context size)",
        ),
        exits=frozenset({"1"}),
        dead=True,
    ),
    Cause(
        "gpu-memory",
        "The model was planned to take more GPU memory than is free, and the engine ended ({what}).",
        _GPU_REMEDY,
        lines=(r"failed to fit params to free device memory: (?P<what>.+)",),
        dead=True,
    ),
    Cause(
        "ram",
        "The engine could not keep the model in memory, and then ended ({what}).",
        _RAM_REMEDY,
        lines=(r"(?P<what>failed to (?:mlock|VirtualLock) \d+-byte buffer)",),
        dead=True,
    ),
)

_WITHOUT = "Start it again without the drafter (BONSAI_SPECULATIVE=0)."
_AGAIN = (
    "Start it again; if it returns, choose another build with BONSAI_ENGINE and report it to the engine's makers "
    "with the log."
)
_MEMORY_ERRORS = frozenset({"SIGSEGV", "SIGFPE", "0xC0000005", "0xC0000374", "0xC00000FD"})
_STOPPED_ITSELF = frozenset({"SIGABRT", "SIGTRAP", "0xC0000409", "0x80000003", "0xE06D7363"})


def _crash(
    name: str, sentence: str, lines: tuple[str, ...] = (), exits: frozenset[str] = frozenset()
) -> tuple[Cause, Cause]:
    """A crash of unknown cause; with a drafter, going without it is the first thing to try."""
    plain = Cause(name, sentence, _AGAIN, lines=lines, exits=exits, dead=True, again=True)
    return replace(plain, remedy=_WITHOUT, with_drafter=True), plain


CRASHES = (
    Cause(
        "segfault",
        "The engine crashed before it wrote a line ({exit}): it does so when a drafter's file is given as the "
        "model.",
        "Give the target's file in BONSAI_MODEL and a drafter's in BONSAI_DRAFTER, or fetch the engine again with "
        "`bonsai fetch --engine-only`.",
        exits=frozenset({"SIGSEGV", "0xC0000005"}),
        silent=True,
    ),
    *_crash(
        "assert",
        "An internal check of the engine failed ({what}).",
        lines=(
            r"(?P<what>GGML_ASSERT\(.+)",
            r"(?:^|[\\/ ])(?P<what>[\w+-]{1,80}\.(?:cpp|cu|cuh|c|m|h):\d+: .+)",
            r"terminate called after (?P<what>throwing an instance of .+)",
        ),
    ),
    *_crash("assert", "The engine stopped itself ({exit}).", exits=_STOPPED_ITSELF),
    *_crash("segfault", "The engine crashed ({status}).", exits=_MEMORY_ERRORS),
    Cause(
        "ended",  # a llama-server that is asked to end in mid-answer may wait for ever for its own connection
        "The engine was ended from outside, and stood still on the way.",
        _ENDED_REMEDY,
        also=(r"cleaning up before exit",),
        exits=frozenset({"alive"}),
        again=True,
    ),
    Cause(
        "stood-still",
        "The engine still runs, but it does nothing any more.",
        "Stop it and start it again; if it returns, make the context smaller with BONSAI_CTX or choose another build "
        "with BONSAI_ENGINE.",
        exits=frozenset({"alive"}),
        again=True,
    ),
)

# An engine that runs on, but not as it was meant to. Every row that holds is told.
LIVE = (
    Cause(
        "drafter-not-started",
        "The engine runs without speculation: the drafter loaded, but could not be set up ({what}).",
        (
            "Choose the drafter trained for exactly these weights with BONSAI_DRAFTER, or switch "
            "speculation off with BONSAI_SPECULATIVE=0."
        ),
        lines=(
            r"failed to initialize speculative decoding context: (?P<what>.+)",
            r"(?P<what>speculative decoding not supported by this context)",
        ),
        drafter=True,
    ),
    Cause(
        "draft-clamped",
        (
            "The draft length asked for, {asked}, is longer than the drafter's block size; the engine "
            "drafts {used} tokens at a time."
        ),
        "Set BONSAI_SPEC_NMAX to {used} or leave it unset.",
        lines=(r"requested draft size \(n_max=(?P<asked>\d+),.*clamping to (?P<used>\d+)",),
    ),
    *(cause for cause in GPU if cause.name in {"old-driver", "metal-shader", "metal-oom"}),
    Cause(
        "cpu-fallback",
        "The engine computes on the processor, not on the GPU: its GPU library could not be loaded ({what}).",
        (
            "Install the runtime that the library needs, or fetch the engine again with `bonsai fetch "
            "--engine-only`."
        ),
        lines=(r"failed to load \S*ggml-(?:cuda|hip|vulkan|sycl|metal)\S*: (?P<what>.+)",),
    ),
    Cause(
        "cpu-fallback",
        "The engine computes on the processor, not on the GPU ({what}).",
        (
            "Look at `bonsai doctor` for what it sees of the GPU; update the graphics driver, or choose "
            "a build for this GPU with BONSAI_ENGINE."
        ),
        lines=(
            r"failed to initialize (?:CUDA|ROCm): (?P<what>.+)",
            r"(?P<what>ggml_vulkan: No devices found)",
            r"(?P<what>no usable GPU found), --gpu-layers option",
            r"warning: (?P<what>no GPU found)",
            r"(?P<what>not compiled with GPU offload support)",
        ),
    ),
    Cause(
        "metal-tensor-off",
        (
            "macOS could not compile the part for the GPU's tensor units, so they are left aside: "
            "answers are right, only long prompts are read more slowly."
        ),
        "Keep it as it is; a newer macOS or engine (`bonsai fetch --engine-only`) may bring them back.",
        lines=(_COMPILE, r"the tensor API is not supported in this environment - disabling"),
    ),
)
