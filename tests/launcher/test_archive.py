"""Archives as engines come in, and archives that want out of their folder."""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.archive import unpack
from launcher.archive_names import divide, leads_to
from launcher.errors import ArchiveError, FetchProblem, FolderError, LauncherError
from launcher.quarantine import clear_quarantine
from tests.launcher.archive_bytes import HARD, everything, link, member, refused, tar, zipped

POSIX = pytest.mark.system("posix")


# -- what engines come in -------------------------------------------------------------------------------------


@POSIX
def test_a_release_of_the_linux_kind(tmp_path: Path) -> None:
    archive = tar(
        tmp_path / "engine.tar.gz",
        member("build/", type=tarfile.DIRTYPE, mode=0o755),
        member("build/llama-server", b"\x7fELF server", mode=0o755),
        link("build/libggml.so", "libggml.so.0"),
        link("build/libggml.so.0", "libggml.so.0.13.1"),
        member("build/libggml.so.0.13.1", b"library"),
        link("build/same", "build/libggml.so.0.13.1", HARD),
        member("build/share/notes.txt", b"notes"),
    )
    folder = tmp_path / "engines" / "prism"
    written = unpack(archive, folder)
    assert everything(folder) == {
        "llama-server", "libggml.so", "libggml.so.0", "libggml.so.0.13.1", "same", "share", "share/notes.txt",
    }  # fmt: skip
    assert set(written) == {path for path in folder.rglob("*") if path.name != "share"}
    assert (folder / "libggml.so").readlink() == Path("libggml.so.0")
    assert (folder / "libggml.so").read_bytes() == (folder / "same").read_bytes() == b"library"
    assert os.access(folder / "llama-server", os.X_OK)
    assert not os.access(folder / "share/notes.txt", os.X_OK)
    assert everything(folder.parent) == {"prism", *(f"prism/{name}" for name in everything(folder))}


@POSIX
def test_setuid_and_odd_modes_are_not_kept(tmp_path: Path) -> None:
    archive = tar(tmp_path / "a.tgz", member("a", b"x", mode=0o6777), member("b", b"y", mode=0))
    unpack(archive, tmp_path / "out")
    assert stat.S_IMODE((tmp_path / "out/a").stat().st_mode) & ~0o755 == 0
    assert (tmp_path / "out/b").read_bytes() == b"y"


@POSIX
def test_executable_bits_of_zips(tmp_path: Path) -> None:
    archive = zipped(
        tmp_path / "engine.zip",
        ("bin/", b"", 0),
        ("bin/tool", b"1", stat.S_IFREG | 0o755),
        ("bin/llama-quiet", b"2", stat.S_IFREG | 0o644),
        ("bin/llama-server", b"3", 0),
        ("bin/llama-notes.txt", b"4", 0),
        ("bin/current", b"tool", stat.S_IFLNK | 0o777),
    )
    folder = tmp_path / "out"
    unpack(archive, folder)
    runs = {path.name for path in folder.iterdir() if os.access(path, os.X_OK)}
    assert runs == {"tool", "llama-server", "current"}  # what the archive says, else what the name says
    assert (folder / "current").readlink() == Path("tool")


def test_assets_over_one_another_in_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    unpack(zipped(tmp_path / "1.zip", ("llama-server.exe", b"one", 0), ("lib/a.dll", b"a", 0)), folder)
    (folder / "mine.txt").write_text("kept")
    second = zipped(tmp_path / "2.zip", ("lib/cudart.dll", b"cuda", 0), ("llama-server.exe", b"two", 0))
    written = unpack(second, folder)
    assert set(written) == {folder / "lib/cudart.dll", folder / "llama-server.exe"}
    assert (folder / "llama-server.exe").read_bytes() == b"two"
    assert everything(folder) == {"llama-server.exe", "lib", "lib/a.dll", "lib/cudart.dll", "mine.txt"}


def test_a_single_file_is_no_top_folder(tmp_path: Path) -> None:
    unpack(tar(tmp_path / "a.tgz", member("llama-server", b"x")), tmp_path / "out")
    assert everything(tmp_path / "out") == {"llama-server"}


# -- names ----------------------------------------------------------------------------------------------------

BAD_NAMES = [
    ("/etc/passwd", "absolute"),
    ("../outside", "out of the folder"),
    ("a/../../outside", "out of the folder"),
    ("a/..", "out of the folder"),
    ("C:/windows/x", "drive"),
    ("c:x", "drive"),
    ("a\\..\\..\\x", "backslash"),
    ("\\\\host\\share", "backslash"),
    ("con", "device"),
    ("a/NUL.txt", "device"),
    ("lib/com1.so.1", "device"),
    ("LPT9", "device"),
    ("name.", "every system"),
    ("folder /x", "every system"),
    ("file:stream", "every system"),
    ("tab\tname", "every system"),
    ("n" * 256, "too long"),
    ("/".join("d" * 41), "deep"),
]


