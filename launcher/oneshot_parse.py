"""Pure: what llama-speculative-simple prints -> the answer and its figures.

stdout: two line feeds, the prompt as its tokens read, the text, two pairs of line feeds. stderr: its log, at the end of
which stand "encoded ... tokens in ... seconds", "decoded ...", and "n_draft", "n_predict", "n_drafted", "n_accept".

It counts a little otherwise than llama-server: the first token of the answer comes out of a verify step here, where
the server takes it with the prompt; and the last step may write a few tokens more than were asked for.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from launcher.client.events import Timings

LEAD = "\n\n"
_SPEED = r"\s+(\d+) tokens in\s+([\d.]+) seconds, speed:\s+([\d.]+|inf|nan)"
_COUNT = r"^.*\b{}\s*=\s*(\d+)\s*$"


@dataclass(frozen=True)
class Counted:
    """The figures of one run. Speeds in tokens a second, times in seconds."""

    prompt_tokens: int
    prompt_s: float
    predicted: int
    decode_s: float
    n_draft: int
    n_drafted: int
    n_accept: int

    @property
    def timings(self) -> Timings:
        """In the form of every other answer; the time to the first token is not told."""
        return Timings(
            prompt_tokens=self.prompt_tokens,
            cached_tokens=0,
            prompt_tokens_per_second=self.prompt_tokens / self.prompt_s if self.prompt_s > 0 else None,
            predicted_tokens=self.predicted,
            tokens_per_second=self.predicted / self.decode_s if self.decode_s > 0 else None,
            total_s=self.prompt_s + self.decode_s,
            draft_n=self.n_drafted or None,
            draft_n_accepted=self.n_accept if self.n_drafted else None,
            measured_by="llama-speculative-simple",
        )


def counted(log: str) -> Counted | None:
    """The figures in its stderr; None when they are not all there, because it broke off."""
    encoded = re.search("encoded" + _SPEED, log)
    decoded = re.search("decoded" + _SPEED, log)
    names = ("n_draft", "n_predict", "n_drafted", "n_accept")
    numbers = [re.search(_COUNT.format(name), log, re.MULTILINE) for name in names]
    if encoded is None or decoded is None or not all(numbers):
        return None
    n_draft, n_predict, n_drafted, n_accept = (int(found[1]) for found in numbers if found)
    return Counted(
        int(encoded[1]), float(encoded[2]), n_predict, float(decoded[2]), n_draft, n_drafted, n_accept
    )


class Answer:
    """Feed stdout as it comes, get the text of the answer alone. ``prompt``: what was asked, template applied.

    A tokenizer may read the prompt back a little otherwise (a token for the beginning in front of it): its last line
    is looked for then, once the answer is over.
    """

    def __init__(self, prompt: str) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._start = LEAD + prompt
        self._seen = ""
        self._given = ""
        self._prompt = prompt

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """More of the answer; line feeds at its end wait until more text follows."""
        # Windows writes a line feed as two characters.
        self._seen += self._decoder.decode(data, final).replace("\r\n", "\n")
        text = self._text(final=final)
        new = text[len(self._given) :]
        self._given = text
        return new

    @property
    def text(self) -> str:
        """All that was given so far."""
        return self._given

    def _text(self, *, final: bool) -> str:
        if self._seen.startswith(self._start):
            return self._seen[len(self._start) :].rstrip("\n")
        if not final:
            return ""
        for marker in (self._prompt, self._prompt.rstrip("\n").rpartition("\n")[2]):
            _, found, rest = self._seen.partition(marker) if marker else ("", "", "")
            if found:
                return rest.strip("\n")
        return self._seen.strip("\n")
