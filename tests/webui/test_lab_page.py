"""The Lab tab in a real browser: choosing, watching, figures and plots, advice, the kept labs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Locator, expect
from playwright.sync_api import Page as Tab

from launcher.lab_types import Cell, Costs, Lab
from launcher.learned_page import TimeLedger
from launcher.methods import PLAIN, Method
from tests.launcher import lab_samples as samples
from tests.webui.conftest import Visitor, ask
from tests.webui.lab_pages import Bench, choose, open_tab, run_bench
from tests.webui.test_page_looks import LUMINANCE
from tests.webui.two_engines import pace

pytestmark = [pytest.mark.browser]

COSTS = Costs(plain_s=0.010, fixed_s=0.011, each_s=0.001)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield run_bench(stack, tmp_path_factory.mktemp("lab"))


@pytest.fixture
def bench(shared: Bench) -> Bench:
    for it in shared.labs.list().labs:
        shared.labs.delete(it.id)
    shared.memory.taken, shared.memory.saved = None, None
    pace(shared)
    return shared


def whole_lab() -> Lab:
    """Four draft lengths on two texts at two temperatures; on prose nothing of a draft is kept."""
    cells, runs = [], []
    for kind in ("code", "prose"):
        for temperature in (0.0, 1.0):
            for length in (0, 1, 2, 4, 8):
                method = Method("draft-dspark", length) if length else PLAIN
                cell = Cell(kind, method, temperature)
                accept = min(length, 2 if temperature == 0 else 1) if kind == "code" else 0
                cells.append(cell)
                runs += [samples.costly(cell, block, COSTS, accept=accept) for block in (1, 2, 3)]
    return samples.lab(cells, runs)


def setup_words(tab: Tab) -> Locator:
    return tab.locator("#l-setup .r-what").first


def chip(tab: Tab, group: str, name: str) -> Locator:
    return tab.get_by_role("group", name=group).get_by_label(name, exact=True)


def test_what_is_chosen_is_said_beforehand_and_what_is_stale(bench: Bench, visitor: Visitor) -> None:
    bench.memory.use(whole_lab(), "coding")
    assert bench.memory.taken is not None
    bench.memory.taken = replace(bench.memory.taken, stale=("The engine is another: b2; it was b1.",))
    tab = open_tab(bench, visitor)
    strip = tab.locator("#l-learned")
    expect(strip).to_contain_text(
        "dspark 2 is no longer in use. The engine is another: b2; it was b1. Measure again"
    )
    strip.get_by_role("button", name="Forget it").click()
    expect(strip.locator("*")).to_have_count(0)
    expect(setup_words(tab)).to_contain_text("24 cells: 2 kinds of text, 6 methods")
    expect(setup_words(tab)).to_contain_text("starts 6 engines at most")
    expect(tab.locator("#l-setup .l-takes")).to_contain_text("3 minutes at most")
    tab.click(".l-more summary")
    expect(chip(tab, "DSpark drafter", "4")).to_be_checked()
    expect(chip(tab, "Small model as drafter", "2")).to_be_disabled()
    expect(tab.locator(".l-methods")).to_contain_text(
        "Not here. The drafter does not fit: its architecture is dflash"
    )
    expect(tab.get_by_label("plain decoding")).to_be_checked()
    expect(tab.get_by_label("plain decoding")).to_be_disabled()
    chip(tab, "Temperature", "1").uncheck()
    chip(tab, "DSpark drafter", "4").uncheck()
    expect(setup_words(tab)).to_contain_text("10 cells: 2 kinds of text, 5 methods")
    assert tab.get_by_label("Own choice").is_checked()
    for kind in ("Code", "Prose"):
        chip(tab, "Text", kind).uncheck()
    expect(tab.locator(".r-go")).to_be_disabled()
    tab.get_by_label("Everything").check()
    expect(setup_words(tab)).to_contain_text("72 cells: 6 kinds of text")
    expect(tab.locator(".r-go")).to_be_enabled()


def by_keyboard(tab: Tab) -> None:
    """From the tab's name to the start button, past all that can be chosen."""
    tab.evaluate("document.activeElement.blur()")
    tab.get_by_role("tab", name="Lab").focus()
    reached = []
    for _ in range(40):
        tab.keyboard.press("Tab")
        reached.append(tab.evaluate("document.activeElement.name || document.activeElement.className || ''"))
        if "r-go" in reached[-1]:
            break
    wanted = (
        "l-measure",
        "l-text",
        "l-language",
        "l-temperature",
        "l-dspark-drafter",
        "l-phrase-tables",
        "b-field",
    )
    assert all(any(it in name for name in reached) for it in (*wanted, "r-go")), reached
    tab.keyboard.press("Enter")


