"""The time ledger: what speculation saved and what reading again cost, known only where it can be known."""

from __future__ import annotations

import math
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from launcher.client.events import Timings
from launcher.errors import FileProblem
from launcher.ledger import (
    EARLIER,
    MOST_ROWS,
    MOST_SPEEDS,
    Book,
    Entry,
    Ledger,
    PlainSpeed,
    Row,
    Sums,
    entry_of,
)
from launcher.methods import PLAIN, Method
from launcher.store_shared import SharedFile

DSPARK = Method("draft-dspark", 4)
# 200 tokens in 2 s where plain decoding does 50 tokens/s: 2 s saved.
GAIN = Entry("target", DSPARK, tokens=200, decode_s=2.0, plain_tokens_per_second=50.0, at=1.75e9)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "data")


def test_an_empty_ledger_says_so_and_writes_nothing(ledger: Ledger, tmp_path: Path) -> None:
    summary = ledger.summary()
    assert (summary.net_s, summary.answers, summary.not_counted) == (0.0, 0, 0)
    assert summary.sentence == "No answer with speculation has been counted yet."
    assert not (tmp_path / "data").exists()


def test_saved_is_what_plain_decoding_would_have_taken_less_what_it_took(
    ledger: Ledger, tmp_path: Path
) -> None:
    ledger.add(GAIN)
    ledger.add(replace(GAIN, decode_s=3.0))
    summary = Ledger(tmp_path / "data").summary()
    assert summary.saved_s == pytest.approx(3.0)
    assert (summary.prompt_lost_s, summary.answers) == (0.0, 2)
    assert summary.sentence == "Over 2 answers speculation saved 3.0 s of decoding. Net: 3.0 s saved."


def test_a_loss_is_said_as_plainly(ledger: Ledger) -> None:
    ledger.add(replace(GAIN, decode_s=134.0))
    summary = ledger.summary()
    assert summary.net_s == pytest.approx(-130.0)
    assert summary.sentence == (
        "Over 1 answer speculation lost 2 min 10 s of decoding. Net: 2 min 10 s lost."
    )


@pytest.mark.case("E-11")
def test_the_conversation_that_is_read_again_is_charged(ledger: Ledger) -> None:
    """The third turn of a long chat: 3,000 of 3,100 prompt tokens were there before, and all are read again."""
    timings = Timings(
        prompt_tokens=3100,
        cached_tokens=0,
        prompt_tokens_per_second=1000.0,
        predicted_tokens=200,
        tokens_per_second=100.0,
        draft_n=200,
        draft_n_accepted=150,
    )
    entry = entry_of(timings, DSPARK, "target", before_tokens=3000, plain_tokens_per_second=50.0)
    assert entry is not None
    assert (entry.read_tokens, entry.again_tokens) == (3100, 3000)
    assert entry.prompt_s == pytest.approx(3.1)
    ledger.add(entry)
    summary = ledger.summary()
    assert summary.saved_s == pytest.approx(2.0)
    assert summary.prompt_lost_s == pytest.approx(3.0)  # the 100 new tokens had to be read in any case
    assert summary.net_s == pytest.approx(-1.0)
    assert "saved 2.0 s of decoding, and 3.0 s went into reading conversations again" in summary.sentence
    assert summary.sentence.endswith("Net: 1.0 s lost.")


@pytest.mark.parametrize(
    ("prompt", "cached", "before", "again"),
    [
        (100, 0, 0, 0),
        (3100, 3000, 3000, 0),
        (3100, 1000, 3000, 2000),
        (500, 0, 3000, 500),
        (3100, 3100, 3000, 0),
    ],
    ids=["first turn", "cached", "half cached", "trimmed", "all cached"],
)
def test_only_what_a_cache_would_have_kept_counts_as_read_again(
    prompt: int, cached: int, before: int, again: int
) -> None:
    timings = Timings(prompt, cached, 1000.0, 200, 100.0)
    entry = entry_of(timings, DSPARK, "target", before)
    assert entry is not None
    assert entry.again_tokens == again


