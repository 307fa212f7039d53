"""Forgetting a subject: an operator loses all keys with some values, and what it has emitted for them is retracted.

What is left is copied into new arrays, so that no byte of what went lies in their free room.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aggloom.runtime.operators.base import Operator
from aggloom.runtime.operators.keyed_state import KeyedState
from aggloom.runtime.operators.rows_by_key import RowState
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.state.stored_texts import find_stored_texts
from aggloom.runtime.storage.arena import Arena, SlotArray
from aggloom.runtime.values import scalars
from aggloom.runtime.values.changelog import DELETE
from aggloom.runtime.values.row_difference import row_difference

Subject = Mapping[str, pa.Scalar]
"""Values by the names of key columns; NULL is a value."""


class Forgotten(NamedTuple):
    """The number of keys, or windows of keys, that an operator has lost, and the retractions of their results."""

    keys: int
    retractions: Rows


def keyed_parts(operator: Operator) -> list[KeyedState | RowState]:
    """The parts of an operator's state, if each finds its keys in a table of its own; else none."""
    keyed = [state for state in operator.states if type(state) is KeyedState]
    rows = [state for state in operator.states if isinstance(state, RowState)]
    if len(keyed) == len(operator.states):
        return [*keyed]
    return [*rows] if len(rows) == len(operator.states) == 1 else []


def compact_state(operator: Operator) -> None:
    """Copy the state into arrays of its size, where it can be; nothing of what went before lies in their free room."""
    for state in keyed_parts(operator):
        state.compact()
    # Values that are derived from the state are computed again and compared with it.
    operator.restore(operator.snapshot())


def forget_subject(operator: Operator, subject: Subject, is_retracted: bool) -> Forgotten:
    """Remove the keys with these values, if there are any, and compact the state in any case.

    is_retracted: whether those who read the changes retract rows; else nothing is emitted.
    """
    # Before anything goes: afterwards nobody knows what was emitted for these keys.
    before = operator.contents()[0] if is_retracted else None
    keys = 0
    for state in keyed_parts(operator):
        slots = _slots_of(state, subject)
        keys = max(keys, len(slots))
        if len(slots):
            if isinstance(state, KeyedState):
                # Accumulators first, while their slots are theirs: texts and blocks are given back.
                state.reset(slots)
            state.forget(slots)
    compact_state(operator)
    if before is None or not keys:
        return Forgotten(keys, no_rows(operator.schema))
    gone, _ = row_difference(
        pa.Table.from_batches([before]), pa.Table.from_batches([operator.contents()[0]])
    )
    batches = gone.combine_chunks().to_batches()
    rows = batches[0] if batches else no_rows(operator.schema)[0]
    return Forgotten(keys, (rows, np.full(rows.num_rows, DELETE, np.int8)))


def _slots_of(state: KeyedState | RowState, subject: Subject) -> SlotArray:
    """The slots of the keys with these values (int64[n])."""
    fields, used = state.table.fields, state.used_slots()
    columns = state.table.key_columns(used)
    fits = np.ones(len(used), np.bool_)
    for field, column in zip(fields, columns, strict=True):
        if field.name in subject:
            value = subject[field.name]
            same = pc.is_null(column) if not value.is_valid else pc.equal(column, value)
            fits &= scalars.truths(same)
    return used[fits]


def has_text(arena: Arena, text: str) -> bool:
    """Tell whether a text, or a row of values that has it, is in an arena; an empty text is in none."""
    data = text.encode()
    if not data:
        return False
    plain = dict(iter(arena)).get("plain.state")
    if plain is not None and repr(text).encode() in plain.tobytes():
        return True
    # Rows of several values are one binary, in which texts end with a zero.
    return any(
        text_with_part == data or b"\0" in text_with_part
        for text_with_part in (*_find_pooled_texts(arena, data), *find_stored_texts(arena, data))
    )


def _find_pooled_texts(arena: Arena, part: bytes) -> Iterator[bytes]:
    """Yield the texts of the pool that are in use and have some bytes in them."""
    arrays = dict(iter(arena))
    if "pool.heap" not in arrays:
        return
    heap, offset, length = (arrays[f"pool.{name}"] for name in ("heap", "offset", "length"))
    whole = heap.tobytes()
    # One search over all bytes: most arenas do not have the text at all.
    if part not in whole:
        return
    # Those that nothing refers to are gone for every reader, and swept with the next bundle.
    for number in (arrays["pool.refs"] > 0).nonzero()[0].tolist():
        start = int(offset[number])
        text_of_pool = whole[start : start + int(length[number])]
        if part in text_of_pool:
            yield text_of_pool
