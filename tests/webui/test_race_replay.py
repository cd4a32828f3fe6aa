"""The replay on the page: true time, pause, speed, the scrubber, the ribbon of verify blocks that follows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from playwright.sync_api import Page as Tab
from playwright.sync_api import expect

from launcher.race_types import Mark, Race, Run, Step
from tests.launcher import race_samples as samples
from tests.webui.conftest import Visitor
from tests.webui.race_pages import Track, open_tab, run_track

pytestmark = [pytest.mark.browser]

TOKENS = 60
WORDS = " ".join(f"word{number}" for number in range(TOKENS))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Track]:
    with ExitStack() as stack:
        yield run_track(stack, tmp_path_factory.mktemp("replay"))


def timed(side: int, round_: int, rate: float) -> Run:
    """60 tokens; on side 1 in blocks of which two, one, two, one, ... of four drafted tokens are kept."""
    run = samples.run(side, round_, rate, text=WORDS, tokens=TOKENS)
    if side == 0:
        return run
    steps: list[Step] = []
    origins: list[str] = []
    at = 0
    while at < TOKENS:
        kept = 2 if len(steps) % 2 == 0 else 1
        steps.append(Step(round(at / rate, 6), 4, kept))
        origins += ["draft"] * kept + ["target"]
        at += kept + 1
    starts = {number: step.at_s for number, step in zip(blocks_of(origins), steps, strict=True)}
    marks = []
    for number, mark in enumerate(run.marks):
        begin = max(it for it in starts if it <= number)
        marks.append(Mark(starts[begin], mark.chars, 1, origins[number], False))
    return replace(run, marks=tuple(marks), steps=tuple(steps))


def blocks_of(origins: list[str]) -> list[int]:
    """Where blocks begin: after each token of the target's own."""
    return [0] + [at + 1 for at, origin in enumerate(origins[:-1]) if origin == "target"]


def a_race() -> Race:
    return samples.race([timed(0, 1, 20), timed(1, 1, 40), timed(1, 2, 50), timed(0, 2, 20), timed(0, 3, 20),
                         timed(1, 3, 45)])  # fmt: skip


def shown(tab: Tab, side: int) -> str:
    return tab.locator(".r-replay .r-answer").nth(side).inner_text()


def seek(tab: Tab, ms: int) -> None:
    tab.locator(".r-scrubber").evaluate(
        "(it, ms) => { it.value = ms; it.dispatchEvent(new Event('input')); }", ms
    )


@pytest.fixture
def tab(shared: Track, visitor: Visitor) -> Tab:
    shared.races.save(a_race())
    tab = open_tab(shared, visitor)
    tab.emulate_media(reduced_motion="reduce")
    tab.click(".r-open")
    tab.wait_for_selector(".r-replay")
    return tab


def test_it_begins_with_the_median_round_and_shows_the_end(tab: Tab) -> None:
    expect(tab.locator(".r-choice select")).to_have_value("3")
    expect(tab.locator(".r-play")).to_have_text("Play")
    assert shown(tab, 0) == shown(tab, 1) == WORDS
    # From the request on: 0.1 s to the first token, then 59 tokens at 20 a second.
    expect(tab.locator(".r-clock")).to_have_text("3.05 s of 3.05 s")
    expect(tab.locator(".r-flag").first).to_have_text("⚑ done in 3.05 s")
    expect(tab.locator(".r-flag").last).to_contain_text("⚑ first, in 1.")


def test_it_moves_by_itself_where_motion_is_welcome(tab: Tab) -> None:
    tab.emulate_media(reduced_motion="no-preference")
    tab.click(".r-open")
    expect(tab.locator(".r-play")).to_have_text("Pause")
    tab.wait_for_function("document.querySelector('.r-replay .r-answer').textContent.length > 20")


def test_both_sides_follow_the_scrubber_in_true_time(tab: Tab) -> None:
    runs = a_race().runs[-2:]
    for ms in (0, 99, 100, 700, 1500, 3050, 1500, 700, 100, 0, 2000):
        seek(tab, ms)
        for side, run in enumerate(runs):
            chars = sum(mark.chars for mark in run.marks if round(mark.at_s * 1000) + 100 <= ms)
            assert shown(tab, side).rstrip() == WORDS[:chars].rstrip(), (ms, side)
    # The tint is that of the tokens shown.
    drafted = "".join(tab.locator(".r-replay .r-pane .b-draft").all_text_contents())
    wanted, at = "", 0
    for mark in runs[1].marks:
        wanted += WORDS[at : at + mark.chars] if mark.origin == "draft" else ""
        at += mark.chars
    assert drafted == wanted
    expect(tab.locator(".r-replay .r-pane").first.locator(".b-draft")).to_have_count(0)