def test_answers_without_a_speed_make_no_entry() -> None:
    assert entry_of(Timings(predicted_tokens=1, tokens_per_second=1e6), DSPARK, "target", 0) is None
    assert entry_of(Timings(predicted_tokens=50), DSPARK, "target", 0) is None
    unknown = entry_of(Timings(predicted_tokens=50, tokens_per_second=10.0), DSPARK, "target", 100)
    assert unknown is not None
    assert (unknown.prompt_s, unknown.again_tokens) == (0.0, 0)


def test_without_a_plain_speed_an_answer_waits_and_it_is_said(ledger: Ledger) -> None:
    ledger.add(replace(GAIN, plain_tokens_per_second=None))
    ledger.add(replace(GAIN, plain_tokens_per_second=None, what="another"))
    summary = ledger.summary()
    assert (summary.saved_s, summary.answers, summary.not_counted) == (0.0, 0, 2)
    assert "2 answers are not counted" in summary.sentence
    ledger.know_plain("target", 50.0, "a race")
    summary = ledger.summary()
    assert summary.saved_s == pytest.approx(2.0)
    assert (summary.answers, summary.not_counted) == (1, 1)
    assert "1 answer is not counted" in summary.sentence


def test_a_known_plain_speed_counts_what_comes_later(ledger: Ledger) -> None:
    ledger.know_plain("target", 50.0, "the warm-up")
    ledger.add(replace(GAIN, plain_tokens_per_second=None))
    assert ledger.summary().saved_s == pytest.approx(2.0)
    speed = ledger.plain_speed("target")
    assert speed is not None
    assert (speed.tokens_per_second, speed.source) == (50.0, "the warm-up")
    assert ledger.plain_speed("another") is None
    ledger.know_plain("target", 100.0, "a race")  # counted answers stay as they were counted
    assert ledger.summary().saved_s == pytest.approx(2.0)


@pytest.mark.parametrize(
    "entry",
    [
        replace(GAIN, method=PLAIN),
        replace(GAIN, tokens=0),
        replace(GAIN, decode_s=0.0),
        replace(GAIN, decode_s=math.nan),
        replace(GAIN, decode_s=math.inf),
        replace(GAIN, prompt_s=-1.0),
    ],
    ids=["plain", "no token", "no time", "no number", "endless", "negative"],
)
def test_what_cannot_be_counted_changes_nothing(ledger: Ledger, tmp_path: Path, entry: Entry) -> None:
    ledger.add(entry)
    assert not (tmp_path / "data").exists()


def test_sums_are_kept_by_month_target_and_method(ledger: Ledger) -> None:
    for entry in (GAIN, GAIN, replace(GAIN, method=Method("ngram-mod")), replace(GAIN, at=1.76e9)):
        ledger.add(entry)
    rows = ledger.rows()
    assert [(row.month, row.method, row.counted.answers) for row in rows] == [
        ("2025-06", "dspark 4", 2),
        ("2025-06", "ngram-mod", 1),
        ("2025-10", "dspark 4", 1),
    ]


