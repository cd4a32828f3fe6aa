"""What was learned takes its place in the plan, unless somebody asked for anything else; the page takes it over and
undoes it, and the ledger counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from launcher.advise import Advice
from launcher.advise_run import Findings, Found
from launcher.client.events import Timings
from launcher.counted import what_of
from launcher.errors import BadInput
from launcher.in_use import entry_here, key_here, plan_here, plan_with
from launcher.lab_setup import Parts, subject_of
from launcher.lab_types import Lab
from launcher.learned import Learned, learn
from launcher.learned_page import LearnedPage
from launcher.ledger import Ledger
from launcher.measure import side_of
from launcher.methods import PLAIN, Method
from launcher.paths import Paths
from launcher.plan import LaunchPlan, make_plan
from launcher.resolved import Resolved
from launcher.settings import Settings, resolve
from tests import plans
from tests.launcher import lab_samples as samples

TYPES = frozenset({"none", "draft-dspark", "ngram-simple"})
FLAGS = plans.FLAGS | {"--spec-draft-p-min", "-devd"}
RESOLVED = plans.resolved(engine=replace(plans.ENGINE, spec_types=TYPES, flags=FLAGS))
SHORT, TABLE = Method("draft-dspark", 2), Method("ngram-simple")
SURE = Method("draft-dspark", 4, 0.5, "cpu")  # which settings cannot say


def paths_at(folder: Path) -> Paths:
    return Paths(folder / "data", folder / "cache", folder / "logs")


def take(paths: Paths, method: Method, resolved: Resolved = RESOLVED) -> None:
    key = key_here(paths, plans.MACHINE, resolved)
    learn(paths, Learned(key, "coding", method, 1.4, 1.3, 1.5, "high", "Use it.", 1.7e9))


def planned(paths: Paths, settings: Settings, *, switch: bool | None = None) -> LaunchPlan:
    entry = entry_here(settings, paths, plans.MACHINE, RESOLVED, switch=switch)
    chosen = settings if switch is None else settings.with_speculative(switch, "the page's switch")
    return plan_with(chosen, plans.MACHINE, RESOLVED, entry)


@pytest.mark.parametrize(
    ("method", "env", "switch", "runs"),
    [
        (SHORT, {}, None, SHORT),
        (TABLE, {}, None, TABLE),
        (SURE, {}, None, SURE),
        (SURE, {}, True, SURE),
        (SURE, {}, False, PLAIN),
        (PLAIN, {}, None, PLAIN),
        (SHORT, {}, False, PLAIN),
        (SHORT, {}, True, SHORT),
        (TABLE, {}, True, TABLE),
        (PLAIN, {}, True, samples.DSPARK),
        (SHORT, {"BONSAI_SPECULATIVE": "0"}, None, PLAIN),
        (SHORT, {"BONSAI_SPECULATIVE": "1"}, None, samples.DSPARK),
        (SHORT, {"BONSAI_SPEC_NMAX": "3"}, None, Method("draft-dspark", 3)),
        (Method("draft-mtp", 2), {}, None, PLAIN),  # which cannot be had any more
    ],
)
def test_what_runs(
    tmp_path: Path, method: Method, env: dict[str, str], switch: bool | None, runs: Method
) -> None:
    paths = paths_at(tmp_path)
    take(paths, method)
    plan = planned(paths, resolve({}, env), switch=switch)
    assert plan.method == runs
    learned_here = method in (SHORT, TABLE, SURE) and "BONSAI_SPECULATIVE" not in env and switch is not False
    assert ("learned on this machine" in plan.speculation_why) == learned_here


def test_what_was_learned_with_other_files_or_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    paths, settings = paths_at(tmp_path), resolve({}, {})
    take(paths, SHORT, plans.resolved(engine=replace(RESOLVED.engine, version="b2")))
    assert planned(paths, settings).spec_type == "none"
    (paths.data / "learned.json").unlink()
    (paths.data / "learned.json").mkdir()
    assert planned(paths, settings).spec_type == "none"


def test_the_terminal_plans_what_the_page_would_start(tmp_path: Path) -> None:
    paths, settings = paths_at(tmp_path), resolve({}, {})
    assert plan_here(settings, paths, plans.MACHINE, RESOLVED).spec_type == "none"
    take(paths, SHORT)
    made = plan_here(settings, paths, plans.MACHINE, RESOLVED)
    assert (made.spec_type, made.draft_max) == ("draft-dspark", 2)


class Page:
    """A LearnedPage on parts that are not on this machine; ``started`` keeps what the engine was asked for."""

    def __init__(self, folder: Path, env: dict[str, str] | None = None) -> None:
        self.paths, self.settings, self.resolved = paths_at(folder), resolve({}, env or {}), RESOLVED
        self.started: list[bool] = []
        self.page = LearnedPage(self.paths, lambda: plans.MACHINE, self.parts, self.started.append)

    def parts(self) -> Parts:
        plain = make_plan(self.settings, plans.MACHINE, self.resolved, PLAIN)
        return Parts(self.settings, plans.MACHINE, self.resolved, subject_of(plain, plans.MACHINE))

    def lab(self, **rates: float) -> Lab:
        made = samples.measured(
            {
                ("code", PLAIN, 0.0): [100.0] * 3,
                ("code", SHORT, 0.0): [rates["code"]] * 3,
                ("prose", PLAIN, 0.0): [100.0] * 3,
                ("prose", SHORT, 0.0): [rates["prose"]] * 3,
            }
        )
        launches = (
            make_plan(self.settings, plans.MACHINE, self.resolved, method) for method in (PLAIN, SHORT)
        )
        return replace(
            made, subject=self.parts().subject, sides=tuple(side_of(launch) for launch in launches)
        )


def test_what_a_search_found_is_used_and_undone_as_what_a_lab_advises(tmp_path: Path) -> None:
    made = Page(tmp_path)
    advice = Advice(SHORT, 1.5, 1.4, 1.6, "medium", "Use dspark 2.", 12.0, ())
    findings = Findings(made.parts().subject, (Found("coding", "code", 0.0, advice),))
    made.page.use(findings, "coding")
    taken = made.page.learned()
    assert taken is not None
    assert (taken.method, taken.purpose, taken.why) == (
        SHORT,
        "coding",
        "For a coding assistant: Use dspark 2.",
    )
    assert planned(made.paths, made.settings).draft_max == 2
    with pytest.raises(BadInput, match="Nothing is known for chat"):
        made.page.use(findings, "chat")
    other = replace(findings, subject=samples.SUBJECT)
    with pytest.raises(BadInput, match="This advice was measured with another target"):
        made.page.use(other, "coding")
    made.resolved = replace(RESOLVED, engine=replace(RESOLVED.engine, version="b2"))
    stale = made.page.learned()
    assert stale is not None
    assert stale.stale
    made.resolved = RESOLVED
    made.page.undo()
    assert made.page.learned() is None


def test_advice_is_used_explained_and_undone(tmp_path: Path) -> None:
    made = Page(tmp_path)
    lab = made.lab(code=150.0, prose=80.0)
    assert made.page.learned() is None
    made.page.use(lab, "coding")
    made.page.use(lab, "chat")
    taken = made.page.learned()
    assert taken is not None
    assert (taken.method, taken.purpose, taken.stale, taken.overruled) == (PLAIN, "chat", (), "")
    assert taken.why.startswith("For a general chat use plain decoding")
    made.page.undo()
    taken = made.page.learned()
    assert taken is not None
    assert (taken.method, taken.purpose) == (SHORT, "coding")
    made.page.undo()
    assert made.page.learned() is None
    made.page.undo()  # nothing is left to undo
    assert made.started == [True, False, True, False]
    what = what_of(key_here(made.paths, plans.MACHINE, RESOLVED), lab.sides[0].argv)
    plain = Ledger(made.paths.data).plain_speed(what)
    assert plain is not None
    assert (plain.tokens_per_second, plain.source) == (100.0, "a lab")


def test_another_engine_makes_it_stale_and_another_labs_advice_is_refused(tmp_path: Path) -> None:
    made = Page(tmp_path)
    lab = made.lab(code=150.0, prose=150.0)
    made.page.use(lab, "coding")
    made.resolved = replace(RESOLVED, engine=replace(RESOLVED.engine, version="b2"))
    taken = made.page.learned()
    assert taken is not None
    [sentence] = taken.stale
    assert sentence.startswith("The engine is another: own mainline b2, cpu; it was own mainline b1, cpu")
    with pytest.raises(BadInput, match="another engine"):
        made.page.use(lab, "coding")
    made.page.undo()
    assert made.page.learned() is None


def test_a_setting_of_the_person_comes_first_and_is_named(tmp_path: Path) -> None:
    made = Page(tmp_path, {"BONSAI_SPECULATIVE": "0"})
    made.page.use(made.lab(code=150.0, prose=150.0), "coding")
    taken = made.page.learned()
    assert taken is not None
    assert "BONSAI_SPECULATIVE" in taken.overruled
    assert made.started == []


def test_the_ledger_of_chats(tmp_path: Path) -> None:
    made = Page(tmp_path)
    assert made.page.ledger().rows == ()
    drafting, plain = (make_plan(made.settings, plans.MACHINE, RESOLVED, method) for method in (SURE, PLAIN))
    timings = Timings(
        prompt_tokens=100, prompt_tokens_per_second=50.0, predicted_tokens=200, tokens_per_second=20.0
    )
    made.page.count(drafting, timings, 60)
    made.page.count(plain, timings, 60)
    assert [row.method for row in Ledger(made.paths.data).rows()] == ["dspark 4, p-min 0.5, draft on CPU"]
    assert dict(made.page.ledger().rows)["Not counted: plain speed not known"] == "1"
    made.page.know_plain(plain, 10.0, "a race")
    found = made.page.ledger()
    assert found.rows == (
        ("Saved in decoding", "10 s"),
        ("Lost by reading prompts again", "1.2 s"),
        ("Net", "8.8 s saved"),
        ("Answers counted", "1"),
        ("Not counted: plain speed not known", "0"),
    )
    assert "8.8 s" in found.sentence
