"""`bonsai fetch` in words: what is asked before gigabytes come, and how it goes without a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.amounts import waiting
from launcher.errors import BadInput, NetworkProblem, NotFetched
from launcher.fetch_command import ensure_here, run_fetch
from launcher.fetch_types import FetchState, Item
from launcher.hardware.detect import detect
from launcher.offer import ARCHIVES, make_offer
from launcher.transfer_view import TransferView, say_readings
from tests.launcher.fetch_world import World, world
from tests.webui.fetch_rooms import DRAFTER, ENGINE, ITEMS, WEIGHTS

pytestmark = pytest.mark.system("posix")  # the engines of these tests are shell scripts
GB = 10**9


@pytest.fixture
def mine(home: Path) -> Iterator[World]:
    """For the machine that this runs on, as the command itself finds it."""
    with world(home.parent, detect()) as made:
        yield made


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


# -- the offer ----------------------------------------------------------------------------------------------


def test_an_offer_counts_what_is_known_and_what_is_here_of_it(net: World) -> None:
    offer = make_offer(net.settings(), net.paths, net.env, net.machine)
    assert offer is not None
    assert offer.title == "Ternary Bonsai 27B"
    assert offer.to_fetch == 7_165_121_600 + 1_946_393_568  # the engine's size is not pinned
    assert offer.disk_needed == pytest.approx((offer.to_fetch + 4 * ARCHIVES["cpu"]) * 1.1, abs=5)
    assert offer.disk_needed is not None
    assert offer.disk_free is not None
    assert not offer.usable
    assert offer.licence == "Apache-2.0"

    part = net.weights_path.with_name(net.weights_path.name + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(bytes(1_000_000))
    less = make_offer(net.settings(), net.paths, net.env, net.machine)
    assert less is not None
    assert offer.to_fetch - (less.to_fetch or 0) == 1_000_000
    assert offer.disk_needed - (less.disk_needed or 0) == 1_000_000
    weights = next(item for item in less.items if item.part == "weights")
    assert (weights.have, weights.state) == (1_000_000, "waiting")
    assert (net.hub.requests, net.releases.requests) == ([], [])


@pytest.mark.parametrize("model", ["practice", "/some/where.gguf"])
def test_no_offer_for_what_needs_no_fetching(net: World, model: str) -> None:
    assert make_offer(net.settings(model=model), net.paths, net.env, net.machine) is None


@pytest.mark.parametrize("agreed", [True, False])
def test_offline_asks_no_question(net: World, agreed: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NetworkProblem, match="BONSAI_OFFLINE forbids"):
        ensure_here(net.settings(offline="1"), net.paths, net.env, net.machine, agreed=agreed)
    assert said(capsys) == ""


def test_what_only_makes_it_better_keeps_nobody_waiting(
    net: World, capsys: pytest.CaptureFixture[str]
) -> None:
    net.job().run()
    next(net.paths.models.rglob("*dspark*.gguf")).unlink()
    offer = make_offer(net.settings(), net.paths, net.env, net.machine)
    assert offer is not None
    assert offer.usable
    net.hub.requests.clear()
    ensure_here(net.settings(), net.paths, net.env, net.machine, agreed=True)
    assert net.hub.requests == []
    assert said(capsys) == ""


# -- consent ------------------------------------------------------------------------------------------------


def test_without_a_terminal_nothing_comes_unless_it_was_agreed(
    net: World, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NotFetched, match="Ternary Bonsai 27B is not on this machine") as caught:
        ensure_here(net.settings(), net.paths, net.env, net.machine, agreed=False)
    assert "--yes fetches without asking" in caught.value.remedy
    text = said(capsys)
    for words in (
        "Ternary Bonsai 27B:",
        "Engine: llama-prism-b9596-9fcaed7-bin-ubuntu-x64.tar.gz, from release",
        "which tells its size",
        "Weights: Ternary-Bonsai-27B-Q2_0.gguf, 7.2 GB, from repository prism-ml/",
        "Drafter: Ternary-Bonsai-27B-dspark-Q4_1.gguf, 1.9 GB",
        "Needs 8.1 GiB of 56.0 GiB free in RAM",
        "needed (with a tenth to spare)",
    ):
        assert words in text, words
    assert text.count("Needs 8.1 GiB") == 1
    assert (net.hub.requests, net.releases.requests) == ([], [])

    ensure_here(net.settings(), net.paths, net.env, net.machine, agreed=True)
    net.whole()
    ensure_here(net.settings(), net.paths, net.env, net.machine, agreed=False)  # all is here: no question
    next(net.paths.engines.rglob("llama-server")).unlink()
    with pytest.raises(NotFetched, match="Ternary Bonsai 27B lacks its engine on this machine"):
        ensure_here(net.settings(), net.paths, net.env, net.machine, agreed=False)


def test_a_whole_fetch_in_words(mine: World, capsys: pytest.CaptureFixture[str]) -> None:
    run_fetch(mine.settings(), mine.paths, mine.env, engine_only=False)
    text = said(capsys)
    assert "Everything is here." in text
    assert f"Weights: {mine.weights_path}" in text
    assert "(was here before)" not in text
    run_fetch(mine.settings(), mine.paths, mine.env, engine_only=False)
    again = said(capsys)
    assert again.count("(was here before)") == 3


def test_an_engine_that_is_named(mine: World, capsys: pytest.CaptureFixture[str]) -> None:
    mine.job(engine_only=True).run()
    own = next(mine.paths.engines.rglob("llama-server"))
    run_fetch(mine.settings(llama_server=str(own)), mine.paths, mine.env, engine_only=True)
    assert "No engine has to be fetched" in said(capsys)


def test_practice_needs_no_fetching(net: World) -> None:
    with pytest.raises(BadInput, match="needs no fetching"):
        run_fetch(net.settings(model="practice"), net.paths, net.env, engine_only=False)


# -- without a terminal -------------------------------------------------------------------------------------


def state(*items: Item) -> FetchState:
    return FetchState("running", items, None, 0)


def test_a_line_for_each_tenth_and_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    with TransferView() as view:
        view(state(*ITEMS))
        for percent in range(101):
            view(state(replace(WEIGHTS, state="running", have=WEIGHTS.total * percent // 100)))  # type: ignore[operator]
        view(state(replace(WEIGHTS, state="done", have=WEIGHTS.total or 0)))
    lines = said(capsys).splitlines()
    assert len(lines) == 12
    assert lines[0] == "Ternary-Bonsai-27B-Q2_0.gguf: running, 0.00 of 7.17 GB"
    assert lines[-1] == "Ternary-Bonsai-27B-Q2_0.gguf: done, 7.17 of 7.17 GB"


def test_a_countdown_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with TransferView() as view:
        for left in range(30, 0, -1):
            note = f"The connection to the hub broke off. Trying again in {waiting(left)}."
            view(state(replace(DRAFTER, state="running", have=5, note=note)))
        view(state(replace(DRAFTER, state="running", have=5)))
    lines = said(capsys).splitlines()
    assert len(lines) == 2
    assert "Trying again in 30 seconds." in lines[0]


def test_a_note_that_stays_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    with TransferView() as view:
        for step in ("running", "unpacking", "proving", "done"):
            view(state(replace(ENGINE, state=step, note="CUDA does not run here.")))
    assert [("does not run" in line) for line in said(capsys).splitlines()] == [True, False, False, False]


def test_an_unknown_size_gets_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with TransferView() as view:
        for have in range(0, GB, 10_000_000):
            view(state(replace(ENGINE, total=None, state="running", have=have, rate=1e7)))
    lines = said(capsys).splitlines()
    assert len(lines) == 10
    assert lines[-1].endswith(": running, 900 MB, 10 MB/s")


def test_a_check_is_told_until_it_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    found = replace(WEIGHTS, state="found", where="/theirs/x.gguf")
    with TransferView() as view:
        view(state(found))
        for percent in (0, 1, 50, 51):
            view(state(replace(found, state="checking", have=WEIGHTS.total * percent // 100)))  # type: ignore[operator]
        view(state(replace(found, state="done", have=WEIGHTS.total or 0, in_place=True)))
    lines = said(capsys).splitlines()
    assert [line.partition(": ")[2].partition(",")[0] for line in lines] == ["checking", "checking", "done"]
    assert all(WEIGHTS.name in line for line in lines)


def test_the_pages_terminal_has_one_line_for_each_file_that_is_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell = say_readings()
    for part in (WEIGHTS, DRAFTER):
        for have in range(3):
            reading = replace(part, state="checking", have=have, where=f"/theirs/{part.part}.gguf")
            tell(FetchState("checking", (reading,), None, 0))
    tell(FetchState("running", (replace(ENGINE, state="checking"),), None, 0))  # an older part
    assert said(capsys).splitlines() == [
        "Reading /theirs/weights.gguf once (7.2 GB), to be sure that it is the right file ...",
        "Reading /theirs/drafter.gguf once (1.9 GB), to be sure that it is the right file ...",
    ]


def test_what_lies_here_already_gets_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with TransferView() as view:
        view(state(replace(WEIGHTS, state="done", have=5, in_place=True)))
    assert said(capsys) == ""
