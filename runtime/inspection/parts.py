"""The parts of an operator's state for one key: all of it, or its open windows with the sums of their slices."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.runtime.inspection.accumulators import Layout
from aggloom.runtime.inspection.facts import PartContents, Row
from aggloom.runtime.inspection.keys import distinct
from aggloom.runtime.operators.base import Operator, StoredKeyState


def parts_of(operator: Operator, key: pa.RecordBatch) -> list[PartContents]:
    """Return the parts that an operator holds of a key, its windows in order of time; without accumulators."""
    return [part for part, _ in _parts(operator, key)]


def describe_parts(
    operator: Operator, key: pa.RecordBatch, limit: int | None = None
) -> list[PartContents]:
    """List the parts of a key's state with accumulators and views by name; of views the first `limit` values."""
    layout = None if operator.handler_class is None else _layout_of(operator.handler_class)
    contents = []
    for part, key_state in _parts(operator, key):
        more: dict[str, Any] = {}
        if key_state.slot is not None and layout is not None:
            accumulators = key_state.handler.accumulators
            more["accumulators"] = tuple(layout.accumulators(accumulators, key_state.slot))
            more["views"] = tuple(layout.views(accumulators, key_state.slot, limit))
        contents.append(PartContents(**{**vars(part), **more}))
    return contents


@lru_cache(maxsize=64)
def _layout_of(handler_class: type[Any]) -> Layout:
    """The layout of a class, which takes longer to find than the parts of a key."""
    return Layout(handler_class)


def counts_rows(handler_class: type[Any]) -> bool:
    """Tell whether accumulators count their rows: where rows only come, perhaps only that there are some."""
    # The dtype says it: where rows are never retracted, a flag is enough, and takes one byte.
    return bool(handler_class.FIELDS[0].dtype == "i8")


def keys_of(operator: Operator) -> tuple[int, list[pa.Array]]:
    """Return the number of keys of an operator, and the columns of all that it holds, a key perhaps several times."""
    columns = operator.key_columns()
    if not columns:
        return int(operator.keys > 0), []
    return (distinct(columns) if len(columns[0]) else 0), columns


def _parts(
    operator: Operator, key: pa.RecordBatch
) -> Iterator[tuple[PartContents, StoredKeyState]]:
    for key_state in operator.read_key_state(key):
        window = None if key_state.window is None else operator.format_window(key_state.window)
        records = key_state.records
        # An operator that keeps rows counts them itself; one with a handler leaves it to the accumulators.
        if records is None:
            records = (
                0
                if key_state.slot is None
                else int(key_state.handler.accumulators.records[key_state.slot])
            )
        counts = key_state.records is not None or counts_rows(operator.handler_class)
        part = PartContents(
            window,
            records if counts else None,
            # An operator without a handler has its results as rows already.
            key_state.results or _results_of(key_state, records),
            None if key_state.emitted is None else _results(*key_state.emitted),
            (
                dt.datetime.fromtimestamp(key_state.written / 1000, dt.UTC)
                # Zero stands for a key that does not expire: the column of times is not written there.
                if key_state.written
                else None
            ),
        )
        yield part, key_state


def _results_of(key_state: StoredKeyState, records: int) -> Row | None:
    if key_state.slot is None:
        return None
    # A global aggregate has its row over no rows, too.
    always = key_state.window is None and key_state.handler.spec().one_row
    return _results(key_state.handler, key_state.slot) if records > 0 or always else None


def _results(handler: Any, slot: int) -> Row:
    spec = handler.spec()
    fields = list(spec.aggregate_schema)[len(spec.group_by) :]
    columns = handler.to_arrow(handler.values(np.array([slot], np.int64)), fields)
    return {f.name: column[0].as_py() for f, column in zip(fields, columns, strict=True)}