def test_a_lab_from_its_start_to_its_use(bench: Bench, visitor: Visitor) -> None:
    pace(bench, plain={"rate": 300}, drafting={"rate": 450})
    bench.memory.saved = TimeLedger("Speculation has saved 4 min.", (("Lost on prompt work", "1 min"),))
    tab = open_tab(bench, visitor)
    choose(tab, tokens=24, runs=1)
    by_keyboard(tab)
    rows = tab.locator(".l-running tbody tr:not(.l-group-row)")
    expect(rows).to_have_count(24)
    tab.wait_for_selector(".l-now[aria-current]")
    expect(tab.locator(".l-running")).to_contain_text(re.compile(r"Round 1: answer \d+ of 24"))
    expect(tab.locator(".l-running .r-word").first).to_contain_text("▲")
    tab.wait_for_selector(".l-verdict", timeout=30_000)
    coding = tab.get_by_role("region", name="For a coding assistant")
    expect(coding).to_contain_text("Not sure")  # of one answer each
    expect(coding.locator(".l-method")).to_contain_text(re.compile(r"(dspark|ngram).*1\.[345]"))
    expect(tab.locator(".l-result .l-table tbody tr", has_text="no draft")).to_have_count(4)
    coding.get_by_role("button", name="Use this").click()
    expect(tab.locator("#l-learned")).to_contain_text("advised for coding")
    expect(coding.locator(".l-in-use")).to_be_visible()
    expect(tab.get_by_role("region", name="For a general chat").get_by_role("button")).to_be_visible()
    tab.get_by_role("tab", name="Machine").click()
    expect(tab.locator(".b-machine")).to_contain_text("Speculation has saved 4 min.")
    expect(tab.locator(".b-machine")).to_contain_text("Lost on prompt work")
    tab.locator(".b-machine .l-learned").get_by_role("button", name="Undo").click()
    expect(tab.locator(".b-machine .l-learned")).to_have_count(0)
    assert bench.memory.taken is None
    tab.get_by_role("tab", name="Lab").click()
    expect(tab.locator(".l-learned")).to_have_count(0)
    expect(coding.get_by_role("button", name="Use this")).to_be_visible()


def test_a_stopped_lab_is_gone_on_with_after_a_reload(bench: Bench, visitor: Visitor) -> None:
    pace(bench, plain={"rate": 60}, drafting={"rate": 60})
    tab = open_tab(bench, visitor)
    choose(tab, tokens=24, runs=5)
    chip(tab, "Text", "Prose").uncheck()
    chip(tab, "Temperature", "1").uncheck()
    tab.click(".r-go")
    expect(tab.locator(".l-running")).to_contain_text("answer 2 of 6", timeout=20_000)
    tab.reload()  # the lab goes on
    tab.wait_for_function("document.documentElement.dataset.ready === 'yes'")
    tab.get_by_role("tab", name="Lab").click()
    expect(tab.locator(".l-running")).to_contain_text(re.compile(r"answer [2-6] of 6"), timeout=20_000)
    tab.get_by_role("button", name="Stop after this answer").click()
    expect(tab.locator(".l-verdict")).to_contain_text("The lab was stopped", timeout=20_000)
    [kept] = bench.labs.list().labs
    before = bench.labs.load(kept.id).runs
    assert 0 < len(before) < 30
    pace(bench)
    expect(tab.locator(".l-standing")).to_contain_text("stopped")
    tab.locator(".l-resume").click()
    expect(tab.locator(".l-standing")).to_contain_text("complete", timeout=20_000)
    after = bench.labs.load(kept.id).runs
    assert (after[: len(before)], len(after)) == (before, 30)
    expect(tab.locator(".l-resume")).to_have_count(0)


def test_a_lab_waits_for_the_answer_and_can_be_called_off(bench: Bench, visitor: Visitor) -> None:
    pace(bench, plain={"rate": 15})
    tab = open_tab(bench, visitor)
    tab.get_by_role("tab", name="Chat").click()
    ask(tab, "Hello")
    tab.wait_for_selector(".b-running .b-text")
    tab.get_by_role("tab", name="Lab").click()
    expect(tab.locator("#l-setup .r-wait")).to_have_text(
        "An answer is running: the lab waits until it has ended."
    )
    tab.click("#l-setup .r-go")
    expect(tab.locator(".l-running .b-phase")).to_have_text("Waits for the running answer.")
    tab.get_by_role("button", name="Stop now").click()
    expect(tab.locator(".b-toast")).to_have_text("Stopped before the lab began.")
    expect(tab.locator("#l-setup")).to_be_visible()
    tab.get_by_role("tab", name="Chat").click()
    tab.keyboard.press("Escape")


