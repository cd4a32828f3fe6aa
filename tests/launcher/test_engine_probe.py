from __future__ import annotations

import os
import stat
import sys
import time
from pathlib import Path

import psutil
import pytest

from launcher.engine_probe import (
    embedded_engine,
    engine_from_binary,
    parse_help,
    parse_version,
    probe,
    run_tool,
)
from launcher.errors import EngineMissing, EngineProblem, NotAnEngine
from tests.conftest import wait_until

ROOT = Path(__file__).resolve().parents[1]
CAPTURED = ROOT / "captured"
FAKE = ROOT / "fakes" / "engine_tool.py"
posix = pytest.mark.system("posix")


def captured(name: str) -> str:
    return (CAPTURED / f"llama_server_b11434_{name}.txt").read_text(encoding="utf-8")


def fake(mode: str) -> tuple[str, ...]:
    return (sys.executable, str(FAKE), mode)


def script(path: Path, text: str, mode: int = 0o755) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# --- reading captured outputs ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (captured("version"), ("0.6.0-dev (build 0, commit unknown)", None, None)),
        (
            "version: 0.6.0 (build 11434, commit 1a2b3c4d)\n",
            ("0.6.0 (build 11434, commit 1a2b3c4d)", 11434, "1a2b3c4d"),
        ),
        ("version: 6121 (e9288e88)\nbuilt with cc for x86_64\n", ("b6121 (e9288e88)", 6121, "e9288e88")),
        (
            "ggml_cuda_init: no GPU\nversion: 9596 (9fcaed7)\nbuilt with MSVC\n",
            ("b9596 (9fcaed7)", 9596, "9fcaed7"),
        ),
        ("version: 12-custom\nbuilt with zig\n", ("12-custom", None, None)),
        ("git version 2.39.5\n", None),
        ("version: 1.2\n", None),
        ("", None),
    ],
)
def test_version(text: str, expected: tuple[str, int | None, str | None] | None) -> None:
    assert parse_version(text) == expected


def test_help_of_a_real_build() -> None:
    flags, spec_types = parse_help(captured("help"))
    assert {"-m", "--model", "-md", "--spec-draft-model", "-ngld", "--no-webui", "--cors-origins"} <= flags
    assert spec_types == {
        "none", "draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark",
        "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache",
    }  # fmt: skip
    assert len(flags) > 350


@pytest.mark.case("A-10")
def test_removed_options_do_not_count() -> None:
    text = captured("help")
    assert "--draft-max" in text
    assert not {"--draft", "--draft-max", "--spec-ngram-size-n"} & parse_help(text)[0]


def test_words_in_a_description_are_no_options() -> None:
    flags, _ = parse_help(
        "--port PORT   port, see --nowhere\n              and --never\n--warm, --no-warm\n      x\n"
    )
    assert flags == {"--port", "--warm", "--no-warm"}


# --- asking programs ------------------------------------------------------------------------


@pytest.mark.case("A-10")
def test_older_build_cannot_do_dspark() -> None:
    facts = probe(fake("old"))
    assert (facts.build, facts.commit) == (6121, "e9288e88")
    assert facts.spec_types == {"none", "ngram-cache", "ngram-simple", "ngram-mod"}
    assert "--draft-max" in facts.flags
    assert "--metrics-not-an-option" not in facts.flags


@pytest.mark.case("D-10")
@pytest.mark.case("B-13")
@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("not-an-engine", ["is not a llama-server", "frobnicate"]),
        ("other-tool", ["not llama-server", "b6121"]),
        ("tells-nothing", ["printed nothing", "status 0"]),
        ("missing-library", ["shared library libcudart.so.12 is missing"]),
        ("missing-dylib", ["shared library @rpath/libggml.dylib is missing"]),
        ("new-glibc", ["newer system", "GLIBC_2.38"]),
        ("floods", ["is not a llama-server"]),
        pytest.param("illegal", ["needs a newer CPU"], marks=posix),
        pytest.param("killed", ["ended by SIGKILL"], marks=posix),
    ],
)
def test_bad_program(mode: str, words: list[str]) -> None:
    with pytest.raises(NotAnEngine) as caught:
        probe(fake(mode))
    assert all(word in caught.value.what for word in words), caught.value.what
    assert caught.value.remedy
    assert "\n" not in caught.value.what


@pytest.mark.parametrize("mode", ["hangs", "help-hangs"])
def test_hanging_program_is_given_up(mode: str) -> None:
    began = time.monotonic()
    with pytest.raises(NotAnEngine, match=r"did not answer --(version|help) within 1\.5 s"):
        probe(fake(mode), timeout_s=1.5)
    assert time.monotonic() - began < 8


