"""The report that a person copies: everything that helps, nothing that is theirs alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.lifecycle_types import Status
from launcher.supervise.diagnose import diagnose
from launcher.support_report import make_report
from tests import plans

HOME = "/home/anna"
PLAN = plans.plan_for(f"{HOME}/.local/share/bonsai/engines/llama-server", speculative=True)
STATUS = Status(
    "failed",
    "The GPU's memory is too small.",
    plan=replace(PLAN, env={"GGML_METAL_TENSOR_DISABLE": "1"}),
    error="The GPU's memory is too small.",
    remedy="Close other programs.",
    cause="gpu-memory",
    steps=("It is full. Trying without the drafter …",),
    warnings=("Speculation off: it is full.",),
)


def report(log: str = "", status: Status = STATUS) -> str:
    return make_report(status, plans.MACHINE, "0.9.1", log, home=HOME)


def test_it_has_versions_hardware_plan_steps_and_log() -> None:
    text = report("ggml_cuda_init: found 1 CUDA devices")
    for part in (
        "# Bonsai Launcher 0.9.1",
        "**The GPU's memory is too small.** Close other programs. (cause: gpu-memory)",
        "- It is full. Trying without the drafter …",
        "- Speculation off: it is full.",
        "a processor",
        "own, mainline, b1",
        "- Speculation: dspark 4 (asked by BONSAI_SPECULATIVE)",
        "GGML_METAL_TENSOR_DISABLE=1 ",
        "--spec-type draft-dspark",
        "found 1 CUDA devices",
    ):
        assert part in text


def test_the_home_folder_is_a_tilde() -> None:
    text = report(f"failed to load model '{HOME}/models/x.gguf' and /home/annabel/y")
    assert HOME + "/" not in text
    assert "~/models/x.gguf" in text
    assert "~/.local/share/bonsai/engines/llama-server" in text
    assert "/home/annabel/y" in text, "another folder that only begins alike"


@pytest.mark.parametrize(
    "secret",
    [
        "hf_abcdefghijKLMNOP",
        "Authorization: Bearer s3cret-key",
        "http://user:pa55word@proxy:8080",
        "--api-key s3cret",
        "https://x/y?token=s3cret&z=1",
    ],
)
def test_secrets_are_hidden(secret: str) -> None:
    text = report(f"srv  start: {secret}", replace(STATUS, remedy=secret))
    for word in ("abcdefghij", "s3cret", "pa55word"):
        assert word not in text
    assert "(hidden)" in text


@pytest.mark.parametrize(
    "line",
    [
        "srv  params_from_: prompt: 'my diagnosis is secret'",
        '0.01.002.003 D srv  log: request:  {"messages":[{"content":"my secret"}]}',
        "srv  log: response: secret",
        "0.01.002.003 W common_chat_peg_parse: unparsed peg-native output: secret",
        "slot update: prompt token   0:  1234 'secret'",
    ],
)
def test_what_was_asked_and_answered_is_left_out_with_the_lines_it_goes_on_over(line: str) -> None:
    log = f"{line}\nmore of the secret\n\nand more secret\nsrv  stop: here again"
    text = report(log)
    assert "secret" not in text
    assert "(left out)" in text
    assert "srv  stop: here again" in text


def test_what_a_diagnosis_repeats_of_the_log_is_left_out_as_well() -> None:
    log = "0.01.002.003 W common_chat_peg_parse: unparsed peg-native output: my secret"
    said = diagnose(3, log, with_drafter=False, system="Linux").sentence
    assert "my secret" in said, "the person themselves may read it"
    step = f"{said} Starting it again …"
    text = report("", replace(STATUS, error=said, message=said, steps=(step,), warnings=(f"Off: {said}",)))
    assert "secret" not in text
    assert "The engine ended with exit code 3" in text


def test_ordinary_lines_about_prompts_stay() -> None:
    line = "prompt eval time =     120.00 ms /    24 tokens"
    progress = "slot print: prompt processing, n_tokens =   2048, progress = 0.50"
    text = report(f"{line}\n{progress}")
    assert line in text
    assert progress in text


def test_a_log_cannot_break_out_of_its_block() -> None:
    text = report("```\n# not a heading of ours")
    assert "````\n```\n# not a heading" in text


def test_before_anything_is_known() -> None:
    text = make_report(Status("preparing", "Looking for engine and model …"), None, "0.9.1", "", home=HOME)
    assert "preparing" in text
    assert "(empty)" in text
