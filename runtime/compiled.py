"""What modules generated for Numba import as `rt`: the jitted building blocks and the compiled Handler."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.runtime import columns
from aggloom.runtime.arena import Arena, Array
from aggloom.runtime.handler import HandlerBase, Kernels
from aggloom.runtime.jit import kernel
from aggloom.runtime.multiset import (
    multiset_after,
    multiset_change,
    multiset_clear,
    multiset_count,
    multiset_entry,
    multiset_first,
    multiset_settle,
    multiset_word,
)
from aggloom.runtime.numeric import (
    FloatSum,
    Wide,
    add_float,
    add_wide,
    combine_float,
    combine_wide,
    divide_wide,
    float_total,
    subtract_float,
    subtract_wide,
    truncate_divide,
    wide_to_bigint,
    wide_to_decimal,
    wide_to_float,
    wrap,
)
from aggloom.runtime.ordered import (
    greatest,
    least,
    ordered_accumulate,
    ordered_clear,
    ordered_merge,
    ordered_retract,
)
from aggloom.runtime.pool import Pool, PoolArrays, hold, import_word, release
from aggloom.runtime.sequence import (
    Sequence,
    SequenceView,
    sequence_append,
    sequence_clear,
    sequence_holds,
    sequence_remove,
)
from aggloom.runtime.tree import Tree, TreeView, compare, tree_beside, tree_end

__all__ = [
    "NO_FLOAT",
    "NO_LIMBS",
    "NO_WORD",
    "Handler",
    "Kernels",
    "add_float",
    "add_wide",
    "combine_float",
    "combine_wide",
    "compare",
    "divide_wide",
    "float_total",
    "greatest",
    "import_word",
    "kernel",
    "least",
    "multiset_after",
    "multiset_change",
    "multiset_clear",
    "multiset_count",
    "multiset_entry",
    "multiset_first",
    "multiset_settle",
    "multiset_word",
    "ordered_accumulate",
    "ordered_clear",
    "ordered_merge",
    "ordered_retract",
    "sequence_clear",
    "sequence_merge_distinct",
    "subtract_float",
    "subtract_wide",
    "truncate_divide",
    "wide_to_bigint",
    "wide_to_decimal",
    "wide_to_float",
    "wrap",
]

NO_WORD = np.int64(0)
NO_FLOAT = np.float64(0.0)
NO_LIMBS = (np.int64(0), np.int64(0))
_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


class Limbs(NamedTuple):
    """A column of 128-bit numbers."""

    low: Array
    high: Array


@kernel
def wide_at(column: Limbs, i: int) -> tuple[int, int]:
    return column.low[i], column.high[i]


@kernel
def load_wide(field: Array, s: int) -> Wide:
    return field[s, 0], field[s, 1], field[s, 2]


@kernel
def store_wide(field: Array, s: int, value: Wide) -> None:
    field[s, 0], field[s, 1], field[s, 2] = value


@kernel
def clear_wide(field: Array, s: int) -> None:
    field[s, :] = 0


@kernel
def load_float(field: Array, s: int) -> FloatSum:
    f = field[s]
    return f[0], f[1], f[2], f[3], f[4], f[5], f[6]


@kernel
def store_float(field: Array, s: int, value: FloatSum) -> None:
    for c in range(7):
        field[s, c] = value[c]


@kernel
def clear_float(field: Array, s: int) -> None:
    field[s, :] = 0.0


@kernel
def store_pooled(field: Array, pool: PoolArrays, s: int, word: int) -> None:
    """Store an id, holding it and letting the former one go."""
    hold(pool, word)
    release(pool, field[s])
    field[s] = word


@kernel
def put_word(out: Array, k: int, word: int) -> None:
    out[k] = word


@kernel
def put_float(out: Array, k: int, value: float) -> None:
    out[k] = value + 0.0


@kernel
def put_limbs(out: Array, k: int, value: tuple[int, int]) -> None:
    out[k, 0], out[k, 1] = value


@kernel
def word_to_float(word: int) -> float:
    return np.int64(word ^ ((word >> 63) & _SIGN)).view(np.float64)


@kernel
def word_to_wide(word: int) -> tuple[int, int]:
    return word, word >> 63


@kernel
def pooled_to_wide(pool: PoolArrays, word: int) -> tuple[int, int]:
    """The 128 bits of a wide decimal's id: big-endian in the pool, sign bit flipped."""
    at = pool.offset[word]
    high, low = np.uint64(0), np.uint64(0)
    for j in range(8):
        high = (high << np.uint64(8)) | np.uint64(pool.heap[at + j])
        low = (low << np.uint64(8)) | np.uint64(pool.heap[at + 8 + j])
    return np.int64(low), np.int64(high ^ np.uint64(0x8000000000000000))