@posix
def test_children_of_a_hanging_program_are_ended_too() -> None:
    output = run_tool([*fake("hangs-with-child")], timeout_s=1.5)
    assert output.timed_out
    child = int(output.text)
    wait_until(lambda: gone(child), 5, "the child to end")


def test_tools_do_not_see_options_or_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_ARG_SPEC_TYPE", "ngram-mod")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    output = run_tool([sys.executable, "-c", "import os; print(sorted(os.environ))"], timeout_s=20)
    assert "LLAMA_ARG_SPEC_TYPE" not in output.text
    assert "HF_TOKEN" not in output.text


# --- files ----------------------------------------------------------------------------------


def problem(path: Path) -> EngineProblem:
    with pytest.raises(EngineProblem) as caught:
        engine_from_binary(path, "own")
    assert str(path) in caught.value.what
    assert caught.value.remedy
    return caught.value


def test_missing_file(tmp_path: Path) -> None:
    error = problem(tmp_path / "llama-server")
    assert isinstance(error, EngineMissing)
    assert "There is no llama-server at" in error.what


def test_folder_names_the_file_in_it(tmp_path: Path) -> None:
    assert "bonsai engines build" in problem(tmp_path).remedy
    name = "llama-server.exe" if sys.platform == "win32" else "llama-server"
    inside = tmp_path / "bin" / name
    inside.parent.mkdir()
    inside.touch()
    error = problem(tmp_path)
    assert "is a folder" in error.what
    assert str(inside) in error.remedy


def test_model_file_is_recognised(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF\x03\0\0\0" + bytes(64))
    for mode in (0o644, 0o755):
        model.chmod(mode)
        error = problem(model)
        assert "is a model file" in error.what
        assert "BONSAI_MODEL" in error.remedy


@posix
def test_program_without_permission(tmp_path: Path) -> None:
    path = script(tmp_path / "llama-server", "#!/bin/sh\n", 0o644)
    assert "chmod +x" in problem(path).remedy


@posix
def test_text_file_gets_no_advice_to_make_it_executable(tmp_path: Path) -> None:
    assert "chmod" not in problem(script(tmp_path / "notes.txt", "hello", 0o644)).remedy


@posix
def test_program_of_another_processor(tmp_path: Path) -> None:
    # The head of an ELF file for a machine type that does not exist.
    path = tmp_path / "llama-server"
    path.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xfe\xfe\x01\0\0\0" + bytes(100))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    assert "no program for this system and processor" in problem(path).what


@posix
def test_script_whose_interpreter_is_missing(tmp_path: Path) -> None:
    error = problem(script(tmp_path / "llama-server", "#!/nowhere/sh\n"))
    assert isinstance(error, NotAnEngine)
    assert "program that should run it is missing" in error.what


@posix
def test_engine_from_an_older_binary(tmp_path: Path) -> None:
    folder = tmp_path / "tést 模型 dir"
    folder.mkdir()
    path = script(folder / "llama-server", f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" old "$@"\n')
    engine = engine_from_binary(path, "own")
    assert (engine.kind, engine.line, engine.program) == ("own", "mainline", (str(path),))
    assert engine.version == "b6121 (e9288e88)"
    assert engine.can("--model-draft")
    assert not engine.can("--spec-draft-n-max")
    assert str(path) in engine.why


@posix
def test_the_fork_is_told_by_its_commit(tmp_path: Path) -> None:
    path = script(tmp_path / "llama-server", f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" fork "$@"\n')
    engine = engine_from_binary(path, "own")
    assert engine.line == "prism-legacy"
    assert "draft-dspark" in engine.spec_types


@posix
def test_bare_name_is_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = script(tmp_path / "my-llama", f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" old "$@"\n')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert engine_from_binary(Path("my-llama"), "own").program == (str(path),)


def test_embedded_engine_has_what_the_table_has() -> None:
    pytest.importorskip("xllamacpp")
    engine = embedded_engine()
    assert (engine.kind, engine.line) == ("embedded", "embedded")
    assert "draft-dspark" in engine.spec_types
    assert engine.can("--spec-draft-n-max")
    assert not engine.can("--tools")


def test_the_engine_that_we_build(built_engine: Path) -> None:
    engine = engine_from_binary(built_engine, "built")
    assert (engine.kind, engine.line) == ("built", "mainline")
    assert "build 11434" in engine.version
    assert (engine.flags, engine.spec_types) == parse_help(captured("help"))
    speculative = built_engine.with_name(built_engine.name.replace("server", "speculative-simple"))
    with pytest.raises(NotAnEngine, match="is not llama-server"):
        engine_from_binary(speculative, "own")
