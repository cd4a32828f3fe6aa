"""No console: words go to a log, and what keeps the launcher from starting is a page."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from launcher import alert, streams
from launcher.errors import LauncherError, SettingsError
from launcher.paths import locate
from tests.conftest import ROOT, clean_environment, free_port, wait_until

# A start without streams, as a program without a console has it.
WITHOUT = "import sys; sys.stdin = sys.stdout = sys.stderr = None; from launcher.__main__ import main; main()"


class Desktop:
    """A person who sees no terminal, and a browser that notes what it is to open."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "hömé"
        self.opened = folder / "opened"
        self.browser = folder / "browser"
        self.browser.write_text(f'#!/bin/sh\necho "$1" >> "{self.opened}"\n', encoding="utf-8")
        self.browser.chmod(0o755)

    def start(self, *arguments: str, **more: str) -> subprocess.Popen[bytes]:
        ours = {"BONSAI_HOME": str(self.home), "BONSAI_MODEL": "practice", "BROWSER": f"{self.browser} %s"}
        env = clean_environment(ours | more) | {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
        # What still reached the real streams would be seen here.
        return subprocess.Popen(
            [sys.executable, "-c", WITHOUT, *arguments],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def log(self) -> str:
        (path,) = (self.home / "logs").glob(streams.PATTERN)
        return path.read_text(encoding="utf-8")

    def page(self) -> str:
        """The page that was opened."""
        (address,) = self.opened.read_text(encoding="utf-8").splitlines()
        return Path(unquote(urlsplit(address).path)).read_text(encoding="utf-8")


@pytest.fixture
def desktop(tmp_path: Path) -> Desktop:
    return Desktop(tmp_path)


pytestmark = pytest.mark.system("posix")


@pytest.mark.case("F-02")
def test_without_streams_the_page_is_served_and_opened(desktop: Desktop) -> None:
    port = free_port()
    process = desktop.start("--ui-port", str(port))
    try:
        wait_until(lambda: desktop.opened.exists() or process.poll() is not None, 60, "the browser")
        assert desktop.opened.read_text(encoding="utf-8").split() == [f"http://127.0.0.1:{port}"]
        assert f"http://127.0.0.1:{port}" in desktop.log()
    finally:
        process.terminate()
        output, _ = process.communicate(timeout=20)
    assert output == b""
    assert "Traceback" not in desktop.log()
    (log,) = (desktop.home / "logs").glob(streams.PATTERN)
    assert log.stat().st_mode & 0o077 == 0


@pytest.mark.case("F-02")
@pytest.mark.parametrize(
    "command", [("plan",), ("models",), ("engines", "--json"), ("--help",), ("plan", "--no")]
)
def test_without_streams_no_command_fails_for_it(desktop: Desktop, command: tuple[str, ...]) -> None:
    process = desktop.start(*command)
    output, _ = process.communicate(timeout=60)
    assert output == b""
    assert process.returncode == (2 if "--no" in command else 0)
    assert "Traceback" not in desktop.log()
    assert len(desktop.log()) > 100
    assert not desktop.opened.exists()


def test_what_keeps_it_from_starting_is_a_page(desktop: Desktop) -> None:
    desktop.home.mkdir()
    (desktop.home / "config.toml").write_text("ctx = 'many & more'\n", encoding="utf-8")
    process = desktop.start()
    assert process.wait(60) == 2
    wait_until(desktop.opened.exists, 10, "the browser")
    page = desktop.page()
    (error,) = re.findall(r"Error: (.+)", desktop.log())
    sentence = re.search(r'<p role="alert">(.+?)</p>', page)
    assert sentence
    assert sentence[1] == page_text(error)
    assert "many &amp; more" in page or "many" not in error
    assert re.search(r"launcher-\d+-\d+-\d+\.log", page)


def page_text(text: str) -> str:
    """``text`` as it stands in the page."""
    error = LauncherError(text)
    found = re.search(r'<p role="alert">(.+?)</p>', alert.page(error, None))
    assert found
    return found[1].encode("ascii", "xmlcharrefreplace").decode()


@pytest.mark.parametrize("arguments", [("--no-browser",), ("plan",)])
def test_who_types_a_command_gets_no_page(desktop: Desktop, arguments: tuple[str, ...]) -> None:
    process = desktop.start(*arguments, BONSAI_CTX="many")
    assert process.wait(60) == 2
    assert "Error: " in desktop.log()
    assert not desktop.opened.exists()


def test_what_should_not_happen_is_a_page_too() -> None:
    page = alert.page(alert.unexpected(ZeroDivisionError("<oh>")), Path("/some/log"))
    assert "ZeroDivisionError: &lt;oh&gt;" in page
    assert "/some/log" in page


def test_a_home_that_cannot_be_used_is_no_reason_to_be_silent(desktop: Desktop) -> None:
    desktop.home.write_text("a file", encoding="utf-8")
    process = desktop.start()
    assert process.wait(60) == 3
    wait_until(desktop.opened.exists, 10, "the browser")
    assert "hömé".encode("ascii", "xmlcharrefreplace").decode() in desktop.page()


def test_only_the_last_logs_are_kept(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"launcher-20010101-00000{number}-1.log").write_text("old", encoding="utf-8")
    (tmp_path / "llama-server-x.log").write_text("another's", encoding="utf-8")
    made = streams.new_log(tmp_path)
    assert made is not None
    made[1].close()
    left = sorted(path.name for path in tmp_path.glob(streams.PATTERN))
    assert len(left) == streams.KEPT_RUNS
    assert made[0].name in left
    assert left[0] == "launcher-20010101-000004-1.log"
    assert (tmp_path / "llama-server-x.log").exists()


def test_a_log_does_not_grow_for_ever(tmp_path: Path) -> None:
    with io.FileIO(tmp_path / "log", "wb") as file:
        capped = streams.Capped(file, 100)
        for _ in range(1000):
            assert capped.write(b"x" * 30) == 30
    kept = (tmp_path / "log").read_bytes()
    assert kept.startswith(b"x" * 90)
    assert kept.endswith(b"not kept\n")
    assert len(kept) < 200


def test_a_full_disk_ends_nothing() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    capped = streams.Capped(io.FileIO("/dev/full", "wb"), 100)
    assert capped.write(b"hello") == 5


def test_without_a_folder_words_go_nowhere(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert streams.new_log(tmp_path / "file" / "logs") is None


@pytest.mark.parametrize("frozen", [False, True])
def test_the_null_device_counts_as_nobody_in_the_app_alone(
    monkeypatch: pytest.MonkeyPatch, frozen: bool, tmp_path: Path
) -> None:
    if frozen:
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    with Path(os.devnull).open("w") as null, (tmp_path / "file").open("w") as file:
        assert streams.unread(null) is frozen
        assert not streams.unread(file)
    assert streams.unread(null)  # closed
    assert streams.unread(None)
    assert not streams.unread(io.StringIO())


def test_a_box_exists_where_the_system_has_one() -> None:
    assert alert.box("text", "Linux") is False


def test_the_page_is_shown_with_what_to_try(desktop: Desktop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER", f"{desktop.browser} %s")
    error = SettingsError("BONSAI_CTX is <b>wrong</b>.", "Give a number.")
    file = alert.show(error, locate(str(desktop.home)).logs, None)
    assert file is not None
    wait_until(desktop.opened.exists, 10, "the browser")
    page = desktop.page()
    assert "BONSAI_CTX is &lt;b&gt;wrong&lt;/b&gt;." in page
    assert "Give a number." in page
    assert file.stat().st_mode & 0o077 == 0


def test_the_null_device_is_told_from_others() -> None:
    null = Path(os.devnull).stat()
    with Path(os.devnull).open("rb") as stream:
        assert streams.is_null_device(os.fstat(stream.fileno()), null)
    with Path(__file__).open("rb") as stream:
        assert not streams.is_null_device(os.fstat(stream.fileno()), null)
    # What Windows says of a console, of a pipe and of the null device alike, but for the mode.
    nothing = os.stat_result((0o020000, *[0] * 9))
    assert not streams.is_null_device(nothing, nothing)