sequence_accumulate = sequence_append
sequence_retract = sequence_remove


@kernel
def sequence_merge(
    view: Sequence,
    pool: PoolArrays,
    pooled: bool,
    slot: int,
    other: Sequence,
    other_pool: PoolArrays,
    other_slot: int,
) -> None:
    node = np.int64(other.head[other_slot])
    while node != 0:
        word = other.words[node]
        if pooled:
            word = import_word(pool, other_pool, word)
        sequence_append(view, pool, pooled, slot, word)
        node = np.int64(other.following[node])


@kernel
def sequence_merge_distinct(
    view: Sequence,
    pool: PoolArrays,
    pooled: bool,
    slot: int,
    other: Sequence,
    other_pool: PoolArrays,
    other_slot: int,
    counts: Tree,
    column: int,
) -> None:
    """Append the values that are new here, in the other's order; `counts`, merged already, says which are there."""
    node = np.int64(other.head[other_slot])
    while node != 0:
        word = other.words[node]
        if pooled:
            word = import_word(pool, other_pool, word)
        entry = multiset_entry(counts, pool, pooled, slot, word)
        if multiset_count(counts, entry, column) > 0 and not sequence_holds(view, slot, word):
            sequence_append(view, pool, pooled, slot, word)
        multiset_settle(counts, pool, pooled, slot, entry)
        node = np.int64(other.following[node])


@kernel
def oldest(view: Sequence, pool: PoolArrays, pooled: bool, slot: int) -> tuple[int, bool]:
    node = view.head[slot]
    return view.words[node], node != 0


@kernel
def newest(view: Sequence, pool: PoolArrays, pooled: bool, slot: int) -> tuple[int, bool]:
    node = view.tail[slot]
    return view.words[node], node != 0


_VIEW_TYPES: dict[str, type[TreeView] | type[SequenceView]] = {
    "multiset": TreeView,
    "ordered": TreeView,
    "sequence": SequenceView,
}


class Accumulators:
    """n accumulators as arrays in an arena, with the pool and the views that they use."""

    def __init__(self, handler: type[HandlerBase], arena: Arena, slots: int) -> None:
        self.handler, self.arena = handler, arena
        self.pool = Pool(arena)
        for attr, dtype, width, _, _ in handler.FIELDS:
            arena.array(f"acc.{attr}", slots, dtype, width)
        self.slots = len(arena.array("acc.records", slots, "i8"))
        self.views = {
            attr: _VIEW_TYPES[kind](arena, f"view.{attr}", self.slots, width)
            for attr, kind, _, width in handler.VIEWS
        }

    @property
    def state(self) -> Any:
        """The State that kernels work on; made anew, because growth replaces arrays."""
        fields = [self.arena.array(f"acc.{f[0]}", 0, "i8") for f in self.handler.FIELDS]
        views = [v.arrays for v in self.views.values()]
        return self.handler.KERNELS.state(self.pool.arrays, *fields, *views)

    @property
    def records(self) -> Array:
        """Rows that each accumulator holds (for an append-only input perhaps only 1 for some)."""
        return self.arena.array("acc.records", 0, "i8")

    def resize(self, slots: int) -> None:
        """Room for more accumulators, or fewer when those beyond are as new."""
        for attr, *_ in self.handler.FIELDS:
            self.arena.resize(f"acc.{attr}", slots)
        for view in self.views.values():
            view.reserve_slots(slots)
        self.slots = slots

    def reserve(self, rows: int) -> int:
        """Room in every view for what the next rows may add; for how many of `rows`, at least 1."""
        for view in self.views.values():
            rows = view.affordable(rows)
        for view in self.views.values():
            view.reserve(rows)
        return rows

    @property
    def is_airy(self) -> bool:
        return self.pool.is_airy or any(view.is_airy for view in self.views.values())

    def trim(self) -> None:
        """Give back the room that nothing has used yet."""
        for view in self.views.values():
            view.trim()

    def reserve_merge(self, other: Accumulators) -> None:
        self.pool.reserve_import(other.pool)
        for attr, view in self.views.items():
            view.reserve(other.views[attr].live)

    def sweep(self) -> None:
        """Free unreferenced strings; give back the memory of empty views."""
        self.pool.sweep()
        for view in self.views.values():
            view.shrink()

    def sync(self) -> None:
        """Everything is in the arena already."""

    def dump(self) -> list[Any]:
        """The logical content, by slot, independent of node numbers and ids."""
        rows: list[Any] = []
        for s in range(self.slots):
            fields = [self._field(f, s) for f in self.handler.FIELDS]
            rows.append((fields, [self._view(v, s) for v in self.handler.VIEWS]))
        return rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Accumulators) and self.dump() == other.dump()

    __hash__ = None

    def _word(self, word: int, pooled: bool) -> Any:
        if not pooled:
            return word
        p = self.pool.arrays
        at = int(p.offset[word])
        return bytes(p.heap[at : at + int(p.length[word])]) if word else None

    def _field(self, field: tuple[str, str, int, str, bool], s: int) -> Any:
        attr, _, width, _, pooled = field
        value = self.arena.array(f"acc.{attr}", 0, "i8")[s]
        return value.tolist() if width else self._word(int(value), pooled)

    def _view(self, described: tuple[str, str, bool, int], s: int) -> Any:
        attr, kind, pooled, width = described
        view = self.views[attr].arrays
        if isinstance(view, Tree):
            found, entry = [], tree_end(view, s, 0)
            while entry:
                word, *counts = view.heap[entry : entry + 1 + width].tolist()
                found.append((self._word(word, pooled), counts))
                by_bytes = pooled and kind == "ordered"
                entry = tree_beside(view, self.pool.arrays, by_bytes, s, word, 1)
            return sorted(found, key=repr)
        values, node = [], int(view.head[s])
        while node:
            values.append(self._word(int(view.words[node]), pooled))
            node = int(view.following[node])
        return values


