"""Accumulators and views by name, with their values as columns would show them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen import VIEW_KINDS, AggSpec, describe_call, plan_of
from aggloom.runtime.arithmetic.floats import float_total, load_float
from aggloom.runtime.inspection.facts import Accumulator, ViewSize
from aggloom.runtime.storage.blocks import Tree
from aggloom.runtime.storage.tree import tree_start, tree_step
from aggloom.runtime.values import columns, rows, scalars
from aggloom.runtime.views.hyperloglog import MANY
from aggloom.runtime.views.sequence import Sequence


class Layout:
    """Layout of a handler class's accumulators: where they lie, and which calls read them."""

    def __init__(self, handler_class: type[Any]) -> None:
        spec: AggSpec = handler_class.spec()
        self._plan = plan = plan_of(spec, handler_class.BACKEND)
        self._compiled = handler_class.BACKEND == "numba"
        self._operands: dict[str, Any] = {}
        self._reals: set[str] = set()
        self._decimals: dict[str, int] = {}
        self._calls: dict[str, list[str]] = {}
        # Blocks under a DISTINCT have operands of their own, which the plan lists apart from those of all rows.
        for block in [*plan.blocks, *(b for d in plan.distincts for b in d.blocks)]:
            for update in block.updates:
                self._operands[update.field.attr] = block.operand
                if update.scale:
                    self._decimals[update.field.attr] = update.scale
            for step in block.views:
                self._operands[step.view.attr] = block.operand
                if step.real:
                    self._reals.add(step.view.attr)
        for distinct in plan.distincts:
            self._operands[distinct.view.attr] = distinct.blocks[0].operand
        self._name_calls(spec)

    def accumulators(self, stored: Any, slot: int) -> Iterator[Accumulator]:
        """The fields at a slot; the number of rows, which is first, is shown elsewhere."""
        # Field 0 counts the rows behind the accumulators, for every spec.
        for field in self._plan.fields[1:]:
            value = self._field(stored, field, slot)
            calls = tuple(self._calls.get(field.attr, ()))
            yield Accumulator(field.attr, field.kind, calls, value)

    def views(self, stored: Any, slot: int, limit: int | None = None) -> Iterator[ViewSize]:
        """The views at a slot, with their first `limit` values."""
        for view in self._plan.views:
            # The spill is a part of the float sums, which have been added to their fields already.
            if view.kind is VIEW_KINDS["spill"]:
                continue
            calls = tuple(self._calls.get(view.attr, ()))
            words, counts = self._entries(stored, view, slot)
            if view.kind is VIEW_KINDS["seen"]:
                # Calls that share one set have their marks in one number; a reader wants a column for each call.
                counts = [_bits(marks, view.width) for (marks,) in counts]
            size = len(counts)
            # A sketch does not know the values that it has seen, only how much of it is filled.
            if view.kind.sketch:
                yield ViewSize(view.attr, view.kind.name, calls, size)
                continue
            # The size counts all entries, so that a cut list can say how many more there are.
            values = self._values(stored, view, words[:limit])
            entries = tuple(zip(values, counts[:limit], strict=True))
            yield ViewSize(view.attr, view.kind.name, calls, size, entries)

    def _name_calls(self, spec: AggSpec) -> None:
        plan = self._plan
        for call, output in zip(spec.calls, plan.outputs, strict=True):
            used = {field.attr for field in output.loads} | {v.attr for v in output.views}
            # A DISTINCT call reads its view even where its own output loads nothing of it.
            used |= {d.view.attr for d in plan.distincts for b in d.blocks if call in b.calls}
            for attr in used:
                self._calls.setdefault(attr, []).append(describe_call(call))

    def _field(self, stored: Any, field: Any, slot: int) -> Any:
        if not self._compiled:
            value = stored.fields[field.attr][slot]
            if field.kind == "float":
                # A sum that has an infinity or a NaN is a tuple whose finite part says little: it stays whole.
                return float(value[0]) if isinstance(value[0], Fraction) else value
            return self._to_scale(field.attr, value)
        array = stored.arena.array(f"acc.{field.attr}", 0, "i8")
        if field.kind == "wide":
            *lower, highest = (int(each) for each in array[slot])
            # Only the highest limb has the sign; the lower ones are unsigned halves that NumPy reads as signed.
            whole = sum(limb % 2**64 << 64 * place for place, limb in enumerate(lower))
            whole += highest << 64 * len(lower)
            return self._to_scale(field.attr, whole)
        if field.kind == "float":
            # A float sum is exact only together with what spilled over from its two doubles (decision 006).
            spill = stored.views["spill"].arrays
            number: Any = np.int64(slot)
            place: Any = np.int64(field.spill)
            return float(float_total(spill, number, place, load_float(array, slot)))
        if field.kind == "word":
            return self._values(stored, field, [int(array[slot])])[0]
        value = array[slot].item()
        return self._to_scale(field.attr, value)

    def _to_scale(self, attr: str, value: Any) -> Any:
        if attr in self._decimals and isinstance(value, int):
            return Decimal(value).scaleb(-self._decimals[attr])
        return value

    def _entries(
        self, stored: Any, view: Any, slot: int
    ) -> tuple[list[Any], list[tuple[int, ...]]]:
        """(words, counts) of a view, in order."""
        owner = stored.views[view.attr]
        if not self._compiled:
            return _plain_entries(owner[slot])
        arrays = owner.arrays
        tree = arrays if isinstance(arrays, Tree) else getattr(arrays, "tree", None)
        if tree is not None:
            by_bytes = view.pooled and view.kind.by_bytes
            counts = view.kind.counts(view.width)
            return _tree_entries(tree, stored.pool, by_bytes, slot, counts)
        # Asked before the counters below: a list has none, its entries are chained through nodes.
        if isinstance(arrays, Sequence):
            return _sequence_entries(arrays, slot)
        filled = getattr(arrays, "filled", None)
        if filled is None:
            return [], [()] * int(np.any(arrays.counts[slot]))
        # HyperLogLog lists its first entries; MANY, a negative number, says that they have become registers.
        size = 1 if filled[slot] == MANY else int(filled[slot])
        return [], [()] * size

    def _values(self, stored: Any, part: Any, words: list[Any]) -> list[Any]:
        """Words of a field or view as values: of one column, or of several by name."""
        operand = self._operands.get(part.attr)
        if operand is None:
            return words
        # Words of the plain backend are the values themselves; only rows are encoded there.
        if not self._compiled and operand.form != "row":
            return words
        # Doubles of a view are words whose bits were flipped so that they order as integers (decision 003).
        if part.attr in self._reals:
            return scalars.words_to_floats(np.array(words, np.int64)).tolist()
        if operand.form != "row":
            array = np.array(words, np.int64)
            valid = np.ones(len(words), np.bool_)
            if operand.is_pooled:
                # The pool has no text under 0, which stands for NULL.
                valid = array != 0
            decoded: list[Any] = columns.from_words(
                array, valid, operand.types[0], stored.pool
            ).to_pylist()
            return decoded
        # Missing rows have no bytes that could be decoded, so they are left out here and put back below.
        encoded = self._encode_rows(stored, words)
        listed = [rows.ColumnOrder(*each) for each in operand.parts]
        values = [
            rows.decode(encoded, operand.types, listed, place).to_pylist()
            for place in range(len(operand.types))
        ]
        whole = iter(
            [dict(zip(operand.columns, row, strict=True)) for row in zip(*values, strict=True)]
        )
        there = [word not in (0, None) for word in words]
        return [next(whole) if is_there else None for is_there in there]

    def _encode_rows(self, stored: Any, words: list[Any]) -> pa.BinaryArray:
        """The bytes of rows, without those that are not there."""
        if not self._compiled:
            return pa.array([word for word in words if word not in (0, None)], pa.binary())
        array = np.array([word for word in words if word], np.int64)
        return columns.from_words(array, np.ones(len(array), np.bool_), pa.binary(), stored.pool)


