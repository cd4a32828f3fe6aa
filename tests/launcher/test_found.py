"""Files that are on this machine already: the hub's cache as its own client fills it, and folders of others."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import huggingface_hub
import pytest

from launcher.catalog import HubFile
from launcher.errors import Cancelled
from launcher.found import Folders, candidates, check, proved, unread, wrong
from launcher.hub import Hub
from launcher.verified import Verified
from tests.conftest import wait_until
from tests.fakes.file_server import sha256
from tests.fakes.hub_server import HubServer

REPO, NAME, DATA, OTHER = "owner/model", "weights.gguf", b"GGUF" * 500, b"ggUF" * 500
PINNED = HubFile(REPO, NAME, None, len(DATA), sha256(DATA))


@pytest.fixture
def server() -> Iterator[HubServer]:
    with HubServer({REPO: {NAME: DATA}}) as server:
        yield server


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    return Hub({"HF_HOME": str(tmp_path / "hf")}, None, offline=False)


def find(file: HubFile, folders: Folders, hub: Hub, verified: Verified) -> Path | None:
    """As a start has it: what nobody has read is read."""
    return check(candidates(file, folders, hub), verified)


def download(server: HubServer, cache: Path) -> Path:
    """As every other program on this machine does it."""
    return Path(
        huggingface_hub.hf_hub_download(REPO, NAME, endpoint=server.url, cache_dir=cache, token=False)
    )


def lay(path: Path, data: bytes = DATA) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


# -- the hub's cache ----------------------------------------------------------------------------------------


@pytest.mark.case("C-08")
def test_what_the_client_fetched_is_found_without_a_request(
    server: HubServer, tmp_path: Path, hub: Hub
) -> None:
    path = download(server, tmp_path / "hf" / "hub")
    asked, commit = len(server.requests), server.commit(REPO)
    for file in (
        PINNED,
        HubFile(REPO, NAME),
        HubFile(REPO, NAME, commit),
        HubFile(REPO, NAME, commit, len(DATA)),
    ):
        assert hub.cached(file) == path
        assert find(file, Folders(), hub, Verified(tmp_path)) == path
    client = huggingface_hub.try_to_load_from_cache(REPO, NAME, cache_dir=tmp_path / "hf" / "hub")
    assert client == str(path)
    assert len(server.requests) == asked


def test_a_revision_that_is_not_there_but_the_same_bytes(server: HubServer, tmp_path: Path, hub: Hub) -> None:
    path = download(server, tmp_path / "hf" / "hub")
    assert hub.cached(HubFile(REPO, NAME, "0" * 40, len(DATA), sha256(DATA))) == path
    assert hub.cached(HubFile(REPO, NAME, "0" * 40)) is None


@pytest.mark.parametrize(
    "file",
    [
        HubFile(REPO, NAME, None, len(DATA) + 1, sha256(DATA)),
        HubFile(REPO, NAME, None, len(DATA), sha256(OTHER)),
        HubFile(REPO, "other.gguf"),
        HubFile("owner/other", NAME),
    ],
)
def test_what_is_not_it(server: HubServer, tmp_path: Path, hub: Hub, file: HubFile) -> None:
    download(server, tmp_path / "hf" / "hub")
    assert hub.cached(file) is None


@pytest.mark.parametrize(
    ("env", "folder"),
    [
        ({"HF_HUB_CACHE": "{}/a"}, "a"),
        ({"HUGGINGFACE_HUB_CACHE": "{}/b"}, "b"),
        ({"HF_HOME": "{}/c"}, "c/hub"),
        ({"XDG_CACHE_HOME": "{}/d"}, "d/huggingface/hub"),
        ({"HF_HOME": "$BASE/${{SUB}}", "BASE": "{}", "SUB": "e"}, "e/hub"),
    ],
)
def test_where_the_cache_is(server: HubServer, tmp_path: Path, env: dict[str, str], folder: str) -> None:
    path = download(server, tmp_path / folder)
    assert (
        Hub({name: value.format(tmp_path) for name, value in env.items()}, None, offline=True).cached(PINNED)
        == path
    )


def test_a_cache_without_links(tmp_path: Path, hub: Hub) -> None:
    """As on Windows: the file itself lies in the snapshot, and only its content tells what it is."""
    repo = tmp_path / "hf/hub/models--owner--model"
    lay(repo / "refs/main", b"abc")
    path = lay(repo / f"snapshots/abc/{NAME}")
    assert find(PINNED, Folders(), hub, Verified(tmp_path)) == path
    lay(path, OTHER)
    assert find(PINNED, Folders(), hub, Verified(tmp_path)) is None


def test_a_note_about_a_path_that_cannot_be_looked_at_costs_nothing(tmp_path: Path) -> None:
    path = lay(tmp_path / "x.gguf")
    (tmp_path / "verified.json").write_text(json.dumps({f"/{'x' * 300}": {"mark": [], "sha256": ""}}))
    verified = Verified(tmp_path)
    assert verified.check(path, PINNED.sha256 or "")
    assert verified.known(path) == PINNED.sha256


def test_two_that_want_the_same_file_at_once_read_it_once(tmp_path: Path) -> None:
    path, read, verified = lay(tmp_path / "x.gguf"), list[int](), Verified(tmp_path)
    waiting = threading.Event()

    def first(have: int) -> None:
        read.append(have)
        assert waiting.wait(10)

    def second(have: int) -> None:
        assert have == 0
        waiting.set()

    with ThreadPoolExecutor() as pool:
        one = pool.submit(verified.check, path, PINNED.sha256 or "", first)
        wait_until(lambda: read != [], 10, "reading")
        two = pool.submit(verified.check, path, PINNED.sha256 or "", second)
        assert one.result()
        assert two.result()
    assert read == [len(DATA)]


READER = """
import sys
from pathlib import Path
from launcher.verified import Verified
def told(have):
    print(have, flush=True)
    sys.stdin.readline()
