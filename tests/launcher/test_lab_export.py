"""A lab as JSON, CSV and Markdown: the documented fields, the seeds' table, no folders, no answers."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from launcher.lab_export import COLUMNS, lab_csv, lab_json, lab_markdown, share, sweep_rows, table_rows
from launcher.lab_stats import sweeps
from launcher.lab_types import Lab, Refused
from launcher.methods import PLAIN, Method
from tests.launcher.lab_samples import lab, measured

D2, D4, TABLE = Method("draft-dspark", 2), Method("draft-dspark", 4), Method("ngram-mod")


@pytest.fixture
def whole() -> Lab:
    made = measured(
        {
            ("code", PLAIN, 0.0): [100.0, 100.0, 101.0],
            ("code", D2, 0.0): [140.0, 141.0, 140.0],
            ("code", D4, 0.0): [160.0, 161.0, 160.0],
            ("prose", PLAIN, 1.0): [100.0],
            ("prose", D4, 1.0): [90.0],
        }
    )
    return replace(made, failures=(Refused(TABLE, "It died."),))


def test_the_documented_fields(whole: Lab) -> None:
    made = json.loads(json.dumps(lab_json(whole), allow_nan=False))
    cell = made["cells"][1]
    assert (cell["kind"], cell["method"], cell["n_max"], cell["temperature"]) == (
        "code",
        "draft-dspark",
        2,
        0.0,
    )
    assert cell["ratio"] == pytest.approx(1.4)
    assert cell["spread"][0] < 1.4 < cell["spread"][1]
    assert (cell["acceptance"], cell["identical"], cell["runs"]) == (0.75, True, 3)
    assert made["cells"][0]["method"] == "none"
    assert made["cells"][-1]["identical"] is None
    sweep = made["sweep"][0]
    assert [point["n_max"] for point in sweep["points"]] == [2, 4]
    assert (sweep["kind"], sweep["best"]) == ("code", 4)
    assert set(made["advice"]) == {"coding", "chat"}
    assert {"method", "n_max", "text", "sure"} <= set(made["advice"]["coding"])
    assert (made["advice"]["coding"]["method"], made["advice"]["coding"]["n_max"]) == ("draft-dspark", 4)
    assert made["refused"][0]["why"] == "It has no heads."
    assert made["failed"][0]["method"] == "ngram-mod"
    assert made["files"] == {"target": "target.gguf", "drafter": "drafter.gguf"}
    assert made["plan"]["precision"] == 0.05
    assert [entry[0] for entry in made["order"]] == [run.block for run in whole.runs]


def test_no_folder_and_no_answer_leaves(whole: Lab) -> None:
    for text in (json.dumps(lab_json(whole)), lab_markdown(whole), lab_csv(whole)):
        assert "/home/person" not in text
        assert "one two" not in text


def test_csv_reads_back(whole: Lab) -> None:
    rows = list(csv.DictReader(io.StringIO(lab_csv(whole))))
    assert tuple(rows[0]) == COLUMNS
    assert [row["method"] for row in rows] == ["none", "draft-dspark", "draft-dspark", "none", "draft-dspark"]
    assert (rows[1]["n_max"], rows[1]["identical"], rows[0]["n_max"]) == ("2", "yes", "")
    assert float(rows[1]["ratio_low"]) < float(rows[1]["ratio"]) < float(rows[1]["ratio_high"])


def test_the_table_of_the_deliverable(whole: Lab) -> None:
    headers, rows = table_rows(whole)
    assert headers[:6] == ("text", "method", "temperature", "tokens/s", "ratio", "acceptance")
    assert rows[0][:5] == ("code", "no draft", "0", "100.0", "1")
    assert rows[1][1:4] == ("dspark 2", "0", "140.0")
    assert rows[1][6] == "yes"
    assert rows[4][6] == "–"
    assert "one answer only" in rows[4][7]
    text = lab_markdown(whole)
    assert text.startswith("# Lab")
    assert "| code | dspark 4 | 0 | 160.0 | 1.60x (1.5" in text
    assert "For a coding assistant use dspark 4" in text
    assert "- mtp: It has no heads." in text
    assert "- ngram-mod: It died." in text
    assert "within ±5%" in text


def test_sweep_rows_mark_the_best(whole: Lab) -> None:
    _, rows = sweep_rows(sweeps(whole)[0])
    assert [row[-1] for row in rows] == ["", "best"]


@pytest.mark.parametrize(
    ("value", "shown"), [(0.42, "42%"), (1.3, "none: over 100%"), (-0.2, "0%"), (None, "–")]
)
def test_break_even_for_people(value: float | None, shown: str) -> None:
    assert share(value) == shown


def test_nothing_measured_is_a_document_too() -> None:
    empty = replace(lab([]), ended="")
    assert lab_json(empty)["cells"] == []
    assert lab_csv(empty).count("\n") == 1
    assert "nothing was measured" in lab_markdown(empty)
