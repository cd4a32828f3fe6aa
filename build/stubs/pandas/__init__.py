"""Stands in for pandas in the packaged app: Gradio names these two types when it is imported, and no page of ours
shows a table of its kind. The real one weighs 55 MB and half a second of each start."""

from __future__ import annotations


class DataFrame:
    """Nobody makes one."""


class Series:
    """Nobody makes one."""
