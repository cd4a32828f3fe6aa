"""The question before "ready": what counts as text, what as speculation, and how long anybody waits for it."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from launcher.client.http import EngineClient
from launcher.errors import EngineUnreachable, ServerRefused
from launcher.methods import Method
from launcher.plan import LaunchPlan, make_plan
from launcher.proof import Proof, judge, looks_like_text, prove
from launcher.settings import resolve
from tests import plans
from tests.fakes.paced_server import PacedConfig, PacedServer

DRAFTING = plans.plan_for("llama-server", speculative=True)
PLAIN = plans.plan_for("llama-server")
GOOD = "One, two, three, four, five, six, seven, eight, nine, ten."


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        "1, 2, 3, 4, 5, 6, 7, 8, 9, 10",
        "1\n2\n3\n4\n5",
        "1️⃣ one 2️⃣ two 🎉",
        "Ok",
        "一、二、三、四、五、六、七、八、九、十",
        "いち、に、サン、四、five",
        "один, два, три, четыре",
        "```python\nfor i in range(1, 11):\n    print(i)\n```",
        "Naïve café: “eins, zwei, drei” – größer",
        "$\\sum_{k=1}^{n} k^2$ und α",
        "ha ha ha, ten",
    ],
)
def test_text_in_any_language_looks_like_text(text: str) -> None:
    assert looks_like_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n ",
        "\ufffd\ufffd one",
        "!!!!!!!!!!!!!!!!!!!!!!!!",
        "the the the the the the the the",
        "0000000000000000",
        "ararararararararararar",
        "\x00\x01\x02 one two",
        "\ue000\ue001\ue002\ue003",
        "ائ Bezirk nhân 的 пре एक ovat 하는 tors",
        "lectlectperiodUTFnamespacedzzzzaaaaqqqqwwwwrrrrttttyyyyuuuu",
    ],
)
def test_gibberish_does_not(text: str) -> None:
    assert not looks_like_text(text)


def test_gibberish_is_said_with_its_likely_cause() -> None:
    (problem,) = judge("!!!!!!!!!!!!!!!!!!", None, 0, PLAIN)
    assert "wrong weights format for this engine?" in problem


@pytest.mark.case("G-02")
def test_nothing_drafted_is_said_with_what_the_log_tells() -> None:
    assert judge(GOOD, None, 0, PLAIN) == ()
    (problem,) = judge(GOOD, None, 0, DRAFTING)
    assert problem == "Speculation was requested but the engine drafted nothing."
    log = "0.02.003.004 E srv  load_model: failed to initialize speculative decoding context: no such layer"
    (problem,) = judge(GOOD, None, 0, DRAFTING, lambda: log)
    assert "the drafter loaded, but could not be set up (no such layer)" in problem


def test_methods_that_look_drafts_up_may_draft_nothing() -> None:
    engine = replace(plans.ENGINE, spec_types=plans.ENGINE.spec_types | {"ngram-mod"})
    resolved = plans.resolved(engine=engine)
    plan = make_plan(resolve({}, {}), plans.MACHINE, resolved, Method("ngram-mod"))
    assert judge(GOOD, None, 0, plan) == ()


@pytest.mark.parametrize(
    ("drafted", "accepted", "said"), [(20, 3, True), (20, 4, False), (7, 0, False), (8, 0, True)]
)
def test_few_accepted_tokens_are_said(drafted: int, accepted: int, said: bool) -> None:
    problems = judge(GOOD, drafted, accepted, DRAFTING)
    assert bool(problems) == said
    if said:
        assert f"Only {accepted} of {drafted} drafted tokens were accepted" in problems[0]


def test_a_build_without_a_gpu_is_not_blamed_for_it() -> None:
    log = "warning: no usable GPU found, --gpu-layers option will be ignored"
    assert judge(GOOD, None, 0, PLAIN, lambda: log) == ()
    cuda = make_plan(
        resolve({}, {}), plans.MACHINE, plans.resolved(engine=replace(plans.ENGINE, backend="cuda"))
    )
    (problem,) = judge(GOOD, None, 0, cuda, lambda: log)
    assert "on the processor, not on the GPU" in problem


def asked(config: PacedConfig, plan: LaunchPlan, **more: float) -> tuple[Proof, PacedServer]:
    with PacedServer(config) as server:
        return prove(EngineClient(server.url), plan, **more), server  # type: ignore[arg-type]


def test_the_question_is_short_greedy_and_leaves_no_cache() -> None:
    proof, server = asked(PacedConfig(rate=2000, blocks=((4, 3),)), DRAFTING)
    assert proof.problems == ()
    assert proof.drafted
    body = server.chats[0].body
    assert (body["temperature"], body["cache_prompt"], body["seed"]) == (0.0, False, 1)
    assert body["max_tokens"] <= 24
    assert body["chat_template_kwargs"] == {"enable_thinking": False}


def test_speculation_that_is_not_engaged_shows() -> None:
    proof, _ = asked(PacedConfig(rate=2000), DRAFTING)
    assert proof.drafted is None
    assert "drafted nothing" in proof.problems[0]


def test_a_drafter_that_does_not_fit_shows() -> None:
    proof, _ = asked(PacedConfig(rate=2000, blocks=((4, 0),)), DRAFTING)
    assert "hardly fits" in proof.problems[0]


def test_thoughts_are_text_too() -> None:
    """A template that cannot switch thinking off: all that comes are thoughts."""
    proof, _ = asked(PacedConfig(rate=2000, thinking_tokens=100, inline_thinking=True), PLAIN)
    assert proof.problems == ()


def test_a_slow_engine_is_not_waited_for_and_not_blamed() -> None:
    begun = time.monotonic()
    proof, _ = asked(PacedConfig(rate=0.5), DRAFTING, patience_s=0.5)
    assert time.monotonic() - begun < 10
    (problem,) = proof.problems
    assert "slow" in problem


def test_an_engine_that_breaks_off_or_refuses_raises() -> None:
    with pytest.raises(EngineUnreachable):
        asked(PacedConfig(rate=200, die_after=3), PLAIN)
    with pytest.raises(ServerRefused):
        asked(PacedConfig(refuse=500), PLAIN)
