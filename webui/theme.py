"""Gradio's theme, tied to the page's own colours and to fonts that every machine has."""

from __future__ import annotations

import inspect
from typing import Any

SANS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "Arial", "sans-serif")
MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace")

_OURS = {
    "body_background_fill": "var(--b-bg)",
    "body_text_color": "var(--b-text)",
    "body_text_color_subdued": "var(--b-muted)",
    "background_fill_primary": "var(--b-panel)",
    "background_fill_secondary": "var(--b-side)",
    "border_color_primary": "var(--b-line)",
    "border_color_accent": "var(--b-accent)",
    "color_accent": "var(--b-accent)",
    "color_accent_soft": "var(--b-user)",
    "block_background_fill": "transparent",
    "block_border_width": "0px",
    "block_label_text_color": "var(--b-text)",
    "block_title_text_color": "var(--b-text)",
    "block_info_text_color": "var(--b-muted)",
    "block_title_text_size": "13px",
    "block_info_text_size": "12px",
    "block_padding": "0px",
    "block_shadow": "none",
    "input_background_fill": "var(--b-panel)",
    "input_background_fill_focus": "var(--b-panel)",
    "input_border_color": "var(--b-edge)",
    "input_border_color_focus": "var(--b-accent)",
    "input_placeholder_color": "var(--b-muted)",
    "input_radius": "8px",
    "input_text_size": "14px",
    "slider_color": "var(--b-accent)",
    "checkbox_background_color_selected": "var(--b-accent)",
    "link_text_color": "var(--b-accent)",
}


def make_theme(gr: Any) -> Any:
    """A theme object for ``gr`` (the gradio module). The page's colours follow the scheme by themselves, so
    the names for the dark one, where Gradio has them, get the same values."""
    base = gr.themes.Base(font=SANS, font_mono=MONO)
    known = inspect.signature(base.set).parameters
    dark = {f"{name}_dark": value for name, value in _OURS.items()}
    return base.set(**{name: value for name, value in {**_OURS, **dark}.items() if name in known})
