"""The lists in the arguments of a spec, as callers give them: one thing, or several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aggloom.errors import SpecError


def items_of(what: str, given: Any, kind: Any, wanted: str) -> tuple[Any, ...]:
    """The things of a kind that an argument is or lists; `wanted` is what messages call one. Raises SpecError."""
    if isinstance(given, kind):
        return (given,)
    listed = isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping)
    items = tuple(given) if listed else ()
    if not listed or not all(isinstance(each, kind) for each in items):
        raise SpecError(f"{what} is {given!r:.200}; give {wanted}, or a list of such.")
    return items


def pairs_of(what: str, given: Any, wanted: str) -> tuple[tuple[str, Any], ...]:
    """The names and values of an argument that is a mapping, or a list of pairs. Raises SpecError."""
    pairs = given.items() if isinstance(given, Mapping) else given
    listed = isinstance(pairs, Iterable) and not isinstance(pairs, str | bytes)
    found = tuple(pairs) if listed else ()
    whole = all(isinstance(each, tuple | list) and len(each) == 2 for each in found)
    if not listed or not whole or not all(isinstance(name, str) for name, _ in found):
        raise SpecError(f"{what} is {given!r:.200}; give {wanted}.")
    return tuple((name, value) for name, value in found)


def text_of(what: str, given: Any, wanted: str) -> str:
    """An argument that is a text. Raises SpecError."""
    if not isinstance(given, str):
        raise SpecError(f"{what} is {given!r:.200}; give {wanted}.")
    return given
