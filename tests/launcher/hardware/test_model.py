"""A machine in words, as JSON and back, and from a file."""

from __future__ import annotations

import json
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.errors import BadInput
from launcher.hardware.model import BACKENDS, Gpu, Machine, from_json
from launcher.page import machine_rows
from tests.conftest import Bonsai
from tests.plans import MACHINE

GIB = 2**30
RTX = Gpu("nvidia", "RTX 3060", "cuda", "580.95", "13.0", 12 * GIB, 11 * GIB, "8.6")
OLD = Gpu("nvidia", "GT 730", "cuda", "580.95", None, 2 * GIB, GIB, "3.5", index=1, note="too old.")

sizes = st.none() | st.integers(0, 2**60)
texts = st.none() | st.text()
gpus = st.builds(
    Gpu,
    vendor=st.text(),
    name=st.text(),
    backend=st.sampled_from(sorted(BACKENDS)),
    driver=texts,
    runtime=texts,
    total_bytes=sizes,
    free_bytes=sizes,
    compute_capability=texts,
    integrated=st.booleans(),
    unified=st.booleans(),
    index=st.integers(0, 99),
    note=st.text(),
)
machines = st.builds(
    Machine,
    system=st.text(),
    arch=st.text(),
    cpu=texts,
    cores=sizes,
    threads=sizes,
    ram_bytes=sizes,
    ram_free_bytes=sizes,
    gpus=st.lists(gpus, max_size=3).map(tuple),
    cpu_features=st.none() | st.lists(st.text(), max_size=3).map(tuple),
    wsl=st.booleans(),
    rosetta=st.booleans(),
    notes=st.lists(st.text(), max_size=3).map(tuple),
)


@given(machines)
def test_there_and_back(machine: Machine) -> None:
    plain = machine.to_json()
    assert from_json(json.dumps(plain), "it") == machine
    assert from_json(json.dumps({"argv": [], "machine": plain}), "it") == machine


@given(machines)
def test_rows_are_a_table_with_each_name_once(machine: Machine) -> None:
    rows = machine.rows()
    assert len(dict(rows)) == len(rows)
    assert [name for name, _ in rows][:2] == ["System", "Processor"]


def test_fields_that_are_not_given_take_their_defaults() -> None:
    short = {name: getattr(MACHINE, name) for name in ("system", "arch", "cpu", "cores", "threads")}
    short |= {"ram_bytes": MACHINE.ram_bytes, "ram_free_bytes": MACHINE.ram_free_bytes}
    assert from_json(json.dumps(short), "it") == MACHINE


RIGHT = replace(MACHINE, gpus=(RTX,)).to_json()
GPU = RTX.__dict__


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("", "not JSON"),
        ("{\n 'a': 1}", "line 2"),
        ("[]", "not a set of named values"),
        ("[" * 100_000, "nested too deeply"),
        ("1" * 5000, "digits"),
        ('{"system": "Linux"}', "has no arch"),
        ('{"machine": {"system": "Linux"}}', "has no arch"),
        (json.dumps(RIGHT | {"cores": "eight"}), "Machine.cores is not a"),
        (json.dumps(RIGHT | {"cores": -1}), "cores is negative"),
        (json.dumps(RIGHT | {"gpu": []}), "no 'gpu' (did you mean 'gpus'?)"),
        (json.dumps(RIGHT | {"gpus": {}}), "Machine.gpus is not a list"),
        (json.dumps(RIGHT | {"gpus": 1}), "Machine.gpus is not a list"),
        (json.dumps(RIGHT | {"gpus": ["RTX"]}), "gpus[0] is not a set"),
        (json.dumps(RIGHT | {"gpus": [GPU | {"backend": "CUDA"}]}), "not one of cuda, metal, rocm, vulkan"),
        (json.dumps(RIGHT | {"gpus": [GPU, GPU | {"free_bytes": -1}]}), "gpus[1] has a negative number"),
        (
            json.dumps(RIGHT | {"gpus": [GPU | {"totl_bytes": 1}]}),
            "gpus[0] has no 'totl_bytes' (did you mean",
        ),
        (json.dumps(RIGHT | {"gpus": [GPU | {"unified": 1}]}), "unified is not a bool"),
    ],
)
def test_a_mistake_is_one_sentence(text: str, about: str) -> None:
    with pytest.raises(BadInput) as caught:
        from_json(text, "machine.json")
    assert about in caught.value.what
    assert caught.value.what.startswith("machine.json describes no machine: ")
    assert "\n" not in str(caught.value)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda it: st.lists(it) | st.dictionaries(
    st.sampled_from([*RIGHT, *GPU, "machine"]), it)))  # fmt: skip
def test_any_json_is_a_machine_or_a_sentence(value: Any) -> None:
    try:
        from_json(json.dumps(value), "it")
    except BadInput as error:
        said = error.what
    else:
        said = "it describes no machine, or rather one"
    assert said.startswith("it describes no machine")


