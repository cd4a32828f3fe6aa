"""Which model is chosen by name, by family and by the machine's memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.choose import Choice
from launcher.errors import PlanRefused, SettingsError
from launcher.hardware.model import Machine
from tests.launcher.choosing import BIG, DSPARK, chosen, left, with_ram
from tests.machines import GIB, load, rtx4090


def test_auto_is_the_27b() -> None:
    choice = chosen()
    assert (choice.model.family, choice.model.name) == ("ternary", "27B")
    assert choice == chosen(model="AUTO")
    assert not any("left out" in it for it in choice.notices)


def test_another_family_is_taken_because_it_was_asked_for() -> None:
    assert "what the launcher is made for" in dict(chosen().why)["model"]
    said = dict(chosen(family="bonsai2").why)["model"]
    assert "the largest of the family bonsai2, which BONSAI_FAMILY asks for; it fits." in said


def test_auto_takes_the_next_smaller_size_and_says_each() -> None:
    choice = chosen(with_ram(load("no-gpu"), 5.5))
    assert choice.model.name in ("8B", "4B")
    assert any(it.startswith("Ternary Bonsai 27B is left out") for it in choice.notices)
    assert any(f"{choice.model.label} is taken instead." == it for it in choice.notices)
    assert "does not fit" in left(choice)["Ternary Bonsai 27B"]
    with pytest.raises(PlanRefused, match="family ternary fits"):
        chosen(with_ram(load("no-gpu"), 0.2))


def test_a_size_asked_for_is_never_changed() -> None:
    small = with_ram(load("no-gpu"), 5.5)
    with pytest.raises(PlanRefused, match="Ternary Bonsai 27B does not fit"):
        chosen(small, model="27B")
    tight = with_ram(rtx4090("570.86", "12.8"), 64)
    tight = replace(
        tight, gpus=tuple(replace(it, total_bytes=6 * GIB, free_bytes=5 * GIB) for it in tight.gpus)
    )
    choice = chosen(tight, model="27B")
    assert choice.model.name == "27B"
    assert any("only a part of it fits on the GPU" in it for it in choice.notices)


@pytest.mark.case("A-08")
def test_a_context_that_is_too_long_does_not_refuse_the_model() -> None:
    machine = with_ram(load("no-gpu"), 16)
    choice = chosen(machine, model="27B", ctx="262144")
    assert choice.model.name == "27B"
    (notice,) = [it for it in choice.notices if "BONSAI_CTX" in it]
    assert "262144 tokens" in notice


@pytest.mark.case("A-08")
def test_a_drafter_that_does_not_fit_is_left_out_aloud() -> None:
    machine, choice = least_that_holds_the_27b(speculative="1")
    assert choice.drafter is None
    assert "does not hold" in choice.drafter_why
    assert "does not hold" in left(choice)[DSPARK]
    assert any("runs plain" in it for it in choice.notices)
    # Without speculation it is not loaded, and so not counted.
    plain = chosen(machine, model="27B")
    assert plain.drafter is not None
    assert plain.drafter.file.name == DSPARK


def least_that_holds_the_27b(**env: str) -> tuple[Machine, Choice]:
    """A machine without a GPU with just enough memory for the 27B, in some way, and the choice for it."""
    for quarter in range(24, 80):
        machine = with_ram(load("no-gpu"), quarter / 4)
        try:
            return machine, chosen(machine, model="27B", **env)
        except PlanRefused:
            continue
    raise AssertionError("it fits nowhere")


@pytest.mark.case("A-08")
def test_auto_keeps_a_context_asked_for_by_taking_a_smaller_model() -> None:
    machine, _ = least_that_holds_the_27b()
    assert chosen(machine).model.name == "27B"
    choice = chosen(machine, ctx="20000")
    assert choice.model.name == "8B"
    assert "does not fit" in left(choice)["Ternary Bonsai 27B"]
    with pytest.raises(PlanRefused, match="300000"):
        chosen(machine, ctx="300000")


@pytest.mark.case("A-08")
def test_a_context_that_no_size_holds_takes_the_largest_that_fits_without_it() -> None:
    choice = chosen(with_ram(load("no-gpu"), 4), ctx="32000")
    assert choice.model.name == "8B"
    assert "does not fit" in left(choice)["Ternary Bonsai 27B"]
    assert any(it.startswith("BONSAI_CTX asks for a context of 32000") for it in choice.notices)
    assert "though not with the context" in dict(choice.why)["model"]


@pytest.mark.case("A-08")
def test_a_context_that_no_size_holds_does_not_cost_the_27b() -> None:
    choice = chosen(with_ram(load("no-gpu"), 16), ctx="250000")
    assert choice.model.name == "27B"
    assert any(it.startswith("BONSAI_CTX asks for a context of 250000") for it in choice.notices)
    assert not any("left out" in it or "instead" in it for it in choice.notices)
    with pytest.raises(PlanRefused, match="family ternary fits"):
        chosen(with_ram(load("no-gpu"), 0.2), ctx="250000")


def test_a_smaller_model_is_offered_where_the_processor_computes() -> None:
    assert "BONSAI_MODEL=8B is smaller, and faster here." in chosen(load("no-gpu")).offers
    assert "BONSAI_MODEL=4B is smaller, and faster here." in chosen(load("no-gpu"), model="8B").offers
    assert not any("smaller" in it for it in chosen(load("no-gpu"), model="1.7B").offers)
    assert not any("smaller" in it for it in chosen().offers)


@pytest.mark.parametrize(
    ("env", "parts"),
    [
        ({"model": "28B"}, ("BONSAI_MODEL asks for 28B", "27B, 8B, 4B, 1.7B", "Did you mean 27B?")),
        ({"model": "qwen2.5-coder-7"}, ("qwen2.5-coder-7b, ", "Did you mean qwen2.5-coder-7b?")),
        ({"model": "practise"}, ("practice", "Did you mean practice?")),
        ({"model": "8B", "family": "bonsai2"}, ("the family bonsai2 (BONSAI_FAMILY) has 27B only",)),
        ({"model": "zzz"}, ("no known model", "leave it out")),
    ],
)
def test_unknown_models(env: dict[str, str], parts: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError) as caught:
        chosen(BIG, **env)
    for part in parts:
        assert part in str(caught.value)


def test_a_family_beside_another_model_is_said_to_change_nothing() -> None:
    choice = chosen(model="qwen3.5-0.8b", family="bonsai")
    assert any(it.startswith("BONSAI_FAMILY changes nothing") for it in choice.notices)


@pytest.mark.case("B-05")
@pytest.mark.case("B-07")
@pytest.mark.parametrize(
    ("name", "figure"),
    [
        ("two-cards", "10.7 GiB free on the GPU"),  # and not that of the card that is too old for CUDA
        ("gb10", "110.0 GiB free memory, which the GPU shares"),  # though Vulkan is what there is a build for
        ("rtx4090-old-driver", "23.3 GiB free on the GPU"),
    ],
)
def test_memory_is_judged_by_what_the_engine_can_use(name: str, figure: str) -> None:
    assert figure in dict(chosen(load(name)).why)["model"]
