"""The store when things go wrong: broken files, a full disk, no permission, two writers at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.errors import StoreError
from launcher.store import ChatSettings, Store
from tests.launcher.store_samples import kept, question

ROOT = Path(__file__).resolve().parents[2]
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}


def in_a_child(code: str, folder: Path) -> list[str]:
    """The lines that ``code``, run as a program with ``folder`` as its argument, prints."""
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(folder)],
        env=ENV,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout.splitlines()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "conversations"


BROKEN = {
    "empty": b"",
    "cut": b'{"format": "bonsai-conversation", "version": 1, "tur',
    "zeros": b"\0" * 500,
    "no text": b"\xff\xfe\x00",
    "foreign": b'{"a": 1}',
    "a list": b"[]",
    "deep": b'{"format": "bonsai-conversation", "x": ' + b"[" * 200_000,
    "no turns": b'{"format": "bonsai-conversation", "version": 1, "created": 1}',
    "no version": b'{"format": "bonsai-conversation", "created": 1, "turns": []}',
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_set_aside_and_the_rest_loads(store: Store, folder: Path, content: bytes) -> None:
    good, bad = kept(store, question("good")), kept(store, question("bad"))
    (folder / f"{bad.id}.json").write_bytes(content)
    listing = store.list()
    assert [s.id for s in listing.conversations] == [good.id]
    (aside,) = listing.set_aside
    assert aside.startswith(f"{bad.id}.json.broken-")
    assert (folder / aside).read_bytes() == content
    assert store.list().set_aside == ()


def test_loading_a_broken_file_says_where_it_went(store: Store, folder: Path) -> None:
    saved = kept(store)
    (folder / f"{saved.id}.json").write_text("{")
    with pytest.raises(StoreError) as caught:
        store.load(saved.id)
    assert ".broken-" in caught.value.remedy
    (aside,) = store.list().set_aside
    assert aside in caught.value.remedy


def test_files_broken_in_the_same_second_are_all_kept(store: Store, folder: Path) -> None:
    saved = kept(store)
    for text in ("{1", "{2", "{3"):
        (folder / f"{saved.id}.json").write_text(text)
        with pytest.raises(StoreError):
            store.load(saved.id)
    assert sorted(path.read_text() for path in folder.iterdir()) == ["{1", "{2", "{3"]


def test_a_newer_format_is_left_alone_and_named(store: Store, folder: Path) -> None:
    saved = kept(store)
    path = folder / f"{saved.id}.json"
    newer = {**json.loads(path.read_text()), "version": 2, "turns": "other"}
    path.write_text(json.dumps(newer))
    listing = store.list()
    assert (listing.conversations, listing.set_aside) == ((), ())
    (sentence,) = listing.unreadable
    assert "newer version" in sentence
    with pytest.raises(StoreError, match="newer version"):
        store.load(saved.id)
    with pytest.raises(StoreError, match="newer version"):
        store.rename(saved.id, "t")
    assert json.loads(path.read_text()) == newer


def test_what_could_not_be_read_again_is_not_written(store: Store) -> None:
    saved = kept(store)
    for bad in (replace(question(), created=float("nan")), replace(question(), role="robot")):
        with pytest.raises(StoreError, match="Message 1"):
            store.save(replace(saved, turns=(bad,)))
    with pytest.raises(StoreError, match="same id"):
        store.save(replace(saved, turns=(question(), question())))
    assert store.load(saved.id) == saved


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    store = Store(tmp_path / "data")
    with pytest.raises(StoreError, match="in the place of a folder") as caught:
        kept(store)
    assert "BONSAI_HOME" in caught.value.remedy
    with pytest.raises(StoreError, match="chat settings"):
        store.save_chat_settings(ChatSettings())
    assert (tmp_path / "data").read_text() == "in the way"


def test_a_conversation_that_is_a_folder(store: Store, folder: Path) -> None:
    saved = kept(store)
    other = kept(store)
    (folder / f"{saved.id}.json").unlink()
    (folder / f"{saved.id}.json").mkdir()
    listing = store.list()
    assert [s.id for s in listing.conversations] == [other.id]
    assert len(listing.unreadable) == 1
    for use in (store.load, store.delete):
        with pytest.raises(StoreError):
            use(saved.id)
    with pytest.raises(StoreError):
        store.save(saved)
    assert [path.suffix for path in folder.iterdir()] == [".json", ".json"]


FORBIDDEN = """
    import os, sys
    from dataclasses import replace
    from pathlib import Path
    from launcher.errors import StoreError
    from launcher.store import Store, Turn

    os.chdir(sys.argv[1])
    if os.geteuid() == 0:  # root may do everything: be nobody
        os.chmod(".", 0o777)
        os.seteuid(65534)
    store = Store(Path("data"))
    saved = store.save(replace(store.new(), turns=(Turn("q", "user", "kept", 1.0),)))
    Path("data/conversations").chmod(0o500)
    for use in (lambda: store.save(replace(saved, title="x")), lambda: store.delete(saved.id)):
        try:
            use()
        except StoreError as error:
            print(error.what)
    assert store.load(saved.id) == saved
    Path(f"data/conversations/{saved.id}.json").chmod(0)
    listing = Store(Path("data")).list()
    assert (listing.conversations, listing.set_aside) == ((), ()), listing
    print(*listing.unreadable)
    Path("data/conversations").chmod(0)
    try:
        store.list()
    except StoreError as error:
        print(error.what)
