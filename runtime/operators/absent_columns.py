"""Rows that leave columns out, completed by the rows of their keys, one after the other."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.codegen import ABSENT
from aggloom.errors import DataError
from aggloom.runtime.storage.arena import Array, FlagArray, NumberArray
from aggloom.runtime.storage.jit import kernel


class AbsentColumns(NamedTuple):
    """The columns that rows leave out, as numbers.

    which: by row its list, 0 where it has all columns. lists: by list and column whether it is left out (bool). some:
    by list whether it has a name; which columns a query reads does not make a row whole.
    """

    which: Array  # int64[rows]
    lists: Array  # bool[lists, columns]
    some: Array  # bool[lists]

    @property
    def rows(self) -> Array:
        """True where a row leaves out a column."""
        is_partial: Array = self.some[self.which]
        return is_partial

    def complete_rows(
        self, batch: pa.RecordBatch, stored: pa.RecordBatch, before: NumberArray, adds: FlagArray
    ) -> pa.RecordBatch:
        """The rows of a bundle with what those before them had; before: by row one of the bundle, or n + a stored one.

        Rows that do not add stay as they are.
        """
        columns = []
        for place, column in enumerate(batch.columns):
            absent = self.lists[:, place][self.which] & adds
            if absent.any():
                source = np.empty(len(absent), np.int64)
                _find_sources(absent, before, source)
                both = pa.concat_arrays([column, stored.column(place)])
                column = both.take(pa.array(source))
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


@kernel
def _find_sources(absent: Array, before: Array, source: Array) -> None:
    """Find by row the one that has its value of a column: itself, or the source of the row before it."""
    n = len(absent)
    for r in range(n):
        if not absent[r]:
            source[r] = r
        elif before[r] < n:
            # The row before may leave the column out as well: its source is found already, since it comes first.
            source[r] = source[before[r]]
        else:
            source[r] = before[r]


def absent_columns(texts: pa.Array, names: list[str]) -> AbsentColumns | None:
    """The columns that the texts name, of those that are read; None where each row has all of them.

    Raises DataError for a text that is no JSON list of names.
    """
    if texts.null_count == len(texts):
        return None
    encoded = texts.dictionary_encode()
    # List 0 is that of rows which leave nothing out.
    which = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
    lists = np.zeros((len(encoded.dictionary) + 1, len(names)), np.bool_)
    some = np.zeros(len(lists), np.bool_)
    for number, text in enumerate(encoded.dictionary.to_pylist(), 1):
        listed = _names(text)
        lists[number], some[number] = np.isin(names, listed), bool(listed)
    return AbsentColumns(which, lists, some)


def _names(text: str) -> list[str]:
    try:
        names: Any = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(
            f"{ABSENT} is {text[:80]!r}; it is a JSON list of the columns that a row leaves out, or NULL."
        )
    return names
