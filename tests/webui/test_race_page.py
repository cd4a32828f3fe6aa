"""The Race tab in a real browser: choosing, watching, the verdict, the kept races."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, expect
from playwright.sync_api import Page as Tab

from tests.conftest import wait_until
from tests.launcher import race_samples as samples
from tests.webui.conftest import Visitor, answered, ask
from tests.webui.race_pages import Track, choose, open_tab, race, run_track
from tests.webui.test_page_looks import LUMINANCE
from tests.webui.two_engines import BLOCKS, TEXT, pace

pytestmark = [pytest.mark.browser]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Track]:
    with ExitStack() as stack:
        yield run_track(stack, tmp_path_factory.mktemp("race"))


@pytest.fixture
def track(shared: Track) -> Track:
    for it in shared.races.list().races:
        shared.races.delete(it.id)
    pace(shared)
    return shared


@pytest.mark.parametrize(
    ("rate", "word", "sign"), [(240, "faster", "▲"), (80, "slower", "▼"), (150, "No difference", "=")]
)
def test_the_verdict_in_one_sentence(track: Track, visitor: Visitor, rate: int, word: str, sign: str) -> None:
    pace(track, plain={"rate": 150}, drafting={"rate": rate})
    tab = open_tab(track, visitor)
    race(tab)
    headline = tab.locator(".r-headline")
    expect(headline.locator(".r-word")).to_have_text(sign + word)
    ratio = float(re.search(r"([\d.]+)x, ", headline.inner_text()).group(1))  # type: ignore[union-attr]
    assert ratio == pytest.approx(rate / 150, rel=0.15)
    expect(headline).to_contain_text("tokens/s")
    expect(tab.locator(".r-verdict")).to_contain_text("Median of 2 rounds")
    expect(tab.locator(".r-notes")).to_contain_text("Both texts are identical.")
    size = "(it => [getComputedStyle(it).fontSize, getComputedStyle(it).fontWeight].join())(document.querySelector('%s'))"
    assert tab.evaluate(size % ".r-word") == tab.evaluate(size % ".r-headline")
    expect(tab.locator("#r-say")).to_contain_text(word)


@pytest.mark.case("G-04")
def test_the_first_difference_is_shown_in_both_texts(track: Track, visitor: Visitor) -> None:
    other = TEXT.replace("word20", "WORD twenty")
    pace(track, drafting={"text": other})
    tab = open_tab(track, visitor)
    race(tab, rounds=1)
    expect(tab.locator(".r-notes")).to_contain_text(re.compile(r"The texts part at token \d+\."))
    marks = tab.locator(".r-snippet mark")
    assert marks.nth(0).inner_text().startswith("word20 word21")
    assert marks.nth(1).inner_text().startswith("WORD twenty word21")
    expect(tab.locator(".r-difference")).to_contain_text("Neither is wrong.")


def test_a_misfit_drafter_is_called_one(track: Track, visitor: Visitor) -> None:
    pace(track, drafting={"blocks": ((4, 0),), "rate": 200})
    tab = open_tab(track, visitor)
    race(tab, rounds=1)
    expect(tab.locator(".r-warnings")).to_contain_text(
        "The drafter hardly fits: 0.0% of what dspark 4 drafted"
    )
    expect(tab.locator(".r-bars")).to_contain_text("0 %")


def test_figures_of_both_sides_and_acceptance_by_position(track: Track, visitor: Visitor) -> None:
    tab = open_tab(track, visitor)
    race(tab, rounds=1)
    cells = {
        row.locator("th").inner_text(): row.locator("td").all_inner_texts()
        for row in tab.locator(".r-sides tbody tr").all()
    }
    for name in (
        "decode speed, tokens/s",
        "prompt processing, tokens/s",
        "time to first token, s",
        "total, s",
    ):
        assert all(float(text) >= 0 for text in cells[name])
    assert cells["acceptance"] == ["–", "50%"]
    drafted = sum(run.timings.draft_n or 0 for run in track.races.load(track.races.list().races[0].id).of(1))
    assert cells["accepted of drafted tokens, all rounds"][1].endswith(f" of {drafted}")
    picture = tab.get_by_role(
        "img", name=re.compile(r"place 1: 100 %, place 2: 5\d %, place 3: 5\d %, place 4: 0 %")
    )
    assert picture.locator("text").all_text_contents()[:2] == ["100 %", "1"]


def test_while_it_runs_one_side_works_and_the_other_waits(track: Track, visitor: Visitor) -> None:
    pace(track, plain={"rate": 60}, drafting={"rate": 60})
    tab = open_tab(track, visitor)
    expect(tab.locator(".r-what")).to_contain_text(
        "plain (A) and dspark 4 (B) answer the same prompt in turn"
    )
    choose(tab)
    tab.click(".r-go")
    panes = tab.locator(".r-live")
    for working, waiting in ((0, 1), (1, 0)):
        tab.wait_for_selector(f".r-live[data-side='{working}'].r-works .r-answer span", timeout=20_000)
        expect(panes.nth(working)).to_have_attribute("aria-busy", "true")
        expect(panes.nth(waiting)).to_contain_text("waits")
        before = len(panes.nth(working).locator(".r-answer").inner_text())
        tab.wait_for_function(
            f"document.querySelectorAll('.r-live .r-answer')[{working}].textContent.length > {before}"
        )
        expect(panes.nth(working).locator(".r-speed")).to_contain_text("tokens/s")
    assert tab.locator(".r-order i").all_inner_texts() == ["A", "B", "B", "A"]
    expect(tab.locator(".r-live-notes")).to_contain_text("Both engines stay loaded")
    expect(panes.nth(1).locator(".b-draft").first).to_be_visible()
    tab.get_by_role("button", name="Stop now").click()
    expect(tab.locator(".r-stopped")).to_be_visible()
    assert track.page.engine.working + track.drafting.working == 0


def test_stop_after_the_round_gives_its_verdict(track: Track, visitor: Visitor) -> None:
    pace(track, plain={"rate": 150}, drafting={"rate": 300})
    tab = open_tab(track, visitor)
    choose(tab, rounds=20)
    tab.click(".r-go")
    tab.wait_for_selector(".r-works .r-answer span")
    tab.get_by_role("button", name="Stop after this round").click()
    expect(tab.locator(".r-headline .r-word")).to_contain_text("faster", timeout=20_000)
    [kept] = track.races.list().races
    whole = track.races.load(kept.id)
    assert whole.ended == "stopped"
    assert len(whole.of(0)) == len(whole.of(1)) < 20


@pytest.mark.parametrize("way", ["close", "reload"])
def test_leaving_the_page_stops_the_race(track: Track, visitor: Visitor, way: str) -> None:
    pace(track, plain={"rate": 30}, drafting={"rate": 30})
    tab = open_tab(track, visitor)
    tab.click(".r-go")
    tab.wait_for_selector(".r-works .r-answer span")
    if way == "close":
        tab.close()
    else:
        tab.reload()
    wait_until(lambda: not track.page.lifecycle.status().busy_with, 3, "the race to let go of the engines")
    assert track.page.engine.working + track.drafting.working == 0


def test_a_race_waits_for_an_answer_and_an_answer_for_a_race(track: Track, visitor: Visitor) -> None:
    pace(track, plain={"rate": 20})
    tab = open_tab(track, visitor)
    tab.get_by_role("tab", name="Chat").click()
    ask(tab, "Hello")
    tab.wait_for_selector(".b-running .b-text")
    tab.get_by_role("tab", name="Race").click()
    expect(tab.locator(".r-wait")).to_be_visible()
    choose(tab, rounds=1, tokens=20)
    tab.click(".r-go")
    expect(tab.locator(".r-running .b-phase")).to_have_text("Waits for the running answer.")
    tab.get_by_role("tab", name="Chat").click()
    tab.keyboard.press("Escape")
    answered(tab)
    ask(tab, "Hello again")
    expect(tab.locator(".b-running .b-phase")).to_contain_text("busy with the race", timeout=10_000)
    tab.wait_for_function("!document.querySelector('.b-running')", timeout=30_000)
    expect(tab.locator(".b-answer")).to_have_count(2)


def test_an_engine_that_dies_leaves_a_readable_part_and_a_working_page(
    track: Track, visitor: Visitor
) -> None:
    pace(track, drafting={"die_after": 40})
    tab = open_tab(track, visitor)
    race(tab)
    expect(tab.locator(".r-problem")).to_contain_text("The race ended early. dspark 4, round 1:")
    expect(tab.locator(".r-headline")).to_contain_text("No verdict")
    assert tab.locator(".r-replay .r-answer").first.inner_text() in TEXT
    pace(track)
    race(tab)
    expect(tab.locator(".r-headline")).to_contain_text("tokens/s")


def test_own_prompts_and_ours(track: Track, visitor: Visitor) -> None:
    tab = open_tab(track, visitor)
    tab.get_by_label("Deutsch").check()
    tab.get_by_label("Prose").check()
    assert "Uhrmacherin" in tab.input_value(".r-prompt")
    tab.fill(".r-prompt", "Just say <b>hello</b>.")
    assert tab.get_by_label("Own").is_checked()
    race(tab, rounds=1, tokens=20)
    assert track.page.engine.chats[-1].body["messages"] == [
        {"role": "user", "content": "Just say <b>hello</b>."}
    ]
    tab.click(".r-conditions summary")
    expect(tab.locator(".r-conditions .r-pre").first).to_have_text("Just say <b>hello</b>.")
    tab.get_by_label("Own").check()
    tab.fill(".r-prompt", "")
    expect(tab.locator(".r-go")).to_be_disabled()
    option = tab.locator(".r-against option", has_text="ngram-mod (not here)").first
    assert option.is_disabled()
    expect(tab.locator(".r-blocked")).to_contain_text("This llama-server (b1) cannot do ngram-mod.")


def test_the_whole_set_gives_a_table_by_kind(track: Track, visitor: Visitor) -> None:
    tab = open_tab(track, visitor)
    choose(tab, rounds=1, tokens=12)
    tab.click(".r-set")
    expect(tab.locator(".r-progress")).to_contain_text("6 of 6, done", timeout=60_000)
    rows = tab.locator(".r-set-table tbody tr")
    assert [row.locator("th").inner_text() for row in rows.all()] == [
        "code", "prose", "maths", "chat", "rewrite", "thinking"]  # fmt: skip
    assert "identical" in rows.first.inner_text()
    expect(tab.locator(".r-item")).to_have_count(6)
    rows.nth(2).get_by_role("button").click()
    expect(tab.locator(".r-conditions")).to_contain_text("Prompt (maths, en)")
    expect(tab.locator(".r-set-table")).to_be_visible()


def test_kept_races_are_reopened_exported_and_deleted(track: Track, visitor: Visitor) -> None:
    tab = open_tab(track, visitor)
    race(tab, rounds=1, tokens=20)
    tab.click(".r-export summary")
    for form, ending in (("HTML card", "html"), ("Markdown", "md"), ("JSON", "json")):
        for bare in (False, True):
            tab.get_by_label("leave out prompt and texts").set_checked(bare)
            with tab.expect_download() as waiting:
                tab.get_by_role("button", name=form).click()
            assert waiting.value.suggested_filename == f"race dspark 4 against plain code.{ending}"
            assert ("word5" in waiting.value.path().read_text("utf-8")) != bare
    tab.reload()
    tab.get_by_role("tab", name="Race").click()
    item = tab.locator(".r-open")
    expect(item).to_contain_text("dspark 4 against plain", timeout=30_000)
    expect(item).to_contain_text("code, en")
    item.click()
    expect(tab.locator(".r-replay .r-pane")).to_have_count(2)
    tab.get_by_role("button", name="Delete the race of").click()
    tab.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(tab.locator(".r-result")).to_have_count(0)
    expect(tab.locator("#r-history")).to_contain_text("Each race is kept here")
    assert not track.races.list().races


def test_the_newest_are_listed_and_the_others_when_asked_for(track: Track, visitor: Visitor) -> None:
    for number in range(14):
        track.races.save(samples.race(id=f"race{number}", created=float(number)))
    tab = open_tab(track, visitor)
    expect(tab.locator(".r-item")).to_have_count(12)
    tab.get_by_role("button", name="Show all 14").click()
    expect(tab.locator(".r-item")).to_have_count(14)
    expect(tab.get_by_role("button", name="Show all")).to_have_count(0)
    tab.get_by_role("button", name="Delete the race of").last.click()
    tab.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(tab.locator(".r-item")).to_have_count(13)  # all stay listed


def fits(tab: Tab, width: int) -> bool:
    return bool(
        tab.evaluate(
            "(width) => { const host = document.getElementById('b-race-host');"
            " return document.documentElement.scrollWidth <= width && host.scrollWidth <= host.clientWidth; }",
            width,
        )
    )


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1280, "dark"), (1280, "light")])
def test_narrow_and_wide_light_and_dark(track: Track, browser: Browser, width: int, scheme: str) -> None:
    pace(track, drafting={"text": TEXT + " and more", "rate": 900})
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
    tab = open_tab(track, Visitor(context, [], []))
    assert fits(tab, width)
    contrast = [".r-what", ".r-radios input:checked + span", ".r-radios label:nth-of-type(2) span", ".r-go"]
    for selector in contrast:
        assert tab.evaluate(LUMINANCE, selector) >= 4.5, selector
    race(tab, rounds=2, tokens=200)
    tab.evaluate("document.querySelectorAll('.r-page details').forEach((it) => { it.open = true; })")
    assert fits(tab, width)
    for selector in (".r-headline", ".r-word", ".b-draft", ".r-speed", ".r-caption", ".r-clock", ".r-snippet mark",
                     ".r-warnings li", ".r-sides td:last-child", ".r-when", ".r-item .r-word"):  # fmt: skip
        assert tab.evaluate(LUMINANCE, selector) >= 4.5, selector
    boxes = [pane.bounding_box() for pane in tab.locator(".r-replay .r-pane").all()]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert (boxes[1]["y"] > boxes[0]["y"] + 50) == (width == 400)
    context.close()


def test_a_race_by_keyboard_alone(track: Track, visitor: Visitor) -> None:
    tab = open_tab(track, visitor)
    choose(tab, rounds=1, tokens=20)
    tab.evaluate("document.activeElement.blur()")
    tab.get_by_role("tab", name="Race").focus()
    reached = []
    for _ in range(20):
        tab.keyboard.press("Tab")
        reached.append(tab.evaluate("document.activeElement.className || document.activeElement.name || ''"))
        if "r-go" in reached[-1]:
            break
    for wanted in (
        "b-field",
        "r-kind",
        "r-language",
        "r-prompt",
        "r-rounds",
        "r-tokens",
        "r-temperature",
        "r-go",
    ):
        assert any(wanted in it for it in reached), (wanted, reached)
    tab.keyboard.press("Enter")
    tab.wait_for_selector(".r-verdict", timeout=20_000)
    for _ in range(40):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.classList.contains('r-scrubber')"):
            break
    tab.keyboard.press("Home")
    expect(tab.locator(".r-clock")).to_contain_text("0.00 s of")
    tab.keyboard.press("Space")
    tab.wait_for_function("document.querySelector('.r-replay .r-answer').textContent.length > 20")


def test_nothing_of_a_text_has_an_effect(track: Track, visitor: Visitor) -> None:
    hostile = "<img src=x onerror=window.hit=1> <script>window.hit=2</script> </textarea> " * 4
    pace(track, plain={"text": hostile}, drafting={"text": hostile + "x"})
    tab = open_tab(track, visitor)
    tab.fill(".r-prompt", hostile)
    race(tab, rounds=1, tokens=200)
    tab.evaluate("document.querySelectorAll('.r-page details').forEach((it) => { it.open = true; })")
    assert "<script>window.hit=2</script>" in tab.locator(".r-page").inner_text()
    assert tab.evaluate("window.hit") is None
    assert tab.locator(".r-page img, .r-page script").count() == 0
    assert {
        re.sub(r"^(\w+://[^/]+).*", r"\1", url) for url in visitor.requests if url.startswith("http")
    } == {track.page.url}


def test_blocks_of_the_live_side_are_tinted_as_in_the_chat(track: Track, visitor: Visitor) -> None:
    pace(track, drafting={"blocks": BLOCKS, "rate": 100})
    tab = open_tab(track, visitor)
    choose(tab, rounds=1, tokens=40)
    tab.click(".r-go")
    tab.wait_for_selector(".r-live[data-side='1'] .b-draft", timeout=20_000)
    expect(tab.locator(".r-live[data-side='0'] .b-draft")).to_have_count(0)
