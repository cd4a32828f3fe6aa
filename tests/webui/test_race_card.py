"""The exported card: one file that opens from disk, asks nobody for anything, keeps its texts harmless and replays."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from launcher.race_types import Mark, Prompt, Race, Run, Step
from tests.conftest import wait_until
from tests.launcher import race_samples as samples
from webui.race_card import card, script, script_data

HOSTILE = (
    "</script><script>window.hit = 1</script><!-- <img src=x onerror=window.hit=2> {{DATA}} & \u2028 '\""
)


def long_run(side: int, rate: float, text: str = "") -> Run:
    """300 tokens, on side 1 in verify blocks of four of which two are kept."""
    run = samples.run(
        side, 1, rate, text=text or " ".join(f"word{number}" for number in range(300)), tokens=300
    )
    if side == 0:
        return run
    marks = tuple(Mark(round(at // 3 * 3 / rate, 6), m.chars, 1, "draft" if at % 3 else "target", False)
                  for at, m in enumerate(run.marks))  # fmt: skip
    steps = tuple(Step(round(at / rate, 6), 4, 2) for at in range(0, len(marks), 3))
    return Run(**{**run.__dict__, "marks": marks, "steps": steps})


def long_race(**changes: object) -> Race:
    return samples.race([long_run(0, 100), long_run(1, 200)], **changes)


def data_of(html: str) -> dict[str, object]:
    found = re.search(r'(?s)<script type="application/json" id="race">(.*?)</script>', html)
    assert found
    return dict(json.loads(found[1]))


def test_what_the_file_holds_can_end_no_element() -> None:
    race = samples.race([samples.run(0, 1, 50, text=HOSTILE), samples.run(1, 1, 60, text=HOSTILE)],
                        prompt=Prompt(HOSTILE))  # fmt: skip
    html = card(race)
    assert html.lower().count("<script") == html.lower().count("</script>") == 2
    assert "onerror" not in re.sub(r'(?s)<script type="application/json".*?</script>', "", html)
    assert data_of(html)["prompt"] == HOSTILE
    assert "<" not in script_data(HOSTILE)


def test_texts_are_left_out_on_request() -> None:
    race = samples.race([samples.run(0, 1, 50, text="secret words here", thinking="hidden"),
                         samples.run(1, 1, 60, text="secret things here", blocks=((4, 2),) * 12)],
                        prompt=Prompt("my secret"))  # fmt: skip
    assert card(race).count("secret") >= 3
    bare = card(race, with_texts=False)
    assert "secret" not in bare
    assert "hidden words" not in bare
    view = data_of(bare)
    assert view["prompt"] is None
    assert view["difference"] == {"why": race.verdict.first_difference.why}  # type: ignore[union-attr]


def test_it_is_small_and_names_no_address_and_no_folder() -> None:
    runs = [run for number in range(6) for run in (long_run(0, 100 + number), long_run(1, 200 + number))]
    runs = [Run(**{**run.__dict__, "round": at // 2 + 1}) for at, run in enumerate(runs)]
    html = card(samples.race(runs))
    assert len(html.encode()) < 200_000
    assert not re.findall(r"(?:src|href)\s*=|url\(|@import|fetch\(|https?://(?!www\.w3\.org/2000/svg)", html)
    assert "/home/person" not in html
    assert "llama-server" in html


def test_no_two_modules_of_it_use_the_same_name() -> None:
    names = re.findall(r"^(?:async )?(?:const|let|class|function) (\w+|\$)", script(), re.MULTILINE)
    assert len(names) == len(set(names))
    assert not re.search(r"^(?:import|export) ", script(), re.MULTILINE)


def opened(browser: Browser, path: Path, **context: object) -> tuple[Page, list[str]]:
    """The file in a tab of a browser without a network, and everything it asked for or complained about."""
    tab = browser.new_context(**context).new_page()  # type: ignore[arg-type]
    seen: list[str] = []
    tab.on("request", lambda request: seen.append(request.url))
    tab.on("pageerror", lambda problem: seen.append(str(problem)))
    tab.on("console", lambda said: seen.append(said.text))
    tab.context.set_offline(True)
    tab.goto(path.as_uri())
    return tab, seen


@pytest.mark.browser
def test_it_opens_from_disk_and_replays_by_itself(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "card.html"
    path.write_text(card(long_race()), encoding="utf-8")
    tab, seen = opened(browser, path)
    expect(tab.locator(".r-headline")).to_contain_text("dspark 4 is")
    expect(tab.locator(".r-headline .r-word")).to_contain_text("faster")
    panes = tab.locator(".r-pane")
    # It plays: both sides grow, and the faster one is ahead and done first.
    first = panes.nth(0).locator(".r-answer")  # the card's own policy forbids scripts that are given as text
    wait_until(lambda: len(first.inner_text()) > 100, 20, "the replay")
    assert len(panes.nth(1).locator(".r-answer").inner_text()) > len(
        panes.nth(0).locator(".r-answer").inner_text()
    )
    tab.keyboard.press("Space")
    expect(tab.locator(".r-play")).to_have_text("Play")
    held = panes.nth(0).locator(".r-answer").inner_text()
    tab.locator(".r-scrubber").focus()
    tab.keyboard.press("ArrowRight")
    assert len(panes.nth(1).locator(".r-answer").inner_text()) > 0
    tab.keyboard.press("End")
    expect(panes.nth(1).locator(".r-flag")).to_contain_text("first, in 1.")
    expect(panes.nth(0).locator(".r-flag")).to_contain_text("done in 3.")
    tab.keyboard.press("Home")
    assert panes.nth(0).locator(".r-answer").inner_text() == ""
    assert held
    ribbon = tab.locator(".r-ribbon")
    assert ribbon.get_attribute("data-blocks") == "100"
    for kind, count in (("accepted", 200), ("rejected", 200), ("own", 100)):
        assert ribbon.locator(f".r-strip .r-{kind}").get_attribute("d").count("M") == count  # type: ignore[union-attr]
    assert seen == [path.as_uri()]
    tab.context.close()


@pytest.mark.browser
def test_without_texts_it_replays_nameless_blocks(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "card.html"
    path.write_text(card(long_race(), with_texts=False), encoding="utf-8")
    tab, seen = opened(browser, path, reduced_motion="reduce", color_scheme="dark")
    expect(tab.locator(".r-play")).to_have_text("Play")  # nothing moves by itself
    shown = tab.locator(".r-answer").first.inner_text()
    assert set(shown) == {"x", " "}
    assert len(shown) == len(long_run(0, 100).text)
    assert tab.evaluate("document.documentElement.classList.contains('b-dark')")
    tab.click(".r-play")
    tab.wait_for_function("document.querySelector('.r-answer').textContent.length < 200")
    assert seen == [path.as_uri()]
    tab.context.close()


@pytest.mark.browser
def test_hostile_texts_are_shown_and_do_nothing(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "card.html"
    runs = [
        samples.run(0, 1, 500, text=HOSTILE),
        samples.run(1, 1, 600, text=HOSTILE + "!", blocks=((4, 2),)),
    ]
    path.write_text(card(samples.race(runs, prompt=Prompt(HOSTILE))), encoding="utf-8")
    tab, seen = opened(browser, path, reduced_motion="reduce")
    assert HOSTILE.partition(" \u2028")[0] in tab.locator(".r-answer").first.inner_text()
    assert tab.evaluate("window.hit") is None
    assert tab.locator("img").count() == 0
    assert seen == [path.as_uri()]
    tab.context.close()