"""


@pytest.mark.system("posix")
def test_no_permission(tmp_path: Path) -> None:
    said = in_a_child(FORBIDDEN, tmp_path)
    assert len(said) == 4, said
    assert all("this user may not" in sentence for sentence in said), said


FULL_DISK = """
    import errno, os, resource, sys
    from dataclasses import replace
    from pathlib import Path
    from launcher.errors import StoreError
    from launcher.store import Store, Turn

    store = Store(Path(sys.argv[1]))
    saved = store.save(replace(store.new(), turns=(Turn("q", "user", "kept", 1.0),)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    try:
        store.save(replace(saved, turns=(*saved.turns, Turn("a", "assistant", "x" * 100_000, 2.0))))
    except StoreError as error:
        print(error.what)
    assert store.load(saved.id) == saved
    assert [path.name for path in (Path(sys.argv[1]) / "conversations").iterdir()] == [f"{saved.id}.json"]
    print("intact")
"""


@pytest.mark.system("posix")  # a limit on the size of files stands for the full disk
def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    said, intact = in_a_child(FULL_DISK, tmp_path)
    assert "disk is full" in said
    assert intact == "intact"


WRITER = """
    import sys
    from dataclasses import replace
    from pathlib import Path
    from launcher.store import Conversation, Store, Turn

    store = Store(Path(sys.argv[1]))
    for number in range(60):
        turn = Turn("q", "user", sys.argv[2] * (1 + number * 997), 1.0)
        store.save(Conversation("shared", sys.argv[2], 1.0, 1.0, (turn,)))
"""


def test_two_writers_at_once_never_leave_a_half_file(tmp_path: Path) -> None:
    code = textwrap.dedent(WRITER)
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), letter], env=ENV) for letter in "ab"
    ]
    store = Store(tmp_path)
    seen = 0
    while any(writer.poll() is None for writer in writers):
        for _ in store.list().conversations:
            (turn,) = store.load("shared").turns
            assert set(turn.content) in ({"a"}, {"b"})
            seen += 1
    assert [writer.wait() for writer in writers] == [0, 0]
    assert seen > 0
    listing = store.list()
    assert (len(listing.conversations), listing.set_aside, listing.unreadable) == (1, (), ())
    assert [path.name for path in (tmp_path / "conversations").iterdir()] == ["shared.json"]
