"""Options of sources: a dataclass each, from which the entries of jobs and the words of scripts follow.

An option of a source is a keyword of its reader. It is an entry of a job's table, unless its field says otherwise; in
CREATE TABLE it is a word of its own where Flink has none for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

T = TypeVar("T")
_ENTRY, _IN_SQL = "entry", "in SQL"
KEYWORD: Mapping[str, Any] = {_ENTRY: None}
"""The metadata of an option that the reader's keyword alone gives."""
IN_SQL: Mapping[str, Any] = {_IN_SQL: True}
"""The metadata of an option that CREATE TABLE has under the name that jobs have."""
_KINDS = {"bool": bool, "int | None": int, "Mapping[str, Any] | None": dict}


def entry(name: str) -> Mapping[str, Any]:
    """Return the metadata of an option that jobs call otherwise."""
    return {_ENTRY: name}


def job_types(source: type[Any]) -> dict[str, type]:
    """The entries of a table of a job, and the type of each: bool, int, dict, or str for what a text may say.

    Example: the entry of a class.
        >>> from dataclasses import dataclass
        >>> job_types(dataclass(type("Source", (), {"__annotations__": {"pattern": "bool"}})))
        {'pattern': <class 'bool'>}
    """
    return {name: _KINDS.get(kind, str) for name, kind in _entries(source).items()}


def own_words(source: type[Any]) -> tuple[str, ...]:
    """The options that Flink has no word for, which CREATE TABLE calls as jobs do."""
    return tuple(each.name for each in fields(source) if each.metadata.get(_IN_SQL))


def from_entries(source: type[T], entries: Mapping[str, Any]) -> T:
    """The options of a source with these entries, of which others are passed over."""
    names = {each.name: each.metadata.get(_ENTRY, each.name) for each in fields(source)}  # type: ignore[arg-type]
    return source(**{name: entries[entry] for name, entry in names.items() if entry in entries})


def _entries(source: type[Any]) -> dict[str, str]:
    """The entries of a source, with the types of their fields as they are written."""
    named = {each.metadata.get(_ENTRY, each.name): str(each.type) for each in fields(source)}
    return {name: kind for name, kind in named.items() if name is not None}
