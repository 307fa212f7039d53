"""Keys as users write them: typed by the key's columns, found in a bucket, and compared."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.codegen import type_name
from aggloom.codegen.planner import Bounds
from aggloom.errors import CheckpointError, nearest
from aggloom.runtime.inspection.facts import KeyBundle, PartContents
from aggloom.runtime.operators.steps import split
from aggloom.runtime.values.row_groups import first_places, row_groups
from aggloom.type_layout import is_nested

_CANDIDATES = 20_000


def key_batch(key: Mapping[str, Any], fields: Sequence[pa.Field], where: str) -> pa.RecordBatch:
    """A key as a row of its columns; text is read as the column's type. Raises CheckpointError."""
    names = [field.name for field in fields]
    for name in key:
        if name not in names:
            raise CheckpointError(
                f"{where}: {name!r} is no column of the key. {nearest(name, names)}"
            )
    missing = [name for name in names if name not in key]
    if missing:
        raise CheckpointError(
            f"{where}: the key is {', '.join(names)}; {', '.join(missing)} is not given. "
            f"Add --key {missing[0]}=VALUE."
        )
    # A key without columns has one value, and `from_arrays` would make zero rows of it.
    if not fields:
        return pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))
    columns = [_parse_value(key[field.name], field, where) for field in fields]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(list(fields)))


@dataclass(frozen=True)
class WindowFilter:
    """A filter for windows of a key: those with this start and this end (None: any); names: of the columns."""

    names: tuple[str, str] = ("", "")
    start: Any = None
    end: Any = None

    def parts(self, parts: Iterable[PartContents]) -> tuple[PartContents, ...]:
        """Those of the windows."""
        return tuple(part for part in parts if self._takes(part.window))

    def bundles(self, bundles: Iterable[KeyBundle]) -> tuple[KeyBundle, ...]:
        """Bundles with what they did to the windows; all, where none is asked for."""
        # Without bounds every bundle counts, also one whose changes had no effect on any window.
        if self.start is None and self.end is None:
            return tuple(bundles)
        return tuple(each for bundle in bundles for each in self._bundle(bundle))

    def _bundle(self, bundle: KeyBundle) -> Iterator[KeyBundle]:
        changes = []
        for change in bundle.changes:
            effects = tuple(e for e in change.effects if self._takes(e.window))
            if effects:
                changes.append(replace(change, effects=effects))
        emitted = [
            (kind, row)
            for kind, row in bundle.emitted
            # An operator that emits no bounds of windows has None for both, and no bound equals that.
            if self._takes((row.get(self.names[0]), row.get(self.names[1])))
        ]
        if changes or emitted:
            yield replace(bundle, changes=tuple(changes), emitted=tuple(emitted))

    def _takes(self, window: tuple[Any, Any] | None) -> bool:
        own_bounds = self.start, self.end
        # A part that belongs to no window is of the whole key, and shown for each of its windows.
        return window is None or all(
            bound is None or bound == bound_text
            for bound, bound_text in zip(own_bounds, window, strict=True)
        )


def split_key(
    key: Mapping[str, Any], fields: Sequence[pa.Field], bounds: Bounds | None, where: str
) -> tuple[pa.RecordBatch, WindowFilter]:
    """A key as a row of its columns, and which of its windows the bounds name."""
    if bounds is None:
        return key_batch(key, fields, where), WindowFilter()
    names = {field.name for field in fields}
    # A key may have a column of the same name as a bound. Then the key's own column is meant.
    named = [name for name in bounds.names[:2] if name in key and name not in names]
    bounds_by_name = {
        name: _parse_value(key[name], pa.field(name, bounds.type), where)[0].as_py()
        for name in named
    }
    rest = {name: value for name, value in key.items() if name not in bounds_by_name}
    start, end = bounds.names[:2]
    return key_batch(rest, fields, where), WindowFilter(
        (start, end), bounds_by_name.get(start), bounds_by_name.get(end)
    )


def bucket_of(key: pa.RecordBatch, buckets: int) -> int:
    """The bucket that a key is in."""
    # Without key columns everything lies in bucket 0: there is nothing to hash.
    if not key.num_columns:
        return 0
    # The same function splits rows on their way to the buckets, so the two cannot disagree.
    return next(
        bucket for bucket, _ in split((key, np.zeros(1, np.int8)), range(key.num_columns), buckets)
    )


def nearest_keys(key: pa.RecordBatch, columns: Sequence[pa.Array]) -> tuple[str, ...]:
    """Values near to a key's text among those that are there, where the key is one column of text."""
    if key.num_columns != 1 or not pa.types.is_string(key.column(0).type):
        return ()
    key_text = key.column(0)[0].as_py()
    if key_text is None or not columns:
        return ()
    lengths = pc.utf8_length(columns[0])
    # Texts of very different lengths cannot be close. Skipping them bounds a search that is slow for each pair.
    close = pc.less_equal(pc.abs(pc.subtract(lengths, len(key_text))), max(2, len(key_text) // 2))
    names = columns[0].filter(pc.fill_null(close, False)).slice(0, _CANDIDATES).to_pylist()
    # Reversed: of keys that differ in case or blanks only, the first one stays.
    folded = {name.strip().casefold(): name for name in reversed(names)}
    matches = get_close_matches(key_text.strip().casefold(), list(folded), n=3, cutoff=0.6)
    return tuple(folded[name] for name in matches)


def _parse_value(value: Any, field: pa.Field, where: str) -> pa.Array:
    """One value as a column of a field's type."""
    dtype = field.type
    try:
        # An array or a struct is written as JSON on the command line.
        if isinstance(value, str) and is_nested(dtype):
            value = json.loads(value)
        if isinstance(value, str):
            return _from_text(value, dtype)
        return pa.array([value], dtype)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(
            f"{where}: {field.name} is {type_name(dtype)}, and {value!r} is none ({error}). "
            "NULL is written NULL."
        ) from None


def _from_text(text: str, dtype: pa.DataType) -> pa.Array:
    if pa.types.is_string(dtype):
        return _text_array(text)
    if pa.types.is_binary(dtype):
        return pa.array([bytes.fromhex(text.removeprefix("0x"))], dtype)
    # Arrow refuses a text without a zone for such a column. It means UTC here, as times are shown.
    if pa.types.is_timestamp(dtype) and dtype.tz is not None and not _has_zone(text):
        return _text_array(text).cast(pa.timestamp(dtype.unit)).cast(pa.int64()).cast(dtype)
    return _text_array(text).cast(dtype)


def _text_array(text: str) -> pa.Array:
    """A text as a column; `pa.array` would import pandas, which takes longer than a look at a key."""
    data = text.encode()
    places = pa.py_buffer(np.array([0, len(data)], np.int32))
    return pa.Array.from_buffers(pa.string(), 1, [None, places, pa.py_buffer(data)])


def _has_zone(text: str) -> bool:
    # The date itself has hyphens in its first ten characters.
    return text.endswith(("Z", "z")) or any(sign in text[10:] for sign in "+-")


def distinct(columns: Sequence[pa.Array]) -> int:
    """Return the number of different rows."""
    if not columns:
        return 1
    if any(is_nested(column.type) for column in columns):
        return len({repr(row) for row in zip(*(c.to_pylist() for c in columns), strict=True)})
    return len(first_places(row_groups(columns, len(columns[0]))))
