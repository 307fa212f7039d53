"""Errors of the libraries of lakes, in a line."""

from __future__ import annotations


def take_first_line(error: BaseException) -> str:
    """The first line of what went wrong: behind it the library's stack may be."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")
