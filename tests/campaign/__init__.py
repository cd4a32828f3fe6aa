"""The fault campaign: engines, files, ports and the launcher itself go wrong, hundreds of times, and every time it is
looked at what is left. ``python -m tests.campaign --help``."""
