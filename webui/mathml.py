"""LaTeX -> MathML that is safe to put into a page: an element tree, written out by ourselves."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

if TYPE_CHECKING:
    from collections.abc import Iterator


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LONGEST = 5_000  # characters; a formula longer than this is shown as source

# Everything the converter makes is MathML Core or presentational; what else may come out of hostile
# source (links, styles, actions) is dropped and only its content kept.
_TAGS = _words(
    "math mrow mi mn mo ms mtext mspace mfrac msqrt mroot msub msup msubsup munder mover "
    "munderover mmultiscripts mprescripts none mtable mtr mtd mlabeledtr mstyle mpadded mphantom "
    "menclose merror mfenced semantics"
)
_ATTRIBUTES = _words(
    "display displaystyle scriptlevel mathvariant mathsize stretchy fence separator form lspace "
    "rspace movablelimits accent accentunder linethickness largeop symmetric minsize maxsize "
    "width height depth voffset columnalign rowspacing columnspacing columnlines rowlines frame "
    "notation open close separators columnspan rowspan align"
)


def to_mathml(latex: str, *, block: bool) -> str | None:
    """MathML for ``latex`` (without its delimiters), or None when it cannot be read.

    The converter's own text output turns escaped markup back into live markup, so its tree is
    written out here instead: known elements and attributes only, every text escaped.
    """
    if not latex.strip() or len(latex) > LONGEST:
        return None
    from latex2mathml.converter import convert_to_element

    try:
        tree = convert_to_element(latex, display="block" if block else "inline")
        return "".join(_write(tree))
    except Exception:
        # The converter signals bad input by its own errors, but also by IndexError, KeyError,
        # TypeError and RecursionError: whatever it raises, the source is shown instead.
        return None


def _write(element: Element) -> Iterator[str]:
    known = element.tag in _TAGS
    if known:
        attributes = "".join(
            f' {name}="{html.escape(html.unescape(value), quote=True)}"'
            for name, value in element.attrib.items()
            if name in _ATTRIBUTES
        )
        yield f"<{element.tag}{attributes}>"
    yield _text(element.text)
    for child in element:
        yield from _write(child)
        yield _text(child.tail)
    if known:
        yield f"</{element.tag}>"


def _text(text: str | None) -> str:
    # The converter stores symbols as character references ("&#x0002B;").
    return html.escape(html.unescape(text), quote=False) if text else ""
