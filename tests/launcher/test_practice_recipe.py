"""What the practice pair says: its texts, tables and choice of text, and the acceptance they lead to."""

from __future__ import annotations

from functools import cache

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher import practice_texts
from launcher.practice import AGREEMENT, KINDS, expected_acceptance, kind_of, known_text, known_thinking
from launcher.practice_recipe import BYTE, CONTROL, NORMAL, USER_DEFINED, Recipe, make_recipe


def spoken(recipe: Recipe, ids: tuple[int, ...]) -> str:
    """The text of tokens as an engine shows it, control tokens left out."""
    raw = b""
    for token in (recipe.tokens[i] for i in ids):
        if token.type == BYTE:
            raw += bytes([int(token.text[3:5], 16)])
        elif token.type == NORMAL:
            raw += token.text.replace("\u2581", " ").encode()
        elif token.type == USER_DEFINED:
            raw += token.text.encode()
    return raw.decode()


# -- texts and tables


def test_following_the_target_gives_each_text_byte_for_byte() -> None:
    recipe = make_recipe()
    by_name = {token.text: index for index, token in enumerate(recipe.tokens)}
    for kind in KINDS:
        ids, at = [], by_name[f"<|{kind}|>"]
        while (at := recipe.successor[at]) != recipe.eos:
            ids.append(at)
        assert len(ids) == len(set(ids))
        thoughts = f"<think>\n{known_thinking(kind)}</think>\n\n" if kind == "thinking" else ""
        assert spoken(recipe, tuple(ids)) == thoughts + known_text(kind)


def test_tokens_are_unique_and_look_like_tokens() -> None:
    recipe = make_recipe()
    texts = [token.text for token in recipe.tokens]
    assert len(texts) == len(set(texts))
    assert not any("\u200b" in text or "\ufeff" in text for text in texts)
    for kind, script in recipe.scripts.items():
        pieces = [recipe.tokens[i] for i in script if recipe.tokens[i].type in (NORMAL, USER_DEFINED)]
        average = sum(len(piece.text) for piece in pieces) / len(pieces)
        assert average < (7 if kind == "rewrite" else 4.5), kind
    assert sum(token.type == CONTROL for token in recipe.tokens) < 32


def test_texts_are_what_the_page_needs() -> None:
    assert len(make_recipe().scripts["long"]) >= 2000
    assert "\n```python\ndef quicksort" in known_text("code")
    assert "\n    pivot = items[" in known_text("code")
    assert any(ord(char) > 127 and char.isalpha() for char in known_text("prose"))
    assert "\n| n |" in known_text("maths")
    assert "\n1. " in known_text("maths")
    assert r"$$\sum_" in known_text("maths")
    assert "not a language model" in known_text("chat")
    for text in practice_texts.TEXTS.values():
        assert text == text.strip()
        assert "\u2581" not in text
    compile(known_text("code").split("```python\n")[1].split("```")[0], "quicksort", "exec")
    for listing in (practice_texts.REWRITE_INPUT, known_text("rewrite")):
        compile(listing, "rewrite", "exec")


def test_one_character_is_spelled_in_bytes() -> None:
    recipe = make_recipe()
    spelled = [i for i in recipe.scripts["prose"] if recipe.tokens[i].type == BYTE]
    assert spoken(recipe, tuple(spelled)) == "🌊"


def test_rewriting_uses_the_same_tokens_for_the_same_text() -> None:
    """Each piece stands once in the text, so the tokenizer can only cut the prompt as the answer is cut."""
    recipe = make_recipe()
    text = known_text("rewrite")
    for index in recipe.scripts["rewrite"]:
        assert text.count(recipe.tokens[index].text) == 1


def test_the_drafter_errs_on_the_share_that_was_asked_for() -> None:
    for agreement in (None, {"code": 0.5, "prose": 1.0, "chat": 0.0}):
        recipe = make_recipe(agreement)
        for kind, share in (dict(AGREEMENT) | (agreement or {})).items():
            script = recipe.scripts[kind]
            agreed = sum(recipe.guess[i] == recipe.successor[i] for i in script)
            assert agreed == len(script) - max(1, round((1 - share) * len(script)))
            # Engines count an end of text that was drafted in different ways: it never is.
            assert recipe.guess[script[-1]] != recipe.successor[script[-1]] == recipe.eos


