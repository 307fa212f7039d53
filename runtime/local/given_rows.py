"""Rows as users write them for the harness: a kind of change, then the values in the table's order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aggloom.errors import DataError


def kinds_and_values(
    rows: Iterable[Any], names: Sequence[str]
) -> tuple[list[str | None], list[tuple[Any, ...]]]:
    """The kinds and the values of (kind, value, ...) rows; names: of the table's columns, for messages.

    Raises DataError naming the row that is none.
    """
    kinds, values = [], []
    form = f"('+I', {', '.join(names)})" if names else "('+I',)"
    for number, row in enumerate(rows):
        if not isinstance(row, tuple | list) or not row or not isinstance(row[0], str | None):
            raise DataError(
                f"harness rows: row {number} is {row!r:.200}; a row is a kind of change, then the values "
                f"in the table's order, such as {form}"
            )
        kinds.append(row[0])
        values.append(tuple(row[1:]))
    return kinds, values
