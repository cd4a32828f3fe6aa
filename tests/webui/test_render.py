"""Answers as HTML: everything is shown, nothing is run."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webui.mathml import to_mathml
from webui.render import code, markdown

HTML_TAGS = (
    "p br a strong em s code pre div span button h3 h4 h5 h6 ul ol li blockquote hr table thead "
    "tbody tr th td math mrow mi mn mo ms mtext mspace mfrac msqrt mroot msub msup msubsup munder "
    "mover munderover mtable mtr mtd mstyle mpadded mphantom menclose merror mfenced "
    "mmultiscripts mprescripts none"
)
ALLOWED_TAGS = set(HTML_TAGS.split())


class Inventory(HTMLParser):
    """Which tags and attributes a browser would see, and that every tag is closed."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in {"br", "hr"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in {"br", "hr"}:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def inventory(html: str) -> Inventory:
    seen = Inventory()
    seen.feed(html)
    seen.close()
    assert seen.open == []
    return seen


def check_harmless(html: str) -> Inventory:
    seen = inventory(html)
    assert seen.tags <= ALLOWED_TAGS
    for tag, name, value in seen.attributes:
        assert not name.startswith("on"), (tag, name)
        assert name not in {"src", "srcset", "srcdoc", "action", "formaction", "xlink:href"}, (tag, name)
        if name == "href":
            assert value.startswith(("http://", "https://", "mailto:")), value
        if name == "style":
            assert re.fullmatch(r"text-align:(left|right|center)", value), value
    return seen


HOSTILE = [
    "<script>alert(1)</script>",
    "<style>body{display:none}</style>",
    "<img src=x onerror=alert(1)>",
    "text <b onmouseover=alert(1)>bold</b>",
    "![x](https://evil.example/pixel.png)",
    "![x](javascript:alert(1))",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:x)",
    "[x](/bonsai/quit)",
    "[x](//evil.example)",
    "[x](&#106;avascript:alert(1))",
    '[x](https://a.example "onmouseover=alert(1) \\" x=\\"")',
    '<https://a.example/"onmouseover=alert(1)>',
    "```<script>alert(1)</script>\ncode</code></pre><script>\n```",
    '```"><img src=x>\ncode\n```',
    "$\\text{<script>alert(1)</script>}$",
    "$$\\href{javascript:alert(1)}{x}$$",
    "$\\style{background:url(https://evil.example)}{x}$",
    "$\\class{b-danger}{x}$ $\\cssId{b-send}{y}$",
    "$\\text{&lt;img src=x onerror=alert(1)&gt;}$",
    "\\(\\text{</math><script>alert(1)</script>}\\)",
    "\\[ \\begin{matrix} <b> & \\unicode{x3c}script \\end{matrix} \\]",
    "| <script> | b |\n|---|---|\n| <img src=x> | [y](javascript:1) |",
    "[ref]\n\n[ref]: javascript:alert(1)",
    "<!-- comment --> <![CDATA[ x ]]> <?php x ?>",
    "<div\n\n<script>x</script>",
    "\x00<script>\x00",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markdown_takes_no_effect(text: str) -> None:
    check_harmless(markdown(text))


@given(
    st.lists(
        st.sampled_from([*HOSTILE, "\n", "\n\n", "`", "$", "$$", "> ", "- ", "  ", "|", "*", "\\["]),
        max_size=12,
    )
)
@settings(max_examples=150, deadline=None)
def test_no_mixture_of_hostile_pieces_takes_effect(pieces: list[str]) -> None:
    check_harmless(markdown("".join(pieces)))


@given(st.text(max_size=80))
@settings(max_examples=100, deadline=None)
def test_any_formula_is_harmless(latex: str) -> None:
    made = to_mathml(latex, block=False)
    if made is not None:
        check_harmless(made)


def test_markup_is_shown_as_the_person_would_have_seen_it() -> None:
    seen = inventory(markdown("<script>alert(1)</script> and <b>bold</b>"))
    assert seen.text.strip() == "<script>alert(1)</script> and <b>bold</b>"


def test_an_image_is_shown_as_its_source() -> None:
    assert (
        inventory(markdown("![alt](https://a.example/x.png)")).text.strip()
        == "![alt](https://a.example/x.png)"
    )


def test_links_open_elsewhere_and_tell_nothing() -> None:
    seen = inventory(markdown("[x](https://a.example/?a=1&b=2)"))
    assert ("a", "href", "https://a.example/?a=1&b=2") in seen.attributes
    assert ("a", "target", "_blank") in seen.attributes
    assert ("a", "rel", "noopener noreferrer nofollow") in seen.attributes


@pytest.mark.parametrize("language", ["python", "", "no-such-language", "html"])
def test_code_keeps_every_character(language: str) -> None:
    text = "\n\n    def f():\n\treturn '<b>'  \n\n  # end"
    shown = inventory(markdown(f"```{language}\n{text}\n```")).text
    assert text in shown


def test_python_is_coloured_by_classes_alone() -> None:
    html = code("def f():\n    return 1\n", "python")
    assert '<span class="hl-k">def</span>' in html
    assert "style=" not in html


def test_code_in_a_list_keeps_its_own_indentation() -> None:
    shown = inventory(markdown("- x\n\n  ```python\n  if a:\n      b\n  ```")).text
    assert "if a:\n    b\n" in shown


def test_tables_scroll_by_themselves_and_align() -> None:
    html = markdown("| a | b |\n|---|--:|\n| 1 | 2 |")
    assert html.startswith('<div class="b-table"')
    assert '<td style="text-align:right">2</td>' in html


def test_headings_begin_below_the_pages_own() -> None:
    assert '<h3 class="b-h1">' in markdown("# One")
    assert '<h6 class="b-h6">' in markdown("###### Six")


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("$x^2$", 1),
        ("$$x^2$$", 1),
        ("$$\nx^2\n$$", 1),
        (r"\(x^2\)", 1),
        (r"\[x^2\]", 1),
        ("\\[\nx\n= y\n\\]", 1),
        ("a $x$ and $y$", 2),
        ("It costs $5 or $6.", 0),
        ("between $5 and $10 a month", 0),
        ("US$5 and 6$ more", 0),
        ("an escaped \\$x\\$", 0),
        ("`$x$`", 0),
        ("```\n$x$\n```", 0),
        (r"an unclosed \(x", 0),
        ("$$ unclosed", 0),
        (r"a path \\(server\\)", 0),
    ],
)
def test_formulas_and_prices(text: str, formulas: int) -> None:
    assert markdown(text).count("<math") == formulas


@pytest.mark.parametrize("bad", [r"\frac{", r"\begin{matrix} 1", r"}{", r"\left( x", "x" * 6000])
def test_a_formula_that_cannot_be_read_is_shown_as_source(bad: str) -> None:
    html = markdown(f"$${bad}$$")
    if "<math" not in html:
        assert inventory(html).text.strip().strip("$") == bad


def test_line_breaks_are_kept() -> None:
    assert markdown("one\ntwo").count("<br") == 1


@pytest.mark.parametrize(
    "text",
    ["$" * 20000, "\\(" * 20000, "[" * 20000, "*a " * 20000, "> " * 5000, "$a" * 10000, "<" * 20000, "\\[\n" * 5000,
     "- " * 5000, "_*" * 10000, "$$\n" * 5001, "| a " * 5000 + "\n" + "|-" * 5000, "`a" * 10000, "![" * 10000],
)  # fmt: skip
def test_no_text_takes_long(text: str) -> None:
    began = time.perf_counter()
    markdown(text)
    assert time.perf_counter() - began < 5
