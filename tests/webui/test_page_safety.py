"""The page in a real browser: what an answer contains is shown and has no effect; nobody else is asked for anything."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.webui.conftest import StartPage, Visitor, answered, ask

pytestmark = [pytest.mark.browser]

HOSTILE = """\
<script>window.hit = 1</script>
<style>body { display: none !important }</style>
<img src="https://evil.example/pixel.png" onerror="window.hit = 2">

![pixel](https://evil.example/pixel.png)

[click](javascript:window.hit=3) and [fine](https://ok.example/page)

$\\text{<img src=x onerror=window.hit=4>}$

```html
<script>window.hit = 5</script>
```

<iframe src="https://evil.example"></iframe>
<div id="b-send" class="b-dialog" style="position:fixed;inset:0">over everything</div>
"""


@pytest.mark.parametrize("tint", [False, True])
def test_markup_in_an_answer_is_shown_and_not_run(
    start_page: StartPage, visitor: Visitor, tint: bool
) -> None:
    page = start_page(text=HOSTILE, rate=80, thinking_tokens=3, blocks=((4, 2),) if tint else ())
    tab = visitor.visit(page)
    if tint:
        tab.click("#b-tint")
    ask(tab, "<img src=x onerror=window.hit=6><b>bold?</b>")
    tab.wait_for_function("document.querySelector('.b-running .b-text')?.textContent.length > 150")
    during = tab.locator(".b-running .b-text").inner_text()
    assert "<script>window.hit = 1</script>" in during
    answered(tab)
    tab.reload()
    tab.wait_for_selector(".b-answer .b-text", timeout=30_000)
    text = tab.locator(".b-answer .b-text").inner_text()
    for piece in ("<script>window.hit = 1</script>", "<style>", "onerror", "![pixel](https://evil.example/pixel.png)",
                  "<iframe", "over everything"):  # fmt: skip
        assert piece in text
    assert tab.evaluate("window.hit") is None
    expect(tab.locator(".b-bubble")).to_have_text("<img src=x onerror=window.hit=6><b>bold?</b>")
    expect(tab.locator("#b-log :is(img, script, style, iframe, link)")).to_have_count(0)
    expect(tab.locator("#b-send")).to_have_count(1)
    if not tint:
        link = tab.locator(".b-answer .b-text a")
        expect(link).to_have_count(1)
        expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    assert {urlsplit(url).netloc for url in visitor.requests if not url.startswith(("data:", "blob:"))} == {
        f"127.0.0.1:{page.port}"
    }


def test_hostile_titles_and_thoughts(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text="Fine.", rate=200)
    title = "<img src=x onerror=window.hit=1>"
    tab = visitor.visit(page)
    ask(tab, title)
    answered(tab)
    expect(tab.locator(".b-item-open")).to_have_text(title)
    expect(tab.locator("#b-title")).to_have_text(title)
    tab.hover(".b-item")
    tab.click(".b-item .b-icon")
    tab.get_by_role("menuitem", name="Delete").click()
    expect(tab.get_by_role("dialog")).to_contain_text(title)
    assert tab.evaluate("window.hit") is None


@pytest.mark.case("E-04")
@pytest.mark.case("E-03")
def test_nobody_else_is_asked_for_anything(start_page: StartPage, visitor: Visitor) -> None:
    page = start_page(text="Fine.", rate=200)
    tab = visitor.visit(page)
    ask(tab, "Hello")
    answered(tab)
    tab.click("#b-settings-open")
    tab.get_by_role("tab", name="Machine").click()
    expect(tab.locator("#b-machine")).to_contain_text("Quit")
    tab.reload()
    tab.wait_for_function("document.documentElement.dataset.ready === 'yes'", timeout=30_000)
    others = [url for url in visitor.requests if not url.startswith((page.url + "/", "data:", "blob:"))]
    assert others == []


def test_another_site_cannot_use_the_page(start_page: StartPage, visitor: Visitor) -> None:
    """A page on another port of this machine is another site to the browser; it tries what it can."""
    page = start_page(text="Fine.", rate=200)
    visitor.visit(page).close()
    other = start_page(text="Fine.", rate=200)
    tab = visitor.visit(other)
    outcome = tab.evaluate(
        """async (target) => {
            const attempts = [
                ["POST", "/bonsai/engine", { method: "POST", body: "{}", mode: "no-cors", credentials: "include" }],
                ["GET", "/bonsai/conversations", { credentials: "include" }],
            ];
            const seen = [];
            for (const [, path, options] of attempts) {
                try { const r = await fetch(target + path, options); seen.push(r.type + r.status); }
                catch { seen.push("refused"); }
            }
            return seen;
        }""",
        page.url,
    )
    assert outcome == ["refused", "refused"]
    assert page.lifecycle.started == []
    visitor.errors.clear()  # the browser's own report of what it refused
