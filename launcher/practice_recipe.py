"""What the practice pair is made of: its vocabulary, the target's successor table, the drafter's guesses.

Pure. The target writes one token after another by looking up the last one, so each token of a text has to
occur once in all texts together: the texts are cut into pieces until that holds. The drafter looks up its
own table, which agrees with the target's on a chosen share of tokens.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from launcher.practice_texts import TEXTS, THOUGHTS, WORDS

KINDS = tuple(TEXTS)
BLOCK_SIZE = 4
# Share of tokens on which the drafter agrees with the target, by kind of text.
AGREEMENT: Mapping[str, float] = {
    "code": 0.92,
    "prose": 0.55,
    "thinking": 0.75,
    "long": 0.80,
    "maths": 0.85,
    "chat": 0.65,
    "rewrite": 0.95,
}

# GGUF token types.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
# Characters that are written byte by byte, as real vocabularies do with rare ones: a client meets
# tokens that show nothing until the last byte of the character has come.
_BY_BYTES = "🌊"
_PUNCTUATION = ".,;:!?()[]{}<>\"'`*_/\\-–—“”‘’«»…\n\r\t"
_ROLES = ("system", "user", "assistant", "tool", "turn_end", "mask", *KINDS)


@dataclass(frozen=True)
class PracticeSize:
    """Shape of the target. ``n_embd`` and ``n_ff`` are multiples of 64, ``n_head`` even and a divisor."""

    name: str
    n_embd: int
    n_layer: int
    n_ff: int
    n_head: int


SIZES: dict[str, PracticeSize] = {
    size.name: size
    for size in (
        PracticeSize("small", 512, 10, 2048, 8),
        PracticeSize("medium", 768, 12, 3072, 12),
        PracticeSize("large", 1024, 14, 4096, 16),
        PracticeSize("xlarge", 2048, 16, 8192, 16),
    )
}


@dataclass(frozen=True)
class Token:
    """``text`` as it stands in the GGUF (SentencePiece's U+2581 for a blank in ordinary pieces)."""

    text: str
    type: int


@dataclass(frozen=True)
class Recipe:
    """Token ids throughout. ``scripts`` has one list a kind, without the end-of-text token;
    ``successor`` is the target's table, ``guess`` the drafter's."""

    tokens: tuple[Token, ...] = field(repr=False)
    bos: int
    eos: int
    unknown: int
    mask: int
    scripts: Mapping[str, tuple[int, ...]] = field(repr=False)
    answer_at: int  # where the answer begins in the thinking script
    successor: Mapping[int, int] = field(repr=False)
    guess: Mapping[int, int] = field(repr=False)
    template: str = field(repr=False)

    def digest(self) -> str:
        """sha256 (hex) of everything that ends up in the files, apart from their size."""
        parts = [
            [[token.text, token.type] for token in self.tokens],
            sorted(self.successor.items()),
            sorted(self.guess.items()),
            self.template,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True)
class Expected:
    """What llama-server counts for one answer: ``draft_n`` proposed, ``draft_n_accepted`` kept.

    ``predicted_n`` counts all tokens written, the one that ends the text included. ``acceptance`` is
    None when nothing is drafted. ``blocks`` has (drafted, accepted) for each verify block.
    """

    draft_n: int
    draft_n_accepted: int
    acceptance: float | None
    predicted_n: int
    blocks: tuple[tuple[int, int], ...] = field(default=(), repr=False)


def known_text(kind: str) -> str:
    """The answer that the pair gives to prompts of ``kind``; KeyError for an unknown kind."""
    return TEXTS[kind]


def known_thinking(kind: str) -> str:
    """The thoughts that precede it, as llama-server returns them in ``reasoning_content``."""
    return THOUGHTS if kind == "thinking" else ""


def kind_of(prompt: str) -> str:
    """Which text the chat template picks for a last user message ``prompt``."""
    asked = f" {prompt.translate(_FOLD)} "
    return next((kind for kind, words in WORDS if any(word in asked for word in words)), "chat")


_FOLD = {ord(char): " " for char in _PUNCTUATION} | {
    code: code + 32 for code in range(ord("A"), ord("Z") + 1)
}


def expected_acceptance(
    kind: str,
    *,
    agreement: Mapping[str, float] | None = None,
    block_size: int = BLOCK_SIZE,
    n_max: int | None = None,
    max_tokens: int | None = None,
    thinking: bool = True,
) -> Expected:
    """What the engine will count for the text of ``kind`` with ``--spec-type draft-dspark``.

    Walks the tables as llama-server's slot does (tools/server/server-context.cpp): the first token comes
    from the prompt; then each round drafts ``min(n_max, block_size, tokens left - 1)`` tokens, keeps them
    up to the first difference and adds one of the target's own. With no room for a draft the target writes
    one token alone. ``n_max`` is the draft length, by default the block size; ``max_tokens`` None means no
    limit; ``thinking`` False starts at the answer.
    """
    recipe = make_recipe(agreement)
    script = recipe.scripts[kind]
    if kind == "thinking" and not thinking:
        script = script[recipe.answer_at :]
    length = min(block_size, n_max) if n_max is not None else block_size
    total = len(script) + 1
    limit = total if max_tokens is None else min(total, max_tokens)
    blocks: list[tuple[int, int]] = []
    written, last = 1, script[0]
    while written < limit:
        room = length if max_tokens is None else min(length, max_tokens - written - 1)
        kept = 0
        if room > 0:
            while kept < room and recipe.guess[last] == recipe.successor[last]:
                last = recipe.guess[last]
                kept += 1
            blocks.append((room, kept))
        last = recipe.successor[last]
        written += kept + 1
    drafted, accepted = (sum(block[i] for block in blocks) for i in (0, 1))
    share = accepted / drafted if drafted else None
    return Expected(drafted, accepted, share, min(written, limit), tuple(blocks))


def full_agreement(agreement: Mapping[str, float] | None) -> dict[str, float]:
    """The defaults with ``agreement`` over them; ValueError for an unknown kind or a share outside 0..1."""
    result = dict(AGREEMENT)
    for kind, share in (agreement or {}).items():
        if kind not in result:
            raise ValueError(f"no kind of text is called {kind!r}")
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"the agreement for {kind!r} must lie between 0 and 1, not {share}")
        result[kind] = float(share)
    return result


