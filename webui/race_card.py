"""A race as one HTML file: opens from disk, asks nobody for anything, and replays by itself. Pure."""

from __future__ import annotations

import html
import json
import re
from typing import Any

from launcher.race_types import Race
from webui.assets import text
from webui.race_views import plain_sentence, result_view

# The page's own modules, in an order in which each follows what it needs.
_MODULES = (
    "dom.js",
    "race_text.js",
    "race_figures.js",
    "race_ribbon.js",
    "race_replay.js",
    "race_result.js",
    "card.mjs",
)
_STYLES = ("base.css", "answer.css", "race.css", "card.css")
_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|let|class|function|async) )", re.MULTILINE)


def card(race: Race, *, with_texts: bool = True) -> str:
    """The file's text; ``with_texts`` False leaves out the prompt and both answers, not their lengths and times."""
    parts = {
        "TITLE": html.escape(plain_sentence(race)),
        "STYLE": "".join(map(text, _STYLES)),
        "DATA": script_data(result_view(race, with_texts=with_texts)),
        "SCRIPT": script(),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], text("card.html"))


def script_data(value: Any) -> str:
    """JSON that can stand in a script element: nothing in it ends the element or begins another."""
    made = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return made.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def script() -> str:
    """Our modules as one: what they take from one another is there already."""
    return "".join(_EXPORT.sub("", _IMPORT.sub("", text(name))) for name in _MODULES)
