"""Row kinds, their spellings, and the table that a changelog folds to.

A row kind is an `int8` inside, and a word where it enters and leaves. A changelog is the stream of insertions,
retractions and corrections whose folding gives a table; everything here is about that one idea.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.errors import AggloomError, UnknownChangeTypeError
from aggloom.runtime.storage.arena import FlagArray
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.values import scalars

# Numbers with a meaning in their lowest bit: an odd kind retracts a row. State and logs hold them.
INSERT = 0
UPDATE_BEFORE = 1
UPDATE_AFTER = 2
DELETE = 3

KIND_NAMES = ("+I", "-U", "+U", "-D")
CHANGE_TYPES = ("insert", "update_preimage", "update_postimage", "delete")

PROFILES = {"spark": CHANGE_TYPES, "flink": KIND_NAMES}
CHANGE_COLUMNS = {"spark": "_change_type", "flink": "op"}

_FLINK_LONG = ("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE")
_ICEBERG = ("INSERT", "UPDATE_PREIMAGE", "UPDATE_POSTIMAGE", "DELETE")
SPELLINGS = (*KIND_NAMES, *CHANGE_TYPES, *_FLINK_LONG, *_ICEBERG)
# Each vocabulary lists the four kinds in their order, so that a word's place says its kind.
_KIND_OF_SPELLING = np.array([index % 4 for index in range(len(SPELLINGS))], np.int8)

Kinds = npt.NDArray[np.int8]  # int8[rows]
Row = tuple[Any, ...]


class ChangelogLawError(AggloomError):
    """A changelog broke a law: it retracts a row that is not there, or a key has two rows."""


def spellings(kind: int) -> list[str]:
    """All words for a kind."""
    return [
        word for word, number in zip(SPELLINGS, _KIND_OF_SPELLING, strict=True) if number == kind
    ]


def single_kinds(kinds: Kinds) -> Kinds:
    """The kinds (int8[rows]) of rows that replace none: -U is a deletion, +U an insertion.

    Example:
        >>> single_kinds(np.array([0, 1, 2, 3], np.int8)).tolist()
        [0, 3, 0, 3]
    """
    return np.where(kinds & UPDATE_BEFORE, np.int8(DELETE), np.int8(INSERT))


def is_retraction(kinds: Kinds) -> npt.NDArray[np.bool_]:
    """True where a row takes something back (-U, -D)."""
    return (kinds & 1).astype(np.bool_)


@kernel
def _transitions(
    was: npt.NDArray[np.bool_],
    now: npt.NDArray[np.bool_],
    changed: npt.NDArray[np.bool_],
    update_before: bool,
    items: npt.NDArray[np.int64],
    after_it: npt.NDArray[np.bool_],
    kinds: Kinds,
) -> int:
    """Write the changes, and return how many there are."""
    n = 0
    for k in range(len(was)):
        both = was[k] and now[k]
        # Both changes of every item are written, and the place moves on only behind those that count: no branch to
        # mispredict.
        items[n] = k
        after_it[n] = False
        kinds[n] = UPDATE_BEFORE if both else DELETE
        # A -U may be left out, a -D never: with it the row would stay.
        n += was[k] and (not both or (update_before and changed[k]))
        items[n] = k
        after_it[n] = True
        kinds[n] = UPDATE_AFTER if both else INSERT
        n += now[k] and (not both or changed[k])
    return n


def transitions(
    was: FlagArray,
    now: FlagArray,
    changed: FlagArray,
    update_before: bool,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], Kinds]:
    """Return the changes of items: (item, whether the row is the one after it, kind), in order of items.

    was, now: which items had a row before, and have one now. changed: those whose update is emitted at all.
    update_before: whether updates come with the -U.
    """
    room = 2 * len(was)
    items, after_it, kinds = (
        np.empty(room, np.int64),
        np.empty(room, np.bool_),
        np.empty(room, "i1"),
    )
    n = _transitions(was, now, changed, update_before, items, after_it, kinds=kinds)
    return items[:n], after_it[:n], kinds[:n]


def parse_kinds(column: pa.Array | pa.ChunkedArray, where: str) -> Kinds:
    """The kinds that a change column spells, in any of the spellings that users meet."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise UnknownChangeTypeError(
            f"{where}: the change column has type {column.type}, not STRING; "
            f"it should hold {', '.join(CHANGE_TYPES)} or {', '.join(KIND_NAMES)}"
        )
    codes = pc.index_in(column, value_set=_spellings().cast(column.type))
    if codes.null_count:
        _raise_unknown(column.filter(pc.is_null(codes)), where)
    # A text's place among the spellings is found by Arrow, its kind by one look into an array.
    return _KIND_OF_SPELLING[scalars.buffer_of(codes, np.int32)]


