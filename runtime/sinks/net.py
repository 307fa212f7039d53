"""What a batch of changes makes of each key in the end: a row that it has from now on, or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from aggloom.runtime.values.changelog import (
    UPDATE_AFTER,
    UPDATE_BEFORE,
    ChangelogLawError,
    Kinds,
    is_retraction,
    same_value,
    sort_key,
)

Row = tuple[Any, ...]


class Net(NamedTuple):
    """A key, and its row from now on; None: it has none."""

    key: Row
    row: Row | None


def tells_before(kinds: Kinds) -> bool:
    """Whether a batch tells the rows that it replaces, as far as it shows: it has -U rows, or no +U rows."""
    return bool((kinds == UPDATE_BEFORE).any() or not (kinds == UPDATE_AFTER).any())


def net_by_key(
    rows: pa.Table, kinds: Kinds, key: Sequence[str], tells_before: bool, where: str
) -> list[Net]:
    """The keys of a batch with their rows, sorted by key, so that two writers meet them in one order.

    tells_before: whether each row that is replaced is told, too. Then the order of changes does not count. Otherwise
    the last change of a key does. Raises ChangelogLawError where a key has several rows in the end.
    """
    names = rows.column_names
    places = [names.index(name) for name in key]
    columns = [column.to_pylist() for column in rows.columns]
    values = _rows(columns, rows.num_rows)
    alike = _rows(
        [_comparable(column, c.type) for column, c in zip(columns, rows.columns, strict=True)],
        len(values),
    )
    retracts = is_retraction(kinds).tolist()
    found = _weighed(values, alike, retracts, places, where) if tells_before else {}
    if not tells_before:
        for row, same, gone, kind in zip(values, alike, retracts, kinds.tolist(), strict=True):
            if kind != UPDATE_BEFORE:
                own = tuple(row[place] for place in places)
                found[tuple(same[place] for place in places)] = Net(own, None if gone else row)
    return sorted(found.values(), key=lambda each: [sort_key(value) for value in each.key])


def _rows(columns: list[list[Any]], count: int) -> list[Row]:
    return list(zip(*columns, strict=True)) if columns else [()] * count


def _comparable(column: list[Any], dtype: pa.DataType) -> list[Any]:
    """The values of a column as dictionary keys; of most types they are ones themselves."""
    if pt.is_floating(dtype) or pt.is_nested(dtype):
        return list(map(same_value, column))
    return column


def _weighed(
    values: list[Row], alike: list[Row], retracts: list[bool], places: list[int], where: str
) -> dict[Any, Net]:
    weights: dict[Any, int] = {}
    shown: dict[Any, Row] = {}
    for row, identity, gone in zip(values, alike, retracts, strict=True):
        weights[identity] = weights.get(identity, 0) + (-1 if gone else 1)
        shown[identity] = row
    found: dict[Any, Net] = {}
    for identity, weight in weights.items():
        row = shown[identity]
        key = tuple(row[place] for place in places)
        same = tuple(identity[place] for place in places)
        before = found.get(same)
        if weight > 1 or (weight > 0 and before is not None and before.row is not None):
            raise ChangelogLawError(
                f"{where}: key {key!r} has several rows, so that it is no key of the result; "
                "give the columns that tell its rows apart as key_columns"
            )
        if weight > 0:
            found[same] = Net(key, row)
        elif weight < 0 and before is None:
            found[same] = Net(key, None)
    return found
