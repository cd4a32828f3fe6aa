"""Room on the disk: what is needed, what a part counts, and where a folder that is not there yet would be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from launcher.disk import check_space, existing, free_bytes, needed_bytes, part_bytes
from launcher.errors import NoSpace

HUGE = 10**18


def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert existing(tmp_path / "a" / "b") == tmp_path
    assert existing(tmp_path) == tmp_path
    free = free_bytes(tmp_path / "a" / "b")
    assert free is not None
    assert abs(free - shutil.disk_usage(tmp_path).free) < 1e9


def test_a_folder_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert existing(tmp_path / "file" / "x") == tmp_path / "file"


@pytest.mark.case("C-03")
def test_what_an_unfinished_fetch_has_left_counts_as_written(tmp_path: Path) -> None:
    target = tmp_path / "weights.gguf"
    assert (part_bytes(target), needed_bytes(target, 1000)) == (0, 1100)
    (tmp_path / "weights.gguf.part").write_bytes(bytes(600))
    assert (part_bytes(target), needed_bytes(target, 1000)) == (600, 500)
    (tmp_path / "weights.gguf.part").write_bytes(bytes(2000))
    assert needed_bytes(target, 1000) == 0


@pytest.mark.case("C-03")
def test_all_files_together_must_fit(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    half = int(free * 0.6)
    check_space({tmp_path / "a": half})
    check_space({tmp_path / "a": None, tmp_path / "b": 10})
    with pytest.raises(NoSpace, match="too little room") as caught:
        check_space({tmp_path / "a" / "x": half, tmp_path / "b" / "y": half})
    assert str(tmp_path / "a") in caught.value.what
    assert "BONSAI_HOME" in caught.value.remedy
    with pytest.raises(NoSpace, match=r"1,100,000,000\.00 GB are needed"):
        check_space({tmp_path / "a": HUGE})