class Handler(HandlerBase):
    """The base of handlers compiled by Numba."""

    accumulators_type = Accumulators

    def bind_column(
        self, column: pa.Array, name: str, form: str, bound: dict[tuple[str, str], Any]
    ) -> None:
        if form == "flag":
            bound[name, form] = columns.flags(column)
        elif form == "valid":
            bound[name, form] = columns.validity(column)
        elif form == "word":
            bound[name, form] = columns.words(column, self._current().pool)[0]
        else:
            low, high, _ = columns.numbers(column)
            bound[name, form] = Limbs(low, high) if form == "wide" else low

    def pick(self, inputs: Any, rows: Array) -> Any:
        return self.KERNELS.inputs(
            *(
                (
                    Limbs(*(limb[rows] for limb in column))
                    if isinstance(column, Limbs)
                    else column[rows]
                )
                for column in inputs
            )
        )

    def outputs(self, n: int) -> Any:
        arrays: list[Array] = [np.zeros(max(1, len(self.OUTPUTS)), np.int64)]
        for _, form in self.OUTPUTS:
            shape = (n, 2) if form == "limbs" else (n,)
            arrays += [np.zeros(shape, "f8" if form == "float" else "i8"), np.zeros(n, np.bool_)]
        return self.KERNELS.outputs(*arrays)

    def differ(self, before: Any, after: Any, rows: int) -> Array:
        """In which of the rows any result differs; NULL equals NULL, NaN equals NaN."""
        changed = np.zeros(rows, np.bool_)
        for a, b in zip(before[1:], after[1:], strict=True):
            unequal = a.view(np.int64) != b.view(np.int64) if a.dtype == np.float64 else a != b
            changed |= unequal.any(axis=1) if unequal.ndim == 2 else unequal
        return changed

    def concatenate(self, before: Any, after: Any) -> Any:
        """The rows of two outputs, one after the other."""
        return type(before)(*(np.concatenate([a, b]) for a, b in zip(before, after, strict=True)))

    def to_arrow(
        self, out: Any, fields: list[pa.Field], take: Array | None = None
    ) -> list[pa.Array]:
        made = []
        for position, ((_, form), field) in enumerate(zip(self.OUTPUTS, fields, strict=True)):
            data, valid = out[1 + 2 * position], out[2 + 2 * position]
            if take is not None:
                data, valid = data[take], valid[take]
            if form == "float":
                made.append(columns.from_floats(data, valid, field.type))
            elif form == "limbs":
                made.append(columns.from_limbs(data, valid, field.type))
            else:
                made.append(columns.from_words(data, valid, field.type, self._current().pool))
        return made
