"""One line of the config file changes; whatever else a person wrote there stays."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.config_edit import with_value

KEYS = ("ctx", "port", "drafter", "kv4", "family")
COMMENT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20).map(lambda it: f"#{it}")
SPACE = st.sampled_from(["", " ", "\t", "  "])
VALUE = st.one_of(
    st.integers(0, 10**6).map(str),
    st.booleans().map(lambda it: str(it).lower()),
    st.text("aZ 0#'/é日", max_size=12).map(lambda it: f'"{it}"'),
    st.text('bY 1#"/é日', max_size=12).map(lambda it: f"'{it}'"),
    st.sampled_from(['"""x # y"""', "'''model = 1'''", '"""\\\nmodel = \\"9B\\" """', '"\\"# no comment"']),
)


@st.composite
def lines_of_others(draw: st.DrawFn) -> list[str]:
    """Without a line for the model."""
    keys = draw(st.lists(st.sampled_from(KEYS), unique=True))
    lines = [f"{draw(SPACE)}{key}{draw(SPACE)}={draw(SPACE)}{draw(VALUE)}{draw(SPACE)}" for key in keys]
    lines = [f"{line}{draw(COMMENT)}" if draw(st.booleans()) else line for line in lines]
    for _ in range(draw(st.integers(0, 3))):
        extra = draw(st.one_of(COMMENT, SPACE, st.just('# model = "4B"')))
        lines.insert(draw(st.integers(0, len(lines))), extra)
    return lines


def joined(lines: Sequence[str], newline: str, ends: bool) -> str:
    return newline.join(line.replace("\n", newline) for line in lines) + (newline if ends and lines else "")


@given(
    others=lines_of_others(),
    own=st.one_of(
        st.none(),
        st.tuples(
            st.sampled_from(["model", '"model"', "'model'"]),
            SPACE,
            st.sampled_from(['"27B"', "'27B'", '"""27B"""', "'''x'''", '"a#b"']),
            st.one_of(st.just(""), COMMENT),
        ),
    ),
    place=st.integers(0, 9),
    newline=st.sampled_from(["\n", "\r\n"]),
    ends=st.booleans(),
    value=st.one_of(st.none(), st.sampled_from(["8B", "1.7B", "qwen2.5-coder-7b"])),
)
def test_every_other_line_survives(
    others: list[str],
    own: tuple[str, str, str, str] | None,
    place: int,
    newline: str,
    ends: bool,
    value: str | None,
) -> None:
    at = min(place, len(others))
    mine = [] if own is None else [f"{own[0]}{own[1]}={own[1]}{own[2]}{own[1]}{own[3]}"]
    text = joined([*others[:at], *mine, *others[at:]], newline, ends)
    before = tomllib.loads(text)
    after = with_value(text, "model", value)
    assert after is not None
    expected = {key: it for key, it in before.items() if key != "model"}
    assert tomllib.loads(after) == (expected if value is None else expected | {"model": value})
    # Byte by byte, and in order: what stands before and behind the one line is what stood there.
    head, tail = joined(others[:at], newline, True), joined(others[at:], newline, ends)
    if own is None:
        assert after.startswith(text)
        assert len(after.splitlines()) <= len(text.splitlines()) + 1
    else:
        assert after.startswith(head)
        assert after.endswith(tail)
        assert own[3] in after
    assert "\r\n" not in after or newline == "\r\n" or "\r\n" in text


@pytest.mark.parametrize(
    ("text", "value", "after"),
    [
        ("", "8B", 'model = "8B"\n'),
        ("ctx = 4096", "8B", 'ctx = 4096\nmodel = "8B"\n'),
        ("ctx = 4096\r\n", "8B", 'ctx = 4096\r\nmodel = "8B"\r\n'),
        ('# mine\nmodel="27B"   # large\nport = 1\n', "8B", '# mine\nmodel="8B"   # large\nport = 1\n'),
        ('# mine\nmodel="27B"   # large\nport = 1\n', None, "# mine\n# large\nport = 1\n"),
        ("model = '27B'\r\nport = 1", None, "port = 1"),
        ("port = 1\nmodel = '27B'", None, "port = 1\n"),
        ('model = "8B"', "8B", 'model = "8B"'),
        ("# model = 1\n", None, "# model = 1\n"),
        ('model = "a\\"b" # c', "8B", 'model = "8B" # c'),
    ],
)
def test_what_becomes_of_a_file(text: str, value: str | None, after: str) -> None:
    assert with_value(text, "model", value) == after


def test_a_line_within_a_longer_text_is_not_taken_for_the_model() -> None:
    longer = 'drafter = """\\\nmodel = "9B" # \\\n"""\n'
    assert with_value(f'{longer}model = "27B"\n', "model", "8B") == f'{longer}model = "8B"\n'
    assert with_value(f'{longer}model = "27B"\n', "model", None) == longer
    assert with_value(longer, "model", "8B") == f'{longer}model = "8B"\n'


def test_what_cannot_be_changed_alone_is_left_alone() -> None:
    assert with_value('model = """\\\n27B"""\nport = 1\n', "model", "8B") is None
