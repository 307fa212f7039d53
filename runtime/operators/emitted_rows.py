"""Bundles of table aggregates whose class says itself which of its rows differ: Flink's emitUpdateWithRetract.

The class remembers in its state what it has emitted. A key that comes, one that leaves, and one whose state was made
anew in between are emitted by all their rows, as those of other table aggregates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.runtime.handlers.handler import ResultPair
from aggloom.runtime.operators.bundle import Applier
from aggloom.runtime.operators.keyed_state import KeyedState
from aggloom.runtime.storage.arena import FlagArray, SlotArray


def fold_changes(
    state: KeyedState,
    applier: Applier,
    touched: SlotArray,
    rows: tuple[pa.RecordBatch, SlotArray, FlagArray],
    merged: Sequence[tuple[SlotArray, KeyedState, SlotArray | None]] = (),
    *,
    keep: bool,
    keeps_debts: bool = False,
) -> tuple[int, ResultPair]:
    """Fold like `Applier.fold`, and return the rows that leave and come in place of all before and after.

    Raises DataError and ArithmeticOverflowError.
    """
    handler, field = state.handler, state.handler.EMITTED
    was = state.records[touched] > 0
    # Rows that only come leave no key, and make no state anew.
    had_rows = was if handler.RETRACTING else was & ~state.accumulators.flags(field, touched)
    before = handler.values(touched[had_rows])
    dropped = applier.apply(state, touched, rows, merged, keep=keep, keeps_debts=keeps_debts)
    now = state.records[touched] > 0
    differs = was & now & state.accumulators.flags(field, touched)
    comes = now & ~differs
    removed, added = handler.changes(touched[differs])
    after = handler.values(touched[comes])
    for out in (added, after):
        handler.refuse_overflow(out, state.place)
    handler.mark(touched[now])
    first = _lay_out(
        handler, [(differs, removed, differs), (had_rows & ~differs, before, had_rows)]
    )
    second = _lay_out(handler, [(differs, added, differs), (comes, after, comes)])
    return dropped, handler.pair_results(first, second, was, now)


def _lay_out(handler: Any, parts: Sequence[tuple[FlagArray, Any, FlagArray]]) -> Any:
    """Results with a row for each item. parts: which items to take, results, and the items that they are of."""
    n = len(parts[0][0])
    # Row 0 is for items of no part.
    places, outs, start = np.zeros(n, np.int64), [handler.outputs(1)], 1
    for items, out, owners in parts:
        places[items] = start + (np.cumsum(owners) - 1)[items]
        outs.append(out)
        start += int(owners.sum())
    return handler.pick_outputs(handler.concatenate_all(outs), places)


def fold_each_row(
    state: KeyedState,
    applier: Applier,
    rows: tuple[pa.RecordBatch, SlotArray, FlagArray],
    *,
    keep: bool,
) -> tuple[int, ResultPair]:
    """Fold like `fold_changes`, with each row as an item."""
    batch, slots, retracts = rows
    handler, dropped = state.handler, 0
    pairs = [handler.no_results()]
    for i in range(len(slots)):
        one = slice(i, i + 1)
        row = batch.slice(i, 1), slots[one], retracts[one]
        lost, pair = fold_changes(state, applier, slots[one], row, keep=keep)
        dropped += lost
        pairs.append(pair)
    before = handler.concatenate_all([pair.before for pair in pairs])
    after = handler.concatenate_all([pair.after for pair in pairs])
    was, now = (np.concatenate([getattr(p, side) for p in pairs]) for side in ("was", "now"))
    return dropped, handler.pair_results(before, after, was, now)
