"""Tries a packaged app as a person who knows nothing: python build/smoke.py ARCHIVE|FOLDER

An archive is unpacked into a folder with spaces and letters beyond ASCII. Then, with an empty home and no Python on
PATH: version, plan, an answer of the practice pair with its acceptance, the page until it is ready, a second start,
Quit; and no process is left, and no file in the temporary folder.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil

PAGE_S = 120  # a fresh virtual machine reads every file for the first time, and a scanner reads along
WINDOWS = sys.platform == "win32"


class Failed(Exception):
    """What is wrong with the app."""


def check(good: object, what: str) -> None:
    """Failed with ``what`` unless ``good``."""
    if not good:
        raise Failed(what)


def unpack(archive: Path, folder: Path) -> Path:
    """The app's folder or bundle."""
    if sys.platform == "darwin":
        subprocess.run(["ditto", "-x", "-k", str(archive), str(folder)], check=True)
    else:
        shutil.unpack_archive(archive, folder, filter=None if archive.suffix == ".zip" else "data")
    (app,) = folder.iterdir()
    return app


def programs(app: Path) -> tuple[Path, Path]:
    """The one for terminals and the one for double-clicks."""
    if app.suffix == ".app":
        both = (app / "Contents" / "MacOS" / "bonsai",) * 2
    elif WINDOWS:
        both = (app / "bonsai.exe", app / "Bonsai Launcher.exe")
    else:
        both = (app / "bonsai",) * 2
    for program in both:
        check(program.is_file(), f"{program} is missing")
    return both


class Person:
    """An empty home on this machine."""

    def __init__(self, root: Path) -> None:
        self.home, self.temporary = root / "hömé with spaces", root / "tmp"
        for folder in (self.home, self.temporary):
            folder.mkdir()
        system = (
            "SYSTEMROOT",
            "WINDIR",
            "COMSPEC",
            "PROGRAMFILES",
            "PROCESSOR_ARCHITECTURE",
            "NUMBER_OF_PROCESSORS",
        )
        self.env = {name: os.environ[name] for name in system if name in os.environ}
        self.env |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(self.temporary))
        self.env |= dict.fromkeys(("HOME", "USERPROFILE", "LOCALAPPDATA", "APPDATA"), str(self.home))
        self.env |= {"BONSAI_HOME": str(self.home / "bonsai"), "BONSAI_OFFLINE": "1", "PYTHONUTF8": "1"}
        self.env |= {
            "PATH": f"{os.environ['SYSTEMROOT']}\\System32" if WINDOWS else "/nowhere",
            "LANG": "C.UTF-8",
        }

    def run(self, program: Path, *arguments: str) -> str:
        """What it prints; Failed when it fails."""
        done = subprocess.run(
            [str(program), *arguments],
            env=self.env,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PAGE_S,
            check=False,
        )
        check(done.returncode == 0, f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout + ("" if "--json" in arguments else done.stderr)


def ask(port: int, method: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, Any, bytes]:
    """Status (0: nobody answers), headers and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with suppress(OSError, http.client.HTTPException), closing(connection):
        connection.request(method, path, headers=headers or {})
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read()
    return 0, {}, b""


def until(condition: Any, seconds: float, what: str) -> None:
    """Return when ``condition()`` is true; Failed when it is not within ``seconds``."""
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(0.1)


def free_port() -> int:
    """A port of this machine that nobody has at the moment."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def try_commands(person: Person, program: Path) -> None:
    """Version, plan and an answer; Failed with what is wrong."""
    check(person.run(program, "--version").startswith("bonsai "), "no version")
    plan = json.loads(person.run(program, "plan", "--json", "--model", "practice"))
    if plan["engine"]["kind"] != "embedded":
        raise Failed(f"the plan's engine is {plan['engine']['kind']}")
    words = ("ask", "--json", "--model", "practice", "--speculative", "--temperature", "0")
    answer = json.loads(person.run(program, *words, "Implement quicksort in Python."))
    check("def quicksort" in answer["text"], "the practice pair does not answer")
    check(answer["speculation"]["engaged"], "speculation is not engaged")


def try_page(person: Person, program: Path, terminal: Path) -> None:
    """The page from its start to Quit, started by ``program``; a second start by ``terminal``. Failed with what is wrong."""
    port = free_port()
    process = subprocess.Popen(
        [str(program), "--no-browser", "--model", "practice", "--ui-port", str(port)],
        env=person.env,
        cwd=person.home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: process.poll() is not None or _ready(port), PAGE_S, "the page")
        check(process.poll() is None, "the app has ended by itself")
        status, headers, body = ask(port, "GET", "/")
        check(status == 200 and b"gradio" in body, "the page is not whole")
        cookie = headers["Set-Cookie"].partition(";")[0]
        check("running already" in person.run(terminal, "--no-browser"), "a second start serves as well")
        until(lambda: len(_family(process.pid)) > 1, PAGE_S, "the engine")
        family = _family(process.pid)
        check(len(family) < 8, f"there are {len(family)} processes")
        address = {"Cookie": cookie, "Content-Type": "application/json"}
        check(ask(port, "POST", "/bonsai/quit", address)[0] == 200, "Quit is refused")
        process.wait(30)
        until(lambda: not any(map(_alive, family)), 20, "every process to end")
    finally:
        if process.poll() is None:
            process.kill()


def _ready(port: int) -> bool:
    status, _, body = ask(port, "GET", "/bonsai/ready")
    state = json.loads(body) if status == 200 else {"ready": False, "problem": ""}
    check(not state["problem"], f"the page says: {state['problem']}")
    return bool(state["ready"])


def _family(pid: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    return []


def _alive(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def main(argv: list[str] | None = None) -> int:
    """0 when all is well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("app", type=Path)
    parser.add_argument("--no-engine", action="store_true", help="for systems without the embedded engine")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        root = Path(name)
        app = options.app.absolute()
        if app.is_file():
            app = unpack(app, root / "Ünï 日本 (app)")
        terminal, desktop = programs(app)
        person = Person(root)
        try:
            if not options.no_engine:
                try_commands(person, terminal)
            try_page(person, desktop, terminal)
            left = list(person.temporary.iterdir())
            check(not left, f"left in the temporary folder: {left}")
        except Failed as error:
            sys.stderr.write(f"{error}\n")
            for log in sorted((person.home / "bonsai" / "logs").glob("launcher-*.log")):
                sys.stderr.write(f"--- {log.name}\n{log.read_text(encoding='utf-8')}\n")
            return 1
    sys.stdout.write("The app works.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
