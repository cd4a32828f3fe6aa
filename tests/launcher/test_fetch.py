"""The downloader against a real server that misbehaves on order."""

from __future__ import annotations

import pytest

from launcher.errors import DigestMismatch, FolderError, NetworkProblem
from tests.conftest import wait_until
from tests.fakes.file_server import Content, Fault, sha256
from tests.launcher.fetching_samples import DATA, NAME, Room

SIZE = len(DATA)


def test_a_file_comes_whole_and_leaves_nothing_beside_it(room: Room) -> None:
    assert room.fetch() == sha256(DATA)
    assert room.target.read_bytes() == DATA
    assert room.names() == [NAME]
    assert room.told[-1].have == room.told[-1].total == SIZE
    (request,) = room.server.asked(NAME)
    assert request.headers["accept-encoding"] == "identity"
    assert "range" not in request.headers


def test_a_file_of_which_nothing_is_known_beforehand(room: Room) -> None:
    assert room.fetch(total=None, digest=None) == sha256(DATA)
    assert room.target.read_bytes() == DATA


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65])
def test_very_small_files(room: Room, size: int) -> None:
    room.server.files[NAME] = DATA[:size]
    assert room.fetch(data=DATA[:size]) == sha256(DATA[:size])
    assert room.target.read_bytes() == DATA[:size]


@pytest.mark.parametrize("digest", ["", None])
@pytest.mark.parametrize(
    ("fault", "sent"),
    [
        (Fault(cut_after=300_000), SIZE),
        (Fault(cut_after=30), SIZE + 30),  # too few to be looked at
        (Fault(stall_after=300_000), SIZE),
        (Fault(silent=True), SIZE),
        (Fault(hang_up=True), SIZE),
        (Fault(status=500), SIZE),
        (Fault(status=502, body=b"<html>bad gateway</html>"), SIZE + 24),
        (Fault(no_length=True), SIZE),
        (Fault(no_length=True, cut_after=300_000), SIZE),
        (Fault(headers={"Content-Length": str(SIZE - 5)}, cut_after=SIZE - 5), None),
        (Fault(extra=b"more"), None),
        (Fault(html=True), None),
        (Fault(headers={"Content-Encoding": "gzip"}), None),
        (Fault(headers={"Transfer-Encoding": "chunked"}, cut_after=300_000), None),
    ],
)
@pytest.mark.case("C-01")
def test_one_fault_costs_no_byte_that_came(
    room: Room, fault: Fault, sent: int | None, digest: str | None
) -> None:
    room.server.fault(NAME, fault)
    assert room.fetch(digest=digest) == sha256(DATA)
    assert room.target.read_bytes() == DATA
    assert room.names() == [NAME]
    if sent is not None:
        assert room.server.sent[NAME] == sent


@pytest.mark.case("C-01")
def test_a_transfer_that_stands_still_again_and_again_goes_on_each_time(room: Room) -> None:
    room.server.always[NAME] = Fault(stall_after=100_000)
    assert room.fetch(tries=2, stall_s=0.2) == sha256(DATA)
    assert room.server.sent[NAME] == SIZE
    starts = [request.headers.get("range") for request in room.server.asked(NAME)]
    assert starts == [None, *(f"bytes={count}00000-" for count in range(1, 8))]
    assert any("stands still at" in told.note for told in room.told)


@pytest.mark.case("C-01")
@pytest.mark.parametrize("fault", [Fault(silent=True), Fault(stall_after=0)])
def test_a_server_that_brings_nothing_is_given_up(room: Room, fault: Fault) -> None:
    room.server.always[NAME] = fault
    with pytest.raises(NetworkProblem, match=r"stands still at .* of 700 kB: no byte came for"):
        room.fetch(tries=2, stall_s=0.03)
    wait_until(lambda: room.server.open_connections == 0, 5, "the connections to be closed")


def test_chunked_answers_are_read_and_resumed(room: Room) -> None:
    cut = (DATA[:300_000], DATA[300_000:])
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in cut) + b"0\r\n\r\n"
    room.server.files["chunked"] = body
    room.server.always["chunked"] = Fault(
        no_length=True, ignore_range=True, headers={"Transfer-Encoding": "chunked"}
    )
    room.server.fault(
        "chunked", Fault(no_length=True, cut_after=200_000, headers={"Transfer-Encoding": "chunked"})
    )
    assert room.fetch(url=room.server.url_of("chunked"), total=None) == sha256(DATA)
    assert room.target.read_bytes() == DATA


