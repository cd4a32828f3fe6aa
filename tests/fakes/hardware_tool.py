"""Puts a program of a given name into a folder, which answers, hangs, floods or dies as a hardware tool may."""

from __future__ import annotations

import sys
from pathlib import Path

_SCRIPT = """#!{python} -S
import os, sys, time
MODE, ANSWERS = {mode!r}, {answers!r}
asked = " ".join(sys.argv[1:])
with open(__file__ + ".asked", "a") as file:
    file.write(asked + "\\n")
if MODE == "hangs":
    time.sleep(600)
while MODE == "floods":
    sys.stdout.write("y" * 65536)
if MODE == "dies":
    os.kill(os.getpid(), 9)
if MODE == "garbles":
    os.write(1, b"\\xff\\xfe\\x00GPU0:\\n, , , ,\\n{{]\\x80")
    sys.exit(0)
for part, answer in ANSWERS.items():
    if part in asked:
        if answer is None:
            sys.stderr.write("sysctl: unknown oid\\n")
            sys.exit(1)
        sys.stdout.write(answer)
        sys.exit(0)
sys.stdout.write("unknown arguments\\n")
sys.exit(2)
"""


def write(
    folder: Path, name: str, answers: dict[str, str | None] | None = None, *, mode: str = "answers"
) -> Path:
    """A program ``name`` in ``folder``. ``answers``: what it prints where its arguments hold a text ("" fits
    all, None fails). ``mode``: answers, hangs, floods, dies or garbles. What it was asked lies in NAME.asked."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(_SCRIPT.format(python=sys.executable, mode=mode, answers=answers or {}), encoding="utf-8")
    path.chmod(0o755)
    return path


def asked(program: Path) -> list[str]:
    """The arguments of each call so far."""
    record = program.with_name(program.name + ".asked")
    return record.read_text(encoding="utf-8").splitlines() if record.exists() else []
