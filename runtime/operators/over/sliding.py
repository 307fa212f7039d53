"""Aggregates over frames: the generated handler slides along the rows, takes in what enters and back what leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.runtime.storage.arena import Array, NumberArray, SlotArray
from aggloom.runtime.storage.jit import kernel


class Steps(NamedTuple):
    """Steps of the handler: rows, whether each is retracted, and the stretch and the item (values to read) of each."""

    rows: Array  # int64[steps]
    retracts: Array  # bool[steps]
    stretches: Array  # int64[steps]
    items: Array  # int64[steps]


@kernel
def _steps(
    stretch: Array,
    starts: Array,
    stops: Array,
    rows: Array,
    retracts: Array,
    stretches: Array,
    items: Array,
    values: Array,
    write: bool,
) -> tuple[int, int]:
    """Lay out what is done for each row in order; (how many steps, how many items). values: by row its item, or -1."""
    n, item = np.int64(0), np.int64(-1)
    first, last = np.int64(0), np.int64(0)
    for k in range(len(stretch)):
        opens = k == 0 or stretch[k] != stretch[k - 1]
        start, stop = starts[k], stops[k]
        # A stretch begins with no rows: what the frame before it has added is another accumulator's.
        if opens:
            first = last = start
        changes = opens and start < stop
        if not opens:
            empty, was_empty = start >= stop, first >= last
            changes = not (empty and was_empty) and (start != first or stop != last)
        if changes:
            item += 1
            apart = start >= last
            # Frames never go back: rows before the new start leave, and those from the old end on come. Without
            # common rows all do.
            until = last if apart else start
            for r in range(first, until):
                if write:
                    rows[n], retracts[n], stretches[n], items[n] = r, True, stretch[k], item
                n += 1
            for r in range(start if apart else last, stop):
                if write:
                    rows[n], retracts[n], stretches[n], items[n] = r, False, stretch[k], item
                n += 1
        first, last = start, stop
        if write:
            # Of neighbours with the same frame the first has an item, whose values serve for all of them.
            known = changes or (not opens and values[k - 1] >= 0 and start < stop)
            values[k] = item if known and start < stop else -1
    return n, item + 1


def steps_of(stretch: NumberArray, starts: NumberArray, stops: NumberArray) -> tuple[Steps, Array]:
    """The steps of frames, which never go back within a stretch, and by row the item that has its values, or -1."""
    none, flags = np.zeros(0, np.int64), np.zeros(0, np.bool_)
    # Twice: the first walk counts, so that the second has room for what it writes.
    count, _ = _steps(
        stretch,
        starts,
        stops,
        rows=none,
        retracts=flags,
        stretches=none,
        items=none,
        values=none,
        write=False,
    )
    rows, owners, items = (np.empty(count, np.int64) for _ in range(3))
    retracts, values = np.empty(count, np.bool_), np.empty(len(stretch), np.int64)
    _steps(
        stretch,
        starts,
        stops,
        rows=rows,
        retracts=retracts,
        stretches=owners,
        items=items,
        values=values,
        write=True,
    )
    return Steps(rows, retracts, owners, items), values


def slide(
    handler: Any,
    batch: pa.RecordBatch,
    stretches: int,
    lines: tuple[NumberArray, NumberArray, NumberArray],
    fields: list[pa.Field],
    place: Callable[[int], str],
) -> list[pa.Array]:
    """The results of a handler over frames of the rows of a batch.

    lines: by result its stretch, and the first row in its frame and the one behind the last. place: how messages name
    the key of a stretch.
    """
    return results_of_steps(
        handler, batch, stretches, *steps_of(*lines), fields=fields, place=place
    )


def results_of_steps(
    handler: Any,
    batch: pa.RecordBatch,
    stretches: int,
    steps: Steps,
    values: NumberArray,
    *,
    fields: list[pa.Field],
    place: Callable[[int], str],
) -> list[pa.Array]:
    """The results of a handler after steps over the rows of a batch; values: by result its item, or -1 (int64[n])."""
    handler.set(handler.create(stretches + 1), None)
    # No row comes to the last accumulator: an empty frame has its values.
    out = handler.values(np.array([stretches]))
    # Row 0 of the results is that of an empty frame.
    take = np.zeros(len(values), np.int64)
    if len(steps.rows):
        inputs = handler.bind(batch)
        if steps.retracts.any() or not np.array_equal(steps.rows, np.arange(batch.num_rows)):
            # Else every row comes once, as they stand.
            inputs = handler.pick(inputs, steps.rows)
        step = _fold_rounds if handler.KERNELS.fold is None else _fold_steps
        results, where = step(handler, inputs, steps, place)
        take = np.where(values < 0, 0, 1 + where[np.maximum(values, 0)])
        out = handler.concatenate(out, results)
    return list(handler.to_arrow(out, fields, take))


def results_after(
    handler: Any, batch: pa.RecordBatch, slots: SlotArray, place: Callable[[int], str]
) -> tuple[Any, Array]:
    """The results of a handler after each row is added to its slot, and by row where its own are.

    Rows come slot by slot; their accumulators are those that the handler works on.
    """
    n = len(slots)
    steps = Steps(np.arange(n), np.zeros(n, np.bool_), slots, np.arange(n))
    step = _fold_rounds if handler.KERNELS.fold is None else _fold_steps
    return step(handler, handler.bind(batch), steps, place)


def _fold_steps(
    handler: Any, inputs: Any, steps: Steps, place: Callable[[int], str]
) -> tuple[Any, Array]:
    """The results, and by item where its own are."""
    arguments = inputs, steps.stretches, steps.retracts, steps.items
    _, noted = handler.fold(*arguments, keep_orphans=False)
    handler.refuse_overflow(noted.after, place)
    items = int(steps.items[-1]) + 1
    # The results before each item, then those after it: the second half is asked for.
    return noted.both, items + np.arange(items)


def _fold_rounds(
    handler: Any, inputs: Any, steps: Steps, place: Callable[[int], str]
) -> tuple[Any, Array]:
    """Fold the stretches item by item, where results are lists, which are read between steps: the next item of each at
    a time."""
    opens = np.flatnonzero(np.r_[True, steps.items[1:] != steps.items[:-1]])
    owners = steps.stretches[opens]
    firsts = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
    round_numbers = np.arange(len(owners)) - np.repeat(firsts, np.diff(np.r_[firsts, len(owners)]))
    by_round = np.argsort(round_numbers, kind="stable")
    # Stable: the steps of an item stay in their order.
    of_step = np.argsort(round_numbers[steps.items], kind="stable")
    ends = np.cumsum(np.bincount(round_numbers))
    cuts = np.cumsum(np.bincount(round_numbers[steps.items]))
    outs, item, step = [], 0, 0
    for end, cut in zip(ends, cuts, strict=True):
        some, slots = of_step[step:cut], owners[by_round[item:end]]
        arguments = handler.pick(inputs, some), steps.stretches[some], steps.retracts[some]
        handler.update(*arguments, keep_orphans=False)
        outs.append(handler.values(slots))
        handler.refuse_overflow(outs[-1], place)
        item, step = int(end), int(cut)
    where = np.empty(len(owners), np.int64)
    where[by_round] = np.arange(len(owners))
    return handler.concatenate_all(outs), where
