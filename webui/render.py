"""Markdown of an answer -> HTML that shows everything and runs nothing."""

from __future__ import annotations

import html
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from webui.mathml import to_mathml

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

_LINKS = ("http://", "https://", "mailto:")
_DOLLARS = re.compile(
    r"\$\$(?P<double>(?:[^$\\]|\\.){1,5000}?)\$\$|\$(?P<single>(?![\s$])(?:[^$\\\n]|\\.|\n(?!\n)){1,2000}?)(?<!\s)\$(?!\w)",
    re.DOTALL,
)
_PRICE = re.compile(r"\d[\d.,]*[^\\]*\s[A-Za-z]{2,}[^\\]*$")  # "5 and 6": an amount and words
_HIGHLIGHT_UP_TO = 60_000  # characters of one code block; a longer one is shown without colours


def escape(text: str) -> str:
    """``text`` for use between tags or inside a double-quoted attribute."""
    return html.escape(text, quote=True)


@lru_cache(maxsize=256)
def markdown(text: str) -> str:
    """HTML of one answer. HTML in it is shown as text, images as their source, foreign links are marked.

    Line breaks are kept as breaks, so that an answer looks the same before and after it is complete.
    """
    return str(_parser().render(text))


def running(text: str) -> str:
    """The same for a text that will change in a moment, and is not worth remembering."""
    return str(_parser().render(text))


def code(text: str, language: str) -> str:
    """A code block with its language and a copy button (which a script outside brings to life)."""
    name = (language.split(maxsplit=1) or [""])[0]
    label = escape(name or "text")
    body = _highlight(text, name)
    return (
        f'<div class="b-code"><div class="b-code-head"><span>{label}</span>'
        f'<button type="button" class="b-copy-code" aria-label="Copy code">Copy</button></div>'
        f'<pre tabindex="0"><code>{body}</code></pre></div>\n'
    )


def _highlight(text: str, language: str) -> str:
    if not language or len(text) > _HIGHLIGHT_UP_TO:
        return escape(text)
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return escape(text)
    return str(highlight(text, lexer, HtmlFormatter(nowrap=True, classprefix="hl-")))


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    # Imported late: the page's first byte must not wait for a Markdown parser.
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "breaks": True})
    parser.enable(["table", "strikethrough"])
    dollarmath_plugin(parser, allow_space=False, allow_digits=False, allow_labels=False, double_inline=True)
    parser.inline.ruler.at("math_inline", _dollar_math)
    parser.inline.ruler.before("escape", "bracket_math", _bracket_math)
    parser.block.ruler.before("fence", "bracket_math_block", _bracket_math_block, {"alt": ["paragraph"]})
    parser.validateLink = lambda url: url.strip().lower().startswith(_LINKS)  # type: ignore[method-assign]
    for name, rule in _RULES.items():
        parser.add_render_rule(name, rule)
    return parser


def _dollar_math(state: StateInline, silent: bool) -> bool:
    """``$…$`` and ``$$…$$`` inside a line of text, but not prices: neither side stands at a word or a blank."""
    found = _DOLLARS.match(state.src, state.pos)
    before = state.src[state.pos - 1] if state.pos else " "
    if found is None or before.isalnum() or before in "$\\":
        return False
    source = found["double"] or found["single"]
    if _PRICE.match(source) and not found["double"]:
        return False
    if not silent:
        token = state.push("math_inline_double" if found["double"] else "math_inline", "math", 0)
        token.content = source
        token.markup = "$$" if found["double"] else "$"
    state.pos = found.end()
    return True


def _bracket_math(state: StateInline, silent: bool) -> bool:
    r"""``\( … \)`` and ``\[ … \]`` inside a line of text."""
    opening = state.src[state.pos : state.pos + 2]
    closing = {"\\(": "\\)", "\\[": "\\]"}.get(opening)
    if closing is None:
        return False
    end = state.src.find(closing, state.pos + 2, state.pos + 2 + 5_000)
    if end < 0:
        return False
    if not silent:
        name = "math_inline" if opening == "\\(" else "math_inline_double"
        token = state.push(name, "math", 0)
        token.content = state.src[state.pos + 2 : end]
        token.markup = opening
    state.pos = end + 2
    return True


def _bracket_math_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    r"""A line that begins with ``\[``, up to the line that ends with ``\]``."""
    if state.is_code_block(start):
        return False
    first = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]]
    if not first.startswith("\\["):
        return False
    for line in range(start, min(end, start + 100)):
        text = state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].rstrip()
        if line > start and state.sCount[line] < state.blkIndent:
            return False
        if text.endswith("\\]") and not (line == start and len(text) < 4):
            if not silent:
                token = state.push("math_block", "math", 0)
                token.content = state.getLines(start, line + 1, state.blkIndent, False).strip()[2:-2]
                token.markup = "\\["
                token.map = [start, line + 1]
            state.line = line + 1
            return True
    return False


def _math(source: str, opening: str, *, block: bool) -> str:
    closing = {"\\[": "\\]", "\\(": "\\)"}.get(opening, opening)
    made = to_mathml(source, block=block)
    if made is None:
        return f'<code class="b-latex">{escape(opening + source + closing)}</code>'
    return f'<div class="b-math">{made}</div>' if block else made


def _math_inline(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:
    return _math(tokens[at].content, tokens[at].markup or "$", block=False)


def _math_display_inline(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:
    made = _math(tokens[at].content, tokens[at].markup or "$$", block=True)
    return made.replace("<div", "<span").replace("</div>", "</span>")


def _math_block(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:
    return _math(tokens[at].content.strip("\n"), tokens[at].markup or "$$", block=True) + "\n"


def _fence(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:
    return code(tokens[at].content, html.unescape(tokens[at].info.strip()))


def _image(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:
    source = tokens[at].attrGet("src") or ""
    return escape(f"![{tokens[at].content}]({source})")


def _link_open(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    tokens[at].attrSet("rel", "noopener noreferrer nofollow")
    tokens[at].attrSet("target", "_blank")
    return str(self.renderToken(tokens, at, options, env))


def _heading(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:
    # The page's own headings are h1 and h2; an answer's begin below them.
    level = min(int(tokens[at].tag[1]) + 2, 6)
    if tokens[at].nesting == 1:
        return f'<h{level} class="b-h{tokens[at].tag[1]}">'
    return f"</h{level}>\n"


def _table_open(*_: Any) -> str:
    return '<div class="b-table" tabindex="0" role="group" aria-label="Table"><table>\n'


def _table_close(*_: Any) -> str:
    return "</table></div>\n"


_RULES: dict[str, Any] = {
    "math_inline": _math_inline,
    "math_inline_double": _math_display_inline,
    "math_block": _math_block,
    "fence": _fence,
    "code_block": _fence,
    "image": _image,
    "link_open": _link_open,
    "heading_open": _heading,
    "heading_close": _heading,
    "table_open": _table_open,
    "table_close": _table_close,
}
