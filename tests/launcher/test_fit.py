"""What fits where, as a table: the ternary 27B with its drafter on machines of every kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.errors import PlanRefused
from launcher.fit import ALL_LAYERS, GPU_HEADROOM, RAM_HEADROOM, Fit, fit, room_of
from launcher.gguf_header import GgufHeader
from launcher.hardware.model import Gpu, Machine
from launcher.need import estimate
from launcher.settings import resolve
from tests.plans import DRAFTER, TARGET
from tests.trios import DSPARK_27B, GIB, TERNARY_27B, card, machine

APPLE = Gpu("apple", "Apple M2", "metal", total_bytes=11_840_000_000, integrated=True, unified=True)
GB10 = Gpu("nvidia", "NVIDIA GB10", "cuda", unified=True)


def mac(ram: float, cap: int | None = APPLE.total_bytes) -> Machine:
    return replace(machine(ram, replace(APPLE, total_bytes=cap), system="Darwin"), arch="arm64")


def fitted(
    where: Machine,
    backend: str = "cuda",
    drafter: GgufHeader | None = DSPARK_27B,
    target: GgufHeader = TERNARY_27B,
    **env: str,
) -> Fit:
    return fit(resolve({}, env), where, backend, target, drafter)


@pytest.mark.case("A-08")
@pytest.mark.parametrize(
    ("where", "backend", "drafter", "verdict", "context", "layers"),
    [
        (machine(32, card(24)), "cuda", True, "gpu", 16384, 999),
        (machine(32, card(16)), "cuda", True, "gpu", 16384, 999),
        (machine(32, card(12)), "cuda", True, "gpu", 16384, 999),
        (machine(32, card(11)), "cuda", True, "gpu", 4096, 999),
        (machine(32, card(10)), "cuda", False, "gpu", 16384, 999),
        (machine(32, card(8.8)), "cuda", False, "gpu", 8192, 999),
        (machine(32, card(8)), "cuda", True, "partly", 4096, 36),
        (machine(32, card(8)), "cuda", False, "partly", 4096, 60),
        (machine(32, card(8, "vulkan")), "vulkan", False, "partly", 4096, 60),
        (machine(32, card(2)), "cuda", True, "no", 4096, 999),
        (machine(3, card(6), free=1), "cuda", False, "no", 4096, 999),
        (machine(8), "cpu", False, "no", 4096, 999),
        (machine(16), "cpu", True, "ram", 16384, 999),
        (machine(32), "cpu", True, "ram", 16384, 999),
        (machine(12, free=9), "cpu", False, "ram", 16384, 999),
        (machine(12, free=8.5), "cpu", False, "ram", 8192, 999),
    ],
)
def test_cards_and_ram(
    where: Machine, backend: str, context: int, layers: int, verdict: str, *, drafter: bool
) -> None:
    found = fitted(where, backend, DSPARK_27B if drafter else None)
    assert (found.verdict, found.context, found.layers) == (verdict, context, layers), found.says
    assert found.need == estimate(
        TERNARY_27B, DSPARK_27B if drafter else None, context, batch=256 if backend == "cpu" else 2048
    )


@pytest.mark.case("A-08")
def test_the_sentence_has_the_figures() -> None:
    found = fitted(machine(32, card(16)))
    assert found.says == (
        "Needs 10.9 GiB of 15.5 GiB free on the GPU (weights 6.7, drafter 2.7, cache 1.0, buffers 0.5; "
        "0.5 stays free)."
    )
    assert found.notes == ()
    assert found.room == round(15.5 * GIB) - GPU_HEADROOM
    partly = fitted(machine(32, card(8)))
    assert "7.5 GiB free on the GPU and 3.0 GiB of 30.0 GiB free in RAM" in partly.says


@pytest.mark.case("A-08")
def test_less_context_and_fewer_layers_are_said() -> None:
    less = fitted(machine(32, card(11)))
    assert less.notes == (
        "The context is 4096 tokens instead of 16384: more does not fit into the GPU's memory.",
    )
    assert less.context_why == "as much as fits into the GPU's memory"
    partly = fitted(machine(32, card(8)))
    assert any("Only 36 of 64 layers fit on the GPU" in note for note in partly.notes)
    assert partly.layers_why == "as many of the 64 layers as fit on the GPU"
    none = fitted(machine(8), "cpu", None)
    assert none.notes[0].startswith("It does not fit: needs 7.2 GiB, but of 6.0 GiB free in RAM only 5.0")


@pytest.mark.case("A-08")
def test_a_context_of_zero_is_never_the_models_own() -> None:
    assert fitted(machine(256, card(80)), BONSAI_CTX="0").context == 16384
    assert fitted(machine(32, card(11)), BONSAI_CTX="0").context == 4096


@pytest.mark.case("A-08")
def test_what_a_person_asked_for_stays() -> None:
    long = fitted(machine(32, card(12)), BONSAI_CTX="65536")
    assert (long.verdict, long.context) == ("partly", 65536)
    assert long.context_why == "asked by BONSAI_CTX"
    assert any("layers fit on the GPU" in note for note in long.notes)
    all_layers = fitted(machine(32, card(8)), BONSAI_NGL="999")
    assert (all_layers.verdict, all_layers.layers) == ("no", 999)
    assert all_layers.notes
    both = fitted(machine(32, card(8)), BONSAI_NGL="999", BONSAI_CTX="32768")
    assert (both.verdict, both.layers, both.context) == ("no", 999, 32768)
    some = fitted(machine(32, card(8)), BONSAI_NGL="20")
    assert (some.verdict, some.layers, some.context) == ("partly", 20, 16384)
    assert some.layers_why == "asked by BONSAI_NGL"
    none = fitted(machine(32, card(8)), BONSAI_NGL="0")
    assert (none.verdict, none.layers) == ("ram", 0)
    assert none.room == 30 * GIB - RAM_HEADROOM


def test_a_context_above_the_trained_one_is_refused() -> None:
    with pytest.raises(PlanRefused, match="262145 tokens, but the model holds at most 262144"):
        fitted(machine(32, card(24)), BONSAI_CTX="262145")
    assert fitted(machine(999, card(900)), BONSAI_CTX="262144").context == 262144


@pytest.mark.parametrize(
    ("trained", "free", "context"), [(6000, 30, 6000), (6000, 7.2, 4096), (4096, 30, 4096), (512, 30, 512)]
)
def test_never_more_than_the_model_was_trained_for(trained: int, free: float, context: int) -> None:
    small = replace(TERNARY_27B, context_length=trained)
    where = machine(64, replace(card(64), free_bytes=round((free + 0.5) * GIB)))
    assert fitted(where, target=small, drafter=None).context == context


def test_kv4_makes_room() -> None:
    full, small = fitted(machine(32, card(11))), fitted(machine(32, card(11)), BONSAI_KV4="1")
    assert (full.context, small.context) == (4096, 8192)
    assert small.need is not None
    assert small.need.cache == 8192 * 18 * 1024


@pytest.mark.case("B-07")
def test_cards_of_one_backend_count_together_and_once() -> None:
    two = machine(32, card(8), card(8))
    assert room_of(two, "cuda").bytes == 15 * GIB
    found = fitted(two)
    assert (found.verdict, found.layers, found.context) == ("gpu", ALL_LAYERS, 16384)
    assert "15.0 GiB free on 2 GPUs together" in found.says
    other = machine(32, card(8), card(24, "vulkan"))
    assert room_of(other, "cuda").bytes == round(7.5 * GIB)
    assert room_of(other, "vulkan").bytes == round(23.5 * GIB)
    assert fitted(machine(32, card(8), replace(card(8), free_bytes=None))).verdict == "unknown"


@pytest.mark.case("B-05")
def test_gb10_has_the_machines_memory() -> None:
    found = fitted(machine(119, GB10, free=100))
    assert (found.verdict, found.context, found.layers) == ("ram", 16384, 999)
    assert found.room == 100 * GIB - RAM_HEADROOM
    assert fitted(machine(119, GB10, free=1)).verdict == "no", "what others hold is not free"
    assert fitted(machine(119, GB10, GB10, free=100)).room == found.room, "shared memory counts once"


@pytest.mark.case("B-11")
def test_apple_is_held_to_its_cap_and_the_cap_is_named() -> None:
    found = fitted(mac(16), "metal")
    assert (found.verdict, found.context, found.layers) == ("ram", 8192, 999)
    assert "11.0 GiB that macOS lets the GPU use" in found.says
    assert "macOS lets the GPU use at most 11.0 GiB of this machine's memory." in found.notes
    assert fitted(mac(16), "metal", None).context == 16384
    small = fitted(mac(8, 6 * GIB), "metal", None)
    assert small.verdict == "no"
    assert any("at most 6.0 GiB" in note for note in small.notes)


@pytest.mark.case("B-11")
def test_apple_without_a_known_cap_counts_on_seventy_percent() -> None:
    found = fitted(mac(16, None), "metal", None)
    assert found.room == round(16 * GIB * 0.7) - GPU_HEADROOM
    assert any("70% of its memory" in note for note in found.notes)
    assert fitted(replace(mac(16, None), gpus=()), "metal", None).room == found.room
    unknown = replace(mac(16, None), ram_bytes=None)
    assert fitted(unknown, "metal", None).verdict == "unknown"


def test_a_mapped_file_may_exceed_free_ram_but_not_the_machines() -> None:
    tight = fitted(machine(16, free=7), "cpu", None)
    assert (tight.verdict, tight.context) == ("ram", 4096)
    assert any("tight" in note and "7.2 GiB" in note and "7.0 GiB are free" in note for note in tight.notes)
    assert fitted(machine(8, free=7), "cpu", None).verdict == "no"
    assert fitted(machine(16, free=1.2), "cpu", None).verdict == "no", "cache and buffers are not mapped"


@pytest.mark.parametrize(
    ("where", "backend", "target"),
    [
        (machine(32, replace(card(16), free_bytes=None)), "cuda", TERNARY_27B),
        (machine(32), "cuda", TERNARY_27B),
        (replace(machine(32), ram_free_bytes=None), "cpu", TERNARY_27B),
        (machine(32, card(16)), "cuda", replace(TERNARY_27B, layers=None)),
        (machine(32, card(16)), "cuda", replace(TERNARY_27B, file_bytes=0)),
    ],
)
def test_unknown_sizes_leave_the_defaults(where: Machine, backend: str, target: GgufHeader) -> None:
    found = fitted(where, backend, target=target)
    assert (found.verdict, found.context, found.layers) == ("unknown", 16384, 999)
    assert found.notes == ()
    assert "not known" in found.says


def test_small_models_fit_everywhere_as_before() -> None:
    found = fit(resolve({}, {}), machine(8), "cpu", TARGET, DRAFTER)
    assert (found.verdict, found.context, found.layers) == ("ram", 16384, 999)
    assert found.layers_why == "all layers on the GPU; without a GPU the engine uses the processor"


@pytest.mark.parametrize("asked", [{}, {"BONSAI_NGL": "40"}, {"BONSAI_CTX": "8192"}])
def test_nothing_that_is_found_exceeds_the_room(asked: dict[str, str]) -> None:
    before = 0
    for quarters in range(4, 130):
        where = machine(24, replace(card(48), free_bytes=quarters * GIB // 4))
        found = fit(resolve({}, asked), where, "cuda", TERNARY_27B, DSPARK_27B)
        assert found.need is not None
        assert found.room is not None
        share = min(found.layers, 64) / 64
        on_gpu = (found.need.weights + found.need.cache) * share + found.need.drafter + found.need.compute
        assert (on_gpu > found.room) == (found.verdict == "no"), f"{quarters / 4} GiB: {found.says}"
        assert ["no", "partly", "gpu"].index(found.verdict) >= before, "more memory never makes it worse"
        before = ["no", "partly", "gpu"].index(found.verdict)
