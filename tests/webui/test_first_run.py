"""What the page is told about fetching, and what it may ask for, over HTTP."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import httpx
import pytest

from launcher.errors import BadInput, PlanRefused
from tests import plans
from tests.conftest import wait_until
from tests.webui.conftest import TOKEN, Running, news, run_page
from tests.webui.fake_lifecycle import a_plan
from tests.webui.fetch_rooms import MODELS, OFFER, TOTAL, Room
from webui.first_run import NEWS_S, FetchNews
from webui.state import Row


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Room]]:
    with ExitStack() as stack:
        room = Room()
        page = run_page(
            stack, tmp_path_factory.mktemp("first"), page={"fetching": room}, text="Fine.", rate=300
        )
        wait_until(lambda: page.ready, 60, "the page")
        yield page, room


@pytest.fixture
def room(served: tuple[Running, Room]) -> Room:
    """The page's room as it was at first."""
    room = served[1]
    room.calls.clear()
    fresh = Room()
    room.offered, room.problem, room.now = fresh.offered, None, fresh.now
    return room


@pytest.fixture
def page(served: tuple[Running, Room]) -> Running:
    return served[0]


@pytest.fixture
def client(page: Running) -> Iterator[httpx.Client]:
    with page.client(headers={"X-Bonsai-Token": TOKEN}) as client:
        yield client


def test_the_offer_is_told_whole(client: httpx.Client, room: Room) -> None:
    found = client.get("/bonsai/fetch").json()
    offer = found["offer"]
    assert (offer["title"], offer["to_fetch"], offer["disk_ok"]) == ("Ternary Bonsai 27B", TOTAL, True)
    assert ["engine", "the build for CUDA 12.8: the driver supports 12.9"] in offer["why"]
    assert [item["name"] for item in offer["items"]] == [item.name for item in OFFER.items]
    assert offer["left_out"][0][1] == "the frozen Prism build does not read groups of 64"
    assert found["machine"] == [{"name": "Processor", "value": "two cores", "source": "the system"}]
    assert found["state"]["phase"] == "idle"
    assert (found["problem"], found["looking"]) == (None, False)
    assert room.calls == [], "looking is no consent"


def test_nothing_to_fetch(client: httpx.Client, room: Room) -> None:
    room.offered = None
    assert client.get("/bonsai/fetch").json()["offer"] is None


def test_what_stands_against_fetching_is_told(client: httpx.Client, room: Room) -> None:
    room.problem = PlanRefused("These parts do not fit.", "Choose others.")
    found = client.get("/bonsai/fetch").json()
    assert found["offer"] is None
    assert found["problem"] == {"error": "These parts do not fit.", "remedy": "Choose others."}
    refused = client.post("/bonsai/fetch/begin", json={})
    assert (refused.status_code, refused.json()["error"]) == (400, "These parts do not fit.")


@pytest.mark.parametrize("act", ["begin", "pause", "resume", "cancel", "retry", "use"])
def test_each_button_reaches_the_room(client: httpx.Client, room: Room, act: str) -> None:
    assert client.post(f"/bonsai/fetch/{act}", json={}).status_code == 200
    assert room.calls == [act]


def test_the_models_are_told_whole_and_one_is_chosen(client: httpx.Client, room: Room) -> None:
    room.listed = MODELS
    found = client.get("/bonsai/models").json()
    assert found["automatic"] == "Ternary Bonsai 27B"
    assert [it["name"] for it in found["rows"]] == [it.name for it in MODELS.rows]
    assert found["rows"][1]["here"] == "yes"
    assert client.post("/bonsai/models", json={"model": "ternary/8B"}).status_code == 200
    assert room.calls == ["choose ternary/8B"]
    assert client.get("/bonsai/fetch").json()["state"]["choices"] == 1
    room.problem = BadInput("Something is being fetched.", "Cancel that first.")
    refused = client.post("/bonsai/models", json={"model": "auto"})
    assert (refused.status_code, refused.json()["remedy"]) == (400, "Cancel that first.")
    assert client.get("/bonsai/models").json() == {
        "problem": {"error": "Something is being fetched.", "remedy": "Cancel that first."}
    }
    room.problem = None
    for wrong in ({}, {"model": 8}, {"model": ""}):
        assert client.post("/bonsai/models", json=wrong).status_code == 400
    assert room.calls == ["choose ternary/8B"]


@pytest.mark.parametrize("token", [None, "wrong"])
def test_a_stranger_chooses_no_model(page: Running, room: Room, token: str | None) -> None:
    with page.client(headers={"X-Bonsai-Token": token} if token else {}) as stranger:
        assert stranger.post("/bonsai/models", json={"model": "ternary/8B"}).status_code == 403
        assert stranger.get("/bonsai/models").status_code == 403
    assert room.calls == []


@pytest.mark.parametrize("act", ["state", "offer", "__init__", "become", "nonsense"])
def test_nothing_else_does(client: httpx.Client, room: Room, act: str) -> None:
    assert client.post(f"/bonsai/fetch/{act}", json={}).status_code == 400
    assert room.calls == []


