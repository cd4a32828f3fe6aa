"""What a mirror may say.

A mirror elsewhere must publish what the catalog pins. One on this machine is run by whoever runs the launcher: it may
publish something else, such as small stand-ins for a trial, and what it publishes is checked then.
"""

from __future__ import annotations

from urllib.parse import urlsplit

LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def is_here(url: str) -> bool:
    """Whether ``url`` leads to this machine itself."""
    try:
        return (urlsplit(url).hostname or "") in LOOPBACK
    except ValueError:
        return False
