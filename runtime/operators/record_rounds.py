"""Rows one by one, many at a time: those of different keys do not see each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.storage.arena import NumberArray, SlotArray


def run_in_rounds(
    slots: SlotArray, bundle: Callable[[NumberArray], tuple[Rows, NumberArray]]
) -> Rows:
    """The changes of each row by itself, in the order of the rows.

    slots: of the rows. bundle: takes rows of different slots, by number; their changes, and by change its row.
    """
    order = np.argsort(slots, kind="stable")
    opens = np.flatnonzero(np.r_[True, slots[order][1:] != slots[order][:-1]])
    lengths = np.diff(np.r_[opens, len(order)])
    round_of_row = np.empty(len(order), np.int64)
    # A row's round is how many rows of its slot arrived before it.
    round_of_row[order] = np.arange(len(order)) - np.repeat(opens, lengths)
    by_round = np.argsort(round_of_row, kind="stable")
    cuts = np.flatnonzero(np.diff(round_of_row[by_round])) + 1
    parts, sources = [], []
    for rows in np.split(by_round, cuts):
        changes, source = bundle(rows)
        parts.append(changes)
        sources.append(source)
    # Rounds are over many keys; the changes go back into the order of the rows.
    together = np.argsort(np.concatenate(sources), kind="stable")
    batch = pa.concat_batches([part[0] for part in parts])
    kinds = np.concatenate([part[1] for part in parts])
    return batch.take(pa.array(together)), kinds[together]
