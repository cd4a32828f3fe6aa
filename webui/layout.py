"""The frame of the page in Gradio: four tabs, the settings as components, the rest drawn by our scripts."""

from __future__ import annotations

from typing import Any

from webui.assets import address, scripts, text
from webui.settings_form import LIMITS

_STYLES = ("base.css", "chat.css", "answer.css", "race.css", "lab.css", "machine.css", "first.css")


def head() -> str:
    """What goes into the page's head: styles, scripts and the cover shown until the page is drawn."""
    links = "".join(f'<link rel="stylesheet" href="{address(name)}">' for name in _STYLES)
    links += "".join(f'<link rel="modulepreload" href="{address(name)}">' for name in scripts())
    return (
        f'{links}<link rel="icon" type="image/svg+xml" href="{address("icon.svg")}">'
        f"<script>{text('early.js')}</script>"
        f'<script type="module" src="{address("main.js")}"></script>'
    )


def make_blocks(gr: Any) -> Any:
    """The Blocks; ``gr`` is the gradio module. No event of it runs Python: what changes goes over our routes."""
    with gr.Blocks(title="Bonsai", fill_width=True, analytics_enabled=False) as blocks:
        _html(gr, "top.html", "b-top-host")
        with gr.Tabs(elem_id="b-tabs", overflow_behavior="wrap"):
            with gr.Tab("Chat", id="chat", elem_id="b-tab-chat"):
                _html(gr, "chat.html", "b-chat-host")
                with gr.Column(elem_id="b-settings"):
                    _settings(gr, blocks)
            with gr.Tab("Race", id="race", elem_id="b-tab-race", render_children=True):
                _html(gr, "race.html", "b-race-host")
            with gr.Tab("Lab", id="lab", elem_id="b-tab-lab", render_children=True):
                _html(gr, "lab.html", "b-lab-host")
            with gr.Tab("Machine", id="machine", elem_id="b-tab-machine", render_children=True):
                _html(gr, "machine.html", "b-machine-host")
    return blocks


def _html(gr: Any, name: str, elem_id: str) -> Any:
    return gr.HTML(text(name), elem_id=elem_id, js_on_load=None, apply_default_css=False)


def _settings(gr: Any, blocks: Any) -> None:
    _html(gr, "settings.html", "b-settings-head")
    fields = {
        "system_prompt": gr.Textbox(
            label="System prompt",
            info="Said to the model before every conversation.",
            placeholder="None",
            lines=3,
            max_lines=10,
            interactive=True,
            elem_id="b-set-system_prompt",
        ),
        "temperature": _slider(gr, "temperature", 0.05, "0 always takes the likeliest token.", 2),
        "top_p": _slider(gr, "top_p", 0.01, "Keeps the likeliest tokens up to this share.", 1),
        "top_k": _slider(gr, "top_k", 1, "Keeps this many of the likeliest tokens; 0 keeps all.", 100),
        "min_p": _slider(gr, "min_p", 0.01, "Drops tokens below this share of the likeliest.", 1),
        "max_tokens": _number(
            gr, "max_tokens", "Tokens. Automatic: what the context has left, 8,192 at most."
        ),
        "thinking_budget": _number(
            gr, "thinking_budget", "Tokens for thoughts. Automatic: no limit of its own."
        ),
        "seed": _number(gr, "seed", "A fixed number repeats an answer. Automatic: a new one each time."),
    }
    # Changes are heard by the scripts, on the fields themselves: no Python runs, no queue is involved, and a
    # pasted text, which Gradio's own input event misses, counts as well.
    names = list(fields)
    blocks.load(
        fn=None,
        outputs=[fields[name] for name in names],
        js=f"async () => await window.bonsaiSettings({names})",
    )


def _slider(gr: Any, name: str, step: float, info: str, high: float) -> Any:
    return gr.Slider(
        LIMITS[name].low,
        high,
        step=step,
        label=LIMITS[name].label,
        info=info,
        elem_id=f"b-set-{name}",
        buttons=[],
        interactive=True,
    )


def _number(gr: Any, name: str, info: str) -> Any:
    label = LIMITS[name].label.removeprefix("The ").capitalize()
    return gr.Number(
        None,
        label=label,
        info=info,
        placeholder="Automatic",
        precision=0,
        minimum=0,
        interactive=True,
        elem_id=f"b-set-{name}",
    )
