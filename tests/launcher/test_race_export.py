"""What a race looks like outside: JSON of the documented shape, Markdown, and a card's data."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from launcher.race_export import card_data, race_json, race_markdown, set_json, set_markdown
from launcher.race_figures import by_kind, saved, sentence, side_figures, texts
from launcher.race_types import Prompt, Race
from tests.launcher.race_samples import race, rounds, run

ROUND = {
    "predicted_tokens", "tokens_per_second", "prompt_tokens_per_second", "time_to_first_token_s", "total_s",
    "draft_n", "draft_n_accepted", "acceptance", "acceptance_by_position",
}  # fmt: skip
SECRET = "the secret of the lighthouse"
APART = [
    run(0, 1, 100, text=f"{SECRET} is left", thinking=SECRET),
    run(1, 1, 120, text=f"{SECRET} is right", thinking=SECRET, blocks=[(4, 2)]),
]


def private() -> Race:
    return race(APART, prompt=Prompt(SECRET))


def test_the_documented_shape() -> None:
    made = json.loads(json.dumps(race_json(race()), allow_nan=False))
    assert made["order"] == ["plain", "dspark 4", "dspark 4", "plain", "plain", "dspark 4"]
    plain, dspark = made["sides"]
    assert (plain["name"], plain["method"]) == ("plain", "none")
    assert (dspark["name"], dspark["method"]) == ("dspark 4", "draft-dspark")
    assert len(plain["rounds"]) == len(dspark["rounds"]) == 3
    assert all(set(entry) >= ROUND for side in made["sides"] for entry in side["rounds"])
    assert plain["rounds"][0]["draft_n"] is None
    assert plain["rounds"][0]["acceptance"] is None
    assert plain["rounds"][0]["acceptance_by_position"] is None
    assert dspark["rounds"][0]["acceptance"] == 0.75
    assert dspark["rounds"][0]["acceptance_by_position"] == [1, 1, 1, 0]
    verdict = made["verdict"]
    assert set(verdict) >= {"ratio", "spread", "word", "identical", "first_difference", "warnings"}
    assert verdict["ratio"] == pytest.approx(1.5)
    low, high = verdict["spread"]
    assert low < verdict["ratio"] < high
    assert (verdict["word"], verdict["identical"], verdict["first_difference"]) == ("faster", True, None)


def test_what_was_cut_is_apart() -> None:
    cut = [*rounds((100, 150)), run(1, 2, 3, ended="failed", text="half")]
    made = race_json(race(cut, ended="failed", problem="dspark 4, round 2: gone."))
    assert made["order"] == ["plain", "dspark 4"]
    assert made["broken"] == [
        {"side": "dspark 4", "round": 2, "ended": "failed", "text": "half", "thinking": ""}
    ]
    assert made["problem"] == "dspark 4, round 2: gone."


def test_nothing_measured_is_null_not_zero() -> None:
    verdict = race_json(race([]))["verdict"]
    assert (verdict["ratio"], verdict["spread"], verdict["word"]) == (None, None, None)


@pytest.mark.parametrize("make", [race_json, card_data, race_markdown])
def test_texts_are_left_out_when_the_person_says_so(make: Any) -> None:
    assert SECRET in str(make(private(), with_texts=True))
    assert SECRET not in str(make(private(), with_texts=False))
    assert "secret" not in str(make(private(), with_texts=False))


@pytest.mark.parametrize("make", [race_json, card_data, race_markdown])
def test_folders_of_the_person_are_not_shown(make: Any) -> None:
    made = str(make(race()))
    assert "/home/person" not in made
    assert "Users" not in made


def test_a_card_can_replay() -> None:
    made = json.loads(json.dumps(card_data(race(), with_texts=False), allow_nan=False))
    for side in made["sides"]:
        for entry in side["rounds"]:
            assert [mark[0] for mark in entry["marks"]] == sorted(mark[0] for mark in entry["marks"])
            assert sum(mark[1] for mark in entry["marks"]) == len("one two three four")
    assert made["sides"][1]["rounds"][0]["steps"][0] == [0.0, 4, 3]
    assert made["sentences"]["verdict"] == sentence(race())
    assert made["files"] == {"target": "target.gguf", "drafter": "drafter.gguf"}


@pytest.mark.case("A-06")
def test_markdown_says_a_loss_as_plainly_as_a_gain() -> None:
    gain, loss = race_markdown(race()), race_markdown(race(rounds((100, 17), (100, 17))))
    assert "**dspark 4 is faster than plain: 1.50x (spread" in gain
    assert "**dspark 4 is slower than plain: 0.17x (spread" in loss
    assert "saved for this answer" in gain
    assert "lost for this answer" in loss
    assert "| acceptance | – | 75% |" in gain
    assert "| acceptance by position | – | 100% 100% 100% 0% |" in gain
    assert "A B B A A B" in gain
    assert "a processor" in gain


def test_markdown_shows_where_texts_part() -> None:
    made = race_markdown(private())
    assert "is left" in made
    assert "is right" in made
    assert "Neither is wrong" in made


def test_markdown_says_that_practice_is_no_model() -> None:
    sides = tuple(replace(side, practice=True) for side in race().sides)
    assert "not a language model" in race_markdown(race(sides=sides))
    assert "not a language model" not in race_markdown(race())


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (race(), "identical"),
        (private(), "part at token"),
        (replace(race(), verdict=replace(race().verdict, identical=None)), "above temperature 0"),
        (race([]), ""),
    ],
)
def test_a_sentence_on_the_texts(made: Race, words: str) -> None:
    assert words in texts(made)


def test_no_verdict_is_said() -> None:
    assert "no verdict" in sentence(race([]))
    assert saved(race([]).verdict) == ""
    assert "1 round)" in sentence(race(rounds((1, 2))))
    assert sentence(race(rounds((1, 1), (1, 1)))).startswith(
        "No difference between dspark 4 and plain: 1.00x"
    )


def test_medians_of_a_side() -> None:
    figures = side_figures(race(rounds((100, 150), (90, 300), (80, 120))), 1)
    assert (figures.tokens_per_second, figures.rounds, figures.predicted_tokens) == (150, 3, 100)
    assert figures.acceptance == 0.75
    assert figures.tokens_per_step == 4
    assert side_figures(race([]), 0).tokens_per_second is None


def of(kind: str, *rates: tuple[float, float]) -> Race:
    return race(rounds(*rates), prompt=Prompt("x", kind))


def test_a_table_by_kind() -> None:
    races = [of("code", (100, 150), (100, 150)), of("prose", (100, 60), (100, 62)), of("code", (100, 170))]
    code, prose = by_kind(races)
    assert (code.kind, code.races, code.rates, code.ratio, code.word) == (
        "code",
        2,
        (100, 150),
        1.5,
        "faster",
    )
    assert (prose.kind, prose.word) == ("prose", "slower")
    made = set_json(races)
    assert [row["kind"] for row in made["kinds"]] == ["code", "prose"]
    assert len(made["races"]) == 3
    text = set_markdown(races)
    assert "| code | 100.0 | 150.0 | 1.50x |" in text
    assert "| slower | 75% |" in text
    assert by_kind([]) == ()
    assert set_markdown([]) == "No race was run.\n"
    assert by_kind([race([], prompt=Prompt("x"))])[0].word == ""