def test_the_ribbon_holds_every_block_and_follows(tab: Tab) -> None:
    steps = a_race().runs[-1].steps
    accepted = sum(step.accepted for step in steps)
    strip = tab.locator(".r-strip")
    expect(tab.locator(".r-ribbon")).to_have_count(1)
    for kind, count in (("accepted", accepted), ("rejected", 4 * len(steps) - accepted), ("own", len(steps))):
        assert (strip.locator(f".r-{kind}").get_attribute("d") or "").count("M") == count
    for number in (len(steps), 10, 1, 0, 20):
        seek(tab, round(steps[number - 1].at_s * 1000) + 100 if number else 0)
        kept = sum(step.accepted for step in steps[:number])
        wanted = f"so far {kept} of {4 * number}" if number else f"{len(steps)} verify blocks"
        expect(tab.locator(".r-caption")).to_contain_text(wanted)
        marked = tab.locator(".r-now").bounding_box()
        frame = strip.bounding_box()
        assert marked is not None
        assert frame is not None
        if number:
            assert frame["x"] - 1 <= marked["x"]
            assert marked["x"] + marked["width"] <= frame["x"] + frame["width"] + 1
    seek(tab, 0)
    box = strip.bounding_box()
    assert box is not None
    tab.mouse.click(box["x"] + 70, box["y"] + 10)
    expect(tab.locator(".r-caption")).to_contain_text("Block 2 of")


def test_play_pause_and_speed(tab: Tab) -> None:
    tab.get_by_label("0.5x").check()
    tab.click(".r-play")
    tab.wait_for_function("document.querySelectorAll('.r-answer')[1].textContent.length > 30")
    tab.keyboard.press("Space")  # on the button, which is in focus
    expect(tab.locator(".r-play")).to_have_text("Play")
    held = tab.locator(".r-clock").inner_text()
    tab.evaluate("() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")
    assert tab.locator(".r-clock").inner_text() == held
    assert len(shown(tab, 1)) > len(shown(tab, 0))
    tab.get_by_label("8x").check()
    began = tab.evaluate("performance.now()")
    tab.click(".r-play")
    expect(tab.locator(".r-clock")).to_have_text("3.05 s of 3.05 s")
    assert tab.evaluate("performance.now()") - began < 2500
    expect(tab.locator(".r-play")).to_have_text("Play")


def test_true_time_is_true(tab: Tab) -> None:
    took = tab.evaluate(
        """async () => {
            const began = performance.now();
            document.querySelector('.r-play').click();
            while (document.querySelectorAll('.r-flag')[1].hidden) await new Promise(requestAnimationFrame);
            return performance.now() - began;
        }"""
    )
    assert took == pytest.approx(100 + a_race().runs[-1].marks[-1].at_s * 1000, rel=0.15)


def test_by_keyboard(tab: Tab) -> None:
    tab.locator(".r-scrubber").focus()
    tab.keyboard.press("Home")
    assert shown(tab, 0) == shown(tab, 1) == ""
    tab.keyboard.press("ArrowRight")  # the first token of both sides
    assert shown(tab, 0).strip() == "word0"
    assert shown(tab, 1).split() == ["word0", "word1", "word2"]
    tab.keyboard.press("ArrowRight")
    expect(tab.locator(".r-count").first).to_have_text("2 tokens")
    tab.keyboard.press("ArrowLeft")
    expect(tab.locator(".r-count").first).to_have_text("1 token")
    tab.keyboard.press("PageUp")
    expect(tab.locator(".r-clock")).to_contain_text("0.41 s of")
    expect(tab.locator(".r-scrubber")).to_have_attribute("aria-valuetext", "0.41 s of 3.05 s")
    tab.keyboard.press("End")
    assert shown(tab, 1) == WORDS
    tab.evaluate("document.activeElement.blur()")
    tab.keyboard.press("Space")  # with nothing in focus
    expect(tab.locator(".r-play")).to_have_text("Pause")


def test_another_round(tab: Tab) -> None:
    tab.locator(".r-choice select").select_option("1")
    tab.locator(".r-scrubber").press("End")
    expect(tab.locator(".r-replay .r-speed").last).to_contain_text("40.0 tokens/s")


def test_the_work_for_a_moment_does_not_grow_with_the_answer(shared: Track, visitor: Visitor) -> None:
    """Stepping through 4000 tokens changes as many nodes as there are tokens, not the text over and over."""
    tokens = 4000
    text = " ".join(f"w{number}" + "\n" * (number % 9 == 8) for number in range(tokens))
    run = samples.run(0, 1, 1000, text=text, tokens=tokens)
    for it in shared.races.list().races:
        shared.races.delete(it.id)
    shared.races.save(samples.race([run, replace(run, side=1)]))
    tab = open_tab(shared, visitor)
    tab.emulate_media(reduced_motion="reduce")
    tab.click(".r-open")
    tab.wait_for_selector(".r-replay")
    changes, took = tab.evaluate(
        """() => {
            const scrubber = document.querySelector('.r-scrubber');
            const to = (ms) => { scrubber.value = ms; scrubber.dispatchEvent(new Event('input')); };
            to(0);
            const watcher = new MutationObserver(() => {});
            watcher.observe(document.querySelector('.r-answer'), { subtree: true, childList: true, characterData: true });
            const began = performance.now();
            for (let ms = 0; ms <= 4200; ms += 16) to(ms);
            return [watcher.takeRecords().length, performance.now() - began];
        }"""
    )
    assert tokens / 2 <= changes <= 2 * tokens + 10
    assert took < 15_000
    # Back and forth again, it is the same text, at the ends of lines and in the middle of them.
    for ms in (4200, 2600, 3300, 1234, 4200):
        seek(tab, ms)
        chars = sum(mark.chars for mark in run.marks if round(mark.at_s * 1000) + 100 <= ms)
        assert shown(tab, 0).rstrip() == text[:chars].rstrip()
