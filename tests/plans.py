"""Small whole values for tests: headers, engines and plans that need no file on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from launcher.gguf_header import GgufHeader
from launcher.hardware.model import Machine
from launcher.plan import LaunchPlan, make_plan
from launcher.resolved import Engine, ModelFile, Resolved
from launcher.settings import resolve

TARGET = GgufHeader(
    path="target.gguf",
    file_bytes=1000,
    version=3,
    architecture="qwen3",
    name="a target",
    layers=10,
    hidden_size=512,
    context_length=32768,
    head_count=8,
    head_count_kv=4,
    key_length=64,
    value_length=64,
    vocab_size=700,
    vocab_fingerprint="f" * 64,
    chat_template="{{ messages }}",
    block_size=None,
    target_layers=(),
    metadata={},
    tensors=(),
)
DRAFTER = replace(
    TARGET, path="drafter.gguf", architecture="dflash", layers=1, block_size=4, target_layers=(1, 5, 9)
)
MACHINE = Machine("Linux", "x86_64", "a processor", 8, 16, 2**35, 2**34)
FLAGS = frozenset({"--metrics", "--cors-origins", "--model", "--host", "--port", "--spec-type"})
ENGINE = Engine(
    kind="own",
    line="mainline",
    program=("llama-server",),
    version="b1",
    flags=FLAGS,
    spec_types=frozenset({"none", "draft-dspark"}),
)


def resolved(
    *, engine: Engine = ENGINE, target: GgufHeader = TARGET, drafter: GgufHeader | None = DRAFTER
) -> Resolved:
    return Resolved(
        engine=engine,
        target=ModelFile(target.path, "target", target),
        drafter=ModelFile(drafter.path, "drafter", drafter) if drafter else None,
        drafter_why="given" if drafter else "no drafter was given with BONSAI_DRAFTER",
    )


def plan_for(
    program: Path | str, *, speculative: bool = False, env: Mapping[str, str] | None = None
) -> LaunchPlan:
    """A plan that starts ``program``."""
    engine = replace(ENGINE, program=(str(program),))
    wanted = {"BONSAI_SPECULATIVE": "1" if speculative else "0", **(env or {})}
    return make_plan(resolve({}, wanted), MACHINE, resolved(engine=engine))
