"""Export and import: what goes out comes in again, and whatever else is given gets one clear sentence."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.client.events import Timings
from launcher.errors import StoreError
from launcher.store import Conversation, Store, Turn
from launcher.store_markdown import markdown

counts = st.integers(0, 10**9)
seconds = st.floats(0, 1e9)
texts = st.text(st.characters(), max_size=40)
timings = st.builds(
    Timings,
    prompt_tokens=st.none() | counts,
    cached_tokens=st.none() | counts,
    prompt_tokens_per_second=st.none() | seconds,
    predicted_tokens=counts,
    tokens_per_second=st.none() | seconds,
    time_to_first_token_s=st.none() | seconds,
    total_s=st.none() | seconds,
    draft_n=st.none() | counts,
    draft_n_accepted=st.none() | counts,
    measured_by=st.sampled_from(["server", "client"]),
)
turns = st.builds(
    Turn,
    id=st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True),
    role=st.sampled_from(["user", "assistant"]),
    content=texts,
    created=seconds,
    thinking=texts,
    thinking_s=st.none() | seconds,
    runs=st.lists(st.tuples(counts, st.sampled_from(["draft", "target", ""]))).map(tuple),
    blocks=st.lists(st.tuples(counts, counts)).map(tuple),
    timings=st.none() | timings,
    context_used=st.none() | counts,
    context_size=st.none() | counts,
    engine=texts,
    ended=texts,
    note=texts,
)
conversations = st.builds(
    Conversation,
    id=st.from_regex(r"[a-z0-9]{16}", fullmatch=True),
    title=texts.map(lambda text: " ".join(text.split()) or "t"),
    created=seconds,
    updated=seconds,
    turns=st.lists(turns, max_size=4, unique_by=lambda turn: turn.id).map(tuple),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(conversations)
def test_an_export_imports_equal_under_a_new_id(tmp_path: Path, conversation: Conversation) -> None:
    store = Store(tmp_path)
    saved = store.save(conversation)
    taken = store.import_json(store.export_json(saved.id))
    assert taken.id != saved.id
    assert replace(taken, id=saved.id) == saved
    assert store.load(taken.id) == taken


PLAIN: dict[str, Any] = {
    "format": "bonsai-conversation",
    "version": 1,
    "title": "t",
    "created": 1.0,
    "turns": [{"id": "q", "role": "user", "content": "hi", "created": 1.0}],
}


def changed(**turn: Any) -> str:
    return json.dumps({**PLAIN, "turns": [{**PLAIN["turns"][0], **turn}]})


HOSTILE = {
    "": "is empty",
    "   \n": "is empty",
    "<!doctype html><html>not here</html>": "is a web page",
    "{": "not JSON",
    "hello": "not JSON",
    "null": "not a conversation",
    "[]": "not a conversation",
    '"text"': "not a conversation",
    '[{"title": "x", "mapping": {}}]': "not a conversation",
    "[" * 100_000: "too deeply",
    '{"format":"bonsai-conversation","version":1,"created":1,"turns":' + '{"a":' * 100_000: "too deeply",
    json.dumps({**PLAIN, "version": 99}): "newer version",
    json.dumps({**PLAIN, "version": "1"}): "format version",
    json.dumps({**PLAIN, "version": True}): "format version",
    json.dumps({**PLAIN, "title": 5}): "title that makes no sense",
    json.dumps({**PLAIN, "created": "today"}): "created that makes no sense",
    json.dumps({**PLAIN, "created": 1e300}): "created that makes no sense",
    '{"format":"bonsai-conversation","version":1,"created":NaN,"turns":[]}': "not JSON",
    '{"format":"bonsai-conversation","version":1,"created":1' + "0" * 5000 + ',"turns":[]}': "not JSON",
    '{"format":"bonsai-conversation","version":1,"created":1e999,"turns":[]}': "created that makes no sense",
    json.dumps({**PLAIN, "turns": {}}): "no list of messages",
    json.dumps({**PLAIN, "turns": ["x"]}): "Message 1 is not a set",
    json.dumps({**PLAIN, "turns": PLAIN["turns"] * 2}): "same id",
    json.dumps({**PLAIN, "turns": PLAIN["turns"] * 10_001}): "more than 10000 messages",
    json.dumps({**PLAIN, "turns": [{"id": "x", "role": "user", "created": 1}]}): "Message 1 has no content",
    changed(id="../../x"): "id that makes no sense",
    changed(id='"><script>'): "id that makes no sense",
    changed(role="system"): "role that makes no sense",
    changed(role=["user"]): "role that makes no sense",
    changed(content=None): "content that makes no sense",
    changed(content={"type": "text"}): "content that makes no sense",
    changed(runs=[[1, "draft"], [2]]): "runs that makes no sense",
    changed(runs=[[-1, "draft"]]): "runs that makes no sense",
    changed(runs=[[10**400, "draft"]]): "runs that makes no sense",
    changed(runs=["ab"]): "runs that makes no sense",
    changed(runs="draft"): "runs that makes no sense",
    changed(blocks=[[True, 1]]): "blocks that makes no sense",
    changed(timings=[1]): "timings is not a set",
    changed(timings={"draft_n": 1.5}): "draft_n that makes no sense",
    changed(timings={"measured_by": "<b>"}): "measured_by that makes no sense",
}


@pytest.mark.parametrize(("text", "says"), HOSTILE.items(), ids=range(len(HOSTILE)))
def test_hostile_imports_are_refused_with_a_sentence(tmp_path: Path, text: str, says: str) -> None:
    store = Store(tmp_path)
    with pytest.raises(StoreError, match=re.escape(says)) as caught:
        store.import_json(text)
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)
    assert caught.value.remedy
    assert store.list().conversations == ()


def test_a_huge_import_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="too large"):
        Store(tmp_path).import_json(" " * (33 * 1024 * 1024))


@given(st.text(max_size=30) | st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["format", "version", "turns", "id", "role", "content", "created", "runs"]), inner
    ),
).map(json.dumps))  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_anything_else_is_refused_too(tmp_path: Path, text: str) -> None:
    with pytest.raises(StoreError):
        Store(tmp_path).import_json(text)


def test_html_in_an_import_is_only_text(tmp_path: Path) -> None:
    taken = Store(tmp_path).import_json(changed(content="<script>alert(1)</script>"))
    assert taken.turns[0].content == "<script>alert(1)</script>"
    assert taken.title == "t"


def conversation(*turns: Turn) -> Conversation:
    return Conversation("x", "Sorting", 1.0, 1.0, turns)


def test_markdown() -> None:
    text = markdown(
        conversation(
            Turn("1", "user", "Sort this:\n\n```\n3 1 2\n```", 1.0),
            Turn(
                "2",
                "assistant",
                "Here:\n\n```python\nsorted([3, 1, 2])",
                2.0,
                thinking="A list.\n```\nx\n```\n</details> # no heading",
                thinking_s=2.04,
                timings=Timings(
                    predicted_tokens=40,
                    tokens_per_second=51.25,
                    time_to_first_token_s=0.5,
                    draft_n=8,
                    draft_n_accepted=6,
                ),
                engine="practice",
                ended="length",
            ),
            Turn("3", "user", "Thanks", 3.0),
        )
    )
    assert text == (
        "# Sorting\n\n## You\n\nSort this:\n\n```\n3 1 2\n```\n\n## Answer\n\n"
        "<details>\n<summary>Thoughts (2.0 s)</summary>\n\n"
        "````text\nA list.\n```\nx\n```\n</details> # no heading\n````\n\n</details>\n\n"
        "Here:\n\n```python\nsorted([3, 1, 2])\n```\n\n"
        "*The answer was cut: no tokens were left.*\n\n"
        "*40 tokens · 51.2 tokens/s · first token after 0.50 s · 6 of 8 drafted tokens accepted (75%) · practice*\n\n"
        "## You\n\nThanks\n"
    )


def test_markdown_of_nothing_and_of_a_failure() -> None:
    assert markdown(replace(conversation(), title="")) == "# Conversation\n"
    failed = Turn("1", "assistant", "", 1.0, ended="failed", note="The engine\nis gone.")
    assert markdown(conversation(failed)).endswith("## Answer\n\n*The engine is gone.*\n")
    measured = replace(
        failed, note="", timings=Timings(predicted_tokens=2, tokens_per_second=3, measured_by="client")
    )
    assert markdown(conversation(measured)).endswith(
        "*The answer broke off.*\n\n*2 tokens · ≈ 3.0 tokens/s*\n"
    )
