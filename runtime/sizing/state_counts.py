"""The holdings of operators, counted: keys, the entries of views, texts, and how often rows met each of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from aggloom.codegen import VIEW_KINDS
from aggloom.runtime.operators.base import Operator
from aggloom.runtime.storage.arena import Array, FlagArray, SlotArray
from aggloom.runtime.storage.blocks import STRIDE, Tree
from aggloom.runtime.storage.pool import HEAP_LIVE, HIGH, LIVE


class Entries(NamedTuple):
    """The entries of a view: how many, how many texts each holds, how often each was met, the most a key has.

    The last two are None where they are not known, and where a key may have any number. text_bytes: those that entries
    hold themselves.
    """

    live: int
    pooled: int
    met: Array | None  # int64[entries]
    most: int | None
    text_bytes: int = 0


class Holdings(NamedTuple):
    """The contents of one state of an operator; `met` (int64[keys]): rows of each key, or none if nobody counted.

    texts (int64[texts]): holders of each text; texts_by_key: texts that a key holds itself, at most.
    """

    keys: int
    met: Array | None  # int64[keys]
    views: dict[str, Entries]
    texts: Array  # int64[texts]
    text_bytes: int
    texts_by_key: int


def count_rows(handler: type[Any]) -> type[Any]:
    """A handler class that counts the rows of each slot, which append-only accumulators need not do."""

    def run(
        self: Any,
        step: Any,
        inputs: Any,
        retracts: FlagArray,
        keep: bool,
        slots: SlotArray,
        *noted: Any,
    ) -> Any:
        # Retractions are left out: a row that was retracted was seen all the same.
        rows = np.bincount(slots[~retracts], minlength=len(self.met))
        # New slots have no count yet, and `bincount` has made room for them.
        rows[: len(self.met)] += self.met
        self.met = rows
        return handler._run(self, step, inputs, retracts, keep, slots, *noted)

    # What rows do to accumulators, whether alone or with results noted, goes through `_run`.
    return type(handler.__name__, (handler,), {"_run": run, "met": np.zeros(0, np.int64)})


def holdings_of(operator: Operator) -> list[Holdings]:
    """List the contents of each state of an operator, that of its rows first."""
    return [_holdings(state) for state in operator.states]


def _holdings(state: Any) -> Holdings:
    slots = state.used_slots()
    pool = state.pool.arrays
    # Id 0 stands for NULL and has no text.
    refs = pool.refs[1 : int(pool.meta[HIGH]) + 1]
    handler = state.handler
    layouts, fields = (handler.VIEWS, handler.FIELDS) if handler else ((), ())
    views = getattr(state.accumulators, "views", {}) if handler else {}
    rows = {} if handler else getattr(state, "entries", {})
    return Holdings(
        keys=len(slots),
        met=_count_met(state, slots),
        views={
            view.name: _entries(view.kind, bool(view.pooled), view.width, views[view.name])
            for view in layouts
            if view.name in views
        }
        | {
            name: Entries(each.live, each.pooled, None, each.most, each.text_bytes)
            for name, each in rows.items()
        },
        # Ids without references wait for reuse, and are no texts.
        texts=refs[refs > 0].astype(np.int64),
        text_bytes=int(pool.meta[HEAP_LIVE]) if pool.meta[LIVE] else 0,
        texts_by_key=state.key_texts + sum(bool(field.pooled) for field in fields),
    )


def _count_met(state: Any, slots: SlotArray) -> Array | None:
    """Return the number of rows of each slot: those that it holds, or, if it does not know, those that were counted."""
    if not state.handler:
        # Operators that keep rows count them; others without a handler do not know how many rows a key has.
        return state.count_slot_rows(slots) if hasattr(state, "count_slot_rows") else None
    if state.handler and state.handler.RETRACTING:
        # Absolute, as orphan retractions are kept as negative numbers of records.
        return np.abs(state.records[slots])
    met: Array = getattr(state.handler, "met", np.zeros(0, np.int64))
    # Slots from a restored state were never counted here.
    return met[slots] if len(slots) and len(met) > slots.max() else None


def _entries(name: str, pooled: bool, width: int, view: Any) -> Entries:
    tree, kind = view.arrays, VIEW_KINDS[name]
    met = _counts(tree, kind.counts(width)) if isinstance(tree, Tree) else None
    # Marks of calls share the word with the count, below it.
    if kind is VIEW_KINDS["seen"] and met is not None:
        met >>= view.call_bits
    most = kind.most(width) if kind.most else None
    return Entries(int(getattr(view, "live", 0)), pooled, met, most)


def _counts(tree: Tree, columns: int) -> Array:
    """The greatest count of each entry of a tree, all slots together."""
    heap, stride = tree.heap, int(tree.meta[STRIDE])
    # Root 0 is a slot without a tree.
    blocks = tree.root[tree.root != 0].astype(np.int64)
    largest = [np.zeros(0, np.int64)]
    # All blocks of one level at once, from the roots down, so that Python loops over levels only.
    while len(blocks):
        # The lowest byte of a block's head is its size; from bit 16 on its height, 0 for a leaf.
        sizes, inner = heap[blocks] & 0xFF, heap[blocks] >> 16 > 0
        entries = _places(blocks[~inner], sizes[~inner], stride)
        # Absolute, as a count below zero is stored as well, and takes the same room.
        counts = heap[entries[:, None] + np.arange(1, 1 + columns)]
        largest.append(np.abs(counts).max(axis=1))
        blocks = heap[_places(blocks[inner], sizes[inner], stride) + 1]
    return np.concatenate(largest)


def _places(blocks: Array, sizes: Array, stride: int) -> Array:
    """Return the places of the entries of blocks, block after block: int64[sum of sizes]."""
    # An entry of a block begins behind its head.
    first = np.repeat(blocks + 1, sizes)
    within = np.arange(len(first)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.asarray(first + within * stride)
