"""The practice pair on disk: what the files hold, and what may go wrong with them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import gguf
import numpy as np
import pytest

from launcher.errors import FolderError
from launcher.gguf_header import read_header
from launcher.practice import AGREEMENT, SIZES, PracticePair, PracticeSize, ensure_pair, on_disk
from launcher.practice_recipe import make_recipe

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> PracticePair:
    return ensure_pair(tmp_path_factory.mktemp("practice"))


def test_headers_say_what_the_files_are(pair: PracticePair) -> None:
    target, drafter = read_header(pair.target), read_header(pair.drafter)
    assert target.name == "Bonsai practice target (not a language model)"
    assert (target.architecture, drafter.architecture) == ("qwen3", "dflash")
    assert (drafter.block_size, drafter.target_layers) == (4, (1, 5, 9))
    assert target.hidden_size == drafter.hidden_size == pair.size.n_embd
    assert target.vocab_fingerprint == drafter.vocab_fingerprint
    assert target.chat_template == make_recipe().template


def test_weights_hold_the_tables(pair: PracticePair) -> None:
    """The largest logit after each token is the successor's by far, in target and drafter."""
    recipe = make_recipe()
    target = {tensor.name: tensor.data for tensor in gguf.GGUFReader(pair.target).tensors}
    drafter = {tensor.name: tensor.data for tensor in gguf.GGUFReader(pair.drafter).tensors}
    for rows, heads, table in (
        (target["token_embd.weight"], target["output.weight"], recipe.successor),
        (drafter["markov_w1.weight"], drafter["markov_w2.weight"], recipe.guess),
    ):
        before = np.array(list(table))
        logits = rows[before].astype(np.float32) @ heads.astype(np.float32).T
        assert (logits.argmax(axis=1) == np.array(list(table.values()))).all()
        logits.sort(axis=1)
        assert (logits[:, -1] - logits[:, -2]).min() > 15
    # All else is zero: nothing but the last token decides.
    assert not any(
        data.any()
        for name, data in (target | drafter).items()
        if name.startswith("blk.") and "norm" not in name
    )
    assert not drafter["output.weight"].any()


def test_written_in_seconds_and_then_left_alone(tmp_path: Path) -> None:
    begin = time.process_time()
    pair = ensure_pair(tmp_path / "new" / "folder")
    assert time.process_time() - begin < 3
    assert on_disk(tmp_path / "new" / "folder") == pair
    before = [(path.stat().st_mtime_ns, path.stat().st_ino) for path in (pair.target, pair.drafter)]
    begin = time.process_time()
    again = ensure_pair(tmp_path / "new" / "folder")
    assert time.process_time() - begin < 0.5
    assert again == pair
    assert before == [(path.stat().st_mtime_ns, path.stat().st_ino) for path in (pair.target, pair.drafter)]
    assert sorted(path.name for path in pair.target.parent.iterdir()) == [
        "practice-small-drafter.gguf",
        "practice-small-target.gguf",
        "practice-small.json",
    ]


def flip_a_weight(pair: PracticePair) -> None:
    with pair.drafter.open("r+b") as file:
        file.seek(-1000, os.SEEK_END)
        file.write(b"\x55")


def other_version(pair: PracticePair) -> None:
    manifest = pair.target.with_name("practice-small.json")
    manifest.write_text(manifest.read_text().replace('"version": "', '"version": "0'))


@pytest.mark.parametrize(
    "damage",
    [
        lambda pair: os.truncate(pair.target, pair.target.stat().st_size - 1),
        lambda pair: os.truncate(pair.drafter, 0),
        flip_a_weight,
        lambda pair: pair.target.unlink(),
        other_version,
        lambda pair: pair.target.with_name("practice-small.json").unlink(),
        lambda pair: pair.target.with_name("practice-small.json").write_text("[1, 2"),
        lambda pair: pair.target.with_name("practice-small.json").write_text('{"version": 1, "files": 3}'),
    ],
    ids=["cut", "empty", "flipped", "missing", "version", "no manifest", "broken", "odd"],
)
def test_a_broken_pair_is_written_anew(pair: PracticePair, damage: object) -> None:
    whole = pair.target.read_bytes(), pair.drafter.read_bytes()
    assert callable(damage)
    damage(pair)
    assert ensure_pair(pair.target.parent) == pair
    assert (pair.target.read_bytes(), pair.drafter.read_bytes()) == whole


