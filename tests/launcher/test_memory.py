"""What an engine needs of memory, by known sizes, and when two may stay loaded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from launcher.gguf_header import GgufHeader
from launcher.hardware.model import Gpu, Machine
from launcher.memory import MARGIN, may_keep, needed_bytes
from launcher.methods import PLAIN, Method
from launcher.need import estimate
from launcher.plan import LaunchPlan, make_plan
from launcher.settings import resolve
from tests.plans import DRAFTER, ENGINE, MACHINE, TARGET, resolved

DSPARK = Method("draft-dspark", 4)


def with_free(ram: int | None, *gpus: int | None) -> Machine:
    """A machine with so many free bytes, and CUDA GPUs with so many of their own."""
    cards = tuple(Gpu("nvidia", f"card {at}", "cuda", free_bytes=free) for at, free in enumerate(gpus))
    return replace(MACHINE, ram_free_bytes=ram, gpus=cards)


def plan(method: Method = PLAIN, target: GgufHeader = TARGET, kind: str = "built", **env: str) -> LaunchPlan:
    parts = resolved(engine=replace(ENGINE, kind=kind), target=target)
    return make_plan(resolve({}, env), MACHINE, parts, method)


def test_what_a_plan_loads_counts_and_nothing_else() -> None:
    batch = int(plan().argv[plan().argv.index("-b") + 1])
    plain, drafting = needed_bytes(plan()), needed_bytes(plan(DSPARK))
    assert plain == total(TARGET, None, 16384, batch=batch)
    assert drafting == total(TARGET, DRAFTER, 16384, batch=batch)
    small = plan(BONSAI_KV4="1", BONSAI_CTX="4096")
    assert needed_bytes(small) == total(TARGET, None, 4096, kv4=True, batch=batch)
    assert needed_bytes(plan(kind="own")) == total(TARGET, None, 16384), "llama-server's own batch"
    assert needed_bytes(plan(target=replace(TARGET, layers=None))) is None


def total(target: GgufHeader, drafter: GgufHeader | None, context: int, **how: Any) -> int:
    need = estimate(target, drafter, context, **how)
    assert need is not None
    return need.total


def test_engines_stay_where_the_processors_memory_holds_them() -> None:
    needed = needed_bytes(plan(DSPARK)) or 0
    assert may_keep(plan(DSPARK), with_free(needed + MARGIN))
    assert not may_keep(plan(DSPARK), with_free(needed + MARGIN - 1))
    assert not may_keep(plan(DSPARK), with_free(None))
    assert not may_keep(plan(target=replace(TARGET, layers=None)), with_free(2**40))
    assert may_keep(plan(DSPARK), with_free(needed + MARGIN, 0)), "a GPU that this engine cannot use"


@pytest.mark.parametrize(("kind", "system"), [("own", "Linux"), ("built", "Darwin"), ("embedded", "Darwin")])
def test_on_a_gpu_of_unknown_memory_only_the_practice_pair_stays(kind: str, system: str) -> None:
    model = plan(kind=kind)
    practice = replace(model, resolved=replace(model.resolved, practice=True))
    machines = [with_free(2**40), with_free(2**40, None), with_free(2**40, 2**40, 2**40)]
    for machine in machines:
        assert not may_keep(model, replace(machine, system=system))
    assert may_keep(practice, replace(with_free(None), system=system))


def test_engines_stay_where_the_only_cuda_gpu_holds_them() -> None:
    needed = (needed_bytes(plan(DSPARK, kind="own")) or 0) + MARGIN
    wanted = plan(DSPARK, kind="own")
    assert may_keep(wanted, with_free(2**40, needed))
    assert not may_keep(wanted, with_free(2**40, needed - 1))
    assert not may_keep(wanted, with_free(needed - 1, 2**40)), "the engine may be one without CUDA"
    assert not may_keep(plan(kind="own", target=replace(TARGET, layers=None)), with_free(2**40, 2**40))
    other = Gpu("intel", "graphics beside it", "vulkan")
    one = with_free(2**40, needed)
    assert may_keep(wanted, replace(one, gpus=(*one.gpus, other)))
    assert not may_keep(wanted, replace(one, gpus=(replace(one.gpus[0], backend="rocm"),)))
