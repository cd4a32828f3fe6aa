"""The paced engine with moods: dies at load, at a request or at rest, hangs on order, and behaves under conditions.

``install(folder, Moods(...), **config)`` writes the executable; ``config`` as for the paced engine.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import stat
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.fakes import paced_engine
from tests.fakes.paced_server import PacedConfig, PacedServer, Request

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Moods:
    """``at``: "load", or "chat" for the ``chat``-th one of the process. ``log`` is written then, and it ends
    with exit status ``status`` (negative: by that signal), or with ``hang`` stops answering anything. ``after_tokens``
    of that answer.

    ``fine``: it behaves with "plain" (no drafter), "context:N" (at most N), "layers:N" (at most N) or "env:NAME" (set).
    ``bad_starts``: only so many first starts are bad; 0: all. ``deaf``: SIGTERM does not end it.
    """

    at: str = "load"
    chat: int = 1
    log: str = ""
    status: int = 1
    hang: bool = False
    after_tokens: int = 0
    fine: str = ""
    bad_starts: int = 0
    deaf: bool = False


def install(folder: Path, moods: Moods, **config: Any) -> Path:
    """Write the executable into ``folder``; each start adds a line to ``starts`` there: its command line as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "llama-server"
    values = json.dumps(dataclasses.asdict(moods))
    plain = dataclasses.asdict(PacedConfig(**{**config, "blocks": ()}))
    settings = json.dumps([plain, dataclasses.asdict(PacedConfig(**config))])
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        f"from tests.fakes.moody_engine import main\nmain({values!r}, {settings!r}, {str(folder)!r}, sys.argv[1:])\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def starts(program: Path) -> list[list[str]]:
    """The command lines of all starts so far."""
    file = program.parent / "starts"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def main(moods_json: str, settings: str, folder: str, argv: list[str]) -> None:
    """What the executable runs."""
    if "--version" in argv or "--help" in argv:
        paced_engine.main(settings, argv)
        return
    moods = Moods(**json.loads(moods_json))
    with (Path(folder) / "starts").open("a") as file:
        file.write(json.dumps(argv) + "\n")
    count = len((Path(folder) / "starts").read_text().splitlines())
    bad = not _fine(moods.fine, argv) and not (moods.bad_starts and count > moods.bad_starts)
    if moods.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if bad and moods.at == "load":
        _end(moods)
    asyncio.run(_Moody(paced_engine.config(settings, argv), moods, bad, argv).serve())


def _fine(condition: str, argv: list[str]) -> bool:
    values = dict(pairwise(argv))
    kind, _, limit = condition.partition(":")
    if kind == "plain":
        return "-md" not in argv
    if kind in ("context", "layers"):
        return int(values["-c" if kind == "context" else "-ngl"]) <= int(limit)
    return kind == "env" and limit in os.environ


def _end(moods: Moods) -> None:
    sys.stderr.write(moods.log + "\n")
    sys.stderr.flush()
    if moods.hang:
        os.kill(os.getpid(), signal.SIGSTOP)
    elif moods.status < 0:
        os.kill(os.getpid(), -moods.status)
    else:
        os._exit(moods.status)


class _Moody(PacedServer):
    def __init__(self, config: PacedConfig, moods: Moods, bad: bool, argv: list[str]) -> None:
        super().__init__(config, port=int(argv[argv.index("--port") + 1]))
        self._moods, self._bad = moods, bad

    async def _answer(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        moods = self._moods
        chat = request.path.startswith("/v1/chat/completions") and "input_tokens" not in request.path
        if chat and self._bad and moods.at == "chat" and len(self.chats) + 1 == moods.chat:
            if not moods.after_tokens:
                _end(moods)
            asyncio.get_running_loop().call_later(moods.after_tokens / self.config.rate, _end, moods)
        await super()._answer(request, reader, writer)
