"""The paced server dressed as a llama-server binary, so that the whole product can run on it.

``install(folder, **config)`` writes an executable that answers ``--version`` and ``--help`` as b11434
does and serves like ``PacedServer`` under the port, alias and key of the command line. Give its path
as BONSAI_LLAMA_SERVER. With a ``--spec-type`` other than none it drafts by ``blocks`` and takes what
``drafting`` says (another rate, another text, ...), without it never.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fakes.paced_server import PacedConfig, PacedServer

CAPTURED = Path(__file__).parents[1] / "captured"
ROOT = Path(__file__).parents[2]


def install(folder: Path, *, drafting: Mapping[str, Any] | None = None, **config: Any) -> Path:
    """Write the executable into ``folder``; ``config`` and ``drafting`` are fields of PacedConfig."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "llama-server"
    plain = PacedConfig(**{**config, "blocks": ()})
    fast = PacedConfig(**{**config, **(drafting or {})})
    settings = json.dumps([dataclasses.asdict(plain), dataclasses.asdict(fast)])
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        f"from tests.fakes.paced_engine import main\nmain({settings!r}, sys.argv[1:])\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def main(settings: str, argv: list[str]) -> None:
    """What the executable runs."""
    for flag, name in (("--version", "version"), ("--help", "help")):
        if flag in argv:
            sys.stdout.write((CAPTURED / f"llama_server_b11434_{name}.txt").read_text())
            return
    server = PacedServer(config(settings, argv), port=int(argv[argv.index("--port") + 1]))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    asyncio.run(server.serve())


def config(settings: str, argv: list[str]) -> PacedConfig:
    """What to serve under this command line."""
    drafting = "--spec-type" in argv and argv[argv.index("--spec-type") + 1] != "none"
    values = json.loads(settings)[drafting]
    values["blocks"] = tuple(map(tuple, values["blocks"]))
    if "--alias" in argv:
        values["alias"] = argv[argv.index("--alias") + 1]
    if "--api-key-file" in argv:
        values["api_key"] = Path(argv[argv.index("--api-key-file") + 1]).read_text().strip()
    values["context"] = int(argv[argv.index("-c") + 1])
    return PacedConfig(**values)
