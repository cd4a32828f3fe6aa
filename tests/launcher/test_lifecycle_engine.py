"""The real engines with the practice pair: proven before "ready", killed and stopped in mid-answer, and back again."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import psutil
import pytest

from launcher.ask import make_lifecycle
from launcher.client.events import ChatRequest, Event, Failed, Finished, Message, Progress, Text
from launcher.health import Patience
from launcher.lifecycle import Lifecycle, Status
from launcher.paths import locate
from launcher.settings import resolve
from tests.conftest import wait_until


@pytest.fixture(params=["embedded", "built"])
def owner(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lifecycle]:
    env = {"BONSAI_MODEL": "practice", "BONSAI_SPECULATIVE": "1", "BONSAI_ENGINE": "embedded"}
    if request.param == "built":
        env = env | {"BONSAI_LLAMA_SERVER": str(request.getfixturevalue("built_engine"))}
        del env["BONSAI_ENGINE"]
    else:
        pytest.importorskip("xllamacpp", reason="no embedded engine on this platform")
    patience = Patience(every_s=0.3, answer_s=1.0, misses=2)
    lifecycle = make_lifecycle(
        resolve({}, env), locate(str(tmp_path)), dict(os.environ), stand_in=True, patience=patience
    )
    yield lifecycle
    pid = lifecycle.status().pid
    lifecycle.close()
    assert pid is None or not psutil.pid_exists(pid)


def ready(owner: Lifecycle, not_pid: int | None = None) -> Status:
    wait_until(
        lambda: owner.status().phase in ("ready", "failed") and owner.status().pid != not_pid,
        40,
        "the engine",
    )
    status = owner.status()
    assert status.phase == "ready", status
    return status


async def ask(owner: Lifecycle, signal_after: int = 0, number: int = 0) -> list[Event]:
    """One answer; after so many pieces of it the engine gets the signal."""
    events: list[Event] = []
    async with owner.lease("chat") as lease:
        request = ChatRequest((Message("user", "Implement quicksort in Python."),), max_tokens=300)
        async for event in lease.client.chat(request):
            events.append(event)
            pid = owner.status().pid
            if signal_after and sum(isinstance(it, Text) for it in events) == signal_after and pid:
                os.kill(pid, number)
    return events


@pytest.mark.system("posix")
def test_killed_in_mid_answer(owner: Lifecycle) -> None:
    owner.start()
    before = ready(owner)
    assert before.warnings == (), "the question before ready drafted, and its answer is text"
    events = asyncio.run(asyncio.wait_for(ask(owner, 10, signal.SIGKILL), 40))
    assert isinstance(events[-1], Failed)
    assert sum(isinstance(event, Text) for event in events) >= 10
    after = ready(owner, before.pid)
    assert after.plan == before.plan
    assert len(after.steps) == 1
    assert isinstance(asyncio.run(asyncio.wait_for(ask(owner), 40))[-1], Finished)


@pytest.mark.system("posix")
def test_stopped_without_a_word(owner: Lifecycle) -> None:
    owner.start()
    before = ready(owner)
    assert before.pid is not None
    os.kill(before.pid, signal.SIGSTOP)
    after = ready(owner, before.pid)
    assert "does nothing any more" in after.steps[0]
    assert isinstance(asyncio.run(asyncio.wait_for(ask(owner), 40))[-1], Finished)


def test_an_engine_at_work_on_a_long_prompt_says_that_it_is_well(owner: Lifecycle) -> None:
    """So silence means that it hangs, however long a prompt is."""

    async def scene() -> tuple[int, str]:
        async with owner.lease("chat") as lease:
            request = ChatRequest((Message("user", "word and " * 3000),), max_tokens=1)
            async with aclosing(lease.client.chat(request)) as events:
                async for event in events:
                    if isinstance(event, Progress) and 0 < event.processed < event.total:
                        return event.total - event.processed, await lease.client.health()
        return 0, ""

    left, health = asyncio.run(asyncio.wait_for(scene(), 60))
    assert left > 1000
    assert health == "ok"
