"""The packaged app as a person without Python has it: an empty home, no Python on PATH, no network."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Page, expect, sync_playwright

from launcher.practice import expected_acceptance
from tests.conftest import Bonsai, free_port, wait_until
from tests.fakes import no_network
from tests.ordinary import ORDINARY
from tests.standins import standins
from tests.test_fetch_whole import serve

pytestmark = [pytest.mark.frozen, pytest.mark.system("linux")]
NO_NETWORK = Path(no_network.__file__)
ANSWER_MS = 90_000


@dataclass
class Person:
    """Somebody's machine: a home, a temporary folder, and nothing on PATH."""

    app: Path
    root: Path

    def __post_init__(self) -> None:
        for folder in (self.home, self.temporary, self.bin):
            folder.mkdir(parents=True)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def temporary(self) -> Path:
        return self.root / "tmp"

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def said(self) -> str:
        return (self.root / "stderr").read_text(encoding="utf-8")

    @property
    def running(self) -> Path:
        """The folder of running processes."""
        return self.home / ".local/share/bonsai-launcher/run"

    def env(self, **more: str) -> dict[str, str]:
        nowhere = "http://127.0.0.1:9"
        return {
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "PATH": str(self.bin),
            "LANG": "C.UTF-8",
            "HTTP_PROXY": nowhere,
            "HTTPS_PROXY": nowhere,
        } | more

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*ORDINARY, self.app, *arguments],
            env=self.env(**more),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    def popen(self, *arguments: str, alone: bool = False, **more: str) -> subprocess.Popen[bytes]:
        """``alone``: without any network, where that can be had."""
        command = [str(self.app), *arguments]
        if alone and os.geteuid() == 0:
            command = [sys.executable, str(NO_NETWORK), *command]
        with (self.root / "stderr").open("wb") as err:
            return subprocess.Popen(
                command,
                env=self.env(**more),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=err,
            )


@pytest.fixture
def person(app_program: Path, tmp_path: Path) -> Person:
    return Person(app_program, tmp_path / "person")


@contextlib.contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(20)


