"""Rows that a user feeds a harness as dicts, by the names of their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aggloom.errors import DataError, UnknownColumnError, nearest
from aggloom.runtime.values.changelog import CHANGE_COLUMNS


def are_dicts(rows: Any) -> bool:
    """Tell whether rows are a list of dicts."""
    return isinstance(rows, list | tuple) and bool(rows) and isinstance(rows[0], Mapping)


def rows_of_dicts(rows: Sequence[Any], names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return dicts as (kind, value, ...) tuples in the order of the columns.

    The kind is under `op` or `_change_type`, unless the table has a column of that name; without it a row is an
    insertion. Names match in any case where one fits. Raises DataError for a row that is no dict or lacks a column,
    UnknownColumnError for a name that the table does not have.
    """
    column_names = {name.casefold() for name in names}
    # A declared column of that name is data, and then no word of a change.
    words = [name for name in CHANGE_COLUMNS.values() if name.casefold() not in column_names]
    return [_tuple(number, row, names, words) for number, row in enumerate(rows)]


def _tuple(number: int, row: Any, names: Sequence[str], words: Sequence[str]) -> tuple[Any, ...]:
    where = f"process: row {number}"
    if not isinstance(row, Mapping):
        raise DataError(
            f"{where} is {row!r:.200}; the rows before it are dicts, so that it is one, too"
        )
    kinds = [name for name in row if name in words]
    if len(kinds) > 1:
        raise DataError(f"{where}: both {kinds[0]!r} and {kinds[1]!r} are there; keep one")
    left = {name: value for name, value in row.items() if name not in kinds}
    values = []
    for name in names:
        key = name if name in left else _other_case(name, left, names)
        if key is None:
            raise DataError(
                f"{where} has no column {name!r}; give it, or None for NULL: {row!r:.200}"
            )
        values.append(left.pop(key))
    # What is left over is most often a wrong name, which must not become a NULL without a word.
    for name in left:
        hint = nearest(name, names)
        raise UnknownColumnError(
            f"{where} has a column {name!r}, which the table does not have. {hint}"
        )
    return (row[kinds[0]] if kinds else "+I", *values)


def _other_case(name: str, left: Mapping[Any, Any], names: Sequence[str]) -> Any:
    """The one key that is a name in another case, and no other column's; None if there is none."""
    # A key that is itself a declared column belongs to that one.
    matches = [
        key
        for key in left
        if isinstance(key, str) and key.casefold() == name.casefold() and key not in names
    ]
    return matches[0] if len(matches) == 1 else None
