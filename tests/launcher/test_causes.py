"""The table of causes: every row is reached, says something useful, and stands any text."""

from __future__ import annotations

import importlib
import re
import string
from typing import Any

import pytest
import typer.main
from hypothesis import example, given
from hypothesis import strategies as st

from launcher import cli, settings
from launcher.supervise.cause import Cause
from launcher.supervise.causes import CAUSES, SUSPICIONS
from launcher.supervise.diagnose import LINE_CHARS, Diagnosis, diagnose, suspicions
from tests.launcher.diagnose_cases import (
    CAPTURED,
    CAPTURED_WITH_DRAFTER,
    COMPOSED,
    COMPOSED_WITH_DRAFTER,
    EXTRA,
    INLINE,
    assert_readable,
    log,
)

PARSER: Any = importlib.import_module("re._parser")
ROWS = [pytest.param(row, id=f"{at}-{row.name}") for at, row in enumerate((*CAUSES, *SUSPICIONS))]


# -- every row ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ROWS)
def test_templates_use_only_what_every_pattern_gives(row: Cause) -> None:
    fields = {
        name
        for text in (row.sentence, row.remedy)
        for _, name, _, _ in string.Formatter().parse(text)
        if name
    }
    wanted = fields - {"file", "part", "exit", "status"}
    for pattern in row.lines:
        assert wanted <= re.compile(pattern).groupindex.keys(), pattern
    assert not wanted or row.lines
    assert row.lines or row.exits, "a row without a condition would always hold"


@pytest.mark.parametrize("row", ROWS)
def test_remedies_say_what_to_do_with_names_that_exist(row: Cause) -> None:
    """Each begins with a verb that a person can follow, and names settings and commands of ours only."""
    verb = row.remedy.split()[0]
    assert verb in {
        "Check", "Choose", "Close", "Correct", "Fetch", "Give", "Install", "Keep", "Leave", "Look", "Make",
        "Remove", "Set", "Start", "Stop", "The", "Try", "Update",
    }  # fmt: skip
    known = {spec.env for spec in settings.SPECS}
    assert set(re.findall(r"BONSAI_\w+", row.remedy)) <= known
    names = typer.main.get_command(cli.app).commands.keys()  # type: ignore[attr-defined]
    assert set(re.findall(r"`bonsai (\w+)", row.remedy)) <= names
    engines = {name for spec in settings.SPECS if spec.name == "engine" for name in _engines(spec)}
    assert set(re.findall(r"BONSAI_ENGINE=([\w-]+)", row.remedy)) <= engines
    assert not re.search(r"sudo|spctl|exclusion", row.remedy)


def _engines(spec: settings.Spec) -> set[str]:
    for name in ("auto", "prism-legacy", "prism", "mainline", "embedded"):
        spec.parse(name)
    return {"auto", "prism-legacy", "prism", "mainline", "embedded"}


def test_every_row_is_reached_by_a_log_or_a_status_here() -> None:
    """A row that none of these meets would be untested, or hidden by one before it."""
    met = set[tuple[str, str]]()
    runs: list[tuple[str, int | None, bool, str]] = [
        *((log(n), r, False, "Linux") for n, (r, _, _) in CAPTURED.items()),
        *((log(n), r, True, "Linux") for n, (r, _, _) in CAPTURED_WITH_DRAFTER.items()),
        *((log(f"composed_{n}"), r, False, s) for n, (r, _, _, s) in COMPOSED.items()),
        *((log(f"composed_{n}"), r, True, s) for n, (r, _, _, s) in COMPOSED_WITH_DRAFTER.items()),
        *((t, r, False, s) for t, s, r, _ in INLINE),
        *((t, r, True, s) for t, s, r, _ in INLINE),
        *((t, 1, d, "Linux") for t, d in EXTRA),
    ]
    for text, returncode, with_drafter, system in runs:
        found = diagnose(returncode, text, with_drafter=with_drafter, system=system)
        assert_readable(found)
        met |= {(row.name, row.sentence) for row in CAUSES if _is(row, found)}
    assert {(row.name, row.sentence) for row in CAUSES} == met


def _is(row: Cause, found: Diagnosis) -> bool:
    parts = [re.escape(piece) for piece, *_ in string.Formatter().parse(row.sentence)]
    return row.name == found.cause and bool(re.fullmatch(".*".join(parts) + ".*", found.sentence))


# -- hostile text ---------------------------------------------------------------------------------------------


@given(st.text(), st.one_of(st.none(), st.integers(-(2**31), 2**32 - 1)), st.booleans())
@example("\x1b[31mCUDA error: out of memory\x1b[0m\r\n", -6, False)
@example("error: invalid argument: {0.__class__}{secret}\u2028\x00", 1, True)
def test_any_text_gives_one_printable_sentence(text: str, returncode: int | None, with_drafter: bool) -> None:
    for system in ("Linux", "Darwin", "Windows"):
        found = diagnose(returncode, text, with_drafter=with_drafter, system=system)
        assert found.sentence.isprintable()
        assert found.evidence.isprintable()
    for hint in suspicions(text):
        assert hint.sentence.isprintable()


@pytest.mark.parametrize("row", ROWS)
def test_no_pattern_repeats_a_repetition(row: Cause) -> None:
    """What makes a regular expression explode is an unbounded repetition inside another; there is none."""
    for pattern in (*row.lines, *row.also):
        assert _depth(PARSER.parse(pattern)) <= 1, pattern
        endless = re.match(r"(?:\(\?P<\w+>)?(?:\.|\\[SDWw]|\[[^]]*\])[*+]", pattern)
        assert not endless, "begins anywhere, then runs on"


def _depth(parsed: Any) -> int:
    """How many unbounded repetitions stand inside one another."""
    deepest = 0
    for op, value in parsed:
        if str(op) in {"MAX_REPEAT", "MIN_REPEAT"}:
            _, most, inner = value
            deepest = max(deepest, _depth(inner) + (most is PARSER.MAXREPEAT))
        elif str(op) == "SUBPATTERN":
            deepest = max(deepest, _depth(value[-1]))
        elif str(op) == "BRANCH":
            deepest = max([deepest, *(_depth(branch) for branch in value[1])])
    return deepest


def test_a_repetition_in_a_repetition_would_be_seen() -> None:
    assert _depth(PARSER.parse("x(?:a+b)*")) == 2


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece", ["a", " ", "'", "tensor '", "n_ctx ", "GGML_ASSERT(", "failed to open ", "a.c:1: ", ": "]
)
def test_lines_of_a_megabyte_are_cut_before_they_are_searched(piece: str) -> None:
    text = "\n".join([piece * (2**20 // len(piece))] * 3)
    found = diagnose(1, text, with_drafter=True, system="Linux")
    assert len(found.evidence) <= LINE_CHARS
    suspicions(text)
