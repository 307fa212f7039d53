"""The search for matches: rows as the arrays that a generated matcher reads, and the matches that it finds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.operators.match.navigation import Found, KeyStretches, Run
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.values import columns as values_of
from aggloom.runtime.values.rows import PLAIN, encode
from aggloom.runtime.values.scalars import scalar_words
from aggloom.type_layout import is_pooled, is_wide_decimal

_MOST_CELLS = 1 << 26
"""The number of pairs of a state and a row up to which a search notes those that lead to no match."""
_ROOM = 1024


class Matches(NamedTuple):
    """Matches in the order of their keys: the number of the key, the first row and the number of rows of each.

    classes: the variables of their rows, one match after the other.
    """

    keys: Array  # int64[matches]
    firsts: Array  # int64[matches]
    sizes: Array  # int64[matches]
    classes: Array  # int64[rows of all matches]


def search_rows(matcher: Any, rows: pa.RecordBatch, stretches: KeyStretches) -> Matches:
    """The matches in the rows of some keys; where each key's search goes on is noted in `stretches.at`."""
    # Python's own numbers, where no kernel needs arrays: NumPy's are slow one by one, and wrap.
    own = _as_lists if matcher.BACKEND == "python" else list
    columns = matcher.Columns(*own(_columns_of(matcher, rows)), rows.num_rows)
    lengths = stretches.stops - stretches.starts
    longest = int(lengths.max()) if len(lengths) else 0
    places = [np.zeros(longest + 1, np.int64) for _ in Run._fields[:-1]]
    run = Run(*own([*places, np.zeros(len(matcher.VARIABLES), np.int64)]))
    totals = [
        array
        for kind in matcher.TOTALS
        for array in (np.zeros(longest + 1, np.int64), np.zeros(longest + 1, np.dtype(kind)))
    ]
    cells = rows.num_rows * matcher.STATES if matcher.IS_LOCAL else 0
    dead = np.zeros(cells if cells <= _MOST_CELLS else 0, np.int64)
    room = _make_room(Found(*(np.zeros(each, np.int64) for each in (0, 0, 0, 0, 3))))
    while not matcher.find_matches(
        columns, run, matcher.Totals(*own(totals), longest), dead, stretches, room
    ):
        room = _make_room(room, longest)
    _, matches, used = room.counts
    return Matches(
        room.keys[:matches], room.firsts[:matches], room.sizes[:matches], room.classes[:used]
    )


def _make_room(room: Found, longest: int = 0) -> Found:
    """The same matches with room for more, at least for one as long as the rows of a key."""
    matches = max(2 * len(room.keys), _ROOM)
    rows = max(2 * len(room.classes), _ROOM, len(room.classes) + longest)
    grown = [
        np.resize(array, matches) if len(array) else np.zeros(matches, np.int64)
        for array in room[:3]
    ]
    classes = np.zeros(rows, np.int64)
    classes[: len(room.classes)] = room.classes
    return Found(grown[0], grown[1], grown[2], classes, room.counts)


def _as_lists(arrays: list[Array]) -> list[list[Any]]:
    return [array.tolist() for array in arrays]


def _columns_of(matcher: Any, rows: pa.RecordBatch) -> list[Array]:
    """The columns that conditions read, each with its NULLs: numbers, or ranks among the values of one type."""
    named = [rows.column(name) for name in matcher.COLUMNS]
    ranks = _rank_values([column for column in named if not _is_number(column.type)])
    arrays: list[Any] = []
    for column in named:
        values = values_of.numbers(column)[0] if _is_number(column.type) else ranks.pop(0)
        valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        arrays += [np.ascontiguousarray(values), ~valid]
    return arrays


def _is_number(dtype: pa.DataType) -> bool:
    kinds = pa.types
    narrow = kinds.is_decimal(dtype) and not is_wide_decimal(dtype)
    return bool(kinds.is_integer(dtype) or kinds.is_floating(dtype) or narrow)


def _rank_values(columns: list[pa.Array]) -> list[Array]:
    """Return, for each column, the ranks of its values (int64[rows]) among those of all columns of its type."""
    by_type: dict[pa.DataType, list[int]] = {}
    for number, column in enumerate(columns):
        by_type.setdefault(column.type, []).append(number)
    ranks: list[Array] = [np.zeros(0, np.int64)] * len(columns)
    for numbers in by_type.values():
        whole = pa.concat_arrays([columns[number] for number in numbers])
        joint_ranks = _ranks(whole)
        ends = np.cumsum([len(columns[number]) for number in numbers])
        for number, part in zip(numbers, np.split(joint_ranks, ends[:-1]), strict=True):
            ranks[number] = part
    return ranks


def _ranks(column: pa.Array) -> Array:
    """The rank of each value; equal values share one, and those of NULL mean nothing."""
    if pa.types.is_boolean(column.type):
        return values_of.flags(column).astype(np.int64)
    if not is_pooled(column.type):
        return scalar_words(column)
    coded = encode([column], [PLAIN]).dictionary_encode()
    order = pc.array_sort_indices(coded.dictionary).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[coded.indices.to_numpy(zero_copy_only=False)]