@pytest.mark.parametrize("targets", [7, MOST_ROWS + 40], ids=["few targets", "a new target every time"])
def test_the_file_stays_small_and_no_second_is_lost(ledger: Ledger, tmp_path: Path, targets: int) -> None:
    """As many rows as there may be are there already; then come more."""
    file = tmp_path / "data" / "ledger.json"
    sums = Sums(1, 200, 2.0, 0.5)
    months = [f"{2000 + number // 12}-{number % 12 + 1:02d}" for number in range(MOST_ROWS)]
    rows = tuple(
        Row(month, f"target {number % targets}", "dspark 4", sums, 4.0, sums)
        for number, month in enumerate(months)
    )
    speeds = tuple(PlainSpeed(f"other {number}", 50.0, "a race") for number in range(MOST_SPEEDS))
    SharedFile(file, Book, "a test", "bonsai-ledger").change(lambda _: Book(rows, speeds))
    ledger.add(GAIN)
    ledger.add(replace(GAIN, at=1.9e9))
    found = ledger.rows()
    assert len(found) <= MOST_ROWS
    assert (found[0].month, found[-1].month) == (EARLIER, "2030-03")
    summary = ledger.summary()
    assert (summary.answers, summary.not_counted) == (MOST_ROWS + 2, MOST_ROWS)
    assert summary.saved_s == pytest.approx(2.0 * (MOST_ROWS + 2))
    ledger.know_plain("target", 50.0, "a race")
    assert ledger.plain_speed("other 0") is None
    assert ledger.plain_speed(f"other {MOST_SPEEDS - 1}") is not None
    if os.name == "posix":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "{", '{"format": "bonsai-ledger", "content": {"rows": 3}}'])
def test_a_broken_file_is_set_aside_and_a_new_one_begun(ledger: Ledger, tmp_path: Path, text: str) -> None:
    file = tmp_path / "data" / "ledger.json"
    file.parent.mkdir()
    file.write_text(text)
    ledger.add(GAIN)
    assert ledger.summary().answers == 1
    (aside,) = (path for path in file.parent.iterdir() if path.name.startswith("ledger.json.broken-"))
    assert aside.read_text() == text


def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(FileProblem) as problem:
        Ledger(tmp_path / "data").add(GAIN)
    assert problem.value.remedy


