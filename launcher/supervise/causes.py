"""The ordered table of causes: the first row that holds wins, so what says most stands first.

A line of the log that names the cause beats the exit status; what can only be guessed stands last.
"""

from __future__ import annotations

from launcher.supervise.cause import Cause
from launcher.supervise.causes_files import DRAFTER_LAST, FILES
from launcher.supervise.causes_machine import CRASHES, EXITS, GPU, LIVE, MEMORY
from launcher.supervise.causes_start import ARGUMENTS, LIBRARIES

CAUSES: tuple[Cause, ...] = (
    *LIBRARIES,
    *ARGUMENTS,
    *FILES,
    *GPU,
    *MEMORY,
    *DRAFTER_LAST,
    *EXITS,
    *CRASHES,
)
SUSPICIONS: tuple[Cause, ...] = LIVE