@pytest.mark.parametrize("act", ["begin", "pause", "resume", "cancel", "retry", "use"])
@pytest.mark.parametrize("token", [None, "wrong"])
def test_without_the_token_nothing_is_fetched(page: Running, room: Room, act: str, token: str | None) -> None:
    with page.client(headers={"X-Bonsai-Token": token} if token else {}) as stranger:
        assert stranger.post(f"/bonsai/fetch/{act}", json={}).status_code == 403
        assert stranger.get("/bonsai/fetch").status_code == 403
        assert stranger.get(f"/bonsai/fetch/{act}", headers={"X-Bonsai-Token": TOKEN}).status_code in {
            404,
            405,
        }
    with page.client(headers={"X-Bonsai-Token": TOKEN, "Origin": "https://evil.example"}) as stranger:
        assert stranger.post(f"/bonsai/fetch/{act}", json={}).status_code == 403
    assert room.calls == []


def test_progress_is_pushed(client: httpx.Client, room: Room) -> None:
    with news(client) as seen:
        assert seen[0]["fetch"]["phase"] == "idle"
        room.begin()
        room.came("weights", 2_000_000_000)
        wait_until(
            lambda: any(it.get("fetch", {}).get("have") == 2_000_000_000 for it in seen), 5, "the progress"
        )
        assert seen[-1]["fetch"]["items"][1]["have"] == 2_000_000_000


def test_a_page_without_a_room(page: Running) -> None:
    from webui.first_run import fetch_page_view
    from webui.state import PageContext

    bare = PageContext(page.lifecycle, page.store, TOKEN, "127.0.0.1", page.port, "0")
    assert fetch_page_view(bare) == {
        "offer": None, "problem": None, "state": None, "machine": [], "looking": False
    }  # fmt: skip


def test_a_row_that_is_still_looked_for_is_marked(page: Running) -> None:
    from webui.state import PageContext
    from webui.views import machine_view

    rows = (Row("Hardware", "still looking", pending=True),)
    context = PageContext(page.lifecycle, page.store, TOKEN, "127.0.0.1", page.port, "0", look=lambda: rows)
    assert machine_view(context, page.lifecycle.status(), "")["looking"] is True


def test_thousands_of_changes_become_few_news() -> None:
    """At most one piece of news in NEWS_S seconds; the last state is never lost."""
    told: list[tuple[float, int]] = []

    async def follow() -> float:
        room = Room()
        loop = asyncio.get_running_loop()
        news = FetchNews(room, lambda it: told.append((time.monotonic(), it["fetch"]["have"])))
        begun = time.monotonic()

        def flood() -> None:
            for have in range(2000):
                room.now = replace(room.now, have=have)
                for listener in room.listeners:
                    listener(room.now)
                if have % 40 == 0:
                    time.sleep(0.01)

        await loop.run_in_executor(None, flood)
        while not told or told[-1][1] != 1999:
            await asyncio.sleep(0.01)
        news.close()
        assert room.listeners == []
        return time.monotonic() - begun

    lasted = asyncio.run(asyncio.wait_for(follow(), 20))
    assert 2 <= len(told) <= lasted / NEWS_S + 2
    gaps = [after - before for (before, _), (after, _) in itertools.pairwise(told)]
    assert min(gaps) >= NEWS_S * 0.9


def speculation(page: Running, client: httpx.Client, plan: Any) -> dict[str, Any]:
    before = page.lifecycle.status()
    page.lifecycle.become(plan=plan)
    try:
        found: dict[str, Any] = client.get("/bonsai/machine").json()["status"]["speculation"]
    finally:
        page.lifecycle.become(plan=before.plan)
    return found


def test_without_a_drafter_the_reason_and_another_way_are_told(page: Running, client: httpx.Client) -> None:
    found = speculation(page, client, a_plan(drafter=False))
    assert (found["on"], found["possible"]) == (False, False)
    assert found["reason"] == "Speculation is off: no drafter was given with BONSAI_DRAFTER."
    engine = replace(plans.ENGINE, spec_types=plans.ENGINE.spec_types | {"ngram-simple"})
    plan = a_plan(drafter=False)
    plan = replace(plan, resolved=replace(plan.resolved, engine=engine))
    assert "ngram-simple needs no drafter" in speculation(page, client, plan)["reason"]


def test_a_drafter_that_does_not_fit_keeps_the_switch_off(page: Running, client: httpx.Client) -> None:
    plan = a_plan(speculative=False)
    other = replace(
        plan.resolved, drafter=plans.resolved(drafter=replace(plans.DRAFTER, hidden_size=999)).drafter
    )
    found = speculation(page, client, replace(plan, resolved=other))
    assert found["possible"] is False
    assert found["reason"].startswith("Speculation is off: The drafter does not fit")
    assert speculation(page, client, plan)["reason"] == ""
    assert speculation(page, client, plan)["possible"] is True