def test_plots_say_in_words_and_shapes_what_the_tables_say(bench: Bench, visitor: Visitor) -> None:
    bench.labs.save(whole_lab())
    tab = open_tab(bench, visitor)
    tab.locator("#l-history .r-open").click()
    sweep = tab.get_by_role("img", name=re.compile("dspark on code, temperature 0. Best length 2"))
    expect(sweep.locator("title")).to_have_text("dspark on code, temperature 0")
    expect(sweep.locator("desc")).to_contain_text("length 2: 2.2")
    expect(sweep.locator("desc")).to_contain_text("100 % accepted, 15 % needed")
    assert sweep.locator("circle.l-full, rect.l-full, path.l-hollow").count() == 12  # speed, accepted, needed
    expect(sweep.locator(".l-ring")).to_have_count(2)
    assert {"best: 2", "■ accepted", "◇ needed", "┈ plain"} <= set(sweep.locator("text").all_text_contents())
    best = tab.locator("section[aria-label='Draft length'] tbody tr", has_text="best")
    expect(best.locator("th, td")).to_have_text(
        ["2 best", "233", re.compile("2.2.x"), re.compile(" to "), "100 %", "15 %"]
    )
    section = tab.get_by_role("region", name="Draft length")
    section.get_by_label("prose").check()
    expect(tab.get_by_role("img", name=re.compile("dspark on prose, temperature 0"))).to_be_visible()
    expect(section.locator("tbody tr", has_text="best")).to_contain_text("0 %")
    effect = tab.get_by_role("img", name=re.compile("Ratio to plain decoding on code by temperature"))
    expect(effect.locator("desc")).to_contain_text(re.compile(r"dspark 2: 2\.\d\d at 0, 1\.\d\d at 1"))
    assert (effect.locator("circle").count(), effect.locator("path.l-full").count()) == (4, 4)
    row = tab.locator("section[aria-label='Temperature'] tbody tr", has_text="dspark 8")
    expect(row).to_contain_text("25 %")
    for form, ending in (("Markdown", "md"), ("CSV", "csv"), ("JSON", "json")):
        tab.evaluate("document.querySelector('.r-export').open = true")
        with tab.expect_download() as waiting:
            tab.get_by_role("button", name=form).click()
        assert waiting.value.suggested_filename == f"lab a target 2023-11-14.{ending}"
        assert "dspark" in waiting.value.path().read_text("utf-8")
    tab.get_by_role("button", name="Delete the lab of").click()
    tab.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(tab.locator(".l-result")).to_have_count(0)
    expect(tab.locator("#l-history")).to_contain_text("Each lab is kept here")


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_narrow_and_wide_light_and_dark(bench: Bench, browser: Browser, width: int, scheme: str) -> None:
    bench.labs.save(whole_lab())
    bench.memory.use(whole_lab(), "coding")
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
    tab = open_tab(bench, Visitor(context, [], []))
    tab.locator("#l-history .r-open").click()
    tab.wait_for_selector(".l-plot circle")
    tab.wait_for_selector(".l-in-use:not([hidden])")
    tab.evaluate("document.querySelectorAll('.l-page details').forEach((it) => { it.open = true; })")
    assert tab.evaluate(
        "(width) => { const host = document.getElementById('b-lab-host');"
        " return document.documentElement.scrollWidth <= width && host.scrollWidth <= host.clientWidth; }",
        width,
    )
    for selector in (".l-takes", ".l-why", "#l-setup input:checked + span", ".l-sure", ".l-advice .b-primary:not([hidden])",
                     ".l-in-use:not([hidden])", ".l-table td", ".l-table .r-word", ".l-group-row th", ".l-key",
                     ".l-numbers td", ".l-learned p", ".l-standing", ".l-small"):  # fmt: skip
        assert tab.evaluate(LUMINANCE, selector) >= 4.5, selector
    plots = [plot.bounding_box() for plot in tab.locator(".l-plot").all()]
    assert all(box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width for box in plots)
    outside = """() => [...document.querySelectorAll('.l-plot')].flatMap((plot) => {
        const all = plot.getBoundingClientRect();
        return [...plot.querySelectorAll('text')].filter((it) => {
            const box = it.getBoundingClientRect();
            return box.left < all.left - 1 || box.right > all.right + 1;
        }).map((it) => it.textContent);
    })"""
    assert tab.evaluate(outside) == []
    context.close()