print(Verified(Path(sys.argv[1])).check(Path(sys.argv[2]), sys.argv[3], told), flush=True)
"""


def test_two_processes_that_want_the_same_file_at_once_read_it_once(tmp_path: Path) -> None:
    path, told = lay(tmp_path / NAME), list[int]()
    arguments = [sys.executable, "-c", READER, str(tmp_path), str(path), sha256(DATA)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == f"{len(DATA)}\n"  # it is at it, and waits

        def go_on(have: int) -> None:
            if not told and other.stdin is not None:
                other.stdin.write("\n")
                other.stdin.flush()
            told.append(have)

        assert Verified(tmp_path).check(path, sha256(DATA), go_on)
        assert other.stdout.readline() == "True\n"
    assert set(told) == {0}
    assert not (tmp_path / "verified.json.lock").exists()


@pytest.mark.parametrize("reason", [KeyboardInterrupt, Cancelled])
def test_an_interrupted_reading_leaves_nothing_and_holds_up_nobody(
    tmp_path: Path, reason: type[BaseException]
) -> None:
    path, verified = lay(tmp_path / NAME), Verified(tmp_path / "data")
    (tmp_path / "data").mkdir()

    def stop(have: int) -> None:
        assert have
        raise reason("")

    with pytest.raises(reason):
        verified.check(path, sha256(DATA), stop)
    assert list((tmp_path / "data").iterdir()) == []
    assert verified.unread(path)
    assert verified.check(path, sha256(DATA))


def test_a_file_that_changes_while_it_is_read_proves_nothing(tmp_path: Path) -> None:
    path, verified = lay(tmp_path / NAME), Verified(tmp_path / "data")
    assert not verified.check(path, sha256(DATA), lambda _: os.utime(path, ns=(7, 7)))
    assert verified.known(path) is None
    assert verified.unread(path)  # whoever looks again may find it whole
    assert verified.check(path, sha256(DATA))


@pytest.mark.system("posix")
def test_what_cannot_be_read_is_not_read_again_and_again(tmp_path: Path, hub: Hub) -> None:
    path, verified = lay(tmp_path / "models" / NAME), Verified(tmp_path / "data")

    def vanish(_: int) -> None:
        raise OSError(errno.EIO, "as a disk that fails")

    found = list(candidates(PINNED, Folders(tmp_path / "models"), hub))
    assert unread(found, verified) == [path]
    assert not verified.check(path, sha256(DATA), vanish)
    assert unread(found, verified) == []
    assert wrong(found, verified) == []
    os.utime(path, ns=(7, 7))  # somebody saw to it
    assert unread(found, verified) == [path]


@pytest.mark.case("C-03")
def test_a_blob_that_lost_its_content(server: HubServer, tmp_path: Path, hub: Hub) -> None:
    """Power loss: the name and even the size are right, the bytes are not."""
    blob = download(server, tmp_path / "hf" / "hub").resolve()
    blob.write_bytes(bytes(len(DATA)))
    assert find(PINNED, Folders(), hub, Verified(tmp_path)) is None
    assert (
        find(HubFile(REPO, NAME), Folders(), hub, Verified(tmp_path)) is None
    )  # the blob's name is its digest
    blob.write_bytes(DATA[: len(DATA) // 2])
    assert hub.cached(PINNED) is None
    assert blob.exists()


# -- folders ------------------------------------------------------------------------------------------------


@pytest.mark.case("C-08")
@pytest.mark.parametrize("place", [NAME, f"27B/{NAME}", f"ternary-gguf/27B/{NAME}"])
def test_a_demo_checkouts_models(tmp_path: Path, hub: Hub, place: str) -> None:
    path = lay(tmp_path / "models" / place)
    before = path.stat()
    folders = Folders(tmp_path / "missing", tmp_path / "models")
    assert find(PINNED, folders, hub, Verified(tmp_path)) == path
    after = path.stat()
    assert (after.st_mtime_ns, after.st_ino, after.st_mode) == (
        before.st_mtime_ns,
        before.st_ino,
        before.st_mode,
    )


@pytest.mark.case("C-03")
@pytest.mark.parametrize("place", [f"a/b/c/{NAME}", NAME.upper(), f"{NAME}.part", f"x-{NAME}"])
def test_other_names_and_deeper_folders_are_not_looked_at(tmp_path: Path, hub: Hub, place: str) -> None:
    if (tmp_path / "models" / NAME.upper()).exists():
        pytest.fail("fresh folder expected")
    lay(tmp_path / "models" / place)
    if place == NAME.upper() and (tmp_path / "models" / NAME).exists():
        return  # the file system knows no difference
    assert find(PINNED, Folders(tmp_path / "models"), hub, Verified(tmp_path)) is None


@pytest.mark.case("C-03")
def test_a_cut_or_changed_file_is_passed_over_and_stays(tmp_path: Path, hub: Hub) -> None:
    half = lay(tmp_path / "models" / NAME, DATA[:100])
    changed = lay(tmp_path / "models" / "1" / NAME, OTHER)
    (tmp_path / "models" / "2" / NAME).mkdir(parents=True)
    good = lay(tmp_path / "models" / "3" / NAME)
    assert find(PINNED, Folders(tmp_path / "models"), hub, Verified(tmp_path)) == good
    assert (half.read_bytes(), changed.read_bytes()) == (DATA[:100], OTHER)


def test_without_a_pinned_digest_a_folders_file_proves_nothing(tmp_path: Path, hub: Hub) -> None:
    lay(tmp_path / "models" / NAME)
    assert (
        find(HubFile(REPO, NAME, None, len(DATA)), Folders(tmp_path / "models"), hub, Verified(tmp_path))
        is None
    )


# -- what was verified --------------------------------------------------------------------------------------


def test_a_file_is_read_once_even_by_another_process(tmp_path: Path) -> None:
    path, told = lay(tmp_path / NAME), list[int]()
    assert Verified(tmp_path / "data").check(path, sha256(DATA), told.append)
    assert told[-1] == len(DATA)
    told.clear()
    assert Verified(tmp_path / "data").check(path, sha256(DATA).upper(), told.append)
    assert not Verified(tmp_path / "data").check(path, sha256(OTHER), told.append)  # known to be another one
    assert told == []


@pytest.mark.parametrize("change", ["content", "time", "replaced"])
def test_a_changed_file_is_read_again(tmp_path: Path, change: str) -> None:
    path, told, verified = lay(tmp_path / NAME), list[int](), Verified(tmp_path / "data")
    verified.remember(path, sha256(DATA))
    if change == "content":
        path.write_bytes(OTHER)
        os.utime(path, ns=(1, 1))
    elif change == "time":
        os.utime(path, ns=(5, 5))
    else:
        when = path.stat().st_mtime_ns
        lay(tmp_path / "new", OTHER).replace(path)
        os.utime(path, ns=(when, when))
    assert verified.check(path, sha256(DATA), told.append) is (change == "time")
    assert told != []


def test_a_remembered_file_needs_no_reading_and_one_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    verified, told = Verified(tmp_path / "data"), list[int]()
    path, gone = lay(tmp_path / NAME), lay(tmp_path / "gone")
    verified.remember(gone, sha256(DATA))
    gone.unlink()
    verified.remember(path, sha256(DATA))
    assert verified.check(path, sha256(DATA), told.append)
    assert told == []
    assert verified.known(path) == sha256(DATA)
    assert verified.ours(path)
    assert str(gone) not in (tmp_path / "data" / "verified.json").read_text()
    assert not verified.check(gone, sha256(DATA))


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"x": 1}', "\x00", '{"%s": {"mark": 3, "sha256": 5}}'])
def test_a_spoiled_note_costs_only_another_reading(tmp_path: Path, text: str) -> None:
    path = lay(tmp_path / NAME)
    lay(tmp_path / "data" / "verified.json", (text.replace("%s", str(path))).encode())
    assert Verified(tmp_path / "data").check(path, sha256(DATA))


def test_a_data_folder_that_cannot_be_written(tmp_path: Path) -> None:
    path, blocked = lay(tmp_path / NAME), lay(tmp_path / "a file")
    assert Verified(blocked).check(path, sha256(DATA))
    assert not Verified(blocked).check(path, sha256(OTHER))


def test_what_was_only_read_is_not_ours(tmp_path: Path) -> None:
    path, verified = lay(tmp_path / NAME), Verified(tmp_path)
    assert verified.unread(path)
    assert not verified.check(path, sha256(OTHER))
    assert not verified.unread(path)
    assert verified.known(path) == sha256(DATA)
    assert not verified.ours(path)


def test_looking_reads_nothing(tmp_path: Path, hub: Hub) -> None:
    good, verified = lay(tmp_path / "models" / "2" / NAME), Verified(tmp_path / "data")
    bad = lay(tmp_path / "models" / "1" / NAME, OTHER)
    found = list(candidates(PINNED, Folders(tmp_path / "models"), hub))
    assert proved(found, verified) is None
    assert unread(found, verified) == [bad, good]
    assert wrong(found, verified) == []
    assert not (tmp_path / "data").exists()  # what is read is noted
    told: list[tuple[Path, int]] = []
    assert check(found, verified, lambda path, have: told.append((path, have))) == good
    assert told == [(bad, len(OTHER)), (good, len(DATA))]
    assert proved(found, verified) == good
    assert (unread(found, verified), wrong(found, verified)) == ([], [bad])
