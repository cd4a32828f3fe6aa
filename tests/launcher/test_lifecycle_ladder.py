"""Engines that die or hang while they start: the cause is named, safe remedies are tried, each once, said aloud."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from launcher.client.events import Finished
from launcher.errors import LauncherError
from tests.conftest import wait_until
from tests.fakes.moody_engine import Moods, install, starts
from tests.launcher.lifecycle_room import MakeRoom, Room

GPU_LOG = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 1200.00 MiB on device 0: cudaMalloc failed: out of memory"
ARCH_LOG = "0.01.2.3 E llama_model_load: error loading model: unknown model architecture: 'dspark'"
ASSERT_LOG = "ggml-cuda.cu:1234: GGML_ASSERT(ne00 == ne10) failed"
METAL_LOG = """ggml_metal_library_init_from_source: error compiling source
ggml_metal_synchronize: error: command buffer 0 failed with status 5
error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"""


@pytest.fixture
def room(tmp_path: Path) -> Iterator[MakeRoom]:
    made: list[Room] = []

    def make(moods: Moods, *, speculative: bool = True, **more: object) -> Room:
        program = install(tmp_path / "bin", moods, rate=2000, tokens=60, blocks=((4, 3),))
        more = {"BONSAI_SPECULATIVE": "1"} | more if speculative else more
        made.append(Room(tmp_path, program, **more))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for it in made:
        it.close()


def value(argv: list[str], flag: str) -> str | None:
    return dict(pairwise(argv)).get(flag)


@pytest.mark.case("A-01")
def test_a_drafter_that_the_engine_does_not_know_is_left_out_and_said(room: MakeRoom) -> None:
    it = room(
        Moods(log=f"loading draft model 'd.gguf'\n{ARCH_LOG}\nfailed to load draft model", fine="plain")
    )
    status = it.started()
    assert status.phase == "ready"
    assert len(starts(it.program)) == 2, "each rung once"
    assert status.plan is not None
    assert status.plan.spec_type == "none"
    assert status.speculative, "it is what was asked for"
    assert status.inactive
    assert status.warnings[0].startswith("Speculation off: ")
    assert "Trying without the drafter" in status.steps[0]
    assert isinstance(it.ask()[-1], Finished)


@pytest.mark.case("A-08")
def test_out_of_gpu_memory_goes_down_the_ladder_in_order(room: MakeRoom) -> None:
    it = room(Moods(log=GPU_LOG, fine="context:4096"))
    status = it.started()
    assert status.phase == "ready"
    assert [(value(argv, "-md") is not None, value(argv, "-c")) for argv in starts(it.program)] == [
        (True, "16384"),
        (False, "16384"),
        (False, "8192"),
        (False, "4096"),
    ]
    assert status.plan is not None
    assert status.plan.context == 4096
    assert [step.split(". ")[0] for step in status.steps[1:]] == ["That did not help"] * 2
    assert len(status.steps) == 3
    assert [warning.split(":")[0] for warning in status.warnings] == [
        "Speculation off",
        "The context is 4096 tokens only",
    ]
    assert [len(seen.steps) for seen in it.seen] == sorted(len(seen.steps) for seen in it.seen), (
        "as it happens"
    )


@pytest.mark.case("A-08")
def test_explicit_values_are_never_changed_but_named(room: MakeRoom) -> None:
    it = room(Moods(log=GPU_LOG), BONSAI_CTX="16384", BONSAI_NGL="5")
    status = it.started()
    assert status.phase == "failed"
    assert status.cause == "gpu-memory"
    assert {(value(argv, "-c"), value(argv, "-ngl")) for argv in starts(it.program)} == {("16384", "5")}
    assert "BONSAI_CTX asks for a context of 16384" in status.remedy
    assert "BONSAI_NGL asks for 5 layers" in status.remedy
    assert "Tried in vain: without the drafter." in status.remedy
    assert "The whole log is in" in status.remedy


def test_layers_come_last_and_the_end_names_everything(room: MakeRoom) -> None:
    it = room(Moods(log=GPU_LOG), speculative=False)
    status = it.started()
    assert status.phase == "failed"
    assert [value(argv, "-ngl") for argv in starts(it.program)] == ["999", "999", "999", "999", "5", "0"]
    tried = "a context of 8192 tokens, a context of 4096 tokens, a context of 2048 tokens, 5 layers on the GPU, no layers"
    assert f"Tried in vain: {tried}" in status.remedy
    with pytest.raises(LauncherError):
        it.ask()


@pytest.mark.case("B-09")
def test_metal_starts_once_more_without_its_tensor_code(room: MakeRoom) -> None:
    it = room(Moods(log=METAL_LOG, fine="env:GGML_METAL_TENSOR_DISABLE"), speculative=False)
    status = it.started()
    assert status.phase == "ready"
    assert len(starts(it.program)) == 2
    assert status.plan is not None
    assert dict(status.plan.env) == {"GGML_METAL_TENSOR_DISABLE": "1"}
    assert value(starts(it.program)[-1], "-ngl") == "999", "the GPU stays"
    assert "GGML_METAL_TENSOR_DISABLE=1" in status.warnings[0]


@pytest.mark.case("A-07")
def test_an_abort_on_the_first_question_is_met_before_ready(room: MakeRoom) -> None:
    it = room(Moods(at="chat", log=ASSERT_LOG, status=-signal.SIGABRT, fine="plain"))
    status = it.started()
    assert status.phase == "ready"
    assert not any(seen.phase == "ready" and seen.speculative and not seen.warnings for seen in it.seen)
    drafters = [value(argv, "-md") is not None for argv in starts(it.program)]
    assert drafters == [True, True, False], "once more as it was, then without the drafter"
    assert isinstance(it.ask()[-1], Finished)


@pytest.mark.case("G-02")
def test_a_drafter_that_drafts_nothing_is_said_and_the_engine_runs_on(tmp_path: Path) -> None:
    program = install(tmp_path / "bin", Moods(at="chat", chat=99), rate=2000, tokens=60)
    it = Room(tmp_path, program, BONSAI_SPECULATIVE="1")
    try:
        assert not it.started(False).inactive
        status = it.started(True)
        assert (status.phase, status.inactive, status.steps) == ("ready", True, ())
        assert status.plan is not None
        assert status.plan.spec_type == "draft-dspark", "as the person's settings say"
        assert status.warnings == ("Speculation was requested but the engine drafted nothing.",)
    finally:
        it.close()


def test_a_crash_that_does_not_return_is_started_again_as_it_was(room: MakeRoom) -> None:
    it = room(Moods(log="loading the model", status=-signal.SIGSEGV, bad_starts=1))
    status = it.started()
    assert status.phase == "ready"
    assert status.plan is not None
    assert status.plan.spec_type == "draft-dspark"
    assert status.warnings == ()
    assert "Starting it again" in status.steps[0]


def test_a_wrong_file_is_not_tried_again_and_the_remedy_is_the_diagnosis(room: MakeRoom) -> None:
    log = "llama_model_load: error loading model: unknown model architecture: 'novel'\nfailed to load model 'm.gguf'"
    it = room(Moods(log=log), speculative=False)
    status = it.started()
    assert (status.phase, status.cause) == ("failed", "unknown-architecture")
    assert len(starts(it.program)) == 1
    assert status.steps == ()


def test_retry_after_a_failure_starts_from_what_was_asked(room: MakeRoom) -> None:
    it = room(Moods(log=GPU_LOG, bad_starts=6), speculative=False)
    assert it.started().phase == "failed"
    status = it.started()
    assert status.phase == "ready"
    assert status.plan is not None
    assert (status.plan.context, status.warnings, status.steps) == (16384, (), ())


def test_a_start_for_the_other_choice_breaks_a_slow_one_off(room: MakeRoom) -> None:
    it = room(Moods(hang=True, fine="plain"), speculative=False)
    it.owner.start(True)
    wait_until(lambda: starts(it.program), 5, "the first start")
    it.owner.start(False)
    status = it.settled()
    assert status.phase == "ready"
    assert not status.speculative
    assert len(starts(it.program)) == 2


def test_a_refused_drafter_is_left_out_where_that_was_agreed(room: MakeRoom) -> None:
    it = room(Moods(fine="plain"), BONSAI_SPEC_NMAX="9")
    status = it.started()
    assert status.phase == "ready"
    assert "drafts of 9 tokens" in status.warnings[0]
    assert "drafts of 9 tokens" in status.steps[0]


def test_a_refused_drafter_stays_refused_on_the_terminal(room: MakeRoom) -> None:
    it = room(Moods(fine="plain"), lenient=False, BONSAI_SPEC_NMAX="9")
    status = it.started()
    assert status.phase == "failed"
    assert "drafts of 9 tokens" in status.error
    assert not starts(it.program)


def test_an_engine_deaf_to_sigterm_is_ended_all_the_same(room: MakeRoom) -> None:
    it = room(Moods(deaf=True, fine="plain"), speculative=False)
    assert it.started().phase == "ready"
    first = it.owner.status().pid
    assert it.started(True).pid != first
    assert first is not None
    assert not psutil.pid_exists(first), "reaped before the next start"
