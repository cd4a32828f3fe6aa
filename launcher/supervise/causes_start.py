"""Causes that end an engine before it loads anything: libraries, the system's guard, arguments, the port."""

from __future__ import annotations

from launcher.supervise.cause import Cause

LIBRARIES = (
    Cause(
        "blocked",
        "macOS did not let the engine load one of its own libraries ({library}).",
        (
            "Fetch the engine again with `bonsai fetch --engine-only`, which clears the quarantine mark "
            "of the whole folder; for an engine of your own, allow it in System Settings, Privacy & "
            "Security."
        ),
        lines=(
            r"(?P<library>[^/' ]{1,200})' not valid for use in process",
            r"(?P<library>library load disallowed by system policy)",
            r"(?P<library>code signature in .{0,300}) not valid",
        ),
        systems=frozenset({"Darwin"}),
    ),
    Cause(
        "blocked",
        (
            "This system forbids to run programs or libraries from the engine's folder ({library} could "
            "not be mapped)."
        ),
        "Choose a folder on a disk that is not mounted noexec with BONSAI_HOME.",
        lines=(
            (
                r"error while loading shared libraries: (?P<library>[^:]+): (?:failed to map segment|"
                r"cannot enable executable stack|cannot restore segment prot)"
            ),
        ),
    ),
    Cause(
        "old-system",
        "This macOS is too old for the engine, which needs {version}.",
        "Update macOS, choose BONSAI_ENGINE=embedded, or build an engine for exactly this machine with "
        "`bonsai engines build`.",
        lines=(r"built for (?P<version>macOS [\d.]+) which is newer than running OS",),
    ),
    Cause(
        "old-system",
        "This system is too old for the engine: its libraries do not have {version}.",
        (
            "Update the system, choose BONSAI_ENGINE=embedded, or build an engine for exactly this "
            "machine with `bonsai engines build`."
        ),
        lines=(
            r"version [`'](?P<version>(?:GLIBC|GLIBCXX|CXXABI|GOMP|OMP|GCC|V)_[\d.]+)' not found",
            r"Symbol not found: (?P<version>\S+)",
        ),
    ),
    Cause(
        "missing-library",
        "The engine needs the CUDA library {library}, which is not on this machine.",
        (
            "Install the package of your system that holds it (the CUDA runtime), or choose BONSAI_ENGINE=mainline or "
            "BONSAI_ENGINE=embedded, which run without it."
        ),
        lines=(r"error while loading shared libraries: (?P<library>lib(?:cu|nv|nccl)[^:]+): cannot open",),
    ),
    Cause(
        "missing-library",
        "The engine needs the library {library}, which is not on this machine.",
        (
            "Install the package of your system that holds {library} (libgomp.so.1: `libgomp1`, "
            "libvulkan.so.1: `libvulkan1`), or choose BONSAI_ENGINE=embedded."
        ),
        lines=(r"error while loading shared libraries: (?P<library>[^:]+): cannot open",),
    ),
    Cause(
        "missing-library",
        "A library of the engine, {library}, is missing or cannot be read.",
        "Fetch the engine again with `bonsai fetch --engine-only`; all files of its folder belong together.",
        lines=(
            r"Library not loaded: (?P<library>\S+)",
            r"\b(?P<library>[\w.-]{1,80}\.dll) was not found",
            r"error while loading shared libraries: (?P<library>[^:]+):",
        ),
    ),
    Cause(
        "missing-library",
        "The engine did not start because a DLL that it needs is missing ({status}).",
        (
            "Fetch the engine again with `bonsai fetch --engine-only`: a CUDA build needs the cudart "
            "files (cudart64_12.dll) beside it; every build needs the Microsoft Visual C++ runtime."
        ),
        exits=frozenset({"0xC0000135", "0xC0000139", "0xC0000142", "0xC000007B"}),
    ),
    Cause(
        "missing-library",
        "The engine's program, or a library it needs, was not found ({status}).",
        "Fetch the engine again with `bonsai fetch --engine-only`, or choose BONSAI_ENGINE=embedded.",
        exits=frozenset({"127"}),
    ),
    Cause(
        "blocked",
        "Windows did not accept a file of the engine ({status}).",
        (
            "Look into Windows Security, Protection history, for llama-server.exe; restore it there, or "
            "choose BONSAI_ENGINE=embedded."
        ),
        exits=frozenset({"0xC0000428", "0xC0000022"}),
    ),
    Cause(
        "blocked",
        "The engine's file may not be run as a program ({status}).",
        (
            "Fetch the engine again with `bonsai fetch --engine-only`; give an engine of your own the "
            "right to run with `chmod +x`."
        ),
        exits=frozenset({"126"}),
    ),
    Cause(
        "blocked",
        (
            "macOS ended the engine at once, before it wrote a line: most likely it is held back as a "
            "program from the internet."
        ),
        (
            "Fetch the engine again with `bonsai fetch --engine-only`, which clears the quarantine mark; "
            "if it stays so, close other programs, since a Mac without free memory does the same."
        ),
        exits=frozenset({"SIGKILL"}),
        systems=frozenset({"Darwin"}),
        silent=True,
    ),
)

ARGUMENTS = (
    Cause(
        "unknown-flag",
        "This llama-server does not know the kind of speculation {type}.",
        (
            "Update the engine with `bonsai fetch --engine-only`, or switch speculation off with "
            "BONSAI_SPECULATIVE=0."
        ),
        lines=(r"unknown speculative type: (?P<type>\S+)",),
        drafter=True,
    ),
    Cause(
        "unknown-flag",
        "This llama-server no longer takes the argument {flag} (it says: {hint}).",
        "Remove {flag} from the extra arguments, or update the engine with `bonsai fetch --engine-only`.",
        lines=(
            r'error while handling argument "(?P<flag>[^"]+)": (?P<hint>the argument has been removed.*)',
        ),
    ),
    Cause(
        "unknown-flag",
        "This llama-server does not know the argument {flag}.",
        "Remove {flag} from the extra arguments, or update the engine with `bonsai fetch --engine-only`.",
        lines=(r"error: (?:invalid|unknown) argument: (?P<flag>.+)",),
    ),
    Cause(
        "bad-value",
        "llama-server does not accept the value given for {flag} (it says: {hint}).",
        "Correct the value of {flag} in the extra arguments or in the setting that it comes from.",
        lines=(
            r'error while handling (?:argument|environment variable) "(?P<flag>[^"]+)": (?P<hint>.+)',
            r"error: (?P<hint>unknown value|invalid value) for (?P<flag>\S+)",
            r"error: (?P<hint>invalid parameter) for argument: (?P<flag>\S+)",
        ),
    ),
    Cause(
        "port",
        (
            "Port {port} on {host} cannot be used: another program has it, or this machine does not have "
            "that address."
        ),
        (
            "Choose another port with BONSAI_PORT, leave BONSAI_HOST at 127.0.0.1, or end the program "
            "that has the port."
        ),
        lines=(
            (
                r"couldn't bind (?:HTTP|to) server socket[:,] hostname[:=] ?(?P<host>[^, ]+),? port[:=] "
                r"?(?P<port>\d+)"
            ),
        ),
        again=True,
    ),
    Cause(
        "port",
        "The engine could not listen on its port ({what}).",
        "Choose another port with BONSAI_PORT, or end the program that has the port.",
        lines=(r"(?P<what>Address already in use|couldn't start HTTP listener|WSAEADDRINUSE)",),
        again=True,
    ),
)
