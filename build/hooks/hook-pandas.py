"""Replaces the hook for the real pandas: the file of that name in the app (stubs/pandas) needs nothing."""
