"""Which ways to run a target are offered, why others are not, and the plans that come of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.errors import BadInput, PlanRefused
from launcher.gguf_header import GgufHeader, TensorInfo
from launcher.methods import PLAIN, Method, default_pair, named, offered, why_not
from launcher.plan import LaunchPlan, make_plan
from launcher.resolved import Engine, Resolved
from launcher.settings import Settings, resolve
from tests.plans import DRAFTER, ENGINE, MACHINE, TARGET, resolved

TYPES = frozenset(
    {"none", "draft-simple", "draft-dspark", "draft-mtp", "draft-eagle3", "ngram-simple", "ngram-mod"}
)
FULL = replace(ENGINE, spec_types=TYPES)
SIBLING = replace(TARGET, path="sibling.gguf", hidden_size=64, layers=2)


def parts(
    drafter: GgufHeader | None = DRAFTER, engine: Engine = FULL, target: GgufHeader = TARGET
) -> Resolved:
    return resolved(drafter=drafter, engine=engine, target=target)


def settings(**env: str) -> Settings:
    return resolve({}, env)


def can(given: Resolved) -> list[str]:
    return [offer.method.name for offer in offered(given) if offer.why_not is None]


def test_a_dspark_pair_can_run_plain_at_every_length_and_by_phrase_tables() -> None:
    every = ["plain", "dspark 1", "dspark 2", "dspark 3", "dspark 4", "ngram-mod", "ngram-simple"]
    assert can(parts()) == every


def test_without_a_drafter_phrase_tables_remain() -> None:
    assert can(parts(drafter=None)) == ["plain", "ngram-mod", "ngram-simple"]


def test_a_smaller_sibling_drafts_by_draft_simple() -> None:
    lengths = [f"draft-simple {length}" for length in (2, 3, 4, 8, 16)]
    assert can(parts(drafter=SIBLING)) == ["plain", *lengths, "ngram-mod", "ngram-simple"]


def test_the_targets_own_heads_need_no_file() -> None:
    target = replace(TARGET, metadata={"qwen3.nextn_predict_layers": 1})
    assert "mtp 2" in can(parts(drafter=None, target=target))
    plan = make_plan(settings(), MACHINE, parts(drafter=None, target=target), Method("draft-mtp", 2))
    assert "-md" not in plan.argv
    assert plan.argv[plan.argv.index("--spec-draft-n-max") + 1] == "2"


def test_the_frozen_build_drafts_whole_blocks_only() -> None:
    given = parts(engine=replace(FULL, line="prism-legacy"), drafter=replace(DRAFTER, architecture="dspark"))
    assert can(given)[:2] == ["plain", "dspark 4"]
    with pytest.raises(PlanRefused, match="ends itself"):
        make_plan(settings(), MACHINE, given, Method("draft-dspark", 2))
    with pytest.raises(PlanRefused, match=r"BONSAI_SPEC_NMAX.*2.*\(4\)"):
        make_plan(settings(BONSAI_SPECULATIVE="1", BONSAI_SPEC_NMAX="2"), MACHINE, given)


HEADS = TensorInfo("blk.0.nextn.eh_proj.weight", (1, 1), 0, 0)


@pytest.mark.parametrize(
    ("method", "given", "words"),
    [
        (Method("draft-dspark", 4), parts(drafter=None), "needs a drafter, but no drafter"),
        (Method("draft-dspark", 5), parts(), "block holds 4"),
        (Method("draft-dspark", 4), parts(drafter=SIBLING), "model of its own"),
        (Method("draft-dspark", 4), parts(drafter=replace(DRAFTER, hidden_size=768)), "hidden size is 768"),
        (Method("draft-dspark", 4), parts(drafter=replace(DRAFTER, block_size=None)), "block size"),
        (
            Method("draft-dspark", 4),
            parts(drafter=replace(DRAFTER, architecture="dspark")),
            "architecture is dspark",
        ),
        (Method("draft-dspark", 4), parts(engine=ENGINE), None),
        (Method("ngram-mod"), parts(engine=ENGINE), "cannot do ngram-mod"),
        (Method("draft-simple", 3), parts(), "needs a whole model"),
        (Method("draft-simple", 3), parts(drafter=replace(SIBLING, vocab_size=900)), "vocabulary has 900"),
        (Method("draft-simple", 3), parts(drafter=replace(SIBLING, vocab_size=800)), None),
        (
            Method("draft-simple", 3),
            parts(drafter=replace(SIBLING, vocab_fingerprint="0" * 64)),
            "tokens differ",
        ),
        (Method("draft-mtp", 1), parts(drafter=SIBLING), "no prediction heads"),
        (Method("draft-mtp", 1), parts(drafter=replace(SIBLING, tensors=(HEADS,))), None),
        (
            Method("draft-mtp", 1),
            parts(drafter=replace(SIBLING, architecture="gemma4-assistant", vocab_size=9)),
            "vocabulary has 9",
        ),
        (Method("draft-eagle3", 3), parts(), "not eagle3"),
        (Method("draft-eagle3", 3), parts(drafter=replace(SIBLING, architecture="eagle3")), None),
        (
            Method("draft-eagle3", 3),
            parts(drafter=replace(SIBLING, architecture="eagle3", target_layers=(2, 40))),
            "layer 40",
        ),
        (PLAIN, parts(drafter=None, engine=ENGINE), None),
    ],
)
def test_why_not(method: Method, given: Resolved, words: str | None) -> None:
    problem = why_not(given, method)
    assert (problem is None) if words is None else (problem is not None and words in problem), problem
    if words is not None:
        with pytest.raises(PlanRefused, match=words):
            make_plan(settings(), MACHINE, given, method)


@pytest.mark.parametrize(
    ("env", "given", "expected"),
    [
        ({}, parts(), "dspark 4"),
        ({"BONSAI_SPEC_NMAX": "2"}, parts(), "dspark 2"),
        ({"BONSAI_SPEC_NMAX": "9"}, parts(), "dspark 4"),
        ({}, parts(drafter=None), "ngram-mod"),
        ({}, parts(drafter=SIBLING), "draft-simple 3"),
    ],
)
def test_plain_races_against_what_speculation_would_run(
    env: dict[str, str], given: Resolved, expected: str
) -> None:
    assert [method.name for method in default_pair(settings(**env), given)] == ["plain", expected]


def test_nothing_to_race_against_is_said() -> None:
    with pytest.raises(PlanRefused, match="nothing to race"):
        default_pair(settings(), parts(drafter=None, engine=ENGINE))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("none", "plain"),
        ("dspark", "dspark 4"),
        ("draft-dspark:2", "dspark 2"),
        (" DSpark 3 ", "dspark 3"),
        ("simple", "draft-simple 3"),
        ("ngram-mod", "ngram-mod"),
        ("mtp:2", "mtp 2"),
    ],
)
def test_methods_by_name(text: str, expected: str) -> None:
    assert named(text, settings(), parts()).name == expected


def test_a_length_asked_for_is_the_default() -> None:
    assert named("dspark", settings(BONSAI_SPEC_NMAX="2"), parts()).name == "dspark 2"


@pytest.mark.parametrize("text", ["turbo", "", "dspark:x", "dspark -1", "ngram-mod:5", "plain 3"])
def test_unknown_names_are_refused(text: str) -> None:
    with pytest.raises(BadInput):
        named(text, settings(), parts())


def test_every_offer_is_found_by_its_name() -> None:
    for offer in offered(parts()):
        assert named(offer.method.name, settings(), parts()) == offer.method


def plan(method: Method | None, **env: str) -> LaunchPlan:
    return make_plan(settings(**env), MACHINE, parts(), method)


def test_sides_differ_by_their_method_alone() -> None:
    drafting = {"-md", "drafter.gguf", "--spec-type", "draft-dspark", "--spec-draft-n-max", "4", "-ngld"}
    one, other = plan(PLAIN), plan(Method("draft-dspark", 4))
    assert [word for word in other.argv if word not in drafting and word not in one.argv] == []
    assert [word for word in one.argv if word not in other.argv] == ["none"]
    table = plan(Method("ngram-simple"))
    assert table.argv[: table.argv.index("-ngl")][-2:] == ("--spec-type", "ngram-simple")
    assert "-md" not in table.argv
    assert table.draft_max is None


def test_a_side_is_the_engine_that_the_chat_runs() -> None:
    assert plan(PLAIN) == plan(None)
    assert hash(plan(PLAIN)) == hash(plan(None))
    assert plan(Method("draft-dspark", 4)) == plan(None, BONSAI_SPECULATIVE="1")
    assert plan(PLAIN, BONSAI_SPECULATIVE="1") == plan(None)


def test_two_sides_never_ask_for_the_same_port() -> None:
    assert plan(None, BONSAI_PORT="9000").port_asked
    assert not plan(PLAIN, BONSAI_PORT="9000").port_asked


def test_every_argument_of_every_method_has_a_reason() -> None:
    for offer in offered(parts()):
        if offer.why_not is None:
            made = plan(offer.method)
            told = " ".join(reason.part for reason in made.reasons)
            assert all(word in told for word in made.argv[1:]), offer
            assert all(reason.why for reason in made.reasons)
