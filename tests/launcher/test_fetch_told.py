"""Who listens to a fetch cannot harm it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.fetch_types import FetchState
from tests.launcher.fetch_world import World, in_order, wait_for, world

pytestmark = pytest.mark.system("posix")  # the engines of these tests are shell scripts


@pytest.fixture
def net(home: Path) -> Iterator[World]:
    with world(home.parent) as made:
        yield made


def test_a_listener_that_breaks_down_is_complained_of_once_and_the_fetch_goes_on(
    net: World, capsys: pytest.CaptureFixture[str]
) -> None:
    job, told = net.job(), list[FetchState]()

    def broken(state: FetchState) -> None:
        raise RuntimeError(f"no idea what {state.phase} means")

    job.on_change(broken)
    job.on_change(told.append)
    job.begin()
    assert wait_for(job, "done", "failed").phase == "done"
    net.whole()
    assert in_order([state.phase for state in told]) == ["looking", "running", "done"]
    said = capsys.readouterr().err
    assert said.count("Traceback") == 1
    assert "RuntimeError: no idea what looking means" in said


def test_not_even_the_complaint_can_end_it(net: World, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        """A terminal that is there no more."""

        def write(self, _: str) -> int:
            raise BrokenPipeError

        flush = write

    job = net.job(engine_only=True)
    job.on_change(lambda _: print("news", file=Gone()))
    monkeypatch.setattr("sys.stderr", Gone())
    job.run()
    assert job.state().phase == "done"


def test_ctrl_c_in_a_listener_is_ctrl_c(net: World) -> None:
    """On the terminal the listener runs on the main thread, where the signal arrives."""
    job = net.job()

    def interrupted(_: FetchState) -> None:
        raise KeyboardInterrupt

    off = job.on_change(interrupted)
    with pytest.raises(KeyboardInterrupt):
        job.run()
    off()
    job.run()
    net.whole()
