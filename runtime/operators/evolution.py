"""State that outlives a change of its query: the parts that stay when calls are added, removed or moved.

An old operator is brought to the state that it left, then its accumulators are merged into those of a new one: merging
into new accumulators is copying, and what the new handler does not know is not read. Nothing here knows Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.codegen import Carried, match_state, same_call
from aggloom.errors import StateMismatchError
from aggloom.runtime.handlers.compiled import ArenaAccumulators
from aggloom.runtime.operators.keyed_state import KeyedState
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.plain.backend import PlainAccumulators
from aggloom.runtime.storage.arena import Arena, Array
from aggloom.runtime.storage.blocks import Tree
from aggloom.runtime.storage.jit import kernel
from aggloom.runtime.storage.pool import PoolArrays
from aggloom.runtime.values.changelog import transitions
from aggloom.runtime.values.clock import Clock
from aggloom.runtime.values.scalars import validity
from aggloom.runtime.views.multiset import (
    multiset_after,
    multiset_change,
    multiset_count,
    multiset_entry,
    multiset_first,
    multiset_word,
)
from aggloom.runtime.views.seen import SeenView, seen_has, seen_meet, seen_times


def evolve(old: Any, new: Any, parts: Carried, clock: Clock) -> Rows:
    """Bring a fresh operator to the state of an old one whose calls, or settings, are others.

    Returns the changes by which a table made of the old one's columns, with NULL in those that are new, becomes the
    new one's. Raises StateMismatchError if the state cannot be carried over.
    """
    _check(old, new, parts)
    for before, after in zip(old.states, new.states, strict=True):
        _carry(before, after, parts, clock)
    new.take_over(old)
    return _difference(old, new)


def change_settings(old: Any, new: Any, clock: Clock) -> Rows:
    """Go on under other settings alone: the state is the same under any, but for stamps and orphans."""
    if not new.keeps_stamps(old):
        return evolve(old, new, match_state(old.spec, new.spec, new.handler_class.BACKEND), clock)
    new.restore(old.snapshot())
    new.take_over(old)
    return no_rows(new.schema)


def _check(old: Any, new: Any, parts: Carried) -> None:
    handler = new.handler_class
    reason = new.keeps_calls or old.keeps_calls
    if reason:
        pass
    elif handler.UNMERGEABLE or not handler.COMPACTS:
        names = ", ".join(handler.UNMERGEABLE or handler.FUNCTIONS)
        reason = f"the state of {names} cannot be copied call by call, for it has no merge, or is not the same after it"
    elif not set(parts.fields) | set(parts.views) <= {
        each.name for each in handler.FIELDS + handler.VIEWS
    }:
        reason = f"{handler.SOURCE_PATH} was edited, so that its state is not that of its calls"
    if reason:
        raise StateMismatchError(
            f"{reason}. Run the query that this checkpoint belongs to, or give this one a checkpoint "
            "directory of its own."
        )


def _carry(before: KeyedState, after: KeyedState, parts: Carried, clock: Clock) -> None:
    """Copy keys, accumulators and stamps; a stamp that was not kept is that of now."""
    used = before.index.used_slots()
    slots = after.lookup_keys_of(before, used)
    old_rows = _in_new_layout(before.accumulators, after.handler, parts)
    after.handler.merge_slots(after.accumulators, slots, old_rows, used)
    for name in after.stamp_names:
        there = name in before.stamp_names
        after.stamps(name)[slots] = before.stamps(name)[used] if there else clock.processing


def _in_new_layout(old: Any, handler: Any, parts: Carried) -> Any:
    """Old accumulators as those of another handler, to be read: parts that are not known are as new."""
    if isinstance(old, PlainAccumulators):
        return _plain_in_new_layout(old, handler, parts)
    arena = Arena()
    for name, array in old.arena:
        if name.startswith("pool."):
            _write_array(arena, name, array)
    types = {field.name: field.dtype for field in handler.FIELDS}
    for new_name, old_name in parts.fields.items():
        array = old.arena.array(f"acc.{old_name}", 0, "i8")
        _write_array(arena, f"acc.{new_name}", _cast_field(array, types[new_name]))
    for new_name, old_name in parts.views.items():
        # All arrays of a view, whichever they are, go under its new name.
        start = f"view.{old_name}."
        for name, array in old.arena:
            if name.startswith(start):
                _write_array(arena, f"view.{new_name}.{name.removeprefix(start)}", array)
    if "spill" in old.views and any(place >= 0 for place in parts.spills):
        _put_spill(arena, old.arena, parts.spills)
    target = ArenaAccumulators(type(handler), arena, old.slots)
    for new_name, (old_name, places) in parts.counts.items():
        view, source = target.views[new_name], old.views[old_name]
        # Room for every entry, even where all of its counts are of calls that went.
        view.reserve(source.live)
        pooled = next(v.pooled for v in handler.VIEWS if v.name == new_name)
        were_bits, are_bits = isinstance(source, SeenView), isinstance(view, SeenView)
        copy = _copy_bits if are_bits else _copy_counts
        copy(view.arrays, target.pool.arrays, pooled, source.arrays, were_bits, np.array(places))
    return target


def _plain_in_new_layout(old: PlainAccumulators, handler: Any, parts: Carried) -> Any:
    target = PlainAccumulators(type(handler), Arena(), old.slots)
    for new_name, old_name in parts.fields.items():
        target.fields[new_name] = old.fields[old_name]
    for new_name, old_name in parts.views.items():
        target.views[new_name] = old.views[old_name]
    kinds = {view.name: view.kind for view in handler.VIEWS}
    for new_name, (old_name, places) in parts.counts.items():
        for here, there in zip(target.views[new_name], old.views[old_name], strict=True):
            for word, counts in there.items():
                carried = [_plain_count(counts, place) for place in places]
                if kinds[new_name] != "seen":
                    here[word] = carried
                elif any(count > 0 for count in carried):
                    here[word] = sum((count > 0) << call for call, count in enumerate(carried))
    return target


def _plain_count(counts: list[int] | int, place: int) -> int:
    """The count of a call in an entry of a DISTINCT view; 0 for a place of -1. Of a set it is a bit."""
    if place < 0:
        return 0
    return counts >> place & 1 if isinstance(counts, int) else counts[place]


def _write_array(arena: Arena, name: str, array: Array) -> None:
    columns = array.shape[1] if array.ndim == 2 else 0
    arena.array(name, len(array), array.dtype.str, columns)[:] = array


def _cast_field(array: Array, dtype: str) -> Array:
    """A field as another type: the record counter, which may only say whether there are rows."""
    if array.dtype == np.dtype(dtype):
        return array
    # A counter that only says whether there are rows cannot count, but a count can say it.
    return (array > 0).astype(dtype)


def _put_spill(arena: Arena, old: Arena, places: Sequence[int]) -> None:
    """The old spill, with its fields where the new handler looks for them."""
    for name in ("blocks", "free", "meta"):
        _write_array(arena, f"view.spill.{name}", old.array(f"view.spill.{name}", 0, "i8"))
    there = old.array("view.spill.index", 0, "i8")
    index = np.zeros((len(there), len(places)), there.dtype)
    for place, source in enumerate(places):
        if source >= 0:
            index[:, place] = there[:, source]
    _write_array(arena, "view.spill.index", index)


@kernel
def _count_of(view: Tree, has_bits: bool, entry: int, place: int) -> int:
    """The count of a call in an entry of a DISTINCT view; 0 for a place of -1. A bit says that it is 1 or more."""
    if place < 0:
        return 0
    if has_bits:
        return int(seen_has(view, entry, place))
    return int(multiset_count(view, entry, place))


@kernel
def _copy_counts(
    view: Tree, pool: PoolArrays, pooled: bool, other: Tree, were_bits: bool, places: Array
) -> None:
    """Copy the entries of a DISTINCT view of the same pool: count c is that at places[c], or 0."""
    for s in range(len(other.root)):
        theirs = multiset_first(other, s)
        while theirs != 0:
            entry = multiset_entry(view, pool, pooled, s, multiset_word(other, theirs))
            for c in range(len(places)):
                multiset_change(view, entry, c, _count_of(other, were_bits, theirs, places[c]))
            theirs = multiset_after(other, pool, s, theirs)


@kernel
def _copy_bits(
    view: Tree, pool: PoolArrays, pooled: bool, other: Tree, were_bits: bool, places: Array
) -> None:
    """Copy counts into a view of bits: bit c says whether the count at places[c] is above 0."""
    for s in range(len(other.root)):
        theirs = multiset_first(other, s)
        while theirs != 0:
            bits, times = np.int64(0), int(seen_times(other, theirs)) if were_bits else 0
            for c in range(len(places)):
                count = _count_of(other, were_bits, theirs, places[c])
                bits |= np.int64(count > 0) << c
                times = max(times, count)
            # A value that only calls that went have met is left out: nothing would ever drop it.
            if bits != 0:
                entry = seen_meet(view, pool, pooled, s, multiset_word(other, theirs), times)
                view.heap[entry + 1] |= bits
            theirs = multiset_after(other, pool, s, theirs)


def _difference(old: Any, new: Any) -> Rows:
    """The changes from the old table, as one that knows columns by name and has NULL in new ones, to the new table."""
    same = _same_columns(old, new)
    if len(same) == len(new.schema):
        return no_rows(new.schema)
    (was, _), (now, _) = old.contents(), new.contents()
    known = {field.name: field.type for field in was.schema}
    columns = [
        was.column(f.name) if known.get(f.name) == f.type else pa.nulls(now.num_rows, f.type)
        for f in new.schema
    ]
    before = pa.RecordBatch.from_arrays(columns, schema=new.schema)
    differs = np.zeros(now.num_rows, np.bool_)
    for place, field in enumerate(new.schema):
        if field.name not in same:
            differs |= validity(before.column(place)) | validity(now.column(place))
    there = np.ones(int(differs.sum()), np.bool_)
    item, after, kinds = transitions(there, there, there, new.update_before)
    rows = np.flatnonzero(differs)[item] + now.num_rows * after
    return pa.concat_batches([before, now]).take(pa.array(rows)), kinds


def _same_columns(old: Any, new: Any) -> set[str]:
    """The columns of the new table that the old one has, of the same calls."""
    was = {call.output_name: same_call(call) for call in old.spec.calls}
    now = {call.output_name: same_call(call) for call in new.spec.calls}
    return {f.name for f in new.schema if f.name not in now or was.get(f.name) == now[f.name]}