def test_on_disk_is_none_without_a_whole_pair(tmp_path: Path, pair: PracticePair) -> None:
    assert on_disk(tmp_path) is None
    for path in pair.target.parent.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert on_disk(tmp_path) is not None
    os.truncate(tmp_path / pair.target.name, 9)
    assert on_disk(tmp_path) is None


def test_each_agreement_has_files_of_its_own(pair: PracticePair) -> None:
    other = ensure_pair(pair.target.parent, agreement={"code": 0.5})
    assert other.target != pair.target
    assert other.agreement["code"] == 0.5
    assert other.agreement["prose"] == AGREEMENT["prose"]
    assert ensure_pair(pair.target.parent, agreement=dict(AGREEMENT)) == pair


def test_unknown_size_is_a_key_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        ensure_pair(tmp_path, "tiny")
    assert list(SIZES) == ["small", "medium", "large", "xlarge"]


CHILD = """
import os, sys, resource, signal
from pathlib import Path
from launcher.errors import FolderError
from launcher.practice import ensure_pair
{before}
try:
    print(ensure_pair(Path(sys.argv[1])).target)
except FolderError as error:
    print(type(error).__name__, "|", error.what, "|", error.remedy)
"""


def child(folder: Path, before: str = "") -> subprocess.Popen[str]:
    script = CHILD.format(before=before)
    return subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], cwd=ROOT, text=True, stdout=subprocess.PIPE
    )


def said(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=60)[0].strip()


def test_many_processes_at_once_leave_one_whole_pair(tmp_path: Path) -> None:
    processes = [child(tmp_path) for _ in range(3)]
    answers = {said(process) for process in processes}
    assert answers == {str(tmp_path / "practice-small-target.gguf")}
    assert all(process.returncode == 0 for process in processes)
    before = (tmp_path / "practice-small-target.gguf").stat().st_ino
    ensure_pair(tmp_path)
    assert (tmp_path / "practice-small-target.gguf").stat().st_ino == before
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.system("posix")
def test_a_writer_that_is_killed_leaves_no_file_with_a_finished_name(tmp_path: Path) -> None:
    process = child(tmp_path)
    while not any(path.stat().st_size > 1 << 20 for path in tmp_path.iterdir()):
        assert process.poll() is None
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    for path in tmp_path.glob("practice-*.gguf"):
        read_header(path)  # whole, if it has its name
    left = list(tmp_path.glob(".*.part"))
    assert left
    pair = ensure_pair(tmp_path)
    assert all(path.exists() for path in left)  # it might still be written
    an_hour_ago = time.time() - 3600
    for path in left:
        os.utime(path, (an_hour_ago, an_hour_ago))
    pair.target.unlink()
    assert ensure_pair(tmp_path) == pair
    assert len(list(tmp_path.iterdir())) == 3


def test_too_little_room_is_noticed_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SIZES, "vast", PracticeSize("vast", 1 << 20, 64, 1 << 22, 64))
    with pytest.raises(
        FolderError, match=r"The practice pair needs 1,139,058 GB in .*, but [\d.,]+ [GM]B are free\."
    ):
        ensure_pair(tmp_path, "vast")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.system("posix")
def test_no_room_in_the_middle_of_writing(tmp_path: Path, pair: PracticePair) -> None:
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (20 << 20, 20 << 20))"
    answer = said(child(tmp_path, limit))
    assert answer.startswith(
        f"FolderError | There is no room for the practice pair in {tmp_path}. | Free some"
    )
    assert list(tmp_path.iterdir()) == []
    # The pair that is there stays whole when a new one finds no room.
    for path in pair.target.parent.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    manifest = tmp_path / "practice-small.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"version": "old"}))
    assert said(child(tmp_path, limit)).startswith("FolderError")
    assert (tmp_path / pair.target.name).read_bytes() == pair.target.read_bytes()


@pytest.mark.system("posix")
def test_read_only_folder(tmp_path: Path) -> None:
    folder = tmp_path / "practice"
    folder.mkdir(mode=0o555)
    for parent in (tmp_path, *tmp_path.parents):
        if parent != Path("/") and parent.stat().st_uid == os.getuid():
            parent.chmod(parent.stat().st_mode | 0o011)
    answer = said(child(folder, "import gguf; os.getuid() or os.setuid(65534)"))  # root writes everywhere
    assert answer.startswith(f"FolderError | The folder {folder} cannot be written to")
    assert "BONSAI_HOME" in answer


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "practice").write_text("")
    for folder in (tmp_path / "practice", tmp_path / "practice" / "deeper"):
        with pytest.raises(FolderError, match="is a file where a folder is needed"):
            ensure_pair(folder)
