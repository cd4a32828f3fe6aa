"""The first start of a person who has nothing: the page, practice meanwhile, consent, the fetch, the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from launcher.practice import ensure_pair, known_text
from tests.conftest import Bonsai
from tests.fakes.file_server import Fault, sha256
from tests.fakes.hub_server import HubServer
from tests.fakes.release_server import ReleaseServer
from tests.standins import Standins, standins
from tests.visits import Visit, visiting

pytestmark = [pytest.mark.browser, pytest.mark.engine, pytest.mark.system("posix")]
SLOW_MS = 60_000


# A race begins, and somebody chooses meanwhile; the race ends with its request.
CHOOSE_WHILE_RACING = """async () => {
  const post = (path, body, more) => fetch(`/bonsai/${path}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), ...more });
  const racing = new AbortController();
  const methods = (await (await fetch("/bonsai/race")).json()).offers;
  const [plain, other] = methods.filter((it) => !it.why_not);
  const race = await post("race", { a: plain, b: other, kind: "code", rounds: 3 }, { signal: racing.signal });
  const reader = race.body.getReader();
  for (let seen = ""; !seen.includes("run"); seen += new TextDecoder().decode((await reader.read()).value));
  const answer = await post("models", { model: "auto" });
  racing.abort();
  return [answer.status, (await answer.json()).error];
}"""
SMALL = {"BONSAI_MODEL": "1.7B"}


@pytest.fixture
def files(built_engine: Path, tmp_path: Path) -> Standins:
    """A trio that really runs: the built engine in the release's archive, the practice target under the real name."""
    target = ensure_pair(tmp_path, "small").target.read_bytes()
    # One thread, as the practice pair has it here: two that wait for each other beside a browser hardly move.
    program = f'#!/bin/sh\ncase "$1" in -m) set -- "$@" -t 1;; esac\nexec "{built_engine}" "$@"\n'
    large, small = standins(program=program, target=target), standins(SMALL, program=program, target=target)
    releases = {release: dict(assets) for release, assets in large.releases.items()}
    for release, assets in small.releases.items():
        releases.setdefault(release, {}).update(assets)
    return Standins(large.choice, {**large.hub, **small.hub}, releases)


@pytest.fixture
def hub(files: Standins) -> Iterator[HubServer]:
    with HubServer(files.hub) as hub:
        yield hub


@pytest.fixture
def visit(bonsai: Bonsai, chromium_path: str, hub: HubServer, files: Standins) -> Iterator[Visit]:
    with ReleaseServer(files.releases) as releases:
        # Empty, as unset: what is named so comes before a choice on the page.
        env = {"BONSAI_MODEL": "", "HF_ENDPOINT": hub.url, "BONSAI_RELEASES_URL": releases.url}
        with visiting(bonsai, chromium_path, env) as visit:
            yield visit


def test_from_nothing_to_the_model(visit: Visit, hub: HubServer, files: Standins) -> None:
    tab = visit.tab
    fetch = tab.get_by_role("button", name="Fetch", exact=False).first
    expect(fetch).to_be_visible(timeout=SLOW_MS)
    assert hub.requests == []  # nothing before the consent

    expect(tab.locator("#b-status")).to_contain_text("Ready", timeout=SLOW_MS)
    expect(tab.locator("#b-banners")).to_contain_text("Practice pair")

    weights = files.choice.weights.file
    data = files.hub[weights.repo][weights.name]
    hub.store.always[sha256(data)] = Fault(rate=len(data) / 5)
    fetch.click()
    expect(tab.get_by_role("button", name="Pause")).to_be_visible(timeout=SLOW_MS)
    visit.send("Implement quicksort in Python.")  # meanwhile
    visit.answered()
    assert "def quicksort" in tab.inner_text(".b-answer")

    expect(tab.locator("#b-status")).to_contain_text("Ternary Bonsai 27B", timeout=SLOW_MS)
    expect(tab.locator("#b-status")).to_contain_text("Ready", timeout=SLOW_MS)
    expect(tab.locator("#b-banners")).not_to_contain_text("Practice pair")
    tab.get_by_role("button", name="New chat").click()
    visit.send("Implement quicksort in Python.")
    visit.answered()
    assert known_text("code").splitlines()[0][:20] in tab.inner_text(".b-answer >> nth=-1")


def test_another_model_is_chosen_fetched_and_taken_back(visit: Visit, bonsai: Bonsai, hub: HubServer) -> None:
    tab, card = visit.tab, visit.tab.locator("#f-chat .f-card")
    expect(card.get_by_role("heading", name="Get Ternary Bonsai 27B")).to_be_visible(timeout=SLOW_MS)
    card.get_by_text("Another model", exact=True).click()
    card.get_by_role("button", name="Use it: Ternary Bonsai 1.7B").click()
    expect(card.get_by_role("heading", name="Get Ternary Bonsai 1.7B")).to_be_visible(timeout=SLOW_MS)
    (config,) = bonsai.home.rglob("config.toml")
    assert config.read_text() == 'model = "1.7B"\n'
    assert hub.requests == []

    card.get_by_role("button", name="Fetch", exact=False).first.click()
    expect(tab.locator("#b-status")).to_contain_text("Ternary Bonsai 1.7B", timeout=SLOW_MS)
    expect(tab.locator("#b-status")).to_contain_text("Ready", timeout=SLOW_MS)
    expect(tab.locator("#b-banners")).not_to_contain_text("Practice pair")
    visit.send("Implement quicksort in Python.")
    visit.answered()
    assert known_text("code").splitlines()[0][:20] in tab.inner_text(".b-answer >> nth=-1")

    assert tab.evaluate(CHOOSE_WHILE_RACING) == [400, "The race has the engines: another model would end it."]
    assert config.read_text() == 'model = "1.7B"\n'
    expect(tab.locator("#b-status")).to_contain_text("Ready", timeout=SLOW_MS)

    tab.get_by_role("tab", name="Machine").click()
    models = tab.locator("#f-models")
    setting = tab.locator("#b-machine tr", has=tab.get_by_text("BONSAI_MODEL", exact=True))
    expect(models).to_contain_text("Ternary Bonsai 1.7B was chosen.", timeout=SLOW_MS)
    expect(setting).to_contain_text(f"1.7B{config}, line 1")
    models.get_by_text("Another model", exact=True).click()
    models.get_by_role("button", name="Use it: Automatic").click()
    heading = tab.locator("#f-machine").get_by_role("heading", name="Get Ternary Bonsai 27B")
    expect(heading).to_be_visible(timeout=SLOW_MS)
    assert config.read_text() == ""
    # What runs goes on until the other one is here.
    expect(tab.locator("#b-status")).to_contain_text("Ternary Bonsai 1.7B")
    expect(models).to_contain_text("Ternary Bonsai 27B is taken automatically.")
    expect(setting).to_contain_text("autodefault")
    visit.engine()
    assert visit.errors == []
