"""Pure: what an exit status means, on each system, as one name and in words."""

from __future__ import annotations

SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
    24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}  # fmt: skip
DARWIN = SIGNALS | {7: "SIGEMT", 10: "SIGBUS", 12: "SIGSYS", 30: "SIGUSR1", 31: "SIGUSR2"}
MEANINGS = {
    "SIGHUP": "its terminal or window was closed",
    "SIGINT": "Ctrl+C",
    "SIGILL": "an instruction that this processor does not have",
    "SIGTRAP": "it stopped itself after an internal check failed",
    "SIGABRT": "it stopped itself after an internal check failed",
    "SIGBUS": "a file or memory that it used could no longer be read",
    "SIGFPE": "an arithmetic error",
    "SIGKILL": "killed at once from outside, as a system does that runs out of memory",
    "SIGSEGV": "it touched memory that is not its own",
    "SIGTERM": "asked to end from outside",
    "0x40010004": "Windows was shutting down",
    "0x80000003": "it stopped itself after an internal check failed",
    "0xC0000005": "it touched memory that is not its own",
    "0xC0000017": "not enough memory",
    "0xC000001D": "an instruction that this processor does not have",
    "0xC0000022": "Windows denied access to a file it needs",
    "0xC000007B": "a DLL is damaged or for another kind of processor",
    "0xC00000FD": "its stack overflowed",
    "0xC000012D": "the page file is full",
    "0xC0000135": "a DLL was not found",
    "0xC0000139": "a DLL is of another version than needed",
    "0xC000013A": "Ctrl+C or its window was closed",
    "0xC0000142": "a DLL could not start",
    "0xC0000374": "its memory was damaged",
    "0xC0000409": "it stopped itself after an internal check failed",
    "0xC0000428": "Windows does not accept the signature of a file",
    "0xE06D7363": "an error that it did not handle",
}


def exit_name(returncode: int | None, system: str) -> str:
    """One name for a status: ``SIGKILL`` (also for a shell's 137), ``0xC0000135`` (signed or not), ``1``, or
    ``alive`` for None. ``returncode`` as subprocess gives it, ``system`` as platform.system() calls it."""
    if returncode is None:
        return "alive"
    if system == "Windows":
        code = returncode & 0xFFFFFFFF
        return f"0x{code:08X}" if code >= 0x40000000 else str(code)
    signals = DARWIN if system == "Darwin" else SIGNALS
    # A shell or a wrapper script reports a signal as 128 and its number.
    number = -returncode if returncode < 0 else returncode - 128
    if number in signals:
        return signals[number]
    return f"signal {-returncode}" if returncode < 0 else str(returncode)


def in_brief(returncode: int | None, system: str) -> str:
    """The status for people: "signal SIGKILL", "exit code 1", "Windows status 0xC0000135"."""
    name = exit_name(returncode, system)
    if name == "alive":
        return "no exit status: it still runs"
    if name.startswith("0x"):
        return f"Windows status {name}"
    if name.startswith("SIG"):
        return f"signal {name}"
    return name if name.startswith("signal") else f"exit code {name}"


def in_words(returncode: int | None, system: str) -> str:
    """As in_brief, with what it means where that is known: "signal SIGKILL: killed at once from outside, …"."""
    meaning = MEANINGS.get(exit_name(returncode, system))
    return in_brief(returncode, system) + (f": {meaning}" if meaning else "")
