"""A bundle of rows before an operator's state: the slots that it touches, and how it is added to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa

from aggloom.runtime.handlers.handler import ResultPair
from aggloom.runtime.operators.keyed_state import AWAY_FROM_ZERO, KeyedState
from aggloom.runtime.operators.orphans import orphan_error
from aggloom.runtime.operators.slot_state import SlotState
from aggloom.runtime.storage.arena import Array, FlagArray, SlotArray
from aggloom.runtime.storage.jit import kernel

# Slots are visited in order if at least one in _DENSE is touched; rows slot by slot if slots have fewer than _FEW_ROWS.
_DENSE = 8
_FEW_ROWS = 4


@kernel
def _find_touched(slots: Array, rows: Array, out: Array) -> int:
    """Write the distinct slots in the order of their first row; `rows`, zero before, counts the rows of each."""
    count = 0
    for r in range(len(slots)):
        s = slots[r]
        if rows[s] == 0:
            out[count] = s
            count += 1
        rows[s] += 1
    return count


@kernel
def _list_in_order(rows: Array, out: Array) -> None:
    """Write the slots that have rows, in order."""
    count = 0
    for s in range(len(rows)):
        if rows[s] != 0:
            out[count] = s
            count += 1


@kernel
def _group_rows(
    slots: Array,
    retracts: Array,
    rows: Array,
    touched: Array,
    order: Array,
    slot: Array,
    retract: Array,
    item: Array,
) -> None:
    """Write the rows slot by slot, in each by arrival: number, slot, whether it retracts, number of the slot.

    `rows`, from _find_touched, is used up. Only numbers are written out of order, so that they stay in the cache.
    """
    at = 0
    # The rows of each slot, in the order of `touched`: sums of the counts are where they begin.
    for k in range(len(touched)):
        s = touched[k]
        first = at
        at += rows[s]
        # From a count to the place of the slot's first row, and on with each row that is put there.
        rows[s] = first
        for i in range(first, at):
            slot[i] = s
            item[i] = k
    for r in range(len(slots)):
        i = rows[slots[r]]
        rows[slots[r]] += 1
        # Number and direction in one value: one write out of order a row, not two.
        order[i] = r << 1 | retracts[r]
    for i in range(len(order)):
        retract[i] = order[i] & 1
        order[i] >>= 1


@kernel
def _find_first_orphan(slots: Array, retracts: Array, records: Array) -> int:
    """Return the first row that retracts from a slot without rows, or -1; `records` is scratch."""
    for r in range(len(slots)):
        if not retracts[r]:
            records[slots[r]] += 1
        elif records[slots[r]] > 0:
            records[slots[r]] -= 1
        else:
            return r
    return -1


class Slots(Protocol):
    """The slots that rows are added up in: a KeyedState, or sessions."""

    handler: Any
    accumulators: Any

    @property
    def records(self) -> Array: ...

    @property
    def capacity(self) -> int: ...

    def reset(self, slots: SlotArray) -> None: ...

    def merge(
        self, slots: SlotArray, other: SlotState, others: SlotArray | None = None
    ) -> None: ...

    def place(self, slot: int) -> str: ...

    def forget(self, slots: SlotArray) -> None: ...


class Applier:
    """Applies bundles to a state; from one to the next it keeps nothing but an array to count in."""

    def __init__(self) -> None:
        self._rows = np.zeros(0, np.int32)
        self._counted = False

    def distinct(self, state: Slots, slots: SlotArray) -> Array:
        """Return the distinct slots of rows, and keep the number of rows of each until `forget_counts`.

        They rise if they are many of all, so that memory is read in sequence; else the order is that of first rows.
        """
        if self._counted or len(self._rows) != state.capacity:
            # Counts that are there still are those of a bundle that failed.
            self._rows = np.zeros(state.capacity, np.int32)
        self._counted = True
        touched = np.empty(min(len(slots), state.capacity), np.int64)
        touched = touched[: _find_touched(slots, self._rows, touched)]
        if len(touched) * _DENSE >= state.capacity:
            _list_in_order(self._rows, touched)
        return touched

    def forget_counts(self, touched: SlotArray) -> None:
        """Forget the counts of the slots that `distinct` has found."""
        self._rows[touched] = 0
        self._counted = False

    def apply(
        self,
        state: Slots,
        touched: SlotArray,
        rows: tuple[pa.RecordBatch, SlotArray, FlagArray],
        merged: Sequence[tuple[SlotArray, KeyedState, SlotArray | None]] = (),
        *,
        keep: bool,
        keeps_debts: bool = False,
    ) -> int:
        """Add up rows (batch, slots, retracts) and other states (target slots, state, its slots).

        keeps_debts: a slot without rows stays as it is, since it may have debts. Returns the number of dropped orphan
        retractions.
        """
        batch, slots, retracts = rows
        handler = state.handler
        # What is kept may come in any order: no accumulator may pass through zero rows, where it resets itself.
        away = AWAY_FROM_ZERO if keep and handler.RETRACTING else 0
        if away:
            state.accumulators.shift_records(touched, away)
        dropped = 0
        if len(slots):
            inputs = handler.bind(batch)
            # Views read much memory a slot: its rows one after the other find it in the cache.
            if handler.VIEWS and not merged:
                inputs, slots, retracts, _ = self._order_by_slot(
                    handler, touched, inputs, slots, retracts
                )
            dropped = handler.update(inputs, slots, retracts, keep_orphans=keep)
        for targets, other, others in merged:
            state.merge(targets, other, others)
        if away:
            state.accumulators.shift_records(touched, -away)
            if not keeps_debts:
                state.reset(touched[state.records[touched] == 0])
        return dropped

    def fold(
        self,
        state: Slots,
        touched: SlotArray,
        rows: tuple[pa.RecordBatch, SlotArray, FlagArray],
        merged: Sequence[tuple[SlotArray, KeyedState, SlotArray | None]] = (),
        *,
        keep: bool,
        keeps_debts: bool = False,
    ) -> tuple[int, ResultPair]:
        """Apply a bundle, and return the results of the touched slots before and after."""
        batch, slots, retracts = rows
        handler = state.handler
        by_slot = bool(handler.VIEWS) or len(touched) * _FEW_ROWS > len(slots)
        if by_slot and handler.KERNELS.fold is not None and not merged and not keep:
            inputs = handler.bind(batch)
            return cast(
                tuple[int, ResultPair],
                handler.fold(
                    *self._order_by_slot(handler, touched, inputs, slots, retracts),
                    keep_orphans=keep,
                    by_slot=True,
                ),
            )
        # In three passes: rows that are kept as orphans, or merged accumulators, say nothing of a slot until all of
        # them are in.
        was, before = state.records[touched] > 0, handler.values(touched)
        dropped = self.apply(state, touched, rows, merged, keep=keep, keeps_debts=keeps_debts)
        after, now = handler.values(touched), state.records[touched] > 0
        return dropped, handler.pair_results(before, after, was, now)

    def _order_by_slot(
        self, handler: Any, touched: SlotArray, inputs: Any, slots: SlotArray, retracts: FlagArray
    ) -> tuple[Any, Array, Array, Array]:
        """Return the rows slot by slot, with the number of each row's slot among those touched.

        A slot's accumulators are then in the cache for all its rows, and rows are read in sequence.
        """
        n = len(slots)
        # Half as many bytes where numbers of rows fit them with a bit to spare.
        order = np.empty(n, np.int32 if n < 1 << 30 else np.int64)
        slot, item = (np.empty(n, np.int64) for _ in range(2))
        retract = np.empty(n, np.bool_)
        _group_rows(
            slots,
            retracts,
            self._rows,
            touched=touched,
            order=order,
            slot=slot,
            retract=retract,
            item=item,
        )
        return handler.pick(inputs, order), slot, retract, item


def refuse_orphans(
    state: Slots, slots: SlotArray, retracts: FlagArray, *, keeps_empty: bool = False
) -> None:
    """Raise OrphanRetractionError if a row retracts from a slot that holds none; what lookup has made is undone.

    keeps_empty: slots without rows were there before.
    """
    # On a copy, which is counted up and down as the rows would be: the state itself is untouched by the check.
    row = _find_first_orphan(slots, retracts, state.records.astype(np.int64))
    if row < 0:
        return
    place = state.place(int(slots[row]))
    if not keeps_empty:
        state.forget(np.unique(slots[state.records[slots] == 0]))
    raise orphan_error(row, place, lack="holds no row")
