"""The rooms' walls hold, and each rule of tests/walls.py catches what it is there for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.walls import MOST_LINES, ONLY, PURE, complaints

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(path for room in ("launcher", "webui") for path in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_room_touches_only_what_it_may(path: Path) -> None:
    assert complaints(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) == []


def test_files_elsewhere_are_no_longer_than_they_may_be() -> None:
    elsewhere = [path for room in ("tests", "scripts", "benchmarks") for path in (ROOT / room).rglob("*.py")]
    lines = {path.name: path.read_text(encoding="utf-8").count("\n") for path in elsewhere}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


BAD = {
    "reads the environment": ("launcher/plan2.py", "import os\nhome = os.environ.get('HOME')", "os.environ"),
    "reads it by name": ("launcher/store.py", "from os import environ", "os.environ"),
    "asks getenv": ("launcher/cli.py", "import os\nos.getenv('HOME')", "os.getenv"),
    "reads argv": ("launcher/serve.py", "import sys\nprint_to = sys.argv[1]", "sys.argv"),
    "asks for the system": (
        "launcher/store.py",
        "import sys\nif sys.platform == 'win32': pass",
        "sys.platform",
    ),
    "starts a process": ("launcher/store.py", "import subprocess", "subprocess"),
    "starts one from a function": ("webui/app.py", "def f():\n    from subprocess import run", "subprocess"),
    "goes through a shell": ("launcher/serve.py", "import os\nos.system('ls')", "os.system"),
    "fetches by itself": ("launcher/catalog.py", "import urllib.request", "urllib.request"),
    "speaks HTTP": ("launcher/lifecycle.py", "import httpx", "httpx"),
    "draws on the terminal": ("launcher/serve.py", "from rich.table import Table", "rich"),
    "is not pure: clock": ("launcher/plan.py", "import time", "must not import time"),
    "is not pure: system": ("launcher/settings.py", "import os", "must not import os"),
    "is not pure: threads": (
        "launcher/client/sse.py",
        "from threading import Lock",
        "must not import threading",
    ),
    "is not pure: a busy room": (
        "launcher/choose.py",
        "from launcher.provision import resolve_all",
        "provision",
    ),
    "is not pure: a busy room, whole": (
        "launcher/plan.py",
        "from launcher import paths",
        "must not import launcher paths",
    ),
    "is not pure: in a function": (
        "launcher/pair.py",
        "def f():\n    import socket",
        "must not import socket",
    ),
    "is not pure: a file": ("launcher/plan.py", "text = open('x').read()", "touch files (open)"),
    "is not pure: a path": ("webui/draft.py", "def f(p):\n    p.write_text('x')", "touch files (write_text)"),
    "loads the page at once": ("launcher/cli.py", "from webui.app import serve", "only inside a function"),
    "loads the page from elsewhere": ("launcher/serve.py", "def f():\n    import webui.app", "uses webui"),
    "page spawns": ("webui/routes.py", "import subprocess", "subprocess"),
    "page reads the environment": ("webui/app.py", "import os\nos.environ['A'] = 'b'", "os.environ"),
    "page opens a file": ("webui/routes.py", "with open('x') as f: pass", "the store does that"),
    "page writes a file": ("webui/book.py", "def f(p):\n    p.write_bytes(b'')", "the store does that"),
    "page provisions": ("webui/hub.py", "from launcher.provision import resolve_all", "no business"),
    "page supervises": ("webui/hub.py", "from launcher.supervise import server", "no business"),
    "page probes": ("webui/hub.py", "from launcher import engine_probe", "no business"),
    "prints": ("launcher/serve.py", "print('x')", "calls print"),
    "asks on the terminal": ("webui/app.py", "input('?')", "calls input"),
    "hides its import": ("launcher/supervise/server.py", "from . import ports", "relatively"),
    "is too long": ("launcher/serve.py", "x = 1\n" * 401, "402 lines"),
}


@pytest.mark.parametrize(("path", "source", "about"), BAD.values(), ids=BAD.keys())
def test_a_breach_is_caught(path: str, source: str, about: str) -> None:
    assert any(about in complaint for complaint in complaints(path, source)), complaints(path, source)


GOOD = {
    "cli reads the environment": ("launcher/cli_options.py", "import os\nenv = dict(os.environ)"),
    "cli loads the page late": ("launcher/page.py", "def f():\n    from webui.app import serve"),
    "pure rooms share values": ("launcher/plan.py", "from launcher.resolved import Resolved\nimport math"),
    "a pure room names value types": ("webui/draft.py", "from launcher.store import Turn"),
    "the page takes events": ("webui/answer.py", "from launcher.client.events import Text"),
    "the page reads its own files": (
        "webui/assets.py",
        "from importlib.resources import files\nfiles('x').read_bytes()",
    ),
    "types only": (
        "launcher/serve.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import httpx",
    ),
    "a name that only looks like a module": ("launcher/serve.py", "import sysconfig, htmlx, webuilder"),
    "400 lines": ("launcher/serve.py", "\n" * 399),
}


@pytest.mark.parametrize(("path", "source"), GOOD.values(), ids=GOOD.keys())
def test_what_is_allowed_is_let_through(path: str, source: str) -> None:
    assert complaints(path, source) == []


def test_every_exception_is_still_needed() -> None:
    """A name in a list of exceptions that uses nothing of the kind any more would hide the next breach."""
    sources = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in FILES}
    idle = [
        f"{path} may use {used}"
        for used, allowed in ONLY.items()
        for path in allowed
        if path in sources and used.rpartition(".")[2] not in sources[path]
    ]
    assert idle == []
    assert {"launcher/plan.py", "launcher/settings.py", "launcher/client/sse.py"} <= PURE & set(sources)