# --- going on ---


def test_a_later_call_reads_what_is_here_and_asks_for_the_rest(room: Room) -> None:
    room.leave(300_000)
    assert room.fetch() == sha256(DATA)
    assert room.server.sent[NAME] == SIZE
    again = room.server.asked(NAME)[-1]
    assert again.headers["range"] == "bytes=300000-"
    assert again.headers["if-range"] == f'"{sha256(DATA)}"'
    assert room.told[0].phase == "checking"
    assert room.told[-1].phase == "running"


def test_a_part_that_is_complete_needs_no_request(room: Room) -> None:
    room.leave(300_000)
    room.part.write_bytes(DATA)
    asked = len(room.server.requests)
    assert room.fetch(offline=True) == sha256(DATA)
    assert len(room.server.requests) == asked


@pytest.mark.case("C-03")
@pytest.mark.parametrize("digest", ["", None])
def test_a_part_of_another_file_is_not_gone_on_with(room: Room, digest: str | None) -> None:
    room.leave(300_000, digest=digest)
    other = b"GGUF" + DATA[:3:-1]
    room.server.files[NAME] = other
    assert room.fetch(data=other, digest=digest and sha256(other)) == sha256(other)
    assert room.target.read_bytes() == other


def test_a_published_digest_finds_its_part_under_another_address(room: Room) -> None:
    room.leave(300_000)
    room.server.files["mirror/file"] = DATA
    assert room.fetch(url=room.server.url_of("mirror/file")) == sha256(DATA)
    assert room.server.sent["mirror/file"] == SIZE - 300_000


@pytest.mark.parametrize(
    "note", [None, b"", b"[]", b'{"total": "many", "etag": 7}', b"\xff\xfe", b"[" * 10_000]
)
def test_a_note_that_makes_no_sense_spoils_nothing(room: Room, note: bytes | None) -> None:
    room.leave(300_000)
    path = room.folder / f"{NAME}.part.json"
    path.unlink() if note is None else path.write_bytes(note)
    assert room.fetch() == sha256(DATA)


def test_a_part_that_is_too_long_is_thrown_away(room: Room) -> None:
    room.leave(300_000)
    with room.part.open("ab") as file:
        file.write(bytes(SIZE))
    assert room.fetch() == sha256(DATA)


@pytest.mark.parametrize("known", [True, False])
def test_a_part_longer_than_what_the_server_has(room: Room, known: bool) -> None:
    room.leave(600_000)
    small = DATA[:1000]
    room.server.files[NAME] = small
    if known:
        with pytest.raises(DigestMismatch, match=f"1000 bytes, but it must have {SIZE}"):
            room.fetch(digest=None)
    else:
        assert room.fetch(data=small, total=None, digest=None) == sha256(small)


def test_a_complete_part_of_unknown_size_is_recognised_by_416(room: Room) -> None:
    room.leave(300_000, total=None)
    room.part.write_bytes(DATA)
    (room.folder / f"{NAME}.part.json").unlink()
    assert room.fetch(total=None) == sha256(DATA)
    assert room.server.sent[NAME] == 300_000


@pytest.mark.parametrize(
    "fault", [Fault(ignore_range=True), Fault(range_shift=7), Fault(range_shift=-7), Fault(status=416)]
)
def test_servers_that_know_no_ranges(room: Room, fault: Fault) -> None:
    room.leave(300_000)
    room.server.always[NAME] = fault
    if fault.status:
        room.server.always.clear()
        room.server.fault(NAME, fault)
    assert room.fetch() == sha256(DATA)
    assert room.target.read_bytes() == DATA


def test_without_ranges_what_is_here_survives_another_cut(room: Room) -> None:
    room.leave(500_000)
    room.server.fault(NAME, Fault(ignore_range=True, cut_after=400_000))
    assert room.fetch() == sha256(DATA)
    assert room.server.asked(NAME)[-1].headers["range"] == "bytes=500000-"