# --- memory ---------------------------------------------------------------------------------

SHARED = Gpu("nvidia", "GB10", "cuda", total_bytes=100 * GIB, free_bytes=90 * GIB, unified=True)
RADEON = Gpu("amd", "Radeon", "vulkan", total_bytes=24 * GIB)


@pytest.mark.case("B-07")
@pytest.mark.parametrize(
    ("cards", "expected"),
    [
        ((), (None, None)),
        ((RTX,), (12 * GIB, 11 * GIB)),
        ((RTX, OLD), (14 * GIB, 12 * GIB)),
        ((RTX, replace(OLD, free_bytes=None)), (14 * GIB, None)),
        ((RTX, RADEON), (12 * GIB, 11 * GIB)),
        ((RADEON, RTX), (24 * GIB, None)),
        ((SHARED, SHARED), (100 * GIB, 90 * GIB)),
    ],
)
def test_memory_of_several_is_never_counted_twice(
    cards: tuple[Gpu, ...], expected: tuple[int | None, int | None]
) -> None:
    assert replace(MACHINE, gpus=cards).gpu_bytes() == expected


# --- in words -------------------------------------------------------------------------------


def test_rows_for_people() -> None:
    machine = replace(MACHINE, gpus=(RTX, OLD), cpu_features=("avx2",), rosetta=True, notes=("A word.",))
    assert machine.rows() == [
        ("System", "Linux on x86_64 (this process through Rosetta)"),
        ("Processor", "a processor"),
        ("Cores", "8 (16 threads)"),
        ("Instructions", "avx2"),
        ("Memory", "32.0 GiB, 16.0 GiB free"),
        ("GPU 1", "RTX 3060 (CUDA 13.0, driver 580.95, 12.0 GiB, 11.0 GiB free, compute capability 8.6)"),
        ("GPU 2", "GT 730 (CUDA, driver 580.95, 2.0 GiB, 1.0 GiB free, compute capability 3.5)"),
        ("GPU memory", "14.0 GiB through CUDA, 12.0 GiB free"),
    ]
    assert machine.remarks() == ["A word.", "GT 730: too old."]
    assert MACHINE.rows()[-1] == ("GPU", "none found")
    shared = replace(SHARED, integrated=True, compute_capability="gfx1151", backend="rocm")
    assert (
        shared.describe() == "GB10 (ROCm, 100.0 GiB of the shared memory, 90.0 GiB free, gfx1151, integrated)"
    )


def test_the_page_does_not_wait_for_the_hardware() -> None:
    looking: Future[Machine] = Future()
    assert machine_rows(looking) == [("Hardware", "still looking", "a driver may have to wake up")]
    looking.set_result(replace(MACHINE, gpus=(OLD,), notes=("A word.",)))
    rows = machine_rows(looking)
    assert ("Processor", "a processor", "") in rows
    assert rows[-2:] == [("Note 1", "A word.", ""), ("Note 2", "GT 730: too old.", "")]


# --- bonsai plan --machine ------------------------------------------------------------------


def test_a_plan_for_another_machine(bonsai: Bonsai, tmp_path: Path) -> None:
    file = tmp_path / "other machine.json"
    other = replace(MACHINE, system="Darwin", arch="arm64", gpus=(OLD,), notes=("Ein Wörtchen.",))
    file.write_text(json.dumps(other.to_json()), encoding="utf-8")
    done = bonsai("plan", "--json", "--machine", str(file))
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert from_json(done.stdout, "it") == other
    assert "-b" not in made["argv"], "the embedded engine has a GPU there"
    file.write_text(done.stdout, encoding="utf-8")
    again = bonsai("plan", "--machine", str(file))
    assert again.returncode == 0, again.stderr
    assert "GPU: GT 730 (CUDA, driver 580.95" in again.stderr
    assert "Ein Wörtchen." in again.stderr


@pytest.mark.system("posix")  # Windows needs its PATH
def test_this_machines_plan_holds_it(bonsai: Bonsai) -> None:
    done = bonsai("plan", "--json", env={"PATH": "/nowhere"})
    assert done.returncode == 0, done.stderr
    assert from_json(done.stdout, "it").ram_bytes


@pytest.mark.parametrize(
    ("content", "about"),
    [
        (None, "cannot be read"),
        (b"\xff\xfe", "not text in UTF-8"),
        (b"{}", "describes no machine: Machine has no system"),
    ],
)
def test_a_bad_file_is_one_sentence(
    bonsai: Bonsai, tmp_path: Path, content: bytes | None, about: str
) -> None:
    file = tmp_path / "machine.json"
    if content is not None:
        file.write_bytes(content)
    done = bonsai("plan", "--machine", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert about in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
