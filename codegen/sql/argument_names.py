"""Names as callers give them: one text, or several."""

from __future__ import annotations

from typing import Any

from aggloom.errors import SpecError


def names_of(what: str, given: Any) -> list[str]:
    """The names of an argument, which messages call `what`. Raises SpecError."""
    if isinstance(given, str):
        return [given]
    if not isinstance(given, list | tuple):
        raise SpecError(f"{what} is {given!r}; give a name, or a list of names.")
    for name in given:
        if not (isinstance(name, str) and name):
            raise SpecError(f"{what} names {name!r}; give names of columns.")
    return list(given)


def both_of(what: str, given: Any) -> tuple[str, str]:
    """The names of two tables. Raises SpecError."""
    found = [] if isinstance(given, str) else names_of(what, given)
    if len(found) != 2:
        raise SpecError(f"{what} is {given!r}; give those of both tables: ('l', 'r').")
    return found[0], found[1]
