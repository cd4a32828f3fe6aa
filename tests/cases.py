"""The public reports that the launcher answers: what was seen, what it does; the tests that prove it are looked up.

A test names its report with ``@pytest.mark.case("C-03")``. ``docs/cases.md`` is made from this (tests/test_docs.py).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent

AREAS = {
    "A": "Bonsai's own formats and speculative decoding",
    "B": "Finding the hardware",
    "C": "Downloads",
    "D": "Starting and stopping llama-server",
    "E": "The chat page",
    "F": "The packaged app",
    "G": "Timings and fair comparison",
}

# id: (what people saw, what the launcher does)
CASES: dict[str, tuple[str, str]] = {
    "A-01": (
        "The published drafter on mainline: `unknown model architecture: 'dspark'`, and the server ends",
        "Reads the drafter's architecture before a start, names the pair that does not fit and the trio that does",
    ),
    "A-02": (
        "Legacy group-128 `Q2_0` in a build whose `Q2_0` has groups of 64: wrong offsets, though the file is whole",
        "Tells the two apart by the spans of the tensors and takes an engine that reads them; never calls the file corrupt",
    ),
    "A-06": (
        "A drafter makes things slower (0.17x on a Mac), or its gain fades with the context",
        "Says so before it is switched on there, honours it all the same, and shows 0.17x as plainly as 2x",
    ),
    "A-07": (
        "Healthy server, then an abort on the first request",
        "Asks a short question before it says ready; starts again once, then without the drafter, and says so",
    ),
    "A-08": (
        "Out of memory with the drafter; `-c 0` asks for 262,144 tokens",
        "Counts weights, drafter, KV cache and buffers against the memory first; automatic context is never `-c 0`",
    ),
    "A-10": (
        "`the argument has been removed`, `unknown speculative type`",
        "Asks the binary for its `--help` once and uses only what it lists; else runs plain and says why",
    ),
    "B-01": (
        "An RTX card, yet Vulkan or the processor is used: nvidia-smi's heading changed, or says `CUDA Version: ERR!`",
        "Uses nvidia-smi's query form; a card without a readable version is still CUDA; asks the engine what it sees",
    ),
    "B-02": ("nvcc without a GPU selects CUDA", "The driver decides; nvcc alone is no GPU"),
    "B-03": ("WSL: no GPU, since nvidia-smi is not on PATH", "Looks where it hides, `/usr/lib/wsl/lib` included"),
    "B-05": (
        "GB10: memory is `[N/A]`, so 0 bytes and the processor",
        "Still CUDA; the machine's memory is the pool; says what there is for Linux on arm64",
    ),
    "B-07": (
        "Several GPUs: a crash, memory counted twice, CUDA_VISIBLE_DEVICES ignored",
        "Reads every line, counts shared memory once, honours the mask",
    ),
    "B-09": (
        "M5 Macs: Metal's tensor code does not compile, then out of memory",
        "Starts once more with GGML_METAL_TENSOR_DISABLE=1 and says so; the message alone is harmless",
    ),
    "B-10": (
        "Rosetta: the x64 build without Metal; Intel Macs crash with Metal",
        "Asks the system whether it translates; Intel Macs use the processor",
    ),
    "B-11": (
        "Fits into a Mac's memory, dies in prompt processing: the GPU may not use all of it",
        "Counts against the cap (or 70 %) and names it",
    ),
    "B-12": (
        "Vulkan chosen for a software device",
        "A processor that calls itself a Vulkan device is no GPU; an integrated one is used and said",
    ),
    "B-13": (
        "`--version` prints nothing: the processor lacks AVX2",
        "Runs `--version` before an engine is used and names the cause",
    ),
    "C-01": (
        "A download stands still for ever",
        "Watches the bytes; after a silence it closes the connection and goes on from where it was",
    ),
    "C-03": (
        "A truncated file is taken for whole",
        "Half files never bear the name; size and sha256 are checked; room is looked for first",
    ),
    "C-05": (
        "`CERTIFICATE_VERIFY_FAILED`; `HF_ENDPOINT` with a slash at its end",
        "Honours SSL_CERT_FILE and proxies, explains, never switches verification off; strips the slash",
    ),
    "C-06": (
        "Windows: symlinks without the right, paths of more than 260 characters",
        "Writes plain files, one at a time, and looks at the length first",
    ),
    "C-07": (
        "401 for a public repository because an expired token is sent",
        "Asks once more without it and says so; a token is never shown",
    ),
    "C-08": (
        "Offline, although everything is there",
        "What is on disk is used without a single request; a missing drafter alone means plain decoding, said",
    ),
    "D-01": (
        "Two servers on one port",
        "A free port of our own choice; ready means that the server with our random name and key answers",
    ),
    "D-03": ("The health check goes to a proxy", "Loopback never goes through a proxy"),
    "D-05": (
        "Gives up on a slow disk, or waits for a dead child",
        "Waits while anything moves; an exit is told at once with the log's last lines",
    ),
    "D-06": (
        "The launcher is killed and its server lives on",
        "It dies with us by the system's own means; the next start sweeps what is provably ours",
    ),
    "D-08": ("The server hangs when nobody reads its output", "Its log is always drained, and capped"),
    "D-09": ("Letters beyond ASCII and spaces in paths", "Arguments are lists, never a shell's line"),
    "D-10": (
        "Missing CUDA runtime, libgomp, a newer GLIBC, no CPU backend",
        "One sentence for each, and the next build is tried once",
    ),
    "D-11": (
        "macOS blocks the download",
        "Clears the quarantine of its own download only; explains for others",
    ),
    "D-12": (
        "An antivirus removes the engine",
        "Looks at the files again after unpacking, names the file; no endless fetching",
    ),
    "D-13": ("Ctrl+C kills the child with the launcher", "A group of its own; one Ctrl+C ends cleanly, a second at once"),
    "D-14": (
        "Switching restarts the server while the memory is still taken",
        "Waits for the real end before the next start",
    ),
    "E-01": ("Long chats crawl", "The page draws at most some times a second, and only what is new"),
    "E-02": ("Stop ends the display, the GPU works on", "Closes the connection itself; the next message works at once"),
    "E-03": ("`localhost is not accessible`", "No self-request, no share link"),
    "E-04": ("Offline the page says Loading for ever", "Nothing on the page comes from elsewhere"),
    "E-05": ("Works for the first message only", "One normaliser to plain role and content"),
    "E-06": ("A reply that begins with `<think>` shows nothing", "Thoughts are shown apart, unclosed ones too"),
    "E-08": ("One long answer blocks everything else", "Who waits is told so; other parts of the page go on"),
    "E-09": ("An empty answer: all tokens went into thinking", "Says so, and offers more"),
    "E-11": ("Minutes of silence on long chats", "Shows the progress through the prompt; says when the chat is full"),
    "F-01": (
        "`FileNotFoundError: types.json`, then `blocks_events.pyc`: data that no import tells of is missing",
        "Collects it, and tests chat, race and every command in the app itself, in an empty home",
    ),
    "F-02": (
        "Without a console: `'NoneType' object has no attribute 'isatty'`",
        "Words go to a log file first thing; what keeps it from starting opens as a page",
    ),
    "F-04": (
        "Endless new windows or processes",
        "Children of libraries never become the app again; the engine is a sub-command of the program",
    ),
    "F-05": (
        "`_MEI...` folders pile up in the temporary folder",
        "One folder instead of one file; engines and models lie in the person's own data folder",
    ),
    "F-06": (
        "A signed app dies: `no Team ID`, or the notary finds a library that is not signed",
        "Lists every program and library inside by how it begins, signs each, and fails the release on a no",
    ),
    "G-01": ("No speed, or a wrong one", "Keeps the last timings of any chunk; what is measured here is marked so"),
    "G-02": (
        "No `draft_n`: nothing was drafted",
        'Says "requested but not active", never "0 % accepted"',
    ),
    "G-03": ("Prompt processing gets ever faster", "No prompt cache in a comparison; a warm-up is thrown away"),
    "G-04": ("Texts differ between the two sides", "Shows the first difference and says why; compares rates"),
}  # fmt: skip


def proofs() -> dict[str, list[str]]:
    """The tests that carry each case's mark, as path::name, read from the sources."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for name, case in _marks(ast.parse(path.read_text(encoding="utf-8"))):
            found.setdefault(case, []).append(f"{path.relative_to(TESTS.parent).as_posix()}::{name}")
    return found


def _marks(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                found = re.match(r"pytest\.mark\.case\('([A-Z]-\d+)'\)", ast.unparse(decorator))
                if found:
                    yield node.name, found[1]


def page_markdown() -> str:
    """docs/cases.md."""
    proof, lines = proofs(), [
        "# Public reports, and what the launcher does",
        "",
        "Made from `tests/cases.py` by `python -m tests.test_docs`. Each row is a kind of trouble that people reported of",
        "programs that do this job, and the tests that prove what this one does.",
    ]  # fmt: skip
    for area, title in AREAS.items():
        lines += [
            "",
            f"## {area}. {title}",
            "",
            "| case | seen | what the launcher does | proved by |",
            "|---|---|---|---|",
        ]
        for case, (seen, does) in CASES.items():
            if case.startswith(area):
                tests = "<br>".join(f"`{name}`" for name in proof.get(case, []))
                lines.append(f"| {case} | {seen} | {does} | {tests} |")
    return "\n".join(lines) + "\n"
