"""Names as callers give them: one text, or several."""

from __future__ import annotations

from typing import Any

from aggloom.errors import SpecError


def names_of(what: str, names: Any) -> list[str]:
    """The names of an argument, which messages call `what`. Raises SpecError."""
    if isinstance(names, str):
        return [names]
    if not isinstance(names, list | tuple):
        raise SpecError(f"{what} is {names!r}; give a name, or a list of names.")
    for name in names:
        if not (isinstance(name, str) and name):
            raise SpecError(f"{what} names {name!r}; give names of columns.")
    return list(names)


def both_of(what: str, names: Any) -> tuple[str, str]:
    """The names of two tables. Raises SpecError."""
    listed = [] if isinstance(names, str) else names_of(what, names)
    if len(listed) != 2:
        raise SpecError(f"{what} is {names!r}; give those of both tables: ('l', 'r').")
    return listed[0], listed[1]
