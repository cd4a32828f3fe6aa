"""What is tried against which cause, in which order, and what is left alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from launcher.errors import EngineDied, EngineMissing
from launcher.ladder import (
    OtherEngine,
    Rescue,
    Rung,
    apply,
    marked,
    next_rung,
    once_more,
    upon,
    without_drafter,
)
from launcher.plan import LaunchPlan, make_plan
from launcher.settings import Settings, Value, resolve
from launcher.supervise.diagnose import Diagnosis
from tests import plans

FETCHED = replace(plans.ENGINE, kind="fetched", line="prism", backend="cuda")


def setting(**env: str) -> Settings:
    return resolve({}, {"BONSAI_SPECULATIVE": "1", **env})


def plan_of(settings: Settings, *, practice: bool = False, kind: str = "fetched") -> LaunchPlan:
    parts = plans.resolved(engine=replace(FETCHED, kind=kind))
    return make_plan(settings, plans.MACHINE, replace(parts, practice=practice))


def told(cause: str, *, again: bool = False, drafter: bool = False) -> Diagnosis:
    return Diagnosis(cause, f"It is {cause}.", "Do something.", again=again, drafter=drafter)


def climbed(diagnosis: Diagnosis, settings: Settings, *, practice: bool = False) -> list[str]:
    """The names of all rungs, each applied before the next, as the owner does."""
    rungs: list[Rung] = []
    plan = plan_of(settings, practice=practice)
    while rung := next_rung(diagnosis, settings, plan, frozenset(it.name for it in rungs)):
        rungs.append(rung)
        assert len(rungs) < 20, "it must come to an end"
        plan = marked(plan_of(apply(settings, rungs), practice=practice), rungs)
    return [rung.name for rung in rungs]


CONTEXTS = ["a context of 8192 tokens", "a context of 4096 tokens", "a context of 2048 tokens"]
LAYERS = ["5 layers on the GPU", "no layers on the GPU"]
DRAFTER, AGAIN, EMBEDDED = "without the drafter", "again", "the embedded engine"


@pytest.mark.parametrize(
    ("cause", "again", "drafter", "names"),
    [
        ("gpu-memory", False, False, [DRAFTER, *CONTEXTS, *LAYERS]),
        ("ram", False, False, [DRAFTER, *CONTEXTS]),
        ("ram", True, False, [AGAIN, DRAFTER, *CONTEXTS]),
        ("context", False, False, [DRAFTER, *CONTEXTS]),
        ("metal-shader", False, False, ["without Metal's tensor code"]),
        ("metal-oom", False, False, ["without Metal's tensor code", DRAFTER, *CONTEXTS]),
        ("drafter-architecture", False, True, [DRAFTER]),
        ("drafter-misfit", False, True, [DRAFTER]),
        ("unknown-flag", False, True, [DRAFTER]),
        ("unknown-flag", False, False, []),
        ("unknown-type", False, False, []),
        ("unknown-type", False, True, [DRAFTER]),
        ("legacy-q2_0", False, False, []),
        ("corrupt-file", False, False, []),
        ("assert", True, False, [AGAIN, DRAFTER]),
        ("unknown", True, False, [AGAIN, DRAFTER]),
        ("stood-still", True, False, [AGAIN, DRAFTER]),
        ("port", True, False, [AGAIN]),
        ("a cause of tomorrow", False, False, []),
    ],
)
def test_the_order_by_cause(cause: str, again: bool, drafter: bool, names: list[str]) -> None:
    assert climbed(told(cause, again=again, drafter=drafter), setting()) == names


@pytest.mark.parametrize(
    "cause", ["missing-library", "old-driver", "old-cpu", "old-system", "no-backend", "blocked", "old-gpu"]
)
@pytest.mark.case("D-10")
def test_an_engine_that_cannot_run_here_is_replaced_by_the_embedded_one(cause: str) -> None:
    assert climbed(told(cause), setting(), practice=True)[0] == EMBEDDED
    assert EMBEDDED not in climbed(told(cause), setting()), "it may not read these weights"


@pytest.mark.parametrize(
    ("env", "left_out", "named"),
    [
        ({"BONSAI_CTX": "9000"}, CONTEXTS, "BONSAI_CTX asks for a context of 9000"),
        ({"BONSAI_NGL": "8"}, LAYERS, "BONSAI_NGL asks for 8 layers"),
    ],
)
def test_what_a_person_asked_for_stays_and_is_named(
    env: dict[str, str], left_out: list[str], named: str
) -> None:
    settings = setting(**env)
    names = climbed(told("gpu-memory"), settings)
    assert not set(names) & set(left_out)
    hints = Rescue(lambda: settings).hints(told("gpu-memory"), plan_of(settings))
    assert any(named in hint for hint in hints)


@pytest.mark.parametrize("env", [{"BONSAI_ENGINE": "prism"}, {"BONSAI_LLAMA_SERVER": "/x/llama-server"}])
def test_an_engine_that_was_asked_for_stays(env: dict[str, str]) -> None:
    settings = setting(**env)
    assert climbed(told("missing-library"), settings, practice=True) == []
    (hint,) = Rescue(lambda: settings).hints(told("missing-library"), plan_of(settings, practice=True))
    assert next(iter(env)) in hint


VULKAN = OtherEngine("prism for Vulkan", "prism", "/engines/vulkan/llama-server")
NEWER = OtherEngine("mainline for CUDA 12.4", "mainline", "/engines/mainline/llama-server")


def rungs_with(others: list[OtherEngine], cause: str, **env: str) -> list[Rung]:
    """All rungs where these other engines are here; an engine that was taken is not offered to itself."""
    settings, rungs = setting(**env), list[Rung]()
    plan = plan_of(settings, practice=True)
    rescue = Rescue(lambda: settings, others=lambda plan: others)  # noqa: ARG005
    tried: frozenset[str] = frozenset()
    while rung := rescue.next(told(cause), plan, tried):
        rungs.append(rung)
        taken = rung.change.get("llama_server")
        tried |= {rung.name, *([taken.value] if taken and taken.value else [])}
        assert len(rungs) < 20, "it must come to an end"
    return rungs


@pytest.mark.case("D-10")
@pytest.mark.parametrize("cause", ["missing-library", "old-driver", "old-gpu", "no-backend", "blocked"])
def test_other_engines_on_this_machine_come_before_the_embedded_one(cause: str) -> None:
    rungs = rungs_with([VULKAN, NEWER], cause)
    assert [it.name for it in rungs] == [VULKAN.name, NEWER.name, EMBEDDED]
    programs = [apply(setting(), [it]).llama_server.value for it in rungs]
    assert programs == [VULKAN.program, NEWER.program, None]
    assert rungs[0].warning == f"The engine is prism for Vulkan: It is {cause}."


def test_a_crash_leaves_the_drafter_out_first() -> None:
    assert [it.name for it in rungs_with([VULKAN], "segfault")] == [DRAFTER, VULKAN.name, EMBEDDED]


def test_an_architecture_that_one_line_does_not_know_may_be_known_to_another() -> None:
    assert [it.name for it in rungs_with([NEWER], "unknown-architecture")] == [NEWER.name]


def test_within_the_line_that_was_asked_for_another_build_may_be_tried() -> None:
    assert [it.name for it in rungs_with([VULKAN, NEWER], "old-driver", BONSAI_ENGINE="prism")] == [
        VULKAN.name
    ]


def test_an_engine_of_another_line_stands_in_nobodys_way() -> None:
    last = OtherEngine("prism for the processor", "prism", "/engines/cpu/llama-server")
    assert [it.name for it in rungs_with([NEWER, last], "old-driver", BONSAI_ENGINE="prism")] == [last.name]


@pytest.mark.parametrize("env", [{"BONSAI_ENGINE": "mainline"}, {"BONSAI_LLAMA_SERVER": "/x/llama-server"}])
def test_another_engine_than_the_one_asked_for_is_named_only(env: dict[str, str]) -> None:
    settings = setting(**env)
    assert rungs_with([VULKAN], "old-driver", **env) == []
    rescue = Rescue(lambda: settings, others=lambda plan: [VULKAN])  # noqa: ARG005
    hints = rescue.hints(told("old-driver"), plan_of(settings))
    assert hints[0] == (
        f"{next(iter(env))} asks for this engine; prism for Vulkan, which is on this machine, could run this model, too."
    )


def test_another_engine_begins_from_what_was_asked_for() -> None:
    other = rungs_with([VULKAN], "old-driver")[0]
    assert upon((without_drafter("It broke."), once_more()), other) == (other,)


def test_automatic_context_may_shrink_though_zero_was_asked() -> None:
    assert CONTEXTS[0] in climbed(told("ram"), setting(BONSAI_CTX="0"))


def test_speculation_that_was_asked_for_goes_only_aloud() -> None:
    settings = setting()
    rung = next_rung(told("drafter-misfit", drafter=True), settings, plan_of(settings), frozenset())
    assert rung is not None
    plan = marked(plan_of(apply(settings, [rung])), [rung])
    assert (plan.spec_type, plan.speculation_requested) == ("none", True)
    assert plan.warnings[0] == "Speculation off: It is drafter-misfit."
    assert plan.speculation_why == "It is drafter-misfit"
    assert [it.why for it in plan.reasons if it.part == "no drafter"] == ["It is drafter-misfit"]
    assert "-md" not in plan.argv


def test_metal_s_switch_is_the_environment_s_and_the_gpu_stays() -> None:
    settings = setting()
    rung = next_rung(told("metal-shader"), settings, plan_of(settings), frozenset())
    assert rung is not None
    plan = marked(plan_of(apply(settings, [rung])), [rung])
    assert dict(plan.env) == {"GGML_METAL_TENSOR_DISABLE": "1"}
    assert dict(pairwise(plan.argv))["-ngl"] == dict(pairwise(plan_of(settings).argv))["-ngl"]
    assert plan != plan_of(settings), "another environment is another server"


def test_a_program_that_does_not_start_is_judged_by_what_the_system_said() -> None:
    error = EngineMissing("The engine x cannot be started: No such file or directory.")
    error.__cause__ = FileNotFoundError(2, "No such file or directory")
    settings = setting()
    found = Rescue(lambda: settings, lambda: "Windows").judge(error, "", plan_of(settings))
    assert found.cause == "missing-program"
    assert next_rung(found, settings, plan_of(settings, practice=True), frozenset()) is not None


def test_without_settings_the_error_speaks_for_itself() -> None:
    plan = plan_of(setting())
    found = Rescue().judge(EngineDied("It ended.", "Look."), "cudaMalloc failed: out of memory", plan)
    assert (found.sentence, found.remedy) == ("It ended.", "Look.")
    assert Rescue().next(found, plan, frozenset()) is None


def test_a_rung_takes_the_place_of_one_that_changes_the_same() -> None:
    halved, quartered = (Rung(f"a context of {it}", "", change={"ctx": Value(it, "memory")}) for it in (8, 4))
    stood = (without_drafter("It is full."), halved, once_more(), once_more())
    assert [it.name for it in upon(stood, quartered)] == [
        "without the drafter",
        "again",
        "again",
        "a context of 4",
    ]