def test_bad_agreement_is_refused() -> None:
    with pytest.raises(ValueError, match="no kind of text is called 'verse'"):
        make_recipe({"verse": 0.5})
    with pytest.raises(ValueError, match="between 0 and 1"):
        make_recipe({"code": 1.5})


# -- acceptance


# Counted by llama-server b11434 at temperature 0: kind, --spec-draft-n-max, max_tokens, then draft_n,
# draft_n_accepted and predicted_n of its timings.
MEASURED = [
    ("code", 4, None, 320, 262, 343),
    ("code", 4, 50, 48, 36, 50),
    ("code", 4, 51, 49, 37, 51),
    ("prose", 4, None, 664, 189, 356),
    ("prose", 4, 50, 96, 23, 50),
    ("prose", 4, 51, 99, 23, 51),
    ("thinking", 4, None, 348, 172, 260),
    ("thinking", 4, 50, 67, 32, 50),
    ("thinking", 4, 51, 68, 33, 51),
    ("long", 4, None, 2592, 1533, 2182),
    ("long", 4, 50, 56, 34, 50),
    ("long", 4, 51, 57, 35, 51),
    ("maths", 4, None, 204, 134, 186),
    ("maths", 4, 50, 50, 36, 50),
    ("maths", 4, 51, 51, 36, 51),
    ("chat", 4, None, 260, 105, 171),
    ("chat", 4, 50, 64, 32, 50),
    ("chat", 4, 51, 65, 33, 51),
    ("rewrite", 4, None, 96, 89, 114),
    ("rewrite", 4, 50, 40, 38, 50),
    ("rewrite", 4, 51, 41, 39, 51),
    ("code", 1, 33, 16, 16, 33),
    ("prose", 1, 33, 21, 10, 33),
    ("code", 2, 33, 22, 21, 33),
    ("prose", 2, 33, 34, 14, 33),
    ("code", 3, 33, 25, 23, 33),
    ("prose", 3, 33, 47, 15, 33),
    ("code", 7, 33, 28, 24, 33),
    ("prose", 7, 33, 61, 15, 33),
]


@pytest.mark.parametrize(("kind", "n_max", "max_tokens", "drafted", "accepted", "written"), MEASURED)
def test_expected_acceptance_is_what_the_engine_counted(
    kind: str, n_max: int, max_tokens: int | None, drafted: int, accepted: int, written: int
) -> None:
    expected = expected_acceptance(kind, n_max=n_max, max_tokens=max_tokens)
    assert (expected.draft_n, expected.draft_n_accepted) == (drafted, accepted)
    assert expected.predicted_n == written
    assert expected.acceptance == accepted / drafted
    assert expected.draft_n == sum(block for block, _ in expected.blocks)


def test_acceptance_of_a_drafter_that_always_or_never_agrees() -> None:
    tokens = len(make_recipe().scripts["prose"]) + 1
    never = expected_acceptance("prose", agreement={"prose": 0.0})
    assert (never.draft_n, never.draft_n_accepted, never.predicted_n) == (4 * (tokens - 1), 0, tokens)
    always = expected_acceptance("prose", agreement={"prose": 1.0})
    rounds = -(-(tokens - 1) // 5)
    assert always.draft_n == 4 * rounds
    assert always.draft_n_accepted == tokens - 1 - rounds
    assert expected_acceptance("prose", agreement={"prose": 1.0}, n_max=1).draft_n == -(-(tokens - 1) // 2)


def test_acceptance_when_the_answer_is_cut() -> None:
    cut = expected_acceptance("prose", agreement={"prose": 0.0}, max_tokens=7)
    # One token from the prompt, then drafts of 4, 4, 3, 2, 1 and, with one token left, none.
    assert (cut.draft_n, cut.draft_n_accepted, cut.predicted_n) == (14, 0, 7)
    assert cut.blocks == ((4, 0), (4, 0), (3, 0), (2, 0), (1, 0))
    for few in (1, 2):
        nothing = expected_acceptance("code", max_tokens=few)
        assert (nothing.draft_n, nothing.acceptance, nothing.predicted_n) == (0, None, few)
    whole = expected_acceptance("code")
    assert expected_acceptance("code", max_tokens=9999) == whole


def test_a_longer_draft_length_than_the_block_is_clamped() -> None:
    assert expected_acceptance("code", n_max=16) == expected_acceptance("code", n_max=4)
    assert expected_acceptance("code", n_max=2).draft_n < expected_acceptance("code").draft_n


def test_thinking_off_counts_the_answer_alone() -> None:
    whole, answer = expected_acceptance("thinking"), expected_acceptance("thinking", thinking=False)
    assert 0 < answer.predicted_n < whole.predicted_n


# -- the choice of text


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ("Implement quicksort in Python.", "code"),
        (
            "Scrivi in Python una classe LRUCache con metodi get e put, complessità O(1), "
            "con docstring e un piccolo test.",
            "code",
        ),
        ("Scrivi un racconto di 300 parole su un faro abbandonato, con un finale a sorpresa.", "prose"),
        ("Tell me a STORY about a cat!", "prose"),
        ("Raccontami una favola", "prose"),
        ("Think about it: which is heavier?", "thinking"),
        ("Ragiona passo per passo", "thinking"),
        ("Write a long answer about bandwidth", "long"),
        ("Un testo lungo, per favore", "long"),
        ("Solve x + 1 = 3", "maths"),
        ("Dimostra il teorema di Pitagora", "maths"),
        ("Rewrite this with type hints:\n\n" + practice_texts.REWRITE_INPUT, "rewrite"),
        ("Riscrivi questo codice", "rewrite"),
        ("Hello", "chat"),
        ("Ciao, come stai?", "chat"),
        ("What thing is along the way?", "chat"),
        ("", "chat"),
    ],
)
def test_kind_of(prompt: str, kind: str) -> None:
    assert kind_of(prompt) == kind


