"""From an exit status and a log to the cause: captured logs, composed ones, the order, an engine that runs on."""

from __future__ import annotations

import re

import pytest

from launcher.supervise.diagnose import diagnose, diagnose_start, suspicions
from launcher.supervise.exits import exit_name, in_words
from tests.launcher.diagnose_cases import (
    CAPTURED,
    CAPTURED_WITH_DRAFTER,
    COMPOSED,
    COMPOSED_WITH_DRAFTER,
    INLINE,
    LOGS,
    assert_readable,
    check,
    log,
)

# -- logs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CAPTURED)
def test_captured(name: str) -> None:
    returncode, cause, said = CAPTURED[name]
    found = diagnose(returncode, log(name), with_drafter=False, system="Linux")
    check(found, cause, said)
    assert not found.drafter or name == "unknown_spec"


@pytest.mark.case("A-01")
@pytest.mark.case("A-07")
@pytest.mark.parametrize("name", CAPTURED_WITH_DRAFTER)
def test_captured_with_a_drafter(name: str) -> None:
    """Each tells that it is the drafter, so that a start without it is the remedy."""
    returncode, cause, said = CAPTURED_WITH_DRAFTER[name]
    found = diagnose(returncode, log(name), with_drafter=True, system="Linux")
    check(found, cause, said)
    assert found.drafter
    assert not found.again


@pytest.mark.parametrize("name", COMPOSED)
def test_composed(name: str) -> None:
    returncode, cause, said, system = COMPOSED[name]
    check(diagnose(returncode, log(f"composed_{name}"), with_drafter=False, system=system), cause, said)


@pytest.mark.case("A-08")
@pytest.mark.parametrize("name", COMPOSED_WITH_DRAFTER)
def test_composed_with_a_drafter(name: str) -> None:
    returncode, cause, said, system = COMPOSED_WITH_DRAFTER[name]
    found = diagnose(returncode, log(f"composed_{name}"), with_drafter=True, system=system)
    check(found, cause, said)
    assert found.drafter


@pytest.mark.case("D-10")
@pytest.mark.parametrize(("text", "system", "returncode", "cause"), INLINE)
def test_one_line_or_none(text: str, system: str, returncode: int | None, cause: str) -> None:
    check(diagnose(returncode, text, with_drafter=False, system=system), cause, "")


def test_every_kept_log_is_used() -> None:
    used = {*CAPTURED, *CAPTURED_WITH_DRAFTER, "healthy", "drafter_clamped"}
    used |= {f"composed_{name}" for name in (*COMPOSED, *COMPOSED_WITH_DRAFTER, "metal_harmless")}
    used |= {"composed_gpu_library", "composed_drafter_not_started"}
    assert used == {path.stem for path in LOGS.glob("*.log")}


@pytest.mark.parametrize("name", ["ordinary_drafter", "hidden_size"])
def test_the_tail_that_is_asked_for_reaches_over_a_backtrace(name: str) -> None:
    """A debugger's backtrace after the cause is longer than 30 lines: those alone would not tell it."""
    lines = log(name).splitlines()
    returncode, cause, _ = CAPTURED_WITH_DRAFTER[name]
    whole = diagnose(returncode, "\n".join(lines[-400:]), with_drafter=True, system="Linux")
    short = diagnose(returncode, "\n".join(lines[-20:]), with_drafter=True, system="Linux")
    assert whole.cause == cause
    assert short.cause == "assert"


# -- what must not be taken for a cause -----------------------------------------------------------------------


@pytest.mark.case("A-02")
@pytest.mark.parametrize("name", ["composed_legacy_q2_0", "composed_legacy_q2_0_fork", "offset_mismatch"])
def test_a_file_for_another_build_is_not_called_damaged(name: str) -> None:
    found = diagnose(1, log(name), with_drafter=False, system="Linux")
    assert found.cause == "legacy-q2_0"
    assert "is sound: keep it" in found.remedy
    assert not re.search(r"corrupt|damaged|delete|remove", found.sentence + found.remedy)


@pytest.mark.case("B-09")
def test_a_shader_that_does_not_compile_is_no_cause_by_itself() -> None:
    harmless = log("composed_metal_harmless")
    assert diagnose(-11, harmless, with_drafter=False, system="Darwin").cause == "segfault"
    assert diagnose(None, harmless, with_drafter=False, system="Darwin").cause == "stood-still"
    broken = diagnose(-6, log("composed_metal_shader"), with_drafter=False, system="Darwin")
    assert "GGML_METAL_TENSOR_DISABLE=1" in broken.remedy
    assert "BONSAI_NGL" not in broken.remedy


