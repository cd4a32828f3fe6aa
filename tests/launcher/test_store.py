"""Conversations on disk: kept, listed, named, private; and what a person set for answers."""

from __future__ import annotations

import json
import os
import stat
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.errors import StoreError
from launcher.store import ChatSettings, Conversation, Store, title_for
from tests.launcher.store_samples import answer, kept, question


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "data")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "conversations"


def test_what_is_saved_is_loaded_again_by_another_store(store: Store, tmp_path: Path) -> None:
    before = time.time()
    saved = kept(store)
    assert before <= saved.updated <= time.time()
    assert Store(tmp_path / "data").load(saved.id) == saved


def test_nothing_is_written_before_there_is_something(store: Store, tmp_path: Path) -> None:
    assert store.list().conversations == ()
    assert store.new().turns == ()
    assert store.chat_settings() == ChatSettings()
    assert list(tmp_path.iterdir()) == []


def test_the_list_is_newest_first(store: Store) -> None:
    first, second = kept(store, question("first")), kept(store, question("second"))
    assert [(s.id, s.title, s.turns) for s in store.list().conversations] == [
        (second.id, "second", 1),
        (first.id, "first", 1),
    ]
    again = store.save(replace(first, turns=(*first.turns, answer())))
    newest, _ = store.list().conversations
    assert (newest.id, newest.updated, newest.turns) == (first.id, again.updated, 2)


def test_the_list_sees_what_another_process_did(store: Store, tmp_path: Path) -> None:
    one = kept(store, question("one"))
    store.list()
    other = Store(tmp_path / "data")
    other.rename(one.id, "renamed elsewhere")
    other.delete(kept(other, question("two")).id)
    assert [s.title for s in store.list().conversations] == ["renamed elsewhere"]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("What is a monad?", "What is a monad?"),
        ("\n\n  first   line \nsecond", "first line"),
        ("word " * 30, "word word word word word word word word word word word word…"),
        ("x" * 80, "x" * 60 + "…"),
        ("", ""),
    ],
)
def test_titles(store: Store, text: str, title: str) -> None:
    assert title_for(text) == title
    assert kept(store, question(text)).title == title


def test_rename(store: Store) -> None:
    saved = kept(store)
    renamed = store.rename(saved.id, "  About\nburritos ")
    assert renamed == replace(saved, title="About burritos")
    assert store.load(saved.id) == renamed
    assert store.rename(saved.id, " ").title == "What is a monad?"
    assert len(store.rename(saved.id, "long " * 999).title) <= 200


def test_delete(store: Store, folder: Path) -> None:
    saved = kept(store)
    store.delete(saved.id)
    store.delete(saved.id)
    assert list(folder.iterdir()) == []
    with pytest.raises(StoreError, match="not there"):
        store.load(saved.id)


@pytest.mark.parametrize(
    "name",
    ["", "..", "../x", "a/b", "a\\b", "x.json", "A", "x" * 65, "ö", "con", "lpt1", "a\x00", "\n", "x\n"],
)
def test_an_id_never_leads_out_of_the_folder(store: Store, name: str) -> None:
    for use in (store.load, store.delete, store.export_json, store.export_markdown):
        with pytest.raises(StoreError, match="not the id"):
            use(name)
    with pytest.raises(StoreError, match="not the id"):
        store.rename(name, "t")
    with pytest.raises(StoreError, match="not the id"):
        store.save(Conversation(name, "t", 1.0, 1.0))


@pytest.mark.system("posix")
def test_files_are_the_owners_alone(store: Store, folder: Path) -> None:
    before = os.umask(0)
    try:
        saved = kept(store)
        store.save(replace(saved, title="twice"))
        store.save_chat_settings(ChatSettings())
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in (folder / f"{saved.id}.json", folder.parent / "chat_settings.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_unknown_fields_are_passed_over(store: Store, folder: Path) -> None:
    saved = kept(store)
    path = folder / f"{saved.id}.json"
    plain = json.loads(path.read_text(encoding="utf-8"))
    plain["later"] = plain["turns"][1]["later"] = plain["turns"][1]["timings"]["later"] = {"x": [1]}
    path.write_text("\ufeff" + json.dumps(plain), encoding="utf-8")
    assert store.load(saved.id) == saved


def test_other_files_are_not_touched(store: Store, folder: Path) -> None:
    kept(store)
    for name in ("Copy of x.json", "notes.txt", "con.json"):
        (folder / name).write_text("mine")
    assert len(store.list().conversations) == 1
    assert (folder / "notes.txt").read_text() == (folder / "Copy of x.json").read_text() == "mine"


def test_what_a_dead_writer_left_is_swept_and_what_a_live_one_writes_is_not(
    store: Store, folder: Path
) -> None:
    kept(store)
    old, young = folder / ".x.json.123.tmp", folder / ".y.json.456.tmp"
    old.write_text("half")
    young.write_text("half")
    os.utime(old, (time.time() - 7200,) * 2)
    assert len(store.list().conversations) == 1
    assert (old.exists(), young.exists()) == (False, True)


def test_half_a_surrogate_pair_is_kept(store: Store) -> None:
    saved = kept(store, question("\ud83c cut"))
    assert store.load(saved.id) == saved


def test_renaming_while_an_answer_is_saved_loses_neither_file(store: Store) -> None:
    saved = kept(store)
    errors: list[BaseException] = []

    def rename() -> None:
        try:
            for number in range(50):
                store.rename(saved.id, f"title {number}")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=rename) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert store.load(saved.id).turns == saved.turns
    assert errors == []


def test_chat_settings(store: Store, tmp_path: Path) -> None:
    settings = ChatSettings("Be brief.", 0.1, 0.5, 7, 0.2, 42, 100, False, 50, True)
    store.save_chat_settings(settings)
    assert Store(tmp_path / "data").chat_settings() == settings
    store.save_chat_settings(ChatSettings(temperature=0))
    assert store.chat_settings() == ChatSettings(temperature=0.0)
    with pytest.raises(StoreError, match="top_p"):
        store.save_chat_settings(ChatSettings(top_p=float("nan")))
    assert store.chat_settings() == ChatSettings(temperature=0.0)


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"format": "bonsai-chat-settings", "version": 1, "seed": "x"}']
)
def test_broken_chat_settings_are_set_aside_and_the_defaults_hold(
    store: Store, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "data" / "chat_settings.json"
    path.parent.mkdir()
    path.write_text(content)
    assert store.chat_settings() == ChatSettings()
    (aside,) = store.list().set_aside
    assert path.with_name(aside).read_text() == content
    store.save_chat_settings(ChatSettings(seed=1))
    assert store.chat_settings().seed == 1


def test_newer_chat_settings_are_refused(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "data" / "chat_settings.json"
    path.parent.mkdir()
    path.write_text('{"format": "bonsai-chat-settings", "version": 2}')
    with pytest.raises(StoreError, match="newer version"):
        store.chat_settings()
    assert path.exists()
