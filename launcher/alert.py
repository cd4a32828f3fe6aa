"""What kept the launcher from starting, for a person who sees no terminal: a page, or else a box of the system's."""

from __future__ import annotations

import contextlib
import ctypes
import html
import platform
import tempfile
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from launcher.engine_probe import run_tool
from launcher.errors import FolderError, LauncherError
from launcher.paths import make_folder, write_private

TITLE = "Bonsai Launcher could not start"
ICON_ERROR = 0x10  # winuser.h, MB_ICONERROR
BOX_S = 3600.0
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 1.1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 10vh auto; padding: 0 1rem; }}
code {{ overflow-wrap: anywhere; }}
</style>
<main>
<h1>{title}</h1>
<p role="alert">{what}</p>
<p>{remedy}</p>
<p>{log}</p>
</main>
</html>
"""


def unexpected(error: Exception) -> LauncherError:
    """The sentence for something that should not happen."""
    return LauncherError(
        f"Something went wrong that should not: {type(error).__name__}: {error}",
        "Start again; if it happens again, report it with the log.",
    )


def page(error: LauncherError, log: Path | None) -> str:
    """The page as HTML; it needs nothing from anywhere."""
    where = f"Log: <code>{html.escape(str(log))}</code>" if log else ""
    what, remedy = html.escape(error.what), html.escape(error.remedy)
    return PAGE.format(title=TITLE, what=what, remedy=remedy, log=where)


def show(error: LauncherError, logs: Path, log: Path | None) -> Path | None:
    """Put ``error`` before the person's eyes; returns the page's file. Never raises."""
    file = _write(page(error, log), logs)
    with contextlib.suppress(Exception):  # a browser's fault must not hide ours
        if file is not None and webbrowser.open(file.as_uri()):
            return file
    with contextlib.suppress(Exception):
        box(f"{error.what}\n\n{error.remedy}".strip())
    return file


def _write(text: str, logs: Path) -> Path | None:
    # The same in whatever a system writes texts in.
    plain = text.encode("ascii", "xmlcharrefreplace").decode("ascii")
    places: tuple[Callable[[], Path], ...] = (
        lambda: make_folder(logs),
        lambda: Path(tempfile.mkdtemp(prefix="bonsai-")),
    )
    for place in places:
        with contextlib.suppress(FolderError, OSError):
            file = place() / "problem.html"
            write_private(file, plain)
            return file
    return None


def box(text: str, system: str | None = None) -> bool:
    """A box of the system's own that stays until it is read; False where there is none."""
    system = platform.system() if system is None else system
    if system == "Windows":
        library: Any = ctypes
        return bool(library.windll.user32.MessageBoxW(None, text, TITLE, ICON_ERROR))
    if system == "Darwin":
        script = "on run said\ndisplay alert (item 1 of said) message (item 2 of said) as critical\nend run"
        return run_tool(["osascript", "-e", script, TITLE, text], timeout_s=BOX_S).returncode == 0
    return False