@pytest.mark.case("B-11")
def test_gpu_memory_of_a_mac_names_the_cap() -> None:
    found = diagnose(-6, log("composed_metal_oom"), with_drafter=False, system="Darwin")
    assert "three quarters" in found.remedy
    assert "sudo" not in found.remedy


@pytest.mark.parametrize("name", [name for name in CAPTURED if "E common_fit_params" in log(name)])
def test_the_fitting_that_failed_with_the_file_is_not_a_lack_of_memory(name: str) -> None:
    assert diagnose(1, log(name), with_drafter=False, system="Linux").cause not in {"gpu-memory", "ram"}


def test_a_trouble_from_before_it_was_ready_does_not_explain_a_later_end() -> None:
    before = "ggml_cuda_host_malloc: failed to allocate CUDA0 buffer of size 5\n"
    ready = "0.09.204.846 I srv  llama_server: listening on http://127.0.0.1:1\n"
    assert diagnose(-11, before + ready, with_drafter=False, system="Linux").cause == "segfault"
    assert diagnose(-11, ready + before, with_drafter=False, system="Linux").cause == "gpu-memory"


def test_a_refused_request_does_not_explain_a_kill() -> None:
    assert diagnose(-9, log("context"), with_drafter=False, system="Linux").cause == "ram"


def test_informative_lines_name_no_cause() -> None:
    line = "0.00.100.000 I srv  load_model: loading model '/home/out of memory/std::bad_alloc.gguf'"
    assert diagnose(-11, line, with_drafter=False, system="Linux").cause == "segfault"


def test_an_architecture_in_the_target_is_not_the_drafters() -> None:
    target = "0.0.0 E llama_model_load: error loading model: unknown model architecture: 'newthing'\n"
    loaded = "0.00.001.000 I common_speculative_init_result: loading draft model 'd.gguf'\n"
    assert diagnose(1, target, with_drafter=True, system="Linux").cause == "unknown-architecture"
    found = diagnose(1, loaded + target, with_drafter=True, system="Linux")
    assert (found.cause, found.drafter) == ("drafter-architecture", True)


# -- order ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("dyld_policy", "dyld_missing"),
        ("dspark_offset", "legacy_q2_0"),
        ("legacy_q2_0", "cuda_oom_weights"),
        ("old_driver", "bad_alloc"),
        ("metal_shader", "metal_oom"),
        ("cuda_oom_weights", "bad_alloc"),
        ("bad_alloc", "drafter_tensors"),
    ],
)
def test_the_more_specific_wins_in_whichever_order_they_are_written(first: str, second: str) -> None:
    known = COMPOSED | COMPOSED_WITH_DRAFTER
    texts = [re.sub(r".*listening on.*\n", "", log(f"composed_{name}")) for name in (first, second)]
    wins = {"bad_alloc": {"ram", "drafter-misfit"}}.get(first, {known[first][1]})
    for text in ("".join(texts), "".join(reversed(texts))):
        assert diagnose(-6, text, with_drafter=True, system="Darwin").cause in wins


def test_a_drafter_out_of_memory_is_a_matter_of_memory_not_of_fit() -> None:
    found = diagnose(1, log("composed_cuda_oom_drafter"), with_drafter=True, system="Linux")
    assert (found.cause, found.drafter) == ("gpu-memory", True)


def test_a_crash_with_a_drafter_is_tried_without_it() -> None:
    with_it = diagnose(-11, "x", with_drafter=True, system="Linux")
    without = diagnose(-11, "x", with_drafter=False, system="Linux")
    assert "BONSAI_SPECULATIVE=0" in with_it.remedy
    assert "BONSAI_SPECULATIVE" not in without.remedy


@pytest.mark.parametrize(
    ("text", "returncode", "again"),
    [
        ("", -9, True),
        ("", -15, True),
        ("x", -11, True),
        ("x", None, True),
        ("couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 80", 1, True),
        ("cudaMalloc failed: out of memory", 1, False),
        ("std::bad_alloc", -6, False),
        ("error: invalid argument: --x", 1, False),
        ("", -4, False),
        ("", 127, False),
    ],
)
def test_whether_the_same_start_can_succeed(text: str, returncode: int | None, again: bool) -> None:
    assert diagnose(returncode, text, with_drafter=False, system="Linux").again is again


# -- unknown --------------------------------------------------------------------------------------------------


