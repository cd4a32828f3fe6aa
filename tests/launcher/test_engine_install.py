"""An older release goes once a newer one is here, but not from under a program that runs from it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from launcher import catalog
from launcher.catalog import Line
from launcher.engine_install import install
from launcher.engine_store import all_installed, remove
from launcher.errors import FolderError
from launcher.supervise.programs import runs_from
from tests.standins import engine_archive, engine_script

LINE = catalog.load().line("prism-legacy")
OLD, OLDER = replace(LINE, tag="prism-b9001-0000000"), replace(LINE, tag="prism-b9000-0000000")
CPU = next(it for it in LINE.builds if (it.system, it.arch, it.backend) == ("Linux", "x86_64", "cpu"))


def put(engines: Path, line: Line = LINE) -> Path:
    archive = engines.parent / f"{line.tag}.tar.gz"
    archive.write_bytes(engine_archive(line, CPU, engine_script("fork")))
    return install(engines, line, CPU, [archive], lambda step: None)  # noqa: ARG005


@contextmanager
def running(*command: str | Path) -> Iterator[None]:
    """A process that has said its first word; it ends when the block does."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield
        process.communicate(b"\n", timeout=10)


def program(folder: Path) -> Path:
    """A real program in ``folder``, no script: a shell, which runs what stands in SAY."""
    return Path(shutil.copy(os.path.realpath("/bin/sh"), folder / "llama-server"))


SAY = ("-c", "echo up; read end; exit 0")


@pytest.fixture
def engines(tmp_path: Path) -> Path:
    return tmp_path / "engines"


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("script", marks=pytest.mark.system("posix")),
        pytest.param("program", marks=pytest.mark.system("linux")),
        pytest.param("by a link", marks=pytest.mark.system("linux")),
    ],
)
def test_an_older_release_that_runs_stays_and_goes_the_next_time(engines: Path, how: str) -> None:
    unused = put(engines, OLDER)
    used = put(engines, OLD)
    assert not unused.exists()
    link = engines.parent / "link"
    link.symlink_to(engines)
    if how == "script":
        (used / "llama-server").write_text("#!/bin/sh\n" + SAY[1])
        command: tuple[str | Path, ...] = (used / "llama-server",)
    elif how == "program":
        command = (program(used), *SAY)
    else:
        command = (link / used.name / program(used).name, *SAY)
    with running(*command):
        assert runs_from(used)
        new = put(engines)
        assert new.exists()
        assert (used / "libllama.so.0").exists(), "it may be loaded at any time"
    assert not runs_from(used)
    assert put(engines) == new
    assert not used.exists()


@pytest.mark.system("linux")
def test_one_that_runs_is_not_removed_by_hand(engines: Path) -> None:
    folder = put(engines)
    (found,) = all_installed(engines)
    with running(program(folder), *SAY), pytest.raises(FolderError, match="is running"):
        remove(found)
    assert (folder / "libllama.so.0").exists()
    assert remove(found) > 0
    assert not folder.exists()


@pytest.mark.system("linux")
def test_only_what_lies_below_the_folder_counts(tmp_path: Path) -> None:
    one, other = tmp_path / "engine", tmp_path / "engine-2"
    (one / "bin").mkdir(parents=True)
    other.mkdir()
    with running(program(one / "bin"), *SAY):
        assert runs_from(one)
        assert runs_from(one / "bin")
        assert not runs_from(other)
        assert not runs_from(tmp_path / "nowhere")
