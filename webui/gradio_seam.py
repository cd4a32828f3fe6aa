"""The one place that reaches into Gradio's insides; each reach is guarded and the page works without it."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_IMPORTING = threading.Lock()


def gradio_environment(current: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables to set before Gradio is imported: no telemetry, and no proxy between us and this machine.

    ``current`` is the environment as it is: the person's own NO_PROXY is kept and added to. A SOCKS proxy for
    everything breaks the import of Gradio's HTTP client, so it is blanked; proxies by scheme stay.
    """
    current = current or {}
    changed = {
        "GRADIO_ANALYTICS_ENABLED": "False",
        "GRADIO_ANALYTICS_CACHE_FREQUENCY": "1000000000",  # a pandas group-by after each event, else
        "GRADIO_RUN_HISTORY": "False",
        "GRADIO_SSR_MODE": "False",
        "GRADIO_SHARE": "False",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    for name in ("NO_PROXY", "no_proxy"):
        hosts = [host.strip() for host in current.get(name, "").split(",") if host.strip()]
        hosts += [host for host in ("localhost", "127.0.0.1", "::1") if host not in hosts]
        changed[name] = ",".join(hosts)
    for name in ("ALL_PROXY", "all_proxy"):
        if current.get(name, "").lower().startswith("socks"):
            changed[name] = ""
    return changed


def import_gradio() -> Any:
    """The gradio module. Skips the rewriting of its type stubs, a third of the import."""
    with _IMPORTING, _no_stub_writing():
        import gradio

        return gradio


@contextmanager
def _no_stub_writing() -> Iterator[None]:
    """Gradio asks for each component's source file to write a stub beside it, and takes OSError for "has none"."""
    place: Any = inspect
    original: Callable[[Any], str] = place.getfile

    def getfile(thing: Any) -> str:
        if isinstance(thing, type) and thing.__module__.startswith("gradio."):
            raise OSError("stubs of installed packages are not rewritten")
        return original(thing)

    place.getfile = getfile
    try:
        yield
    finally:
        place.getfile = original


def calm_queue(blocks: Any) -> None:
    """The event queue looks for work a thousand times a second; twenty times is plenty for a page without events."""
    queue = getattr(blocks, "_queue", None)
    for name, seconds in (("sleep_when_free", 0.05), ("progress_update_sleep_when_free", 0.5)):
        if isinstance(getattr(queue, name, None), int | float):
            setattr(queue, name, seconds)
