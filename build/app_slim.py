"""What the packaged app leaves out: parts of libraries that no page and no command of ours reaches. Pure."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from pathlib import PurePosixPath

# Modules that some library would use if they were there.
MODULES = (
    "hf_xet",  # files are fetched by the launcher itself
    # Tools of whoever builds, which the environment of a developer holds as well.
    "IPython", "_pytest", "ast_serialize", "cmake", "hypothesis", "jsonschema", "librt", "mypy", "mypyc", "ninja", "pip",
    "playwright", "pytest", "rlcompleter", "setuptools", "wheel",
    # Of the standard library: windows, tests, debuggers, and curses for terminals that are drawn on.
    "_curses", "_curses_panel", "_tkinter", "curses", "doctest", "ensurepip", "idlelib", "lib2to3", "pdb", "pydoc",
    "test", "tkinter", "turtledemo", "unittest", "xmlrpc",
    # Libraries for kinds of data that the page does not show.
    "PIL._avif", "PIL._imagingcms", "PIL._imagingft", "PIL._imagingmath", "PIL._imagingtk", "PIL._webp",
    "_sqlite3", "dateutil", "lxml", "matplotlib", "numpy.f2py", "numpy.fft", "numpy.polynomial", "numpy.random",
    "numpy.testing", "requests", "scipy", "sqlite3", "tzdata", "urllib3",
    # Under a licence (GPL) that the app as a whole would have to take over.
    "_dbm", "_gdbm", "readline",
)  # fmt: skip

# Files by their place in the app. Gradio brings a second page for Node, example media, and players and plots that
# no page of ours shows.
FILES = (
    "gradio/_frontend_code/*",
    "gradio/cli/*",
    "gradio/media_assets/*",
    "gradio/templates/node/*",
    "gradio/templates/frontend/static/ffmpeg/*",
    "gradio/templates/frontend/static/bokeh/*",
    "gradio/templates/frontend/assets/PlotlyPlot-*",
    "gradio/test_data/*",
    "*.pyi",
    "*.map",
)


def is_left_out(place: str) -> bool:
    """Whether the file at ``place`` (relative to the app's folder) stays out."""
    name = str(PurePosixPath(place.replace("\\", "/")))
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in FILES)


def kept(entries: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """PyInstaller's (place, source, kind) entries without what stays out."""
    return [entry for entry in entries if not is_left_out(entry[0])]
