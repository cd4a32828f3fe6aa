"""A program that stands for llama-server's --version and --help, well or badly.

    engine_tool.py MODE [llama-server's arguments]

Modes: old, fork, other-tool, tells-nothing, hangs, hangs-with-child, floods, illegal, killed,
missing-library, missing-dylib, new-glibc, not-an-engine, help-hangs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

OLD_VERSION = "version: 6121 (e9288e88)\nbuilt with cc (Debian 12.2.0-14) 12.2.0 for x86_64-linux-gnu"
# In the form of builds before speculation types had a prefix: brackets, bars, no draft-dspark.
OLD_HELP = """----- common params -----

-h,    --help, --usage                  print usage and exit
-m,    --model FNAME                    model path (default: `models/$filename`)
-ngl,  --gpu-layers, --n-gpu-layers N   number of layers to store in VRAM
                                        (env: LLAMA_ARG_N_GPU_LAYERS)

----- example-specific params -----

--host HOST                             ip address to listen
--port PORT                             port to listen; see --metrics-not-an-option
-md,   --model-draft FNAME              draft model for speculative decoding (default: unused)
--draft-max, --draft, --draft-n N       number of tokens to draft for speculative decoding (default: 16)
--spec-type [none|ngram-cache|ngram-simple|ngram-mod]
                                        type of speculative decoding to use when no draft model is provided
"""
FORK_VERSION = "version: 9596 (9fcaed7)\nbuilt with GNU 11.4.0 for Linux x86_64"
TOOL_HELP = (
    "-h,    --help, --usage                  print usage and exit\n-m,    --model FNAME      model path\n"
)


LIBRARY = "libcudart.so.12: cannot open shared object file: No such file or directory"
# mode: (exit status, what is written to stderr)
COMPLAINTS = {
    "missing-library": (127, f"llama-server: error while loading shared libraries: {LIBRARY}\n"),
    "missing-dylib": (134, "dyld[9]: Library not loaded: @rpath/libggml.dylib\n  Referenced from: <1> /x\n"),
    "new-glibc": (1, "llama-server: /lib/libc.so.6: version `GLIBC_2.38' not found (required by it)\n"),
    # Old builds print their version to stderr, after what a GPU library has to say.
    "old": (0, f"ggml_cuda_init: found 1 CUDA devices:\n{OLD_VERSION}"),
    "tells-nothing": (0, ""),
}
SIGNALS = {"illegal": "SIGILL", "killed": "SIGKILL"}
ANSWERS = {
    "fork": (FORK_VERSION, OLD_HELP.replace("ngram-mod]", "draft-dspark]")),
    "other-tool": (OLD_VERSION, TOOL_HELP),
    "not-an-engine": ("frobnicate 1.2\nversion: see above\n", ""),
    "help-hangs": (OLD_VERSION, ""),
}


def main(mode: str, arguments: list[str]) -> int:
    version = "--version" in arguments
    if mode == "old" and not version:
        sys.stderr.write(OLD_HELP)
        return 0
    if mode in COMPLAINTS:
        sys.stderr.write(COMPLAINTS[mode][1])
        return COMPLAINTS[mode][0]
    if mode in SIGNALS:
        os.kill(os.getpid(), getattr(signal, SIGNALS[mode]))
    if mode == "hangs" or (mode == "help-hangs" and not version):
        time.sleep(600)
    while mode == "floods":
        sys.stdout.write("y" * 65536)
    if mode == "hangs-with-child":
        # The child keeps the pipe open after its parent has ended.
        child = subprocess.Popen([sys.executable, __file__, "hangs"])
        sys.stdout.write(f"{child.pid}\n")
        return 0
    sys.stdout.write(ANSWERS[mode][0 if version else 1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