def test_a_file_that_changes_meanwhile_is_fetched_anew(room: Room) -> None:
    room.leave(300_000, digest=None)
    other = b"GGUF" + DATA[:3:-1]
    room.server.files[NAME] = other
    assert room.fetch(data=other, digest=None) == sha256(other)
    assert room.target.read_bytes() == other


def test_a_file_that_changes_under_a_server_without_if_range(room: Room) -> None:
    room.leave(300_000, digest=None)
    room.server.files[NAME] = Content(SIZE, lambda start, length: DATA[start : start + length], "changed")
    room.server.fault(NAME, Fault(status=206, headers={
        "Content-Range": f"bytes 300000-{SIZE - 1}/{SIZE}", "ETag": '"changed"'}, body=DATA[300_000:]))  # fmt: skip
    assert room.fetch(digest=None) == sha256(DATA)
    assert "range" not in room.server.asked(NAME)[-1].headers


# --- wrong bytes ---


@pytest.mark.case("C-03")
def test_wrong_bytes_are_thrown_away_and_fetched_once_more(room: Room) -> None:
    room.server.fault(NAME, Fault(wrong_at=SIZE // 2))
    assert room.fetch() == sha256(DATA)
    assert room.server.sent[NAME] == 2 * SIZE


@pytest.mark.case("C-03")
def test_wrong_bytes_twice_are_an_error_and_nothing_stays(room: Room) -> None:
    room.server.always[NAME] = Fault(wrong_at=SIZE // 2)
    with pytest.raises(DigestMismatch) as error:
        room.fetch()
    assert str(room.target) in error.value.what
    assert sha256(DATA)[:12] in error.value.what
    assert room.names() == []
    assert room.server.sent[NAME] == 2 * SIZE


@pytest.mark.case("C-03")
def test_a_kept_part_that_was_damaged_is_found_out(room: Room) -> None:
    room.leave(300_000)
    with room.part.open("r+b") as file:
        file.seek(1000)
        file.write(b"\0" * 5000)
    assert room.fetch() == sha256(DATA)
    assert room.target.read_bytes() == DATA


@pytest.mark.case("C-03")
def test_a_file_of_that_name_is_taken_only_when_it_is_right(room: Room) -> None:
    room.target.write_bytes(DATA)
    assert room.fetch(offline=True) == sha256(DATA)
    room.target.write_bytes(DATA[: SIZE // 2])
    with pytest.raises(FolderError, match=rf"{NAME}: it has {SIZE // 2} bytes, {SIZE} are right"):
        room.fetch()
    assert room.target.stat().st_size == SIZE // 2
    room.target.write_bytes(b"x" + DATA[1:])
    with pytest.raises(FolderError, match="but other content"):
        room.fetch()
    assert room.server.requests == []


PAGES = [
    Fault(html=True),
    Fault(
        status=200, body=b"<?xml version='1.0'?><html/>", headers={"Content-Type": "text/html; charset=utf-8"}
    ),
    Fault(status=511, body=b"<html>"),
]


@pytest.mark.parametrize("fault", PAGES)
@pytest.mark.parametrize("total", [-1, None])
def test_a_web_page_in_place_of_the_file(room: Room, fault: Fault, total: int | None) -> None:
    room.server.always[NAME] = fault
    with pytest.raises(NetworkProblem, match="sent a web page: a login page of the network") as error:
        room.fetch(total=total)
    assert "sign in" in error.value.remedy
    assert room.names() == []


def test_a_web_page_that_does_not_say_so(room: Room) -> None:
    page = b"\xef\xbb\xbf \n<HTML><body>Welcome to the hotel".ljust(SIZE)
    room.server.files[NAME] = page
    with pytest.raises(NetworkProblem, match="sent a web page"):
        room.fetch()
    room.server.files[NAME] = page[:-1]
    with pytest.raises(DigestMismatch, match=f"{SIZE - 1} bytes, but it must have {SIZE}"):
        room.fetch()
    assert room.names() == []


def test_a_web_page_spoils_no_part(room: Room) -> None:
    room.leave(300_000)
    room.server.always[NAME] = Fault(html=True)
    with pytest.raises(NetworkProblem, match="sent a web page"):
        room.fetch(digest=None)
    room.server.always.clear()
    assert room.fetch(digest=None) == sha256(DATA)
    assert room.server.asked(NAME)[-1].headers["range"] == "bytes=300000-"