@cache
def _spellings() -> pa.Array:
    """Return the values that a change column may have; made late, for Arrow imports pandas with the first array."""
    return pa.array(SPELLINGS, pa.string())


def _raise_unknown(unknown: pa.Array, where: str) -> None:
    """Name the most frequent unknown change type, and how often it occurs."""
    value, count = Counter(unknown.to_pylist()).most_common(1)[0]
    quoted = "NULL" if value is None else repr(value)
    others = len(unknown) - count
    more = f" (and {others} more rows with other unknown values)" if others else ""
    raise UnknownChangeTypeError(
        f"{where}: unknown change type {quoted} in {count} row{'s' if count > 1 else ''}{more}; "
        f"known are {', '.join(CHANGE_TYPES)} and {', '.join(KIND_NAMES)}"
    )


def kinds_to_arrow(kinds: Kinds, profile: str = "spark") -> pa.Array:
    """The change column that spells these kinds in the words of a profile."""
    words = pa.array(PROFILES[profile], pa.string())
    return words.take(pa.array(kinds.astype(np.int32)))


def same_value(value: Any) -> Any:
    """The value as a dictionary key under which NaN equals NaN, -0.0 equals 0.0, and a map's entries have no order."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple(map(same_value, value.values()))
    if isinstance(value, list) and value and all(isinstance(entry, tuple) for entry in value):
        return frozenset(map(same_value, value))
    if isinstance(value, list | tuple):
        return tuple(map(same_value, value))
    return value


def sort_key(value: Any) -> Any:
    """Return a key to sort values of a column by: nulls first, NaN last, also inside of arrays and structs."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return (True, False, [sort_key(inner) for inner in value])
    # NaN is not even itself, and would leave what comes after it in no order.
    return (True, True) if value != value else (value is not None, False, value)


def fold(
    rows: Iterable[Sequence[Any]], key_width: int | None = None, *, idempotent: bool = False
) -> list[Row]:
    """The table that a changelog of (kind, *values) rows describes, as a list of value tuples.

    With `key_width`, the first so many values are a key: a lone +U replaces the key's row, and a
    retraction removes it, or, if `idempotent`, does nothing where there is none, as an upsert sink does. Without a
    key, rows are a multiset.
    """
    if key_width is not None:
        return _fold_keyed(rows, key_width, idempotent)
    counts: Counter[Row] = Counter()
    rows_by_identity: dict[Row, Row] = {}
    for kind, *values in rows:
        identity = tuple(map(same_value, values))
        if KIND_NAMES.index(kind) & 1:
            if not counts[identity]:
                # A row that was counted down to nothing is not there either.
                raise ChangelogLawError(f"{kind} of a row that is not there: {tuple(values)!r}")
            counts[identity] -= 1
        else:
            counts[identity] += 1
            # The last row that looked like this: -0.0 and 0.0 are one row, which shows its last form.
            rows_by_identity[identity] = tuple(values)
    return [rows_by_identity[identity] for identity, count in counts.items() for _ in range(count)]


def _fold_keyed(rows: Iterable[Sequence[Any]], key_width: int, idempotent: bool) -> list[Row]:
    """Fold a changelog in which a key has at most one row."""
    table: dict[Row, Row] = {}
    for kind, *values in rows:
        key = tuple(map(same_value, values[:key_width]))
        if KIND_NAMES.index(kind) & 1:
            if key not in table:
                if idempotent:
                    continue
                raise ChangelogLawError(f"{kind} for a key that is not there: {tuple(values)!r}")
            # A -U leaves the row in place: the +U that follows replaces it, and until then the
            # key is still in the table.
            if kind == "-D":
                del table[key]
        else:
            table[key] = tuple(values)
    return list(table.values())
