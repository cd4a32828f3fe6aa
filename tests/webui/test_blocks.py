"""The running answer, block by block, ends as the same HTML that the whole answer makes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webui.blocks import Blocks, utf16
from webui.render import markdown


class Screen:
    """What the page does with the operations, in Python."""

    def __init__(self) -> None:
        self.blocks: list[str] = []
        self.tail = ""
        self.shown = ""  # the block in progress

    def apply(self, text: str, ops: list[list[object]]) -> None:
        self.tail += text
        for kind, length, value in ops:
            assert isinstance(length, int)
            if kind == "b":
                self.blocks.append(str(value))
                units = self.tail.encode("utf-16-le", "surrogatepass")
                assert length * 2 <= len(units)
                self.tail = units[length * 2 :].decode("utf-16-le", "surrogatepass")
            elif kind == "p":
                assert length <= utf16(self.tail)
                self.shown = str(value)


def stream(text: str, size: int) -> Screen:
    blocks, screen = Blocks(), Screen()
    for at in range(0, len(text), size):
        piece = text[at : at + size]
        blocks.feed(piece)
        screen.apply(piece, blocks.ops(float(at)))
    screen.apply("", blocks.finish())
    assert screen.tail == ""
    return screen


TEXTS = [
    "One line.",
    "A paragraph\nof two lines.\n\nAnother one.\n",
    "# Title\nText right below.\n\n## Next\n\nMore.",
    "Before:\n```python\nx = 1\n\ny = 2\n```\nAfter.",
    "~~~\nwaves\n```\nstill code\n~~~\n",
    "````\n```\nnested marks\n```\n````\n\nend",
    "- one\n- two\n\n- three after a blank line\n\nA paragraph.",
    "1. first\n\n   more of it\n\n2. second\n\n```\ncode\n```\n",
    "- item\n\n  ```py\n  x\n\n  y\n  ```\n- next\n\nEnd.",
    "| a | b |\n|---|--:|\n| 1 | 2 |\n\nAfter the table.",
    "> quoted\n> more\n\n> another\n\nplain",
    "Text\n\n    indented code\n\n    goes on\n\nText",
    "$$\n\\frac12\n$$\n\nand $x$ then\n\n\\[\ny\n\\]\n",
    "unfinished ```code",
    "```\nnever closed\n\nat all",
    "😀 emoji **bold 😀**\n\n```\n😀\n```\n\n- 😀\n",
    "Setext\n---\n\ntext\n\n***\n\nend",
    "\n\n\nblank lines first\n\n\n\nand between\n\n\n",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_the_blocks_together_are_the_answer(text: str, size: int) -> None:
    assert "".join(stream(text, size).blocks) == markdown(text)


@pytest.mark.case("E-01")
def test_finished_blocks_come_before_the_end() -> None:
    blocks = Blocks()
    blocks.feed("First.\n\nSecond paragraph is under way")
    assert [op[0] for op in blocks.ops(0.0)] == ["b", "p"]
    blocks.feed("\n\n```js\nlet x")
    assert [op[0] for op in blocks.ops(1.0)] == ["b", "c"]
    blocks.feed(" = 1\n```\n")
    (done,) = blocks.ops(2.0)
    assert done[0] == "b"
    assert "hl-" in str(done[2])


@pytest.mark.parametrize("mark", ["-", "--", "#", "1.", "`", "``", ">", "|", "*", "=", "$$", "\\["])
def test_a_mark_that_may_become_anything_is_not_shown_yet(mark: str) -> None:
    blocks, screen = Blocks(), Screen()
    blocks.feed("A paragraph\n" + mark)
    screen.apply("A paragraph\n" + mark, blocks.ops(0.0))
    assert screen.shown == "<p>A paragraph</p>\n"


@pytest.mark.case("E-01")
def test_a_long_block_is_drawn_less_often() -> None:
    blocks = Blocks()
    drawn = 0
    for step in range(100):
        blocks.feed("word " * 20)
        drawn += any(op[0] == "p" for op in blocks.ops(step * 0.06))
    assert 5 < drawn < 40


PIECES = [
    "a",
    " ",
    "\n",
    "\n\n",
    "# ",
    "- ",
    "1. ",
    "```",
    "```py\n",
    "~~~",
    "> ",
    "|",
    "|-|\n",
    "    ",
    "**",
    "$$",
    "\\[",
    "😀",
]


@given(st.lists(st.sampled_from(PIECES), max_size=30), st.integers(1, 7))
@settings(max_examples=200, deadline=None)
def test_no_text_is_lost_whatever_it_is(pieces: list[str], size: int) -> None:
    text = "".join(pieces)
    screen = stream(text, size)
    # Blocks may be cut differently from the whole in odd texts (the whole is shown in the end), but every
    # word of the answer is on show.
    assert "".join(screen.blocks).count("a") >= text.count("a")
