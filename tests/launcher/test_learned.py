"""What was learned for a machine: kept, used where nobody asked, undone, and asked again when something changed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.errors import StoreError
from launcher.hardware.model import Gpu
from launcher.learned import (
    MOST,
    Key,
    Learned,
    all_learned,
    apply,
    chosen,
    forget,
    key_of,
    learn,
    learned,
    outdated,
    stale,
)
from launcher.methods import PLAIN, Method
from launcher.paths import Paths, locate
from launcher.plan import make_plan
from launcher.settings import Settings, resolve
from tests.plans import DRAFTER, ENGINE, MACHINE, TARGET, resolved

KEY = Key("a processor, a GPU (550)", "target.gguf, 1000 bytes", "drafter.gguf, 100 bytes", "mainline b1")


DSPARK = Method("draft-dspark", 3)


def entry(kind: str = "coding", key: Key = KEY, method: Method = DSPARK) -> Learned:
    return Learned(
        key=key,
        kind=kind,
        method=method,
        ratio=1.5,
        low=1.4,
        high=1.6,
        sure="high",
        text="Use dspark 3.",
        learned_at=1.75e9,
    )


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return locate(str(tmp_path / "home"))


def settings(**env: str) -> Settings:
    return resolve({}, env)


# -- on disk ---------------------------------------------------------------------------------------------------


def test_nothing_is_learned_and_nothing_written_before_it_is_asked_for(paths: Paths) -> None:
    assert learned(paths, KEY) is None
    assert not forget(paths, KEY)
    assert not paths.data.exists()


def test_each_kind_has_its_own_and_the_last_choice_is_in_use(paths: Paths) -> None:
    coding, chat = entry("coding"), entry("chat", method=PLAIN)
    learn(paths, coding)
    learn(paths, chat)
    assert learned(paths, KEY, "coding") == coding
    assert learned(paths, KEY) == learned(paths, KEY, "chat") == chat
    learn(paths, coding)
    assert learned(paths, KEY) == coding
    careful = entry("coding", method=replace(DSPARK, p_min=0.5, draft_on="cpu"))
    learn(paths, careful)
    assert learned(paths, KEY) == careful
    assert len(all_learned(paths)) == 2


def test_forgetting_undoes_it(paths: Paths) -> None:
    learn(paths, entry("coding"))
    learn(paths, entry("chat"))
    assert forget(paths, KEY, "chat")
    assert learned(paths, KEY) == entry("coding")
    assert forget(paths, KEY)
    assert learned(paths, KEY) is None
    assert not forget(paths, KEY)


@pytest.mark.parametrize("part", ["machine", "target", "drafter", "engine"])
def test_another_machine_target_drafter_or_engine_knows_nothing_and_says_why(paths: Paths, part: str) -> None:
    learn(paths, entry())
    other = replace(KEY, **{part: getattr(KEY, part) + ", new"})
    assert learned(paths, other) is None
    assert stale(entry(), KEY) == ()
    (change,) = stale(entry(), other)
    assert getattr(KEY, part) in change
    assert getattr(other, part) in change
    assert outdated(paths, other) == entry()  # the reason to ask again
    assert outdated(paths, KEY) is None
    assert not forget(paths, other)


def test_another_model_is_no_reason_to_ask_again(paths: Paths) -> None:
    learn(paths, entry())
    assert outdated(paths, replace(KEY, target="other.gguf, 1000 bytes")) is None


def test_the_file_is_private_and_bounded(paths: Paths) -> None:
    for number in range(MOST + 5):
        learn(paths, entry(key=replace(KEY, engine=f"mainline b{number}")))
    found = all_learned(paths)
    assert len(found) == MOST
    assert found[-1].key.engine == f"mainline b{MOST + 4}"
    if os.name == "posix":
        assert stat.S_IMODE((paths.data / "learned.json").stat().st_mode) == 0o600
    assert [path.name for path in paths.data.iterdir()] == ["learned.json"]  # no lock, no temporary file


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 100_000,
        "[]",
        '{"format": "another"}',
        '{"format": "bonsai-learned", "version": 1}',
        '{"format": "bonsai-learned", "version": 1, "content": {"entries": [{"kind": 1}]}}',
    ],
)
def test_a_broken_file_is_set_aside_and_learning_goes_on(paths: Paths, text: str) -> None:
    paths.data.mkdir(parents=True)
    (paths.data / "learned.json").write_text(text)
    assert learned(paths, KEY) is None
    (aside,) = paths.data.iterdir()
    assert aside.name.startswith("learned.json.broken-")
    assert aside.read_text() == text
    learn(paths, entry())
    assert learned(paths, KEY) == entry()


def test_a_newer_version_is_left_as_it_is(paths: Paths) -> None:
    paths.data.mkdir(parents=True)
    text = '{"format": "bonsai-learned", "version": 99, "content": 1}'
    (paths.data / "learned.json").write_text(text)
    with pytest.raises(StoreError, match="newer version"):
        learned(paths, KEY)
    with pytest.raises(StoreError, match="newer version"):
        learn(paths, entry())
    assert (paths.data / "learned.json").read_text() == text


def test_two_processes_lose_none_of_each_other_choices(paths: Paths) -> None:
    code = (
        "import sys; from dataclasses import replace; from launcher.learned import learn;"
        "from launcher.paths import locate; from tests.launcher.test_learned import KEY, entry\n"
        "for number in range(8): learn(locate(sys.argv[1]), entry(key=replace(KEY, engine=sys.argv[2] + str(number))))"
    )
    command = [sys.executable, "-c", code, str(paths.data)]
    both = [subprocess.Popen([*command, name], cwd=Path(__file__).parents[2]) for name in "ab"]
    assert [child.wait(60) for child in both] == [0, 0]
    engines = {one.key.engine for one in all_learned(paths)}
    assert engines == {f"{name}{number}" for name in "ab" for number in range(8)}


# -- the key ---------------------------------------------------------------------------------------------------


def test_the_key_names_what_the_figures_depend_on() -> None:
    gpu = Gpu("nvidia", "a GPU", "cuda", driver="550.54.14", free_bytes=5)
    machine = replace(MACHINE, gpus=(gpu,))
    target = replace(TARGET, path="/somewhere/target.gguf")
    key = key_of(machine, resolved(target=target), {"/somewhere/target.gguf": "ab" * 32}.get)
    assert key == Key(
        machine="a processor, a GPU (550)",
        target=f"target.gguf, 1000 bytes, {'ab' * 8}",
        drafter="drafter.gguf, 1000 bytes",
        engine="own mainline b1, cuda",
    )
    assert key_of(MACHINE, resolved(drafter=None)).drafter == "none"


def test_what_changes_all_the_time_does_not_change_the_key() -> None:
    gpu = Gpu("nvidia", "a GPU", "cuda", driver="550.54.14", free_bytes=5)
    before = replace(MACHINE, gpus=(gpu,))
    after = replace(MACHINE, ram_free_bytes=1, gpus=(replace(gpu, driver="550.90", free_bytes=1),))
    assert key_of(before, resolved()) == key_of(after, resolved())
    moved = resolved(target=replace(TARGET, path="D:\\models\\target.gguf"))
    assert key_of(before, moved) == key_of(before, resolved())
    built = replace(ENGINE, kind="built")
    assert key_of(before, resolved(engine=built)) != key_of(before, resolved())
    newer = replace(MACHINE, gpus=(replace(gpu, driver="560.1"),))
    assert key_of(newer, resolved()) != key_of(before, resolved())


# -- in use ----------------------------------------------------------------------------------------------------


def test_it_takes_effect_where_nobody_asked_and_says_where_it_is_from() -> None:
    used = apply(settings(), entry())
    assert (used.speculative.value, used.spec_nmax.value) == (True, 3)
    assert used.speculative.source == used.spec_nmax.source
    assert used.speculative.source.startswith("learned on this machine (2025-06-1")
    plan = make_plan(used, MACHINE, resolved())
    assert (plan.spec_type, plan.draft_max) == ("draft-dspark", 3)


def test_learned_plain_stays_plain() -> None:
    used = apply(settings(), entry(method=PLAIN))
    assert (used.speculative.value, used.spec_nmax.value) == (False, None)
    assert used.speculative.source.startswith("learned on this machine")


@pytest.mark.parametrize(
    ("env", "speculative", "length"),
    [
        ({"BONSAI_SPECULATIVE": "0"}, False, None),
        ({"BONSAI_SPECULATIVE": "1"}, True, None),
        ({"BONSAI_SPECULATIVE": "1", "BONSAI_SPEC_NMAX": "2"}, True, 2),
        ({"BONSAI_SPEC_NMAX": "2"}, True, 2),
    ],
)
def test_what_was_asked_for_is_never_overridden(
    env: dict[str, str], speculative: bool, length: int | None
) -> None:
    asked = settings(**env)
    used = apply(asked, entry())
    assert (used.speculative.value, used.spec_nmax.value) == (speculative, length)
    for name in env:
        field = name.removeprefix("BONSAI_").lower()
        assert getattr(used, field) == getattr(asked, field)


def test_the_switch_of_the_page_wins_too() -> None:
    switched = settings().with_speculative(False, "the page")
    assert apply(switched, entry()) == switched


def test_nothing_learned_changes_nothing() -> None:
    assert apply(settings(), None) == settings()
    assert chosen(settings(), None) is None


def test_a_method_that_settings_cannot_say_is_planned_with() -> None:
    ngram = entry(method=Method("ngram-mod"))
    assert apply(settings(), ngram) == settings()
    method = chosen(settings(), ngram)
    engine = replace(ENGINE, spec_types=ENGINE.spec_types | {"ngram-mod"})
    assert make_plan(settings(), MACHINE, resolved(engine=engine), method).spec_type == "ngram-mod"
    assert chosen(settings(BONSAI_SPECULATIVE="0"), ngram) is None
    assert chosen(settings(), entry()) is None
    assert chosen(settings(), entry(method=PLAIN)) is None
    careful = entry(method=replace(DSPARK, p_min=0.5))
    assert apply(settings(), careful) == settings()
    assert chosen(settings(), careful) == careful.method


def test_a_drafter_of_another_block_size_is_another_key() -> None:
    shorter = replace(DRAFTER, block_size=2, file_bytes=900)
    assert key_of(MACHINE, resolved(drafter=shorter)) != key_of(MACHINE, resolved())
