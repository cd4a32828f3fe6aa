"""What page and terminal enter into the ledger: whole methods, speeds of nothing else, and never a failure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from launcher.client.events import Timings
from launcher.counted import count, know_plain, know_raced
from launcher.ledger import Ledger
from launcher.methods import PLAIN, Method
from launcher.paths import Paths
from launcher.plan import LaunchPlan, make_plan
from launcher.race import sides_of
from launcher.race_types import Prompt, Race, RaceSpec
from launcher.resolved import Engine
from launcher.settings import resolve
from tests import plans
from tests.launcher import race_samples as samples

ENGINE = replace(plans.ENGINE, flags=plans.FLAGS | {"--spec-draft-p-min", "-devd"})
SURE = Method("draft-dspark", 4, 0.5, "cpu")
TIMINGS = Timings(prompt_tokens=50, predicted_tokens=200, tokens_per_second=20.0)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "data", tmp_path / "cache", tmp_path / "logs")


@pytest.fixture
def ledger(paths: Paths) -> Ledger:
    return Ledger(paths.data)


def plan(method: Method = SURE, engine: Engine = ENGINE, **env: str) -> LaunchPlan:
    return make_plan(resolve({}, env), plans.MACHINE, plans.resolved(engine=engine), method)


def test_answers_are_kept_by_their_whole_method(paths: Paths, ledger: Ledger) -> None:
    for method in (SURE, replace(SURE, p_min=None), SURE, PLAIN):
        count(paths, plans.MACHINE, plan(method), TIMINGS)
    assert {row.method: row.waiting.answers for row in ledger.rows()} == {
        "dspark 4, p-min 0.5, draft on CPU": 2,
        "dspark 4, draft on CPU": 1,
    }


def test_a_plain_speed_counts_answers_of_the_same_engine_and_settings_alone(
    paths: Paths, ledger: Ledger
) -> None:
    others = [
        plan(engine=replace(ENGINE, version="b2")),
        plan(engine=replace(ENGINE, kind="built")),
        plan(engine=replace(ENGINE, backend="cuda")),
        plan(BONSAI_CTX="8192"),
        plan(BONSAI_NGL="5"),
        plan(BONSAI_KV4="1"),
    ]
    for one in (plan(), plan(BONSAI_PORT="9000"), *others):
        count(paths, plans.MACHINE, one, TIMINGS)
    know_plain(paths, plans.MACHINE, plan(PLAIN), 10.0, "a race")
    summary = ledger.summary()
    assert (summary.answers, summary.not_counted) == (2, len(others))
    assert summary.saved_s == pytest.approx(20.0)


def raced(*methods: Method, rates: tuple[tuple[float, float], ...]) -> tuple[RaceSpec, list[Race]]:
    """Races of these two methods, each of one round at these speeds."""
    spec = RaceSpec((plan(methods[0]), plan(methods[1])), Prompt("Hello"), machine=plans.MACHINE)
    return spec, [replace(samples.race(samples.rounds(pair)), sides=sides_of(spec)) for pair in rates]


@pytest.mark.parametrize(
    ("methods", "speed"),
    [((PLAIN, SURE), 30.0), ((SURE, PLAIN), 60.0), ((PLAIN, PLAIN), 40.0), ((SURE, SURE), None)],
    ids=["plain first", "plain second", "twice plain", "none plain"],
)
def test_races_tell_the_median_of_all_plain_rounds(
    paths: Paths, ledger: Ledger, methods: tuple[Method, Method], speed: float | None
) -> None:
    spec, races = raced(*methods, rates=((30.0, 60.0), (10.0, 50.0), (30.0, 90.0)))
    know_raced(paths, spec, races)
    count(paths, plans.MACHINE, plan(), TIMINGS)
    summary = ledger.summary()
    assert summary.answers == (0 if speed is None else 1)
    if speed is not None:
        assert summary.saved_s == pytest.approx(200 / speed - 10.0)


def test_nothing_fails_where_the_ledger_cannot_be_written(paths: Paths) -> None:
    paths.data.write_text("a file")
    count(paths, plans.MACHINE, plan(), TIMINGS)
    spec, races = raced(PLAIN, SURE, rates=((30.0, 60.0),))
    know_raced(paths, spec, races)
    assert paths.data.read_text() == "a file"
