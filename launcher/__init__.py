"""Bonsai Launcher: find, start, supervise and measure speculative decoding at home."""

__version__ = "0.1.0"
