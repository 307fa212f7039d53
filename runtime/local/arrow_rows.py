"""Tables of Arrow and pandas, and Parquet files, as a harness takes them: columns by name, kinds by a change column."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen import type_name
from aggloom.errors import DataError, TypeMismatchError, UnknownColumnError, nearest
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.values.batches import empty_columns
from aggloom.runtime.values.change_column import ChangeWords
from aggloom.runtime.values.changelog import parse_kinds
from aggloom.runtime.values.markers import MARKER_HINT
from aggloom.runtime.values.type_fit import (
    NANOSECONDS_HINT,
    cast_exactly,
    fits,
    is_of_nanoseconds,
    plain_array,
)
from aggloom.type_layout import is_variant

_USUAL = ChangeWords()


def arrow_rows(
    table: pa.RecordBatch | pa.Table,
    kinds: Any,
    schema: pa.Schema,
    where: str,
    words: ChangeWords = _USUAL,
) -> tuple[pa.RecordBatch, Array]:
    """The columns of a schema, and the kinds of the rows.

    Names match in any case where one fits. Without kinds a column `_change_type` or `op` has them, if the schema has
    no such column, or the one that `words` names; else all rows are insertions. Raises DataError and
    UnknownColumnError; TypeMismatchError for a column of another type, or a value that its type does not have.
    """
    # The usual case of a program that feeds batches: nothing to look for, and nothing is copied.
    is_right = table.schema.equals(schema) and not any(map(is_variant, schema.types))
    if kinds is not None and is_right and isinstance(table, pa.RecordBatch):
        return table, _codes(kinds, len(table), where)
    there = _Names(table.schema.names, where)
    # Before the markers, so that a missing column is reported first: it is the more common mistake.
    columns = [_column(table, there, field, where) for field in schema]
    for name in words.list_markers(schema.names):
        if there.place(name) is not None:
            raise DataError(f"{where}: column {name!r} {MARKER_HINT}")
    names = words.names(schema.names)
    change_places = [(name, place) for name in names if (place := there.place(name)) is not None]
    if len(change_places) > 1:
        raise DataError(
            f"{where}: both {change_places[0][0]!r} and {change_places[1][0]!r} are there; keep one"
        )
    if change_places and kinds is not None:
        raise DataError(
            f"{where}: kinds are given, and in column {change_places[0][0]!r}; keep one"
        )
    rows = table.num_rows
    if words.column is not None:
        column = (
            plain_array(table.column(change_places[0][1]))
            if change_places
            else pa.nulls(rows, pa.string())
        )
        if not change_places and words.absent is None:
            raise words.missing_column(where, there.names)
        codes: Array = parse_kinds(words.read_kinds(column, where), where)
    elif change_places:
        codes = parse_kinds(plain_array(table.column(change_places[0][1])), where)
    else:
        codes = np.zeros(rows, np.int8) if kinds is None else _codes(kinds, rows, where)
    if not columns:
        return empty_columns(rows), codes
    return pa.RecordBatch.from_arrays(columns, schema=schema), codes


class _Names:
    """The names that a table has, and where each declared one is among them."""

    def __init__(self, names: list[str], where: str) -> None:
        # Counted once for a table and not for each column: wide tables have thousands of names.
        self.names, self._where = names, where
        self._exact = Counter(names)
        self._lower = Counter(name.lower() for name in names)

    def place(self, name: str) -> int | None:
        """Find the position of a declared name, in its case or in the one other that is there; None if it is not there.

        Raises DataError if the column is there twice.
        """
        exact = self._exact[name]
        if exact > 1 or (not exact and self._lower[name.lower()] > 1):
            raise DataError(f"{self._where}: column {name!r} is there twice")
        # An exact name wins, so two columns that differ in case alone can both be declared.
        if exact:
            return self.names.index(name)
        same = [at for at, other in enumerate(self.names) if other.lower() == name.lower()]
        return same[0] if same else None


def _column(table: Any, there: _Names, field: pa.Field, where: str) -> pa.Array:
    place = there.place(field.name)
    if place is None:
        hint = nearest(field.name, there.names)
        raise UnknownColumnError(f"{where}: there is no column {field.name!r}. {hint}")
    column = plain_array(table.column(place))
    if column.type == field.type:
        return column
    wrong = f"{where}: column {field.name!r} is {type_name(field.type)}"
    # A column of Arrow's NULL type has no type of its own, as pandas makes it of an empty column.
    if not pa.types.is_null(column.type) and not fits(column.type, field.type):
        raise TypeMismatchError(f"{wrong}, not {column.type}; cast it before")
    if is_variant(field.type):
        return _variants(column.cast(pa.string()), wrong)
    try:
        return cast_exactly(column, field.type)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        # The first line of Arrow's message says what it is; the others are its source files.
        message = str(error).splitlines()[0]
        hint = f". {NANOSECONDS_HINT}" if is_of_nanoseconds(column.type) else ""
        raise TypeMismatchError(f"{wrong}, and not all of it fits: {message}{hint}") from None


def _variants(texts: pa.Array, wrong: str) -> pa.Array:
    """Texts of JSON as VARIANTs; raises TypeMismatchError."""
    # Loaded where there are any: the functions of expressions take long to load.
    from aggloom.runtime.scalar.variant_columns import read_variants

    try:
        return read_variants(texts)
    except ValueError as error:
        raise TypeMismatchError(f"{wrong}, and not all of it fits: {error}") from None


def _codes(kinds: Any, rows: int, where: str) -> Array:
    """Kinds as numbers: 0 to 3 for +I, -U, +U, -D, or these words."""
    if len(kinds) != rows:
        raise DataError(f"{where}: {rows} rows with {len(kinds)} kinds; give one for each")
    # The first kind decides: a list mixes words and numbers only by mistake, which is reported below.
    if isinstance(kinds, pa.Array | pa.ChunkedArray) or any(isinstance(k, str) for k in kinds[:1]):
        try:
            words = kinds if isinstance(kinds, pa.Array | pa.ChunkedArray) else pa.array(kinds)
        except (pa.ArrowException, TypeError):
            # A list of mixed types is read as texts, so that the error names the one that is no kind.
            words = pa.array([str(kind) for kind in kinds])
        return parse_kinds(words, where)
    codes = np.asarray(kinds)
    if rows and (codes.dtype.kind not in "iu" or codes.min() < 0 or codes.max() > 3):
        # A bool is a number to Python, and `True` would pass for -U.
        odd = next((k for k in kinds if isinstance(k, bool) or k not in (0, 1, 2, 3)), kinds[0])
        raise DataError(
            f"{where}: kind {odd!r}; kinds are 0 to 3, for +I, -U, +U, -D, or these words"
        )
    return codes.astype(np.int8)
