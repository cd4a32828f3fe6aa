"""One page a home: found by a second start, proved by asking, never in the way once it is gone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from launcher import fetch_lock, instance
from launcher.errors import FolderError, LauncherError
from tests.conftest import Bonsai, free_port, wait_until
from tests.webui.conftest import StartPage, run_page


class _Answers(BaseHTTPRequestHandler):
    """A program on some port that answers everything the same way."""

    text = ""
    status = 200
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.text.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def stranger(text: str, status: int = 200) -> Iterator[tuple[str, list[str]]]:
    """Its address, and what it was asked."""
    asked: list[str] = []
    kind = type("Answers", (_Answers,), {"text": text, "status": status, "asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def note(run: Path, url: str) -> Path:
    file = run / "page.json"
    file.write_text(json.dumps({"pid": 1, "url": url, "token": "secret"}), encoding="utf-8")
    return file


@contextlib.contextmanager
def locked(run: Path) -> Iterator[None]:
    """Somebody holds the lock and does nothing else. The system tells two openings of one file apart."""
    with fetch_lock.only_one(run / "page.lock", lambda: pytest.fail("it is taken")):
        yield


@pytest.fixture
def start_page(tmp_path: Path) -> Iterator[StartPage]:
    with contextlib.ExitStack() as stack:
        yield lambda **given: run_page(stack, tmp_path, **given)


def test_the_first_may_serve_and_leaves_nothing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with instance.the_page(run) as page:
        assert isinstance(page, instance.Mine)
        page.announce("http://127.0.0.1:7860")
        record = run / "page.json"
        assert record.stat().st_mode & 0o077 == 0 or os.name == "nt"
        assert page.prove("x") not in record.read_text(encoding="utf-8")
    assert list(run.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "written"),
    [
        ("http://0.0.0.0:7861", "http://127.0.0.1:7861"),
        ("http://[::]:7861", "http://[::1]:7861"),
        ("http://192.168.1.5:7861", "http://192.168.1.5:7861"),
    ],
)
def test_the_address_is_one_that_can_be_opened(tmp_path: Path, url: str, written: str) -> None:
    with instance.the_page(tmp_path) as page:
        assert isinstance(page, instance.Mine)
        page.announce(url)
        record = instance.read(tmp_path / "page.json")
        assert record is not None
        assert record.url == written


@pytest.mark.parametrize(
    ("page", "host"), [({}, "127.0.0.1"), ({"host": "0.0.0.0", "password": "sesame"}, "0.0.0.0")]
)
def test_a_page_that_runs_is_found_and_proves_itself(
    start_page: StartPage, tmp_path: Path, page: dict[str, str], host: str
) -> None:
    mine = instance.Mine(tmp_path / "page.json")
    running = start_page(page=page | {"prove": mine.prove})
    mine.announce(f"http://{host}:{running.port}")
    with locked(tmp_path), instance.the_page(tmp_path) as found:
        assert found == instance.Other(os.getpid(), f"http://127.0.0.1:{running.port}")


def test_the_proof_is_for_this_address_only_and_tells_no_secret(start_page: StartPage) -> None:
    mine = instance.Mine(Path("unused"))
    page = start_page(page={"prove": mine.prove})
    with page.client() as client:
        assert client.get("/bonsai/instance?abc").text == mine.prove("abc")
        assert client.get("/bonsai/instance?abd").text != mine.prove("abc")
        elsewhere = client.get("/bonsai/instance?abc", headers={"Host": "evil.example"})
        assert elsewhere.status_code == 403
        from_a_site = client.get("/bonsai/instance?abc", headers={"Origin": "https://evil.example"})
        assert from_a_site.status_code == 403


@pytest.mark.parametrize(
    ("text", "status"), [("", 200), ("0" * 64, 200), ("x" * 9000, 200), ("", 404), ("é", 200)]
)
def test_somebody_else_on_that_port_is_not_taken_for_it(tmp_path: Path, text: str, status: int) -> None:
    with stranger(text, status) as (url, asked):
        note(tmp_path, url)
        with instance.the_page(tmp_path) as page:  # the record is of one that has crashed
            assert isinstance(page, instance.Mine)
        assert len(asked) == 1
        assert "secret" not in asked[0]


def test_a_proof_cannot_be_kept_for_the_next_time(tmp_path: Path) -> None:
    with stranger(instance.proof("secret", "yesterday's challenge")) as (url, _):
        assert instance.running(note(tmp_path, url)) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"pid": 1}', '{"pid": "x", "url": "u", "token": "t"}', "\x00\xff",
             '{"pid": 1, "url": "http://[", "token": "t"}', '{"pid": 1, "url": "file:///etc", "token": "t"}',
             '{"pid": 1, "url": "http://127.0.0.1:99999", "token": "t"}', '{"pid": 1, "url": "", "token": ""}'],
)  # fmt: skip
def test_a_damaged_record_is_in_nobodys_way(tmp_path: Path, text: str) -> None:
    (tmp_path / "page.json").write_text(text, encoding="latin-1")
    with instance.the_page(tmp_path) as page:
        assert isinstance(page, instance.Mine)


def test_one_that_does_not_answer_is_told_of(tmp_path: Path) -> None:
    note(tmp_path, f"http://127.0.0.1:{free_port()}")
    with (
        locked(tmp_path),
        pytest.raises(LauncherError, match=r"running already \(process 1\).*does not answer") as caught,
        instance.the_page(tmp_path, patience_s=0.3),
    ):
        pass
    assert caught.value.remedy


def test_one_that_just_ends_is_waited_for(tmp_path: Path) -> None:
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.enter_context(locked(tmp_path))
        timer = threading.Timer(0.4, stack.pop_all().close)
        timer.start()
        with instance.the_page(tmp_path, patience_s=20) as page:
            assert isinstance(page, instance.Mine)
            assert time.monotonic() - begun >= 0.3
        timer.join()


def test_a_folder_that_cannot_be_made_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(FolderError), instance.the_page(tmp_path / "file" / "run"):
        pass


# -- whole starts ---------------------------------------------------------------------------------------------


def test_of_starts_at_the_same_moment_exactly_one_serves(bonsai: Bonsai) -> None:
    processes = [bonsai.popen("--no-browser", "--ui-port", str(free_port())) for _ in range(3)]
    try:
        wait_until(lambda: sum(it.poll() is None for it in processes) == 1, 60, "the others to leave")
        left = [it for it in processes if it.poll() is not None]
        assert [it.returncode for it in left] == [0, 0]
        said = bonsai.output()
        assert said.count("running already: http://127.0.0.1:") == 2
        assert said.count("(Ctrl+C ends it)") == 1
    finally:
        _end(processes)


def test_a_crashed_one_blocks_nobody_and_another_home_has_its_own(bonsai: Bonsai, tmp_path: Path) -> None:
    first = bonsai.popen("--no-browser", "--ui-port", str(free_port()))
    wait_until(lambda: "(Ctrl+C ends it)" in bonsai.output(), 60, "the first page")
    elsewhere = bonsai.popen(
        "--no-browser", "--ui-port", str(free_port()), env={"BONSAI_HOME": str(tmp_path / "other")}
    )
    try:
        wait_until(lambda: bonsai.output().count("(Ctrl+C ends it)") == 2, 60, "the other home's page")
        first.kill()
        first.wait()
        assert (bonsai.home / "run" / "page.json").exists()
        again = bonsai.popen("--no-browser", "--ui-port", str(free_port()))
        try:
            wait_until(lambda: bonsai.output().count("(Ctrl+C ends it)") == 3, 60, "the page again")
        finally:
            _end([again])
    finally:
        _end([elsewhere])
    assert list((bonsai.home / "run").iterdir()) == []


def _end(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in processes:
        process.wait(20)
