"""The plan as a table: what is asked, what the files are, and the command line with its reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.errors import PlanRefused
from launcher.hardware.model import Machine
from launcher.methods import PLAIN, Method
from launcher.plan import LaunchPlan, make_plan
from launcher.report import plan_json, print_plan
from launcher.resolved import Device, Resolved
from launcher.settings import resolve
from tests.plans import DRAFTER, ENGINE, MACHINE, TARGET, resolved
from tests.trios import DSPARK_27B, GIB, TERNARY_27B, card, machine


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
    assert made.method == Method("draft-dspark", 4)
    assert (made.spec_type, made.draft_max, made.speculation) == ("draft-dspark", 4, "dspark 4")


def test_off_until_asked_for() -> None:
    made = plan({})
    assert "-md" not in made.argv
    assert value(made, "--spec-type") == "none"
    assert (made.method, made.spec_type, made.speculation) == (PLAIN, "none", "none")
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


@pytest.mark.case("A-10")
def test_an_engine_without_dspark_runs_plain_and_says_so() -> None:
    old = replace(ENGINE, spec_types=frozenset({"none", "draft-simple"}))
    made = plan(ON, resolved(engine=old))
    assert "-md" not in made.argv
    assert "cannot do draft-dspark" in made.warnings[0]


def test_other_web_sites_are_kept_out_where_the_engine_can() -> None:
    assert value(plan({}), "--cors-origins") == "localhost"
    bare = plan({}, resolved(engine=replace(ENGINE, flags=frozenset())))
    assert "--cors-origins" not in bare.argv


def test_what_the_pair_stands_in_for_and_what_the_engine_sees_is_said_once() -> None:
    parts = replace(
        resolved(engine=replace(ENGINE, devices=())),
        practice=True,
        stands_in_for="Ternary Bonsai 27B",
        notices=("No drafter was given with BONSAI_DRAFTER.",),
    )
    said = plan({}, parts).warnings
    assert sum("Ternary Bonsai 27B is not on this machine yet" in it for it in said) == 1


def test_a_missing_drafter_is_told_once() -> None:
    parts = replace(
        resolved(drafter=None), notices=("It runs plain: no drafter was given with BONSAI_DRAFTER.",)
    )
    said = plan(ON, parts).warnings
    assert sum("no drafter was given" in it for it in said) == 1


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


LEGACY = replace(ENGINE, kind="fetched", line="prism-legacy", backend="cuda")
TRIO = resolved(engine=LEGACY, target=TERNARY_27B, drafter=DSPARK_27B)


@pytest.mark.case("A-08")
def test_memory_is_judged_before_the_start_and_its_outcome_is_in_the_command_line() -> None:
    roomy, small, less = (plan(ON, TRIO, machine(32, card(gib))) for gib in (16, 8, 11))
    assert [value(roomy, flag) for flag in ("-c", "-ngl", "-ngld")] == ["16384", "999", "999"]
    assert [value(small, flag) for flag in ("-c", "-ngl", "-ngld")] == ["4096", "36", "36"]
    assert [value(less, flag) for flag in ("-c", "-ngl")] == ["4096", "999"]
    assert any("4096 tokens instead of 16384" in warning for warning in less.warnings)
    assert any(reason == "as much as fits into the GPU's memory" for _, reason in _parts(less))
    assert small.fit is not None
    assert small.fit.verdict == "partly"


def _parts(made: LaunchPlan) -> list[tuple[str, str]]:
    return [(reason.part, reason.why) for reason in made.reasons]


def test_without_speculation_the_drafter_takes_no_memory() -> None:
    assert value(plan({}, TRIO, machine(32, card(11))), "-c") == "16384"


def test_both_sides_of_a_comparison_have_the_same_context() -> None:
    where, chosen = machine(32, card(11)), resolve({}, {})
    sides = [make_plan(chosen, where, TRIO, method) for method in (PLAIN, Method("draft-dspark", 4))]
    assert {(value(made, "-c"), value(made, "-ngl")) for made in sides} == {("4096", "999")}
    alone = make_plan(chosen, where, replace(TRIO, drafter=None), PLAIN)
    assert value(alone, "-c") == "16384", "nobody can draft, so nothing is kept for it"


@pytest.mark.case("B-01")
def test_the_engines_own_devices_count_more_than_the_probes() -> None:
    two = (
        Device("CUDA0", "a card", "cuda", 8 * GIB, 8 * GIB),
        Device("CUDA1", "a card", "cuda", 8 * GIB, 8 * GIB),
    )
    for where in (machine(32), machine(32, card(8))):
        made = plan({}, replace(TRIO, engine=replace(LEGACY, devices=two)), where)
        assert made.fit is not None
        assert made.fit.verdict == "gpu"
        assert "16.0 GiB free on 2 GPUs together" in made.fit.says
    blind = plan({}, replace(TRIO, engine=replace(LEGACY, devices=())), machine(32, card(24)))
    assert blind.fit is not None
    assert blind.fit.verdict == "ram"
    assert value(blind, "-b") == "256"


def test_the_reasons_and_notices_of_the_choice_are_part_of_the_plan() -> None:
    chosen = replace(TRIO, reasons=(("weights", "the legacy format"), ("engine", "x")), notices=("Listen.",))
    made = plan({}, chosen, machine(32, card(16)))
    assert [part for part, why in _parts(made) if why == "the legacy format"] == [f"-m {TRIO.target.path}"]
    assert [part for part, _ in _parts(made)].count("engine") == 1
    assert "Listen." in made.warnings


def test_what_the_choice_said_of_the_same_figures_is_not_said_twice() -> None:
    where = machine(32, card(8))
    bare = plan({}, TRIO, where)
    assert bare.fit is not None
    said = f"It does not fit on the GPU as a whole. {bare.fit.says}"
    assert plan({}, replace(TRIO, notices=(said,)), where).warnings == bare.warnings


def test_free_memory_alone_makes_no_other_plan() -> None:
    one, other = plan({}, TRIO, machine(32, card(16))), plan({}, TRIO, machine(32, card(24)))
    assert one == other
    assert one.fit != other.fit


ABLE = replace(
    ENGINE,
    flags=ENGINE.flags | {"--spec-draft-p-min", "-devd"},
    spec_types=ENGINE.spec_types | {"ngram-mod"},
)
WHOLE = Method("ngram-mod,draft-dspark", 3, 0.5, "cpu")


def test_a_plan_knows_its_method_to_the_last_detail() -> None:
    made = make_plan(resolve({}, {}), MACHINE, resolved(engine=ABLE), WHOLE)
    assert made.method == WHOLE
    assert made.speculation == "ngram-mod + dspark 3, p-min 0.5, draft on CPU"
    assert (value(made, "--spec-draft-p-min"), value(made, "-devd")) == ("0.5", "none")
    assert plan_json(made, MACHINE)["speculation"] == {
        "requested": True,
        "type": "ngram-mod,draft-dspark",
        "draft_max": 3,
        "p_min": 0.5,
        "draft_on": "cpu",
        "name": "ngram-mod + dspark 3, p-min 0.5, draft on CPU",
    }
    less = make_plan(resolve({}, {}), MACHINE, resolved(engine=ABLE), replace(WHOLE, p_min=None))
    assert less != made


def test_what_runs_alone_listens_where_it_was_asked_to_and_says_where_it_comes_from() -> None:
    asked = resolve({}, {"BONSAI_PORT": "9000"})
    compared = make_plan(asked, MACHINE, resolved(engine=ABLE), WHOLE)
    alone = make_plan(asked, MACHINE, resolved(engine=ABLE), WHOLE, source="learned here")
    assert (compared.port_asked, alone.port_asked) == (False, True)
    assert alone.argv == compared.argv
    assert alone.speculation_why == "learned here"
    reasons = {reason.part: reason.why for reason in alone.reasons}
    assert reasons[f"--spec-type {WHOLE.spec_type}"] == "learned here"


def test_the_plan_on_paper_names_the_whole_method(capsys: pytest.CaptureFixture[str]) -> None:
    print_plan(make_plan(resolve({}, {}), MACHINE, resolved(engine=ABLE), WHOLE), MACHINE)
    assert f"Speculation: {WHOLE.name} (" in " ".join(capsys.readouterr().err.split())


def test_memory_as_json() -> None:
    where = machine(32, card(16))
    made = plan(ON, TRIO, where)
    memory = plan_json(made, where)["memory"]
    assert isinstance(memory, dict)
    assert (memory["verdict"], memory["layers"]) == ("gpu", 999)
    need = memory["need"]
    assert need["total"] == sum(need[part] for part in ("weights", "drafter", "cache", "compute"))
    assert need["weights"] == 7_165_121_600
    unknown = plan(
        {}, replace(TRIO, target=replace(TRIO.target, header=replace(TERNARY_27B, layers=None))), where
    )
    assert plan_json(unknown, where)["memory"]["need"] is None  # type: ignore[index]
