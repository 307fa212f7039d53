"""Errors of the libraries of Delta and Iceberg, in a line."""

from __future__ import annotations


def take_first_line(error: BaseException) -> str:
    """The first line of an error's text, which a stack of the library may follow."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")
