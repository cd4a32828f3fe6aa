"""Markdown of any length in token-sized pieces, the same every time: what a long answer looks like."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

_PIECE = re.compile(r"\n+ *| ?[A-Za-z]{1,7}| ?\d{1,3}| ?[^\sA-Za-z\d]{1,3}| +")

_SECTION = """## Part {n}: how the queue empties

The worker takes item {n} from the queue, checks its *priority* and hands it to the **first free** handler. \
Nothing is lost when a handler stops: the item goes back with its count raised by one, and after {m} \
tries it is set aside — naïve retries would only make a busy system busier.

1. Read the head of the queue in `O(1)`.
2. Compare `deadline` with the clock; an item that is {m} ms late goes first.
3. Write the result, then acknowledge.

```python
def drain_{n}(queue, handler, limit={m}):
    \"\"\"Hand over at most limit items; return how many were done.\"\"\"
    done = 0
    while queue and done < limit:
        item = queue.popleft()
        if not handler(item):
            queue.append(item)
        done += 1
    return done
```

| step | items | seconds |
|------|------:|--------:|
| read | {n} | 0.{m} |
| hand over | {m} | 1.{n} |

The mean wait is $W = L / \\lambda$ with $\\lambda = {m}$ items a second, so ${n} \\cdot W$ bounds it.

"""


def pieces(text: str) -> list[str]:
    """Cut ``text`` into pieces of about one token; joined they are the text again."""
    cut = _PIECE.findall(text)
    assert "".join(cut) == text
    return cut


def _sections() -> Iterator[str]:
    for number in itertools.count(1):
        yield _SECTION.format(n=number, m=(number * 7) % 90 + 10)


def markdown(tokens: int) -> list[str]:
    """``tokens`` pieces of Markdown with headings, lists, code, tables and formulas."""
    out: list[str] = []
    for section in _sections():
        out += pieces(section)
        if len(out) >= tokens:
            break
    return out[:tokens]


def thoughts(tokens: int) -> list[str]:
    """``tokens`` pieces of plain prose, as a model thinks."""
    line = "First the question: what is asked, and what would a short answer leave out? I weigh both. "
    cut = pieces(line)
    return list(itertools.islice(itertools.cycle(cut), tokens))
