"""Pure: one value of the config file changed; every other line, comment and the order stay as somebody wrote them."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
# A value as it stands on one line, and the comment behind it.
_VALUE = r"\"\"\".*?\"\"\"|'''.*?'''|\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s\"'#]+"


def with_value(text: str, key: str, value: str | None) -> str | None:
    """``text``, which is valid TOML without tables, with ``key`` set to ``value``, or without the key (None). A comment
    on the key's own line is kept. None where that cannot be done without touching anything else."""
    before = tomllib.loads(text)
    wanted = {name: it for name, it in before.items() if name != key}
    if value is not None:
        wanted[key] = value
    if before == wanted:
        return text
    # What looks like a line of ours may be a part of a longer text: only what says just that is taken.
    return next((it for it in _candidates(text, key, value, there=key in before) if _says(it, wanted)), None)


def _says(text: str, wanted: dict[str, object]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False


def _candidates(text: str, key: str, value: str | None, *, there: bool) -> Iterator[str]:
    quoted = "" if value is None else json.dumps(value)
    if not there:  # at the end, so that no other line gets another number
        newline = "\r\n" if "\r\n" in text else "\n"
        begun = newline if text and not text.endswith("\n") else ""
        yield f"{text}{begun}{key} = {quoted}{newline}"
        return
    whole = re.compile(
        rf"(?P<head>[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*=[ \t]*)(?:{_VALUE})"
        r"(?P<gap>[ \t]*)(?P<comment>#[^\r\n]*)?(?P<end>\r?\n?)"
    )
    lines = _LINE.findall(text)
    for at, line in enumerate(lines):
        found = whole.fullmatch(line)
        if not found:
            continue
        comment = found["comment"] or ""
        if value is not None:
            changed = f"{found['head']}{quoted}{found['gap']}{comment}{found['end']}"
        else:
            changed = f"{comment}{found['end']}" if comment else ""
        yield "".join((*lines[:at], changed, *lines[at + 1 :]))
