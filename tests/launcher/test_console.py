"""Progress on a terminal: one line that comes late, is replaced, and is gone before the answer."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
import sys
from launcher.console import Progress
from launcher.lifecycle import Status
show = Progress(after_s={after})
show(Status("starting", "Loading the model … 1 s"))
show(Status("starting", "Loading the model … 2 s"))
show(Status("ready", "Ready."))
sys.stderr.write("answer")
"""


def seen(after: float) -> str:
    """What a terminal on stderr gets."""
    main, terminal = os.openpty()
    subprocess.run([sys.executable, "-c", CODE.format(after=after)], stderr=terminal, check=True)
    os.close(terminal)
    text = os.read(main, 10_000).decode()
    os.close(main)
    return text


@pytest.mark.system("posix")
def test_a_slow_start_is_told_in_one_line_that_is_cleared() -> None:
    line = "\r\x1b[K"
    assert seen(after=0) == f"{line}Loading the model … 1 s{line}Loading the model … 2 s{line}answer"


@pytest.mark.system("posix")
def test_a_quick_start_is_silent() -> None:
    assert seen(after=60) == "answer"
