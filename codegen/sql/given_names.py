"""Names as callers give them: one text, or several."""

from __future__ import annotations

from typing import Any

from aggloom.errors import SpecError


def names_of(what: str, given: Any) -> list[str]:
    """The names of an argument, which messages call `what`. Raises SpecError."""
    if isinstance(given, str):
        return [given]
    found = list(given) if isinstance(given, list | tuple) else [None]
    if not all(isinstance(name, str) and name for name in found):
        raise SpecError(f"{what} is {given!r}; give a name, or a list of names.")
    return found