def test_an_unknown_cause_says_how_it_ended_and_what_it_wrote_last() -> None:
    text = "one\n0.00.000.001 I srv two\nthree\n#0 0xdeadbeef in frob ()\n[New LWP 12]\nfour\n"
    found = diagnose(42, text, with_drafter=False, system="Linux")
    assert found.cause == "unknown"
    assert found.sentence == "The engine ended with exit code 42 after it wrote: srv two · three · four."
    assert "log" in found.remedy


def test_an_unknown_cause_prefers_the_lines_that_speak_of_an_error() -> None:
    text = "Error: the frobnicator is jammed\n" + "".join(f"line {n}\n" for n in range(50))
    assert "frobnicator" in diagnose(42, text, with_drafter=False, system="Linux").sentence


def test_an_unknown_cause_without_a_log() -> None:
    found = diagnose(42, "", with_drafter=False, system="Linux")
    assert found.sentence == "The engine ended with exit code 42 without a word."


# -- an engine that runs on -----------------------------------------------------------------------------------


def causes_of(name: str) -> list[str]:
    found = suspicions(log(name))
    for hint in found:
        assert_readable(hint)
    return [hint.cause for hint in found]


def test_a_healthy_engine_without_a_gpu_is_told_so_when_layers_were_asked_for() -> None:
    assert causes_of("healthy") == ["cpu-fallback"]
    assert causes_of("terminated") == []


def test_a_drafter_that_could_not_be_set_up_is_told() -> None:
    (found,) = suspicions(log("composed_drafter_not_started"))
    assert (found.cause, found.drafter) == ("drafter-not-started", True)
    assert "no confidence head" in found.sentence


def test_a_draft_length_that_was_cut_is_told() -> None:
    (found,) = suspicions(log("drafter_clamped"))
    assert found.cause == "draft-clamped"
    assert "16" in found.sentence
    assert "BONSAI_SPEC_NMAX to 4" in found.remedy


@pytest.mark.case("B-09")
def test_metal_trouble_of_a_live_engine() -> None:
    assert causes_of("composed_metal_harmless") == ["metal-tensor-off"]
    assert causes_of("composed_metal_shader") == ["metal-shader"]
    assert causes_of("composed_metal_oom") == ["metal-oom"]


def test_the_reason_for_the_fallback_is_told_once() -> None:
    assert causes_of("composed_forward_compatibility") == ["old-driver"]
    assert causes_of("composed_gpu_library") == ["cpu-fallback"]
    assert "libcudart.so.12" in suspicions(log("composed_gpu_library"))[0].sentence


# -- a program that does not even start -----------------------------------------------------------------------


def windows_error(code: int, kind: type[OSError] = OSError) -> OSError:
    error = kind(22, "as Windows says")
    error.winerror = code  # type: ignore[attr-defined]
    return error


@pytest.mark.case("D-12")
@pytest.mark.parametrize(
    ("error", "system", "cause"),
    [
        (windows_error(225), "Windows", "blocked"),
        (windows_error(4551), "Windows", "blocked"),
        (windows_error(193), "Windows", "wrong-machine"),
        (windows_error(1455), "Windows", "ram"),
        (PermissionError(13, "Permission denied"), "Linux", "blocked"),
        (FileNotFoundError(2, "No such file or directory"), "Linux", "missing-file"),
        (OSError(8, "Exec format error"), "Linux", "wrong-machine"),
        (OSError(86, "Bad CPU type in executable"), "Darwin", "wrong-machine"),
        (OSError(12, "Cannot allocate memory"), "Linux", "ram"),
        (OSError(99, "Odd"), "Linux", "unknown"),
    ],
)
def test_a_start_that_the_system_refuses(error: OSError, system: str, cause: str) -> None:
    found = diagnose_start(error, system=system)
    assert found.cause == cause
    assert_readable(found)


# -- statuses -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returncode", "system", "name"),
    [
        (None, "Linux", "alive"),
        (0, "Linux", "0"),
        (1, "Windows", "1"),
        (-9, "Linux", "SIGKILL"),
        (137, "Linux", "SIGKILL"),
        (137, "Windows", "137"),
        (-7, "Linux", "SIGBUS"),
        (-10, "Darwin", "SIGBUS"),
        (-10, "Linux", "SIGUSR1"),
        (-40, "Linux", "signal 40"),
        (-1073741795, "Windows", "0xC000001D"),
        (3221225501, "Windows", "0xC000001D"),
        (255, "Linux", "255"),
    ],
)
def test_names_of_statuses(returncode: int | None, system: str, name: str) -> None:
    assert exit_name(returncode, system) == name
    assert in_words(returncode, system).isprintable()