def _tree_entries(
    tree: Tree, pool: Any, by_bytes: bool, slot: int, counts: int
) -> tuple[list[Any], list[tuple[int, ...]]]:
    words, tallies = [], []
    # A tree is chained through its leaves; entry 0 is the end.
    leaf, entry = tree_start(tree, slot, 0)
    while entry:
        words.append(int(tree.heap[entry]))
        tallies.append(tuple(tree.heap[entry + 1 : entry + 1 + counts].tolist()))
        leaf, entry = tree_step(tree, pool.arrays, by_bytes, slot, leaf, entry, side=1)
    return words, tallies


def _sequence_entries(view: Sequence, slot: int) -> tuple[list[Any], list[tuple[int, ...]]]:
    """The values of a list in order of arrival; a count below 0: retractions that wait for their rows."""
    words: list[Any] = []
    counts: list[tuple[int, ...]] = []
    node = int(view.head[slot])
    while node:
        words.append(int(view.words[node]))
        # The node keeps the arrival number of its row, of which only the sign is of use here.
        counts.append((min(int(view.newest[node]), 1),))
        node = int(view.following[node])
    return words, counts


def _plain_entries(view: Any) -> tuple[list[Any], list[tuple[int, ...]]]:
    if isinstance(view, dict):
        # Values of several types do not compare with each other, their texts do.
        words = sorted(view, key=repr)
        return words, [_numbers(view[word]) for word in words]
    if isinstance(view, list):
        return list(view), [(1,)] * len(view)
    return [], [()]


def _bits(marks: int, calls: int) -> tuple[int, ...]:
    """Return, for each call that shares a set, 1 where it has met the value."""
    return tuple(marks >> call & 1 for call in range(calls))


def _numbers(counts: Any) -> tuple[int, ...]:
    return tuple(counts) if isinstance(counts, list | tuple) else (counts,)