@pytest.mark.parametrize(("name", "why"), BAD_NAMES)
def test_names_that_are_refused(tmp_path: Path, name: str, why: str) -> None:
    good = member("good", b"x")
    refused(tar(tmp_path / "a.tgz", good, member(name, b"evil")), tmp_path / "out", why)
    refused(zipped(tmp_path / "a.zip", ("good", b"x", 0), (name, b"evil", 0)), tmp_path / "out", why)


def test_a_nul_in_a_zips_name(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a.zip", ("llama-server_exe", b"x", 0))
    archive.write_bytes(archive.read_bytes().replace(b"server_exe", b"server\x00exe"))
    refused(archive, tmp_path / "out", "NUL")


def test_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    refused(tar(tmp_path / "a.tgz", member("a\udcff", b"x")), tmp_path / "out", "UTF-8")


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("a", "a"), "twice"),
        (("README", "readme"), "another spelling"),
        (("Lib/a", "lib/b"), "another spelling"),
        (("caf\u00e9", "cafe\u0301"), "another spelling"),
        (("a", "a/b"), "both a"),
        (("a/b", "a"), "twice|both a"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_that_clash(tmp_path: Path, names: tuple[str, ...], why: str) -> None:
    refused(tar(tmp_path / "a.tgz", *(member(name, b"x") for name in names)), tmp_path / "out", why)
    refused(zipped(tmp_path / "a.zip", *((name, b"x", 0) for name in names)), tmp_path / "out", why)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab./\\:\x00 CONnul1é\u0301", max_size=20))
def test_a_name_is_refused_or_stays_inside(name: str) -> None:
    try:
        parts = divide(name)
    except ValueError:
        return
    assert not {"", ".", ".."} & set(parts)
    assert not any(set(part) & set("/\\:\x00") for part in parts)


# -- links ----------------------------------------------------------------------------------------------------

BAD_LINKS: list[tuple[str, list[tuple[tarfile.TarInfo, bytes]]]] = [
    ("absolute", [link("a", "/etc/passwd")]),
    ("out of the folder", [link("a", "../x")]),
    ("out of the folder", [link("d/a", "../../x")]),
    ("out of the folder", [link("a", "b/../../out/b"), member("b/f")]),
    ("backslash", [link("a", "..\\x")]),
    ("drive", [link("a", "C:/x")]),
    # each is harmless alone: x is the folder itself, so that x/.. is the one above
    ("out of the folder", [link("d/x", ".."), link("y", "d/x/../z"), member("d/f")]),
    ("out of the folder", [link("one", "two"), link("two", "three/../.."), member("three/f")]),
    ("circle", [link("a", "b"), link("b", "a")]),
    ("circle", [link("a", "a")]),
    # a file through a link
    ("both a", [link("a", "b"), member("a/f", b"evil"), member("b/f")]),
    ("twice|both a", [member("b/f"), member("a/f", b"x"), link("a", "b")]),
    # hard links
    ("out of the folder", [link("a", "../../etc/passwd", HARD)]),
    ("absolute", [link("a", "/etc/passwd", HARD)]),
    ("nothing in the archive", [link("a", "missing", HARD), member("b")]),
    ("nothing in the archive", [link("a", "b", HARD), link("b", "a", HARD)]),
    ("nothing in the archive", [link("s", "f"), member("f"), link("a", "s", HARD)]),
]


@pytest.mark.parametrize(("why", "members"), BAD_LINKS)
def test_links_that_are_refused(
    tmp_path: Path, why: str, members: list[tuple[tarfile.TarInfo, bytes]]
) -> None:
    refused(tar(tmp_path / "a.tgz", *members, member("good", b"x")), tmp_path / "out", why)


def test_a_link_out_of_the_top_folder_that_is_left_out(tmp_path: Path) -> None:
    archive = tar(tmp_path / "a.tgz", member("top/f", b"x"), link("top/a", "../f"))
    refused(archive, tmp_path / "out", "out of the folder")


def test_links_in_zips_are_checked_too(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a.zip", ("good", b"x", 0), ("a", b"../../x", stat.S_IFLNK | 0o777))
    refused(archive, tmp_path / "out", "out of the folder")


@POSIX
def test_a_file_through_a_link_that_lies_in_the_folder_already(tmp_path: Path) -> None:
    folder, outside = tmp_path / "out", tmp_path / "outside"
    unpack(tar(tmp_path / "1.tgz", member("good", b"x")), folder)
    outside.mkdir()
    (folder / "lib").symlink_to(outside)
    archive = tar(tmp_path / "2.tgz", member("lib/evil", b"x"), member("other"))
    refused(archive, folder, "no folder|absolute")
    (folder / "lib").unlink()
    (folder / "lib").symlink_to("good")
    refused(archive, folder, "no folder")
    assert list(outside.iterdir()) == []


@POSIX
def test_a_second_archive_cannot_turn_a_link_of_the_first_outwards(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    unpack(tar(tmp_path / "1.tgz", link("y", "d/e/../../z"), member("f")), folder)  # d/e is not there yet
    refused(tar(tmp_path / "2.tgz", link("d/e", ".."), member("g")), folder, "out of the folder")


@given(
    links=st.dictionaries(
        st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(tuple),
        st.lists(st.sampled_from(["a", "b", "c", "..", "."]), min_size=1, max_size=5).map("/".join),
        max_size=6,
    )
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@POSIX
def test_where_links_lead_is_where_the_system_says(tmp_path: Path, links: dict[tuple[str, ...], str]) -> None:
    """A link that is accepted resolves to inside the folder, whatever the others are."""
    links = {at: to for at, to in links.items() if not any(at[:n] in links for n in range(1, len(at)))}
    try:
        ends = {at: leads_to(at, to, links) for at, to in links.items()}
    except ValueError:
        return
    root = tmp_path / str(time.monotonic_ns())
    root.mkdir()
    for at, to in links.items():
        path = root.joinpath(*at)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(to)
    for at, end in ends.items():
        assert root.joinpath(*at).resolve() == root.joinpath(*end)


# -- the disk -------------------------------------------------------------------------------------------------


def test_the_archive_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="missing"):
        unpack(tmp_path / "missing.tgz", tmp_path / "out")


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    archive = tar(tmp_path / "a.tgz", member("a", b"x"))
    (tmp_path / "out").write_text("mine")
    with pytest.raises(LauncherError):
        unpack(archive, tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"


def test_a_clash_in_the_middle_puts_everything_back(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    unpack(tar(tmp_path / "1.tgz", member("a", b"old"), member("z/inner", b"inner")), folder)
    refused(
        tar(tmp_path / "2.tgz", member("a", b"new"), member("b", b"new"), member("z", b"new")),
        folder,
        "folder",
    )
    assert (folder / "a").read_bytes() == b"old"
    assert not (folder / "b").exists()


def test_what_a_killed_unpacking_left_is_removed(tmp_path: Path) -> None:
    old, young = tmp_path / ".out.unpacking-aaaa", tmp_path / ".out.unpacking-bbbb"
    for left in (old, young):
        left.mkdir()
        (left / "half").write_text("x")
    os.utime(old, (1, 1))
    unpack(tar(tmp_path / "a.tgz", member("a", b"x")), tmp_path / "out")
    assert not old.exists()
    assert young.exists()  # it may be somebody's who is at work


@pytest.mark.case("D-12")
@pytest.mark.parametrize("again", [False, True])
def test_an_antivirus_takes_a_program_away_at_once(tmp_path: Path, again: bool) -> None:
    """Removed while the rest is still being unpacked: the message names file and digest, and nothing half is left."""
    folder = tmp_path / "engine"
    if again:
        unpack(tar(tmp_path / "0.tgz", member("llama-server", b"before")), folder)
    archive = tar(tmp_path / "a.tgz", member("llama-server", b"suspicious"), member("other", b"x"))

    def remove(_written: int) -> None:
        for path in tmp_path.rglob("llama-server"):
            if path.parent != folder and path.stat().st_size == len(b"suspicious"):
                path.unlink()

    with pytest.raises(ArchiveError, match="probably by an antivirus") as caught:
        unpack(archive, folder, remove)
    assert isinstance(caught.value, FetchProblem)
    assert str(folder / "llama-server") in caught.value.what
    assert hashlib.sha256(b"suspicious").hexdigest() in caught.value.what
    if again:
        assert (folder / "llama-server").read_bytes() == b"before"
    else:
        assert not folder.exists()


# -- quarantine -----------------------------------------------------------------------------------------------


@POSIX
@pytest.mark.case("D-11")
def test_the_quarantine_mark_is_taken_off_on_macos_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools, folder = tmp_path / "tools", tmp_path / "an engine"
    for made in (tools, folder):
        made.mkdir()
    log = tmp_path / "log"
    xattr = tools / "xattr"
    xattr.write_text(f'#!/bin/sh\nprintf "%s|" "$@" >> "{log}"\nexit 1\n')  # as for files without the mark
    xattr.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    assert not clear_quarantine(folder, "linux")
    assert not log.exists()
    assert clear_quarantine(folder, "darwin")
    assert log.read_text() == f"-dr|com.apple.quarantine|{folder}|"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not clear_quarantine(folder, "darwin")  # no such tool: nothing to be done, and no failure
