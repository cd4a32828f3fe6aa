"""The one place that chooses how this system starts and ends processes.

``Process``: an engine with all that it starts. ``tool(argv, **options)``: a context with a ``subprocess.Popen`` that
leads a group of its own and, with what it starts, does not survive the launcher; it is waited for at the end.
``at_death``: the signal that a launcher's sudden end is told it by where there are such; SIGTERM for one that has to end
others outside its group, which get two seconds.
``guard()``: what stands against that here, as a sentence.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from launcher.supervise._windows import Process, foreground, guard, tool  # noqa: F401 -- for bonsai serve
else:
    from launcher.supervise._posix import Process, guard, tool

__all__ = ["Process", "guard", "tool"]
