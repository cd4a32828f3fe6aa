"""Notices an engine that lives and does not answer any more: stopped, deadlocked, stuck in a driver."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from launcher.client.http import EngineClient
from launcher.supervise.server import Server

LOOK_S = 0.05
SILENT_S = 60.0  # by then one that hangs has been ended


@dataclass(frozen=True)
class Patience:
    """``every_s``: time between two looks; ``answer_s``: how long an answer may take, in seconds; ``misses``: so many in
    a row and it hangs. llama-server answers /health at once while it computes, so 30 s of silence are no work."""

    every_s: float = 5.0
    answer_s: float = 5.0
    misses: int = 3


class Pulse:
    """Pure: counts looks without an answer in a row."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._missed = 0
        self._last: tuple[float, float] | None = None

    def hung(self, answered: bool, clock: float, wall: float) -> bool:
        """Whether the engine counts as hung after this look. ``clock`` (monotonic) and ``wall`` time in seconds: a gap
        in either means that the machine or we slept, and counting starts anew."""
        last, self._last = self._last, (clock, wall)
        longest = 3 * (self._patience.every_s + self._patience.answer_s)
        slept = last is not None and max(clock - last[0], abs(wall - last[1])) > longest
        self._missed = 0 if answered or slept else self._missed + 1
        return self._missed >= self._patience.misses


async def still_there(server: Server | None, client: EngineClient) -> bool:
    """Whether the engine answers, just before it is lent: its end may not have been noticed yet. One that lives and is
    silent is waited for, until it answers or has been ended as one that hangs."""
    end = time.monotonic() + SILENT_S
    while server is not None and await client.health() == "down":
        if not server.alive:
            return False
        if time.monotonic() > end:
            break  # then the answer itself will tell
        await asyncio.sleep(LOOK_S)
    return True


class HealthWatch:
    """Looks at the servers that ``servers`` gives, on a thread of its own, until ``close``; calls ``on_hung`` from there,
    once for each server that hangs."""

    def __init__(
        self,
        servers: Callable[[], Sequence[Server]],
        on_hung: Callable[[Server], None],
        patience: Patience,
    ) -> None:
        self._servers = servers
        self._on_hung = on_hung
        self._patience = patience
        self._pulses: dict[Server, Pulse] = {}
        self._told: set[Server] = set()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="engine-health", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop looking; returns when the thread is gone."""
        self._closing.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closing.wait(self._patience.every_s):
            there = self._servers()
            self._told.intersection_update(there)
            servers = [server for server in there if server not in self._told]
            self._pulses = {it: self._pulses.get(it) or Pulse(self._patience) for it in servers}
            if not servers:
                continue
            try:
                answers = asyncio.run(self._ask(servers))
            except OSError:  # too many open files, as a rule: that says nothing about the engines
                continue
            for server, answered in zip(servers, answers, strict=True):
                if self._pulses[server].hung(answered, time.monotonic(), time.time()):
                    self._told.add(server)
                    self._on_hung(server)

    async def _ask(self, servers: Sequence[Server]) -> list[bool]:
        return list(await asyncio.gather(*(self._answers(server) for server in servers)))

    async def _answers(self, server: Server) -> bool:
        limit = self._patience.answer_s
        client = EngineClient(server.base_url, connect_s=limit, question_s=limit)
        asked = asyncio.ensure_future(client.health())
        while not asked.done() and not self._closing.is_set():
            await asyncio.wait({asked}, timeout=0.2)
        if not asked.done():  # we are leaving
            asked.cancel()
            return True
        return asked.result() != "down"
