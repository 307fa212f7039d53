"""The backend of handlers compiled by Numba: accumulators in an arena, bound columns, results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen import VIEW_KINDS
from aggloom.runtime.arithmetic.floats import float_total
from aggloom.runtime.arithmetic.superaccumulator import Spill
from aggloom.runtime.handlers.debug_text import describe_slots
from aggloom.runtime.handlers.handler import HandlerBase
from aggloom.runtime.handlers.layout import FieldLayout, ViewLayout
from aggloom.runtime.handlers.namespaced import Namespaced
from aggloom.runtime.storage.arena import (
    Arena,
    Array,
    FlagArray,
    NumberArray,
    SlotArray,
    ValueArray,
)
from aggloom.runtime.storage.audit import Audit
from aggloom.runtime.storage.blocks import Tree
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.storage.tree import tree_beside, tree_end
from aggloom.runtime.values import columns, scalars
from aggloom.runtime.values.encoded_values import Limbs
from aggloom.runtime.views.hyperloglog import HyperLogLogs
from aggloom.runtime.views.kinds import VIEW_TYPES
from aggloom.runtime.views.lists import (
    USED,
    ListOut,
    concatenate_lists,
    enlarge_list,
    lists_differ,
    new_list_out,
    rows_of,
)
from aggloom.runtime.views.sequence import Sequence


class ArenaAccumulators:
    """n accumulators as arrays in an arena, with the pool and the views that they use."""

    def __init__(self, handler: type[HandlerBase], arena: Arena, slots: int) -> None:
        self.handler, self.arena = handler, arena
        self.pool = Pool(arena)
        for field in handler.FIELDS:
            new = f"acc.{field.name}" not in arena
            array = arena.array(f"acc.{field.name}", slots, field.dtype, field.columns)
            # An array that was found again keeps its values.
            if field.initial and new:
                array[:] = field.initial
        self.slots = len(arena.array("acc.records", slots, "i8"))
        self.views = {
            view.name: VIEW_TYPES[view.kind](arena, f"view.{view.name}", self.slots, view.width)
            for view in handler.VIEWS
        }

    def __repr__(self) -> str:
        arrays = {f.name: self.arena.array(f"acc.{f.name}", 0, "i8") for f in self.handler.FIELDS}
        return describe_slots(self.handler, arrays, self.slots, "Accumulators")

    @property
    def state(self) -> Any:
        """The State that kernels work on; made anew, because growth replaces arrays."""
        fields = [self.arena.array(f"acc.{f.name}", 0, "i8") for f in self.handler.FIELDS]
        views = [v.arrays for v in self.views.values()]
        return self.handler.KERNELS.state(self.pool.arrays, *fields, *views)

    @property
    def records(self) -> Array:
        """Rows that each accumulator holds (for an append-only input perhaps only 1 for some)."""
        return self.arena.array("acc.records", 0, "i8")

    def flags(self, field: str, slots: SlotArray) -> Array:
        """A field at the slots as truths (bool[n])."""
        flags: Array = self.arena.array(f"acc.{field}", 0, "i1")[slots] != 0
        return flags

    def shift_records(self, slots: SlotArray, by: int) -> None:
        """Let accumulators hold so many rows more."""
        self.records[slots] += by

    def as_new(self, slots: SlotArray) -> Array:
        """Return which of the slots hold nothing, apart from their rows; rounded sums say nothing, whatever is left in
        them."""
        new, sums = np.ones(len(slots), np.bool_), []
        # The first field counts rows, which is not asked for.
        for field in self.handler.FIELDS[1:]:
            values = self.arena.array(f"acc.{field.name}", 0, "i8")[slots]
            if field.kind == "float":
                sums.append(values)
            elif field.kind != "double":
                equal = values == field.initial
                new &= equal.all(axis=1) if equal.ndim == 2 else equal
        for view in self.views.values():
            arrays = view.arrays
            if isinstance(arrays, Spill):
                new &= _find_cancelled(arrays, slots, sums, new)
                continue
            tree = arrays if isinstance(arrays, Tree) else getattr(arrays, "tree", None)
            if tree is not None:
                new &= tree.root[slots] == 0
            elif isinstance(arrays, Sequence):
                new &= arrays.head[slots] == 0
            else:
                new &= (arrays.counts[slots] == 0).all(axis=1)
        return new

    def check_restored(self, audit: Audit) -> None:
        """Raise StateCorruptError unless the arrays of a snapshot are accumulators."""
        for field in self.handler.FIELDS:
            name = f"acc.{field.name}"
            values = self.arena.array(name, 0, "i8")
            audit.require_length(self.slots, name, values)
            if field.pooled:
                audit.hold(name, values)
            elif field.kind == "float":
                # NaN and infinities are counted beside the sum, which is finite.
                audit.require(bool(np.isfinite(values).all()), name, "a sum is not finite")
        for view in self.handler.VIEWS:
            by_bytes = view.pooled and VIEW_KINDS[view.kind].by_bytes
            self.views[view.name].check_restored(audit, self.slots, view.pooled, by_bytes)

    def resize(self, slots: int) -> None:
        """Room for more accumulators, or fewer when those beyond are as new."""
        for field in self.handler.FIELDS:
            array = self.arena.resize(f"acc.{field.name}", slots)
            if field.initial:
                array[self.slots :] = field.initial
        for view in self.views.values():
            view.reserve_slots(slots)
        self.slots = slots

    def reserve(self, rows: int) -> int:
        """Room in every view for what the next rows may add; for how many of `rows`, at least 1."""
        # First the least that any view affords, then room for just so many rows in each.
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

    def reserve_merge(self, other: ArenaAccumulators) -> None:
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
        return isinstance(other, ArenaAccumulators) and self.dump() == other.dump()

    __hash__ = None

    def _word(self, word: int, pooled: bool) -> Any:
        if not pooled:
            return word
        p = self.pool.arrays
        at = int(p.offset[word])
        return bytes(p.heap[at : at + int(p.length[word])]) if word else None

    def _field(self, field: FieldLayout, s: int) -> Any:
        value = self.arena.array(f"acc.{field.name}", 0, "i8")[s]
        if field.columns or field.kind == "double":
            return value.tolist()
        return self._word(int(value), field.pooled)

    def _view(self, layout: ViewLayout, s: int) -> Any:
        name, kind, pooled, width = layout
        view = self.views[name].arrays
        tree = view if isinstance(view, Tree) else getattr(view, "tree", None)
        if tree is not None:
            by_bytes = pooled and VIEW_KINDS[kind].by_bytes
            return self._entries(tree, pooled, by_bytes, s, VIEW_KINDS[kind].numbers_of(width))
        if isinstance(view, Sequence):
            values, node = [], int(view.head[s])
            while node:
                word = self._word(int(view.words[node]), pooled)
                values.append((word, int(view.newest[node])) if view.newest[node] < 0 else word)
                node = int(view.following[node])
            return values
        if isinstance(view, Spill):
            return (view.index[s] > 0).tolist()
        if isinstance(view, HyperLogLogs):
            return int(view.filled[s]), view.cells[s].tolist()
        return view.counts[s].tolist()

    def _entries(self, tree: Tree, pooled: bool, by_bytes: bool, s: int, width: int) -> Any:
        entries, entry = [], tree_end(tree, s, 0)
        while entry:
            word, *counts = tree.heap[entry : entry + 1 + width].tolist()
            entries.append((self._word(word, pooled), counts))
            entry = tree_beside(tree, self.pool.arrays, by_bytes, s, word, 1)
        return sorted(entries, key=repr)


def _find_cancelled(
    spill: Spill, slots: SlotArray, sums: list[Array], candidates: FlagArray
) -> Array:
    """Tell which candidates have float sums that are all 0: parts may be left that cancel each other.

    sums: of each field int64[slots, parts].
    """
    zero = candidates.copy()
    for place, parts in enumerate(sums):
        plain = (parts == 0).all(axis=1) & (spill.index[slots, place] == 0)
        for k in np.flatnonzero(zero & ~plain):
            total = float_total(spill, slots[k], np.int64(place), tuple(parts[k]))
            zero[k] = total == 0.0
    return zero


class CompiledHandler(HandlerBase):
    """The base of handlers compiled by Numba."""

    accumulators_type = ArenaAccumulators

    def bind_column(
        self, column: pa.Array, name: str, form: str, bound: dict[tuple[str, str], Any]
    ) -> None:
        if form == "flag":
            bound[name, form] = columns.flags(column)
        elif form == "valid":
            bound[name, form] = scalars.validity(column)
        elif form == "word":
            numbers = bound.get((name, "number"))
            # A whole number without NULLs is its own word: one array serves both forms.
            if numbers is not None and columns.is_own_word(column):
                bound[name, form] = numbers
            else:
                bound[name, form] = columns.words(column, self._current().pool)[0]
        elif form == "real":
            bound[name, form] = columns.reals(column)
        elif form == "real_word":
            bound[name, form] = scalars.float_words(columns.reals(column))
        else:
            low, high, _ = columns.numbers(column)
            bound[name, form] = Limbs(low, high) if form == "wide" else low

    def pick(self, inputs: Any, rows: NumberArray) -> Any:
        picked: dict[int, Any] = {}
        for column in inputs:
            # Forms of one column are often one array.
            if id(column) not in picked:
                picked[id(column)] = (
                    Limbs(*(columns.take(limb, rows) for limb in column))
                    if isinstance(column, Limbs)
                    else columns.take(column, rows)
                )
        return self.KERNELS.inputs(*(picked[id(column)] for column in inputs))

    def outputs(self, n: int) -> Any:
        arrays: list[Any] = [np.zeros(max(1, len(self.OUTPUTS)), np.int64)]
        for output in self.OUTPUTS:
            form = output.form
            if form == "list":
                arrays.append(new_list_out(n))
            elif form == "limbs":
                arrays.append(np.zeros((n, 2), np.int64))
            else:
                shape = (n, output.columns) if form in ("words", "floats") else (n,)
                arrays.append(np.zeros(shape, "f8" if form.startswith("float") else "i8"))
            arrays.append(np.zeros(n, np.bool_))
        return self.KERNELS.outputs(*arrays)

    def enlarge_lists(self, out: Any, row: int) -> Any:
        parts = list(out)
        for place, part in enumerate(parts):
            # Lists that were full get more room; all of them go back to where the row began.
            if isinstance(part, ListOut):
                parts[place] = enlarge_list(part) if part.meta[1] else part
                parts[place].meta[USED] = part.ends[row - 1] if row else 0
        return type(out)(*parts)

    def pick_outputs(self, out: Any, rows: NumberArray) -> Any:
        parts: list[Any] = [out[0]]
        for part in out[1:]:
            if isinstance(part, ListOut):
                words, counts, offsets = rows_of(part, rows)
                used = np.array([len(words), 0], np.int64)
                parts.append(ListOut(words, counts, offsets[1:], used))
            else:
                parts.append(part[rows])
        return type(out)(*parts)

    def differ(self, before: Any, after: Any, rows: int) -> Array:
        """Return in which of the rows any result differs; NULL equals NULL, NaN equals NaN."""
        changed = np.zeros(rows, np.bool_)
        for a, b in zip(before[1:], after[1:], strict=True):
            if isinstance(a, ListOut):
                changed |= lists_differ(a, b, rows)
                continue
            # Doubles by their bits, as NaN equals NaN here; of zeros there is only 0.0.
            unequal = a.view(np.int64) != b.view(np.int64) if a.dtype == np.float64 else a != b
            changed |= unequal.any(axis=1) if unequal.ndim == 2 else unequal
        return changed

    def halves(self, out: Any, n: int) -> tuple[Any, Any]:
        parts = ([part[:n] for part in out[1:]], [part[n:] for part in out[1:]])
        first, second = (type(out)(out[0], *part) for part in parts)
        return first, second

    def concatenate(self, before: Any, after: Any) -> Any:
        """The rows of two outputs, one after the other."""
        pairs = zip(before, after, strict=True)
        return type(before)(
            *(
                concatenate_lists(a, b) if isinstance(a, ListOut) else np.concatenate([a, b])
                for a, b in pairs
            )
        )

    def scalars(
        self, data: ValueArray, valid: FlagArray, form: str, dtype: pa.DataType
    ) -> pa.Array:
        if form in ("float", "floats"):
            return scalars.from_floats(data, valid, dtype)
        if form == "limbs":
            return scalars.from_limbs(data, valid, dtype)
        return columns.from_words(data, valid, dtype, self._current().pool)

    def select_rows(self, data: Any, valid: Any, take: NumberArray | None) -> tuple[Any, Array]:
        if take is None:
            return data, valid
        return columns.take(data, take), columns.take(valid, take)

    def lists(self, data: ListOut, take: NumberArray) -> tuple[Array, Array, Array]:
        return rows_of(data, take)


class NamespaceHandler(Namespaced, CompiledHandler):
    """A Handler of which the accumulators belong to windows."""
