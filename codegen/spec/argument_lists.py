"""The list arguments of a spec, which callers may give as a single value, a list or a mapping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aggloom.errors import SpecError


def items_of(what: str, value: Any, kind: Any, form: str) -> tuple[Any, ...]:
    """The values of an argument that is one value of a kind, or a list of them.

    what: the argument, for messages; form: what it should be. Raises SpecError.
    """
    if isinstance(value, kind):
        return (value,)
    listed = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    items = tuple(value) if listed else ()
    if not listed or not all(isinstance(each, kind) for each in items):
        raise SpecError(f"{what} is {value!r:.200}; give {form}, or a list of such.")
    return items


def pairs_of(what: str, content: Any, form: str) -> tuple[tuple[str, Any], ...]:
    """The (name, value) pairs of an argument that is a mapping or a list of pairs. Raises SpecError."""
    pairs = content.items() if isinstance(content, Mapping) else content
    # A text is iterable, too, and "ab" would be a pair of letters.
    listed = isinstance(pairs, Iterable) and not isinstance(pairs, str | bytes)
    # Read once: it may be a generator.
    items = tuple(pairs) if listed else ()
    are_pairs = all(isinstance(each, tuple | list) and len(each) == 2 for each in items)
    if not listed or not are_pairs or not all(isinstance(name, str) for name, _ in items):
        raise SpecError(f"{what} is {content!r:.200}; give {form}.")
    return tuple((name, value) for name, value in items)


def text_of(what: str, value: Any, form: str) -> str:
    """An argument that is a text. Raises SpecError."""
    if not isinstance(value, str):
        raise SpecError(f"{what} is {value!r:.200}; give {form}.")
    return value