def test_two_processes_count_everything_once(ledger: Ledger, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from launcher.ledger import Ledger;"
        "from tests.launcher.test_ledger import GAIN\n"
        "ledger = Ledger(Path(sys.argv[1]))\n"
        "for _ in range(25): ledger.add(GAIN)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "data")]
    both = [subprocess.Popen(command, cwd=Path(__file__).parents[2]) for _ in range(2)]
    for _ in range(5):
        ledger.add(GAIN)
    assert [child.wait(60) for child in both] == [0, 0]
    summary = ledger.summary()
    assert summary.answers == 55
    assert summary.saved_s == pytest.approx(110.0)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["ledger.json"]


# -- files of before, and any order of events ------------------------------------------------------------------

BEFORE = """{"format": "bonsai-ledger", "version": 1, "content": {
 "rows": [
  {"month": "2025-06", "what": "cpu | target | drafter | mainline b1", "method": "dspark 4",
   "counted": {"answers": 2, "tokens": 400, "decode_s": 4.0, "again_s": 0.5}, "plain_s": 8.0,
   "waiting": {"answers": 1, "tokens": 100, "decode_s": 1.0, "again_s": 0.0}},
  {"month": "2025-07", "what": "target", "method": "dspark 4, p-min 0.5",
   "waiting": {"answers": 1, "tokens": 100, "decode_s": 1.0, "again_s": 0.25}}
 ],
 "speeds": [{"what": "cpu | target | drafter | mainline b1", "tokens_per_second": 50.0, "source": "a lab"}]}}"""


def test_a_file_of_before_is_read_and_gone_on_with(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "data" / "ledger.json"
    file.parent.mkdir()
    file.write_text(BEFORE)
    assert ledger.summary().net_s == pytest.approx(3.5)
    assert (ledger.summary().answers, ledger.summary().not_counted) == (2, 2)
    ledger.add(replace(GAIN, plain_tokens_per_second=None, method=Method("draft-dspark", 4, 0.5), at=1.752e9))
    ledger.know_plain("target", 50.0, "a race")
    summary = ledger.summary()
    assert [(row.month, row.method, row.counted.answers) for row in ledger.rows()] == [
        ("2025-06", "dspark 4", 2),
        ("2025-07", "dspark 4, p-min 0.5", 2),
    ]
    assert (summary.answers, summary.not_counted) == (4, 1)
    assert summary.saved_s == pytest.approx(4.0 + 1.0 + 2.0)
    assert summary.prompt_lost_s == pytest.approx(0.75)


WHATS, SECONDS = st.sampled_from(["one target", "another"]), st.floats(0.01, 1e4)
ENTRIES = st.builds(
    Entry,
    what=WHATS,
    method=st.sampled_from([PLAIN, DSPARK, Method("draft-dspark", 4, 0.5), Method("ngram-mod")]),
    tokens=st.integers(0, 5000),
    decode_s=SECONDS,
    read_tokens=st.integers(0, 5000),
    prompt_s=st.floats(0, 1e3),
    again_tokens=st.sampled_from([-500, 0, 1, 300, 6000]),
    plain_tokens_per_second=st.sampled_from([None, None, math.nan, 0.0, -1.0, 40.0]),
    at=st.sampled_from([1.75e9, 1.76e9]),
)
PLAIN_SPEEDS = st.builds(PlainSpeed, WHATS, SECONDS, st.just("a race"))


@settings(max_examples=30, deadline=None, phases=(Phase.generate,))  # each writes files: shrinking takes long
@given(events=st.lists(st.one_of(ENTRIES, PLAIN_SPEEDS), max_size=12))
def test_every_answer_is_counted_once_at_the_speed_known_then_or_first_known_later(
    tmp_path_factory: pytest.TempPathFactory, events: list[Entry | PlainSpeed]
) -> None:
    ledger = Ledger(tmp_path_factory.mktemp("any"))
    saved = lost = 0.0
    counted = waiting = 0
    for at, event in enumerate(events):
        if isinstance(event, PlainSpeed):
            ledger.know_plain(event.what, event.tokens_per_second, event.source)
            continue
        ledger.add(event)
        if event.method == PLAIN or event.tokens == 0:
            continue
        known = [one.tokens_per_second for one in events[:at] if priced(one, event)][-1:]
        known += [one.tokens_per_second for one in events[at:] if priced(one, event)][:1]
        speed = 40.0 if event.plain_tokens_per_second == 40.0 else known[0] if known else None
        if speed is None:
            waiting += 1
            continue
        counted += 1
        saved += event.tokens / speed - event.decode_s
        if event.read_tokens:
            again = min(max(event.again_tokens, 0), event.read_tokens)
            lost += event.prompt_s * again / event.read_tokens
    summary = ledger.summary()
    assert (summary.answers, summary.not_counted) == (counted, waiting)
    assert summary.saved_s == pytest.approx(saved, rel=1e-9, abs=1e-6)
    assert summary.prompt_lost_s == pytest.approx(lost, rel=1e-9, abs=1e-6)
    assert summary.net_s == pytest.approx(saved - lost, rel=1e-9, abs=1e-6)


def priced(one: Entry | PlainSpeed, entry: Entry) -> TypeGuard[PlainSpeed]:
    return isinstance(one, PlainSpeed) and one.what == entry.what


@given(
    prompt=st.none() | st.integers(0, 10_000),
    cached=st.none() | st.integers(0, 12_000),
    speed=st.none() | st.floats(1e-3, 1e6),
    tokens=st.integers(0, 10_000),
    rate=st.none() | st.floats(0, 1e6),
    before=st.integers(0, 20_000),
)
def test_no_more_is_charged_than_was_read(
    prompt: int | None, cached: int | None, speed: float | None, tokens: int, rate: float | None, before: int
) -> None:
    entry = entry_of(Timings(prompt, cached, speed, tokens, rate), DSPARK, "target", before)
    assert (entry is None) == (not rate or tokens < 2)
    if entry is not None and rate:
        assert 0 <= entry.again_tokens <= min(entry.read_tokens, before)
        assert entry.prompt_s == pytest.approx(entry.read_tokens / speed if speed else 0.0)
        assert entry.decode_s == pytest.approx(tokens / rate)