def make_recipe(agreement: Mapping[str, float] | None = None) -> Recipe:
    """The recipe for the given agreement by kind (missing kinds: the default)."""
    return _make(tuple(sorted(full_agreement(agreement).items())))


@lru_cache(maxsize=8)
def _make(agreement: tuple[tuple[str, float], ...]) -> Recipe:
    words = _Vocabulary()
    unknown, bos, eos = (
        words.add(t, k) for t, k in (("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL))
    )
    for value in range(256):
        words.add(f"<0x{value:02X}>", BYTE)
    role = {name: words.add(f"<|{name}|>", CONTROL) for name in _ROLES}
    scripts: dict[str, tuple[int, ...]] = {}
    # First, since its pieces are the pickiest; see _Vocabulary.write_once.
    scripts["rewrite"] = words.write_once(TEXTS["rewrite"])
    think_open, think_close = words.add("<think>", USER_DEFINED), words.add("</think>", USER_DEFINED)
    after_open, after_close = words.add("\n", NORMAL), words.add("\n\n", NORMAL)
    thoughts = (think_open, after_open, *words.write(THOUGHTS), think_close, after_close)
    scripts["thinking"] = (*thoughts, *words.write(TEXTS["thinking"]))
    for kind in KINDS:
        if kind not in scripts:
            scripts[kind] = words.write(TEXTS[kind])

    successor, guess = {eos: eos}, {eos: bos}
    for kind, share in agreement:
        script = scripts[kind]
        successor[role[kind]] = guess[role[kind]] = script[0]
        follows = dict(zip(script, (*script[1:], eos), strict=True))
        successor.update(follows)
        guess.update(_guesses(kind, script, follows, share))
    return Recipe(
        tokens=tuple(words.tokens),
        bos=bos,
        eos=eos,
        unknown=unknown,
        mask=role["mask"],
        scripts={kind: scripts[kind] for kind in KINDS},
        answer_at=len(thoughts),
        successor=successor,
        guess=guess,
        template=_template(),
    )


def _guesses(kind: str, script: tuple[int, ...], follows: Mapping[int, int], share: float) -> dict[int, int]:
    """The drafter's table for one text: wrong on a seeded random choice of ``1 - share`` of its tokens.

    The last one is always among them: engines differ in whether an end of text that was drafted counts as
    accepted, so none is ever drafted where it belongs.
    """
    chance = random.Random(f"practice pair/{kind}")  # noqa: S311 - must come out the same everywhere
    order = [script[-1], *sorted(script[:-1], key=lambda _: chance.random())]
    wrong = set(order[: max(1, round((1 - share) * len(script)))])
    result = {}
    for token in script:
        other = script[int(chance.random() * len(script))]
        if other == follows[token]:
            other = token
        result[token] = other if token in wrong else follows[token]
    return result


class _Vocabulary:
    """Collects tokens; every text that is written gets pieces that no other text has."""

    def __init__(self) -> None:
        self.tokens: list[Token] = []
        self._ids: dict[str, int] = {}

    def add(self, text: str, kind: int) -> int:
        """The id of a new token of that kind; ValueError for a text that is one already."""
        if text in self._ids:
            raise ValueError(f"the token {text!r} stands in the vocabulary already")
        self._ids[text] = len(self.tokens)
        shown = text.replace(" ", "\N{LOWER ONE EIGHTH BLOCK}") if kind == NORMAL else text
        self.tokens.append(Token(shown, kind))
        return self._ids[text]

    def write(self, text: str) -> tuple[int, ...]:
        """Cut ``text`` into new pieces of two to four letters where possible; returns their ids."""
        ids: list[int] = []
        at = 0
        while at < len(text):
            if text[at] in _BY_BYTES:
                ids.extend(self._ids[f"<0x{byte:02X}>"] for byte in text[at].encode())
                at += 1
                continue
            end = min((text.find(c, at) for c in _BY_BYTES if c in text[at:]), default=len(text))
            pieces = self._pieces(text[at:end])
            ids.extend(self.add(piece, NORMAL) for piece in pieces)
            at = end
        return tuple(ids)

    def _pieces(self, text: str) -> list[str]:
        pieces: list[str] = []
        taken = set(self._ids)
        at = 0
        while at < len(text):
            piece = _next_piece(text, at, taken)
            while piece is None or piece in taken:  # a tail that occurred before: longer, to the left
                if not pieces:
                    raise ValueError(f"the text {text!r} cannot be cut into new pieces")
                at -= len(pieces[-1])
                taken.discard(pieces.pop())
                piece = text[at:]
            pieces.append(piece)
            taken.add(piece)
            at += len(piece)
        return pieces

    def write_once(self, text: str) -> tuple[int, ...]:
        """Cut ``text`` into pieces that occur in it once, as tokens that the tokenizer finds first.

        The same text in a prompt is then read as the same tokens, so drafters that look for repeated
        tokens (n-gram) find them, as they do with a real model that rewrites its input.
        """
        ids: list[int] = []
        at = 0
        while at < len(text):
            end = at + 2
            while end < len(text) and text.count(text[at:end]) > 1:
                end += 1
            if text.count(text[end:]) > 1 and len(text) - end < 12:
                end = len(text)
            ids.append(self.add(text[at:end], USER_DEFINED))
            at = end
        return tuple(ids)


def _next_piece(text: str, at: int, taken: Container[str]) -> str | None:
    """The piece of ``text`` to cut off at ``at``: it ends with a word where a short one does, else it is
    the shortest new one of two letters or more; None when the rest holds no new piece."""
    for length in (3, 4, 2, 5):
        piece = text[at : at + length]
        following = text[at + length : at + length + 1]
        if len(piece) == length and piece[-1].isalnum() and not following.isalnum() and piece not in taken:
            return piece
    for end in range(at + 2, len(text) + 1):
        if text[at:end] not in taken:
            return text[at:end]
    return None


def _template() -> str:
    """The chat template (Jinja): the conversation as tokens, then the token that starts the text which the
    last user message calls for. The same choice as kind_of, and in the shape in which llama.cpp recognises
    thinking: thoughts of earlier answers in think tags, an empty pair of them when thinking is off."""
    fold = "".join(f" | replace({json.dumps(char, ensure_ascii=False)}, ' ')" for char in _PUNCTUATION)
    choice = ""
    for kind, words in WORDS:
        test = " or ".join(f"{json.dumps(word)} in asked" for word in words)
        choice += ("{%- elif " if choice else "{%- if ") + test + " %}" + f"{{%- set kind = {kind!r} %}}"
    return (
        "{%- set ns = namespace(asked='') %}"
        "{%- for message in messages %}"
        "{%- if message.role == 'user' %}{%- set ns.asked = message.content %}{%- endif %}"
        "{{- '<|' + message.role + '|>' }}"
        "{%- if message.role == 'assistant' and message.reasoning_content %}"
        "{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}{%- endif %}"
        "{{- message.content }}{{- '<|turn_end|>' }}"
        "{%- endfor %}"
        "{%- if add_generation_prompt %}"
        "{{- '<|assistant|>' }}"
        "{%- set asked = ' ' + (ns.asked | lower"
        + fold
        + ") + ' ' %}"
        + choice
        + "{%- else %}{%- set kind = 'chat' %}{%- endif %}"
        "{%- if kind == 'thinking' and enable_thinking is defined and not enable_thinking %}"
        "{{- '<think>\\n\\n</think>\\n\\n' }}"
        "{%- else %}{{- '<|' + kind + '|>' }}{%- endif %}"
        "{%- endif %}"
    )
