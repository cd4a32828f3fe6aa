"""The plan as a table: what is asked, what the files are, and the command line with its reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.errors import PlanRefused
from launcher.hardware.model import Machine
from launcher.plan import LaunchPlan, make_plan
from launcher.resolved import Resolved
from launcher.settings import resolve
from tests.plans import DRAFTER, ENGINE, MACHINE, TARGET, resolved


def plan(env: dict[str, str], parts: Resolved | None = None, machine: Machine = MACHINE) -> LaunchPlan:
    return make_plan(resolve({}, env), machine, parts or resolved())


def value(made: LaunchPlan, flag: str) -> str | None:
    return made.argv[made.argv.index(flag) + 1] if flag in made.argv else None


ON = {"BONSAI_SPECULATIVE": "1"}


def test_speculative_flags_are_those_of_the_seeds() -> None:
    made = plan(ON)
    expected = {
        "-md": "drafter.gguf",
        "--spec-type": "draft-dspark",
        "--spec-draft-n-max": "4",
        "-ngl": "999",
    }
    expected |= {"-ngld": "999", "-np": "1", "-c": "16384", "-fa": "on"}
    assert {flag: value(made, flag) for flag in expected} == expected
    assert (made.spec_type, made.draft_max) == ("draft-dspark", 4)


def test_off_until_asked_for() -> None:
    made = plan({})
    assert "-md" not in made.argv
    assert value(made, "--spec-type") == "none"
    assert made.spec_type == "none"
    assert "BONSAI_SPECULATIVE=1" in made.speculation_why


@pytest.mark.parametrize(
    ("env", "flag", "expected"),
    [
        ({"BONSAI_CTX": "8192"}, "-c", "8192"),
        ({"BONSAI_CTX": "0"}, "-c", "16384"),
        ({"BONSAI_NGL": "0"}, "-ngl", "0"),
        ({"BONSAI_NGL": "12"}, "-ngld", "12"),
        ({"BONSAI_SPEC_NMAX": "2"}, "--spec-draft-n-max", "2"),
        ({"BONSAI_KV4": "1"}, "-ctk", "q4_0"),
        ({"BONSAI_KV4": "1"}, "-ctv", "q4_0"),
        ({"BONSAI_PORT": "9000"}, "--port", "9000"),
        ({}, "--temp", "0.7"),
        ({}, "--top-k", "20"),
    ],
)
def test_settings_become_flags(env: dict[str, str], flag: str, expected: str) -> None:
    assert value(plan(ON | env), flag) == expected


def test_every_argument_has_a_reason_that_names_its_source() -> None:
    made = plan(ON | {"BONSAI_CTX": "8192"})
    parts = " ".join(reason.part for reason in made.reasons)
    assert all(word in parts for word in made.argv[1:])
    assert any(reason.part == "-c 8192" and "BONSAI_CTX" in reason.why for reason in made.reasons)


def test_context_never_exceeds_what_a_small_model_holds() -> None:
    small = resolved(target=replace(TARGET, context_length=4096))
    assert value(plan({}, small), "-c") == "4096"


@pytest.mark.parametrize(
    ("env", "parts", "words"),
    [
        ({"BONSAI_CTX": "40000"}, resolved(), ["BONSAI_CTX", "40000", "32768"]),
        (ON | {"BONSAI_SPEC_NMAX": "5"}, resolved(), ["BONSAI_SPEC_NMAX", "5", "4"]),
        (ON, resolved(drafter=replace(DRAFTER, hidden_size=768)), ["drafter.gguf", "768", "512"]),
        (
            ON,
            resolved(drafter=replace(DRAFTER, vocab_size=750, vocab_fingerprint="0" * 64)),
            ["drafter.gguf", "750"],
        ),
        (ON, resolved(drafter=replace(DRAFTER, architecture="dspark")), ["dspark", "dflash"]),
        (ON, resolved(drafter=replace(DRAFTER, block_size=None)), ["block size"]),
        ({}, resolved(target=DRAFTER), ["is a drafter", "BONSAI_DRAFTER"]),
    ],
)
def test_what_cannot_work_is_refused_by_name(env: dict[str, str], parts: Resolved, words: list[str]) -> None:
    with pytest.raises(PlanRefused) as caught:
        plan(env, parts)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_drafter_that_does_not_fit_hurts_nobody_while_speculation_is_off() -> None:
    assert plan({}, resolved(drafter=replace(DRAFTER, hidden_size=768))).spec_type == "none"


def test_no_drafter_runs_plain_and_says_so() -> None:
    made = plan(ON, resolved(drafter=None))
    assert made.spec_type == "none"
    assert made.speculation_requested
    assert "no drafter" in made.warnings[0]


def test_an_engine_without_dspark_runs_plain_and_says_so() -> None:
    old = replace(ENGINE, spec_types=frozenset({"none", "draft-simple"}))
    made = plan(ON, resolved(engine=old))
    assert "-md" not in made.argv
    assert "cannot do draft-dspark" in made.warnings[0]


def test_other_web_sites_are_kept_out_or_warned_about() -> None:
    assert value(plan({}), "--cors-origins") == "localhost"
    bare = plan({}, resolved(engine=replace(ENGINE, flags=frozenset())))
    assert "--cors-origins" not in bare.argv
    assert any("could read its answers" in warning for warning in bare.warnings)


def test_equal_plans_start_the_same_server_and_others_do_not() -> None:
    assert plan(ON) == plan({"BONSAI_SPECULATIVE": "yes"})
    assert plan(ON) != plan({})


def test_the_port_can_be_exchanged_at_the_start() -> None:
    command = plan({}).command(1234, "--alias", "x")
    assert command[-4:] == ["--port", "1234", "--alias", "x"]


@pytest.mark.parametrize(
    ("cores", "practice", "threads"), [(2, True, "1"), (2, False, None), (8, True, None), (None, True, None)]
)
def test_practice_leaves_a_core_to_the_page_where_there_are_two(
    cores: int | None, practice: bool, threads: str | None
) -> None:
    made = plan({}, replace(resolved(), practice=practice), replace(MACHINE, cores=cores))
    assert value(made, "-t") == threads


@pytest.mark.parametrize(
    ("kind", "system", "batch"),
    [
        ("embedded", "Linux", "256"),
        ("built", "Windows", "256"),
        ("built", "Darwin", None),
        ("own", "Linux", None),
    ],
)
def test_prompts_are_read_in_small_steps_on_the_processor(kind: str, system: str, batch: str | None) -> None:
    made = plan({}, resolved(engine=replace(ENGINE, kind=kind)), replace(MACHINE, system=system))
    assert value(made, "-b") == batch