def test_the_suggestions_in_the_chat_text_lead_where_they_say() -> None:
    suggested = [line[3:-1] for line in known_text("chat").splitlines() if line.startswith("- “")]
    assert [kind_of(prompt) for prompt in suggested] == ["code", "prose", "thinking", "maths", "long"]


def rendered(messages: list[dict[str, str]], **more: object) -> str:
    return the_template().render(messages=messages, add_generation_prompt=True, **more)


@cache
def the_template() -> jinja2.Template:
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)  # noqa: S701 - no HTML
    return environment.from_string(make_recipe().template)


def picked(prompt: str) -> str:
    return rendered([{"role": "user", "content": prompt}]).rsplit("<|", 1)[1].removesuffix("|>")


WORD = st.sampled_from(
    [word.strip() for _, words in practice_texts.WORDS for word in words]
    + ["cat", "longing", "a", "the", "2", "000", "Ångström", "ß", "🙂"]
)
GLUE = st.sampled_from([" ", "  ", "-", ", ", ".\n", "'", "“", "x", "", "\t", "=", "(", "…", "\u2028"])


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(WORD, GLUE, st.booleans()), max_size=6))
def test_template_and_kind_of_agree(words: list[tuple[str, str, bool]]) -> None:
    prompt = "".join((word.upper() if shout else word) + glue for word, glue, shout in words)
    assert picked(prompt) == kind_of(prompt)


def test_only_the_last_user_message_counts_and_all_are_in_the_prompt() -> None:
    messages = [
        {"role": "system", "content": "Tell long stories."},
        {"role": "user", "content": "Python?"},
        {"role": "assistant", "content": "A story.", "reasoning_content": "Hm."},
        {"role": "user", "content": "hello"},
    ]
    assert rendered(messages) == (
        "<|system|>Tell long stories.<|turn_end|><|user|>Python?<|turn_end|>"
        "<|assistant|><think>\nHm.\n</think>\n\nA story.<|turn_end|><|user|>hello<|turn_end|>"
        "<|assistant|><|chat|>"
    )
    assert rendered([{"role": "system", "content": "story"}]).endswith("<|assistant|><|chat|>")


def test_thinking_can_be_switched_off() -> None:
    ask = [{"role": "user", "content": "Think."}]
    assert rendered(ask, enable_thinking=True).endswith("<|assistant|><|thinking|>")
    # The tags' tokens end with the one that the answer's first token follows.
    assert rendered(ask, enable_thinking=False).endswith("<|assistant|><think>\n\n</think>\n\n")
    recipe = make_recipe()
    last = next(i for i, token in enumerate(recipe.tokens) if token.text == "\n\n")
    script = recipe.scripts["thinking"]
    assert recipe.successor[last] == script[recipe.answer_at]
    assert spoken(recipe, script[recipe.answer_at :]) == known_text("thinking")
