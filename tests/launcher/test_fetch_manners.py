"""The downloader and the disk, the person's wishes, refusals, and what is never said."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path

import pytest

from launcher.errors import Cancelled, FetchProblem, FolderError, NetworkProblem, NoSpace
from launcher.fetch import Control, Progress
from launcher.fetch_part import check_folder
from tests.conftest import wait_until
from tests.fakes.file_server import Content, Fault, sha256
from tests.launcher.fetching_samples import DATA, NAME, TOKEN, Room, background

SIZE = len(DATA)


# --- disk and folder ---


@pytest.mark.case("C-03")
def test_a_disk_that_is_too_small_is_said_before_anything_comes(room: Room) -> None:
    with pytest.raises(NoSpace) as error:
        room.fetch(total=10**17)
    assert str(room.folder) in error.value.what
    assert "100,000,000.07 GB is needed" in error.value.what
    assert room.server.requests == []
    room.server.files[NAME] = Content(10**17, lambda _, length: bytes(length))
    with pytest.raises(NoSpace):
        room.fetch(total=None)
    assert room.server.sent[NAME] < 10**7


def test_a_folder_that_is_not_there_or_none(room: Room, tmp_path: Path) -> None:
    room.folder = tmp_path / "nowhere"
    with pytest.raises(FolderError, match="nowhere does not exist"):
        room.fetch()
    room.folder.write_bytes(b"")
    with pytest.raises(FolderError, match="nowhere is not a folder"):
        room.fetch()


def test_a_target_that_is_a_folder(room: Room) -> None:
    room.target.mkdir()
    with pytest.raises(FolderError, match="it is no file"):
        room.fetch()


@pytest.mark.parametrize("in_the_way", ["part", "part.json", "part.lock"])
def test_folders_in_the_way_of_our_own_files(room: Room, in_the_way: str) -> None:
    (room.folder / f"{NAME}.{in_the_way}").mkdir()
    with pytest.raises(FolderError, match="cannot be written"):
        room.fetch()


@pytest.mark.case("C-06")
def test_a_path_too_long_for_windows_is_said_before_anything_comes() -> None:
    longest = 249 - len(".part.json.new")
    with pytest.raises(FolderError, match="too long for Windows: 250 characters"):
        check_folder(Path("/" + "x" * longest), windows=True)
    check_folder(Path("/" + "x" * (longest - 1)), windows=True)
    check_folder(Path("/" + "x" * 255), windows=False)


# --- the person's wishes ---


def test_pause_closes_the_connection_and_resume_goes_on(room: Room) -> None:
    control = Control()
    room.server.fault(NAME, Fault(stall_after=300_000))
    thread, raised = background(lambda: room.fetch(control=control, stall_s=30))
    wait_until(lambda: room.server.sent[NAME] == 300_000 and room.part.stat().st_size == 300_000, 10, "bytes")
    control.pause()
    wait_until(lambda: room.server.open_connections == 0, 10, "the connection to be closed")
    wait_until(lambda: room.told[-1].note == "paused", 10, "word of the pause")
    assert room.told[-1].phase == "waiting"
    assert room.part.stat().st_size == 300_000
    control.resume()
    thread.join(20)
    assert raised == []
    assert room.target.read_bytes() == DATA
    assert room.server.sent[NAME] == SIZE


@pytest.mark.parametrize("fault", [
    Fault(silent=True), Fault(stall_after=300_000), Fault(status=503, headers={"Retry-After": "60"}),
    Fault(status=200, headers={"Transfer-Encoding": "chunked", "Content-Length": "0"}, stall_after=0),
])  # fmt: skip
@pytest.mark.parametrize("paused", [False, True])
def test_cancel_ends_it_whatever_it_waits_for(room: Room, fault: Fault, paused: bool) -> None:
    control = Control()
    room.server.always[NAME] = fault
    thread, raised = background(lambda: room.fetch(control=control, stall_s=30))
    wait_until(lambda: room.server.requests and (not fault.status or room.told), 10, "a request")
    if fault.stall_after:
        wait_until(lambda: room.part.stat().st_size == 300_000, 10, "bytes")
    if paused:
        control.pause()
        wait_until(lambda: any(told.note == "paused" for told in room.told), 10, "word of the pause")
    control.cancel()
    thread.join(10)
    assert [type(error) for error in raised] == [Cancelled]
    wait_until(lambda: room.server.open_connections == 0, 10, "the connection to be closed")
    assert room.part.exists() is bool(fault.stall_after)


def test_what_a_listener_raises_ends_it_and_the_part_stays(room: Room) -> None:
    room.server.always[NAME] = Fault(stall_after=300_000)

    def listener(progress: Progress) -> None:
        if progress.have == 300_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        room.fetch(progress=listener, stall_s=30)
    assert room.part.stat().st_size == 300_000
    room.server.always.clear()
    assert room.fetch() == sha256(DATA)


def test_progress_grows_and_tells_the_rate(room: Room) -> None:
    room.server.always[NAME] = Fault(rate=1e6)
    room.fetch(stall_s=20)
    have = [told.have for told in room.told]
    assert have == sorted(have)
    assert len(have) < 40
    rates = [told.rate for told in room.told if told.rate]
    assert rates
    assert all(1e5 < rate < 1e7 for rate in rates[2:])


# --- refusals ---


@pytest.mark.case("C-07")
def test_a_stale_token_is_left_out_after_one_refusal(room: Room) -> None:
    room.server.always[NAME] = Fault(refuse_auth=True)
    assert room.fetch(headers={"Authorization": f"Bearer {TOKEN}"}, plain={"X-Kind": "plain"}) == sha256(DATA)
    first, second = room.server.asked(NAME)
    assert first.headers["authorization"] == f"Bearer {TOKEN}"
    assert "authorization" not in second.headers
    assert second.headers["x-kind"] == "plain"
    assert any("token was refused" in told.note for told in room.told)


@pytest.mark.parametrize(("status", "word"), [(401, "HF_TOKEN"), (403, "403"), (404, "has no"), (418, "418")])
def test_a_plain_refusal_is_an_error_at_once(room: Room, status: int, word: str) -> None:
    room.server.always[NAME] = Fault(status=status)
    with pytest.raises(FetchProblem, match=word):
        room.fetch(headers={"Authorization": f"Bearer {TOKEN}"})
    assert len(room.server.requests) == 1


def test_a_refusal_keeps_what_is_here(room: Room) -> None:
    room.leave(300_000)
    room.server.fault(NAME, Fault(status=403))
    with pytest.raises(FetchProblem):
        room.fetch()
    assert room.fetch() == sha256(DATA)
    assert room.server.sent[NAME] == SIZE


def test_a_rate_limit_is_waited_for_and_said(room: Room) -> None:
    room.server.fault(NAME, Fault(status=429, headers={"Retry-After": "1"}))
    begun = time.monotonic()
    assert room.fetch() == sha256(DATA)
    assert time.monotonic() - begun >= 0.9
    (note,) = {told.note for told in room.told if told.phase == "waiting"}
    assert "too many requests, 429" in note
    assert "Trying again in 1 s" in note


def test_a_rate_limit_of_more_than_five_minutes_is_an_error_that_names_it(room: Room) -> None:
    room.server.always[NAME] = Fault(status=429, headers={"Retry-After": "840"})
    with pytest.raises(FetchProblem, match="only after 14 minutes"):
        room.fetch()
    assert len(room.server.requests) == 1


@pytest.mark.parametrize("where", ["/{name}", "{url}/{name}", "../{name}", "{other}/{name}?Signature=s3cret"])
def test_redirects_are_followed_and_no_token_leaves_its_host(room: Room, where: str) -> None:
    server = room.server
    server.files["old/place"] = b""
    server.fault("old/place", Fault(redirect=where.format(url=server.url, other=server.other_url, name=NAME)))
    headers = {"Authorization": f"Bearer {TOKEN}", "Cookie": "c=1", "X-Api-Key": "k", "User-Agent": "bonsai"}
    assert room.fetch(url=server.url_of("old/place"), headers=headers) == sha256(DATA)
    arrived = server.asked(NAME)[-1].headers
    assert arrived["user-agent"] == "bonsai"
    crossed = where.startswith("{other}")
    assert ("authorization" in arrived, "cookie" in arrived, "x-api-key" in arrived) == (not crossed,) * 3


def test_a_signed_address_that_ran_out_is_asked_for_again(room: Room) -> None:
    server = room.server
    server.always["start"] = Fault(redirect=f"{server.other_url}/{NAME}?Signature=s3cret")
    server.fault(NAME, Fault(cut_after=300_000), Fault(status=403))
    assert room.fetch(url=server.url_of("start")) == sha256(DATA)
    assert [len(server.asked(name)) for name in ("start", NAME)] == [3, 3]


@pytest.mark.parametrize(("where", "words"), [
    ("{url}/start", "without end"), ("ftp://host/file", "makes no sense"), ("http://[::1", "makes no sense"),
])  # fmt: skip
def test_redirects_that_lead_nowhere(room: Room, where: str, words: str) -> None:
    room.server.always["start"] = Fault(redirect=where.format(url=room.server.url))
    with pytest.raises(FetchProblem, match=words):
        room.fetch(url=room.server.url_of("start"))


def test_offline_means_no_request(room: Room) -> None:
    with pytest.raises(NetworkProblem, match="offline"):
        room.fetch(offline=True)
    assert room.server.requests == []
    assert room.names() == []


# --- what is never said ---


@pytest.mark.case("C-07")
def test_tokens_and_signatures_are_in_no_message_note_log_or_file(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server, seen = room.server, []
    signed = f"{server.url}/{NAME}?X-Signature={TOKEN}"
    faults = [
        Fault(cut_after=300_000), Fault(stall_after=10), Fault(status=401), Fault(status=403), Fault(status=404),
        Fault(status=429, headers={"Retry-After": "9999"}), Fault(html=True), Fault(wrong_at=SIZE - 5), Fault(silent=True),
        Fault(redirect=f"ftp://user:{TOKEN}@host/?{TOKEN}"),
    ]  # fmt: skip
    for fault in faults:
        server.always[NAME] = fault
        with pytest.raises(FetchProblem) as error:
            room.fetch(url=signed, headers={"Authorization": f"Bearer {TOKEN}"}, tries=1, stall_s=0.1)
        seen.append(f"{error.value!r} {error.value.args} {error.getrepr(showlocals=False)}")
        for path in room.folder.iterdir():
            if path.suffix == ".json":
                seen.append(path.read_text())
    with pytest.raises(FetchProblem, match="characters that do not belong there") as error:
        room.fetch(headers={"Authorization": f"Bearer {TOKEN}\nX"}, tries=1)
    with pytest.raises(FetchProblem, match="characters that do not belong there"):
        room.fetch(headers={"Authorization": f"Bearer {TOKEN}é"}, tries=1)
    seen += [repr(error.value), json.dumps([told.note for told in room.told]), caplog.text]
    assert TOKEN not in "".join(seen)
