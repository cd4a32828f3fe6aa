"""Pieces of Markdown."""

from __future__ import annotations

import pytest

from launcher.markdown import closed, fenced, table


def test_a_table() -> None:
    made = table(("text", "tokens/s", ""), [("code", "61.3", "best"), ("prose", "55.0", "")], right={1})
    assert made == (
        "| text | tokens/s | |\n"
        "|---|---:|---|\n"
        "| code | 61.3 | best |\n"
        "| prose | 55.0 | |"
    )  # fmt: skip


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert table(("a|b",), [("c|d",)]) == "| a\\|b |\n|---|\n| c\\|d |"


def test_nothing_in_a_text_ends_its_fence() -> None:
    assert fenced("a\n````\nb") == "`````text\na\n````\nb\n`````"


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("no code", ""),
        ("```\na\n```", ""),
        ("```py\na", "\n```"),
        ("````md\n```\nb\n```", "\n````"),
        ("~~~\na\n```", "\n~~~"),
        ("   ```\na", "\n```"),
        ("    ```\nindented, no fence", ""),
        ("```inline``` code", ""),
        ("```\na\n``` x", "\n```"),
        ("```\na\n```\n```\nb", "\n```"),
    ],
)
def test_an_open_fence_is_closed(text: str, end: str) -> None:
    assert closed(text) == text + end