def family(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Everything that it has started, and it."""
    parent = psutil.Process(process.pid)
    return [parent, *parent.children(recursive=True)]


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that still do something; nobody may be there to reap the rest."""
    left = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                left.append(process)
    return left


def with_engine(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The family, once the engine is in it."""

    def engine() -> bool:
        return any("embedded-server" in it.cmdline() for it in alive(family(process)))

    wait_until(engine, 60, "the engine")
    return family(process)


def browser_beside(process: subprocess.Popen[bytes], chromium: str, folder: Path) -> str:
    """A way to start Chromium in the network of ``process``."""
    script = folder / "chromium"
    enter = shutil.which("nsenter")
    there, here = (Path(f"/proc/{pid}/ns/net").readlink() for pid in (process.pid, "self"))
    prefix = f"{enter} --net=/proc/{process.pid}/ns/net " if there != here else ""
    script.write_text(f'#!/bin/sh\nexec {prefix}{chromium} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return str(script)


@pytest.mark.browser
@pytest.mark.case("F-01")
@pytest.mark.case("F-05")
def test_chat_race_and_quit_in_an_empty_home_without_python_or_network(
    person: Person, chromium_path: str, tmp_path: Path
) -> None:
    port = free_port()
    command = ("--no-browser", "--ui-port", str(port))
    with (
        ended(person.popen(*command, alone=True, BONSAI_SPECULATIVE="1")) as process,
        sync_playwright() as playwright,
    ):
        wait_until(lambda: "http://" in person.said or process.poll() is not None, 60, "the page's address")
        assert process.poll() is None, person.said
        browser = playwright.chromium.launch(
            executable_path=browser_beside(process, chromium_path, tmp_path), args=["--no-sandbox"]
        )
        tab = browser.new_page()
        problems: list[str] = []
        tab.on("pageerror", lambda problem: problems.append(str(problem)))
        tab.goto(f"http://127.0.0.1:{port}/")
        tab.wait_for_selector("#b-prompt", timeout=60_000)
        # Nobody has said which model: the large one is offered with its size, and the practice pair answers.
        tab.get_by_role("button", name=re.compile("^Fetch")).wait_for(timeout=60_000)
        chat(tab)
        race(tab)
        everybody = alive(family(process))
        assert len(everybody) >= 2
        quit_page(tab)
        assert process.wait(30) == 0, person.said
        assert problems == []
        browser.close()
    wait_until(lambda: not alive(everybody), 10, "every process to end")
    assert list(person.temporary.iterdir()) == []
    assert list(person.running.iterdir()) == []
    assert {it.name for it in person.home.iterdir()} <= {".local", ".cache"}


def chat(tab: Page) -> None:
    tab.wait_for_selector("text=Ready", timeout=60_000)
    tab.fill("#b-prompt", "Implement quicksort in Python.")
    tab.press("#b-prompt", "Enter")
    expect(tab.locator(".b-answer").last).to_contain_text("def quicksort", timeout=ANSWER_MS)
    tab.wait_for_selector(".b-running", state="detached", timeout=ANSWER_MS)
    expected = expected_acceptance("code")
    counts = f"{expected.draft_n_accepted}/{expected.draft_n}"
    expect(tab.locator(".b-answer .b-figures").first).to_contain_text(counts)


def race(tab: Page) -> None:
    tab.get_by_role("tab", name="Race").click()
    tab.wait_for_selector(".r-go", timeout=20_000)
    tab.click(".r-more:not(.r-blocked) summary")
    tab.locator(".r-rounds").select_option("1")
    tab.locator(".r-tokens").fill("24")
    tab.click(".r-go")
    tab.wait_for_selector(".r-verdict", timeout=100_000)
    expect(tab.locator(".r-notes")).to_contain_text("Both texts are identical.")


def quit_page(tab: Page) -> None:
    tab.get_by_role("tab", name="Machine").click()
    tab.get_by_role("button", name="Quit Bonsai").click()
    tab.get_by_role("dialog").get_by_role("button", name="Quit").click()
    tab.get_by_role("heading", name="Bonsai has been closed").wait_for(timeout=20_000)


@pytest.mark.case("F-04")
def test_killed_it_leaves_no_process_and_nothing_in_the_temporary_folder(person: Person) -> None:
    with ended(person.popen("--no-browser", "--ui-port", str(free_port()))) as process:
        everybody = with_engine(process)
        programs = [it.cmdline()[1] for it in everybody[1:]]
        assert sorted(programs) == ["embedded-server", "watched"]  # one of each, and not the app again
        process.kill()
        process.wait(10)
        wait_until(lambda: not alive(everybody), 10, "every process to end")
    assert list(person.temporary.iterdir()) == []


def test_a_second_start_brings_the_first_forward(person: Person) -> None:
    opened = person.root / "opened"
    port = free_port()
    script = person.bin / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" "$LD_LIBRARY_PATH" >> "{opened}"\n', encoding="utf-8")
    script.chmod(0o755)
    browser = f"{script} %s"
    with ended(person.popen("--ui-port", str(port), BROWSER=browser)) as process:
        wait_until(opened.exists, 60, "the browser")
        wait_until(lambda: process.poll() is not None or ready(port), 60, "the page")
        second = person.run(BROWSER=browser)
        assert second.returncode == 0
        assert f"running already: http://127.0.0.1:{port}" in second.stderr
        assert second.stderr.count("\n") == 1
        assert process.poll() is None
        # Twice the same page, and the browser is told nothing of our own libraries.
        wait_until(lambda: opened.read_text(encoding="utf-8").count("\n") == 2, 10, "the browser again")
        assert set(opened.read_text(encoding="utf-8").splitlines()) == {f"http://127.0.0.1:{port} "}


def ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/bonsai/ready")
        return bool(json.loads(connection.getresponse().read())["ready"])
    return False


def test_it_works_from_a_read_only_folder_whose_path_is_not_ascii(app_program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "Ünï 日本 (my app)"
    shutil.copytree(app_program.parent, folder, copy_function=os.link, symlinks=True)
    person = Person(folder / app_program.name, tmp_path / "pérsön with spaces")
    folders = [path for path in (folder, *folder.rglob("*")) if path.is_dir() and not path.is_symlink()]
    for path in folders:
        path.chmod(0o555)
    assert subprocess.call([*ORDINARY, "touch", folder / "new"]) != 0, "this would prove nothing"
    before = sorted(str(path) for path in folder.rglob("*"))
    arguments = ("ask", "--json", "--temperature", "0", "--speculative", "Implement quicksort in Python.")
    done = person.run(*arguments, BONSAI_MODEL="practice", BONSAI_HOME=str(person.home / "daten ß"))
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    expected = expected_acceptance("code")
    assert answer["speculation"]["engaged"] is True
    assert answer["timings"]["draft_n_accepted"] == expected.draft_n_accepted
    assert sorted(str(path) for path in folder.rglob("*")) == before
    for path in folders:
        path.chmod(0o755)


@pytest.mark.parametrize("own", ["", "/somewhere/mine"])
def test_no_library_path_of_ours_reaches_an_engine(person: Person, own: str) -> None:
    noted = person.root / "noted"
    engine = person.root / "llama-server"
    engine.write_text(f'#!/bin/sh\n/usr/bin/env > "{noted}"\n', encoding="utf-8")
    engine.chmod(0o755)
    given = {"LD_LIBRARY_PATH": own} if own else {}
    done = person.run("plan", BONSAI_MODEL="practice", BONSAI_LLAMA_SERVER=str(engine), **given)
    assert done.returncode == 4, done.stderr  # it is no llama-server; but it was asked
    seen = dict(line.split("=", 1) for line in noted.read_text(encoding="utf-8").splitlines() if "=" in line)
    assert seen.get("LD_LIBRARY_PATH", "") == own
    assert not [name for name in seen if name.endswith("_ORIG")]
    assert str(person.app.parent) not in " ".join(value for name, value in seen.items() if "_PYI" not in name)


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
#include <sys/time.h>
static const long ago = 25L * 365 * 86400;
int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, t);
    if (id == CLOCK_REALTIME) t->tv_sec -= ago;
    return result;
}
time_t time(time_t *out) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out) *out = t.tv_sec;
    return t.tv_sec;
}
int gettimeofday(struct timeval *out, void *zone) {
    struct timespec t;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &t);
    out->tv_sec = t.tv_sec;
    out->tv_usec = t.tv_nsec / 1000;
    return 0;
}
"""


def test_it_works_with_the_clock_set_wrong(person: Person, tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    library = tmp_path / "clock.so"
    command = [compiler, "-shared", "-fPIC", "-o", str(library), "-x", "c", "-", "-ldl"]
    subprocess.run(command, input=CLOCK, text=True, check=True)
    arguments = ("ask", "--json", "--speculative", "--max-tokens", "40", "Implement quicksort in Python.")
    done = person.run(*arguments, BONSAI_MODEL="practice", LD_PRELOAD=str(library))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["speculation"]["engaged"] is True
    (log,) = person.home.rglob("llama-server-*.log")
    assert int(log.name.split("-")[2][:4]) <= 2025  # the clock was wrong


def test_every_command_explains_itself(person: Person) -> None:
    top = person.run("--help")
    assert top.returncode == 0, top.stderr
    names = re.findall(r"^  ([a-z]+)  ", top.stdout.partition("Commands:")[2], re.MULTILINE)
    assert {"serve", "plan", "ask", "race", "doctor", "fetch", "models", "engines"} <= set(names)
    for name in names:
        done = person.run(name, "--help")
        assert done.returncode == 0, (name, done.stderr)
        assert f"{name} [OPTIONS]" in done.stdout


def test_an_engine_cannot_be_built_without_a_compiler_and_says_so(person: Person) -> None:
    done = person.run("engines", "build")
    assert done.returncode == 4
    assert re.search(r"^Error: .+\.\n.+", done.stderr, re.MULTILINE)
    assert "Traceback" not in done.stderr


def test_it_fetches_a_trio_and_plans_it_as_the_unfrozen_one_does(
    app_program: Path, bonsai: Bonsai, tmp_path: Path
) -> None:
    packaged = Bonsai(tmp_path / "packaged")
    packaged.home.mkdir()
    packaged.command = [str(app_program)]
    for net in serve(standins()):
        plans = []
        for each in (bonsai, packaged):
            done = each("fetch", env=net.env)
            assert done.returncode == 0, done.stderr
            plan = each("plan", "--json", "--speculative", "--ctx", "4096", env=net.env)
            assert plan.returncode == 0, plan.stderr
            # This machine's free memory changes all the time.
            told = re.sub(r"[\d.]+ GiB", "some GiB", plan.stdout.replace(str(each.home), "HOME"))
            plans.append(json.loads(told))
            del plans[-1]["memory"], plans[-1]["machine"]
        assert plans[0] == plans[1]
        assert plans[0]["on_disk"] is True
        assert plans[0]["engine"]["probed"] is True


def test_the_licences_of_everything_inside_come_along(app_program: Path) -> None:
    licences = app_program.parent / "licenses"
    listed = (licences / "LIST.txt").read_text(encoding="utf-8")
    for name in ("Bonsai Launcher", "Python", "pyinstaller", "llama.cpp", "gradio", "numpy", "xllamacpp"):
        assert re.search(rf"^{re.escape(name)}\b", listed, re.MULTILINE), name
        assert any((licences / name).iterdir()), name
    assert not list(app_program.parent.rglob("*readline*"))


def test_ctrl_c_ends_it_in_order(person: Person) -> None:
    with ended(person.popen("--no-browser", "--ui-port", str(free_port()))) as process:
        everybody = with_engine(process)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) in (0, 130)
        wait_until(lambda: not alive(everybody), 10, "every process to end")
    assert "Traceback" not in person.said
