"""The net of a batch of changes: by key the row that it has from now on, or none."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
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
from aggloom.runtime.values.type_fit import without_extension

Row = tuple[Any, ...]
Places = npt.NDArray[np.int64]  # int64[n]


class NetRow(NamedTuple):
    """A key, and its row from now on; None: it has none."""

    key: Row
    row: Row | None


@dataclass(frozen=True)
class NetRows:
    """The keys of a batch as rows, sorted by key; gone: of which only the key counts, for it has no row any more."""

    rows: pa.Table
    gone: npt.NDArray[np.bool_]  # bool[rows]
    key: tuple[str, ...]

    def each(self) -> list[NetRow]:
        """Key by key."""
        columns = [column.to_pylist() for column in self.rows.columns]
        rows = list(zip(*columns, strict=True)) if columns else [()] * len(self.gone)
        places = [self.rows.column_names.index(name) for name in self.key]
        keys = [tuple(row[place] for place in places) for row in rows]
        return [
            NetRow(key, None if gone else row)
            for key, row, gone in zip(keys, rows, self.gone.tolist(), strict=True)
        ]

    @cached_property
    def digest(self) -> str:
        """Return the digest that distinguishes these rows from any others, however they lie in memory."""
        digest_so_far = hashlib.sha256(repr(self.rows.schema.names).encode(errors="replace"))
        digest_so_far.update(np.packbits(self.gone).tobytes())
        there = pa.array(~self.gone)
        for name, column in zip(self.rows.column_names, self.rows.columns, strict=True):
            values = column if name in self.key else column.filter(there)
            digest_so_far.update(np.packbits(values.is_null().to_numpy()).tobytes())
            _add(digest_so_far, values.drop_null().combine_chunks())
        return digest_so_far.hexdigest()


def _add(digest: Any, values: pa.Array) -> None:
    """Add values of which none is NULL to a digest."""
    digest.update(f"{len(values)} {values.type}".encode())
    if pt.is_nested(values.type):
        digest.update(repr(values.to_pylist()).encode(errors="replace"))
        return
    plain = values.cast(pa.int8()) if pt.is_boolean(values.type) else values
    batch = pa.RecordBatch.from_arrays([plain], names=[""])
    digest.update(batch.serialize())


def has_old_rows(kinds: Kinds) -> bool:
    """Tell whether a batch contains the rows that it replaces, as far as it shows: it has -U rows, or no +U rows."""
    return bool((kinds == UPDATE_BEFORE).any() or not (kinds == UPDATE_AFTER).any())


def net_by_key(
    rows: pa.Table, kinds: Kinds, key: Sequence[str], has_old_rows: bool, where: str
) -> list[NetRow]:
    """The keys of a batch with their rows, one by one, as of `net_rows`."""
    return net_rows(rows, kinds, key, has_old_rows, where).each()


def net_rows(
    rows: pa.Table, kinds: Kinds, key: Sequence[str], has_old_rows: bool, where: str
) -> NetRows:
    """The keys of a batch with their rows, sorted by key, so that two writers meet them in one order.

    has_old_rows: whether the changes contain each row that is replaced. Then the order of changes does not count.
    Otherwise the last change of a key does. Raises ChangelogLawError where a key has several rows in the end.
    """
    rows = rows.combine_chunks()
    own = rows.select(list(key))
    keys = _numbers(own.columns, rows.num_rows)
    if has_old_rows:
        places, gone = _weigh_keys(rows, keys, kinds, own, where)
    else:
        visible = np.flatnonzero(kinds != UPDATE_BEFORE)
        places = _last(keys[visible], visible)
        gone = is_retraction(kinds[places])
    order = _by_key(own.take(pa.array(places))) if key else slice(None)
    return NetRows(rows.take(pa.array(places[order])), gone[order], tuple(key))


def _weigh_keys(
    rows: pa.Table, keys: Places, kinds: Kinds, own: pa.Table, where: str
) -> tuple[Places, npt.NDArray[np.bool_]]:
    """A row of each key that is not as it was, and which keys have none any more."""
    alike = _numbers(rows.columns, rows.num_rows)
    last_rows = _last(alike, np.arange(len(alike)))
    # A row with as many insertions as retractions has no net change.
    weights = np.bincount(alike, np.where(is_retraction(kinds), -1, 1), len(last_rows))
    there = last_rows[weights > 0]
    first = np.zeros(len(there), np.bool_)
    first[np.unique(keys[there], return_index=True)[1]] = True
    several = np.flatnonzero((weights[weights > 0] > 1) | ~first)
    if len(several):
        values = tuple(column[int(there[several[0]])].as_py() for column in own.columns)
        raise ChangelogLawError(
            f"{where}: key {values!r} has several rows, so that it is no key of the result; "
            "give the columns that tell its rows apart as key_columns"
        )
    gone = last_rows[weights < 0]
    gone = gone[~np.isin(keys[gone], keys[there])]
    gone = gone[np.unique(keys[gone], return_index=True)[1]]
    return np.concatenate([there, gone]), np.arange(len(there) + len(gone)) >= len(there)


def _last(numbers: Places, places: Places) -> Places:
    """The last place of each number, in the order of numbers."""
    last_places: Places = np.full(int(numbers.max(initial=-1)) + 1, -1, np.int64)
    # Of several assignments to one place NumPy keeps the last.
    last_places[numbers] = places
    return last_places[last_places >= 0]


def _numbers(columns: Sequence[pa.ChunkedArray], count: int) -> Places:
    """A number for each row, the same for rows that are alike, in the order in which they come."""
    numbers: Places = np.zeros(count, np.int64)
    for column in columns:
        codes = _encode_values(_comparable(column))
        # Encoded again after each column: the product over all of them could overflow.
        numbers = _encode_values(pa.array(numbers * (int(codes.max(initial=0)) + 1) + codes))
    return numbers


def _encode_values(values: pa.Array) -> Places:
    codes = values.dictionary_encode(null_encoding="encode").indices
    return codes.to_numpy(zero_copy_only=False).astype(np.int64)


def _comparable(column: pa.ChunkedArray) -> pa.Array:
    """Values that are equal where those of the column are: NaN equals NaN, -0.0 equals 0.0, maps have no order."""
    if pt.is_nested(column.type):
        numbers: dict[Any, int] = {}
        marks = [numbers.setdefault(same_value(v), len(numbers)) for v in column.to_pylist()]
        return pa.array(marks, pa.int64())
    # Equal documents of JSON are equal texts.
    array = without_extension(column.combine_chunks())
    if pt.is_floating(column.type):
        array = pc.add(array, pa.scalar(0.0, column.type))
        array = pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), column.type), array)
    return array


def _by_key(own: pa.Table) -> Places:
    """The order of rows by the values of all columns: NULL first, NaN last."""
    # Arrow cannot sort nested values, and puts NaN among the NULLs.
    if any(pt.is_nested(each) or pt.is_floating(each) for each in own.schema.types):
        rows = list(zip(*(column.to_pylist() for column in own.columns), strict=True))
        order = sorted(range(len(rows)), key=lambda place: [sort_key(v) for v in rows[place]])
        return np.array(order, np.int64)
    parts: dict[str, Any] = {}
    for number, column in enumerate(own.columns):
        if column.null_count:
            # Arrow puts NULLs last; a column before, which is false for them, puts them first.
            parts[f"{number} there"] = column.is_valid()
        parts[str(number)] = without_extension(column.combine_chunks())
    places = pc.sort_indices(pa.table(parts), sort_keys=[(name, "ascending") for name in parts])
    return places.to_numpy().astype(np.int64)
