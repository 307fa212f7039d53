"""Deduplicate that answers with each bundle: the first or the last row of each key, by arrival or by a time column."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from aggloom.errors import DataError
from aggloom.runtime.operators.base import StoredKeyState
from aggloom.runtime.operators.deduplicate.choice import Choice, Keep, choose, order_numbers
from aggloom.runtime.operators.deduplicate.state import EMITTED, DeduplicateState
from aggloom.runtime.operators.replacements import find_unlike, replace_rows
from aggloom.runtime.operators.rows_by_key import KeyedRowsOperator
from aggloom.runtime.operators.step import KeyedStep
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.state.key_table import KeyTable
from aggloom.runtime.storage.arena import Arena, FlagArray, NumberArray
from aggloom.runtime.storage.pool import Pool
from aggloom.runtime.values.changelog import INSERT, UPDATE_AFTER, Kinds, is_retraction
from aggloom.runtime.values.clock import Clock


class DeduplicateOperator(KeyedRowsOperator[DeduplicateState], KeyedStep):
    """One bucket's operator over rows that are only added; their first `keys` columns are the key.

    keep: the first row of a key or the last, by arrival or by the time column `order`. One that replaces another is
    emitted unless it is the same. per_record: each row acts at once; else a bundle emits what it has changed in the
    end, unless `compact` is False: then every row that replaced another, as versioned joins need them. sends_insert:
    whether a key's first row is distinguished from later ones where there is no -U either; if not, +U is all there is,
    and the last row by arrival needs no state. state_ttl_ms: a key not written for so long is forgotten without a
    change; then equal rows are emitted again, as they are in Flink.
    """

    handler_class = None
    keeps_calls = "it has no calls"

    def __init__(
        self,
        schema: pa.Schema,
        keys: int,
        keep: Keep,
        *,
        order: str | None = None,
        update_before: bool = True,
        sends_insert: bool = True,
        per_record: bool = False,
        compact: bool = True,
        state_ttl_ms: int = 0,
        directory: Path | None = None,
    ) -> None:
        self.schema, self.keep, self.order, self.update_before = schema, keep, order, update_before
        self._insert = INSERT if sends_insert or update_before else UPDATE_AFTER
        self._folds, self.state_ttl_ms = not per_record and (order is None or compact), state_ttl_ms
        # Each last row is a +U whatever there was before, so that nothing has to be remembered.
        self._stateless = keep == "last" and order is None and self._insert == UPDATE_AFTER
        holds = (keep == "last" or order is not None) and not self._stateless
        times = () if order is None else ("time",)
        self.state = DeduplicateState(schema, keys, holds, times, directory)
        self.counters = {"rows": 0, "expired": 0, "emitted": 0}

    @property
    def name(self) -> str:
        return name_choice(self.keep, self.state)

    def check_rows(self, batch: pa.RecordBatch, kinds: Kinds) -> Rows:
        refuse_retractions(kinds, self.name)
        return cast_rows(batch, self.schema), kinds

    def apply(self, batch: pa.RecordBatch, kinds: Kinds, clock: Clock) -> Rows:
        return self._pass_on(batch) if self._stateless else self._choose_rows(batch, clock)

    def contents(self) -> Rows:
        """The rows that are kept, each an insertion; first rows by arrival are not."""
        if not self.state.holds:
            return no_rows(self.schema)
        rows = self.state.gather(self.state.with_rows())
        return rows, np.full(rows.num_rows, INSERT, np.int8)

    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        return read_row_state(self.state, key, bool(self.state_ttl_ms))

    def _choose_rows(self, batch: pa.RecordBatch, clock: Clock) -> Rows:
        """Choose between the rows of a bundle and those of its keys, and return the changes of the choice."""
        state, n = self.state, batch.num_rows
        times = order_numbers(batch, self.order) if self.order is not None else None
        slots = state.lookup(batch)
        time = None if times is None else state.time("time")
        choice = choose(*state.group_slots(slots), times, self.keep, state.row, time)
        fresh = choice.winners < n
        written, winners = choice.slots[fresh], choice.winners[fresh]
        before, acting = choice.before, np.flatnonzero(choice.acts)
        if self._folds:
            had = np.where(choice.stored, n + np.arange(len(choice.slots)), -1)
            # Only the end of the bundle is emitted: the winner replaces what was there before it.
            before[winners] = had[fresh]
            acting = np.sort(winners)
        if state.holds:
            changes = self._replace_rows(batch, choice, before, acting, fresh)
        else:
            # First rows by arrival are never replaced: that there was one is all that has to be known.
            state.row[written] = EMITTED
            changes = batch.take(pa.array(acting)), np.full(len(acting), INSERT, np.int8)
        if times is not None:
            state.time("time")[written] = times[winners]
        state.write_times[written] = clock.processing
        state.pool.sweep()
        return changes

    def _replace_rows(
        self,
        batch: pa.RecordBatch,
        choice: Choice,
        before: NumberArray,
        acting: NumberArray,
        fresh: FlagArray,
    ) -> Rows:
        """Put rows in the places of others, and return the changes."""
        state, n = self.state, batch.num_rows
        rows = state.rows.encode(batch)
        gone = fresh & choice.stored
        old = state.row[choice.slots[gone]] - 1
        # Of the rows that were there, those that are replaced, by the place of their keys.
        place = np.cumsum(gone) - 1
        was = before.copy()
        is_stored = was >= n
        was[is_stored] = n + place[was[is_stored] - n]
        # Where keys are forgotten, equal rows are emitted again, as in Flink.
        if not self.state_ttl_ms:
            acting = find_unlike(state.rows, rows, acting, was, old)
        changes = replace_rows(
            batch,
            state.rows.gather(old),
            acting,
            was,
            np.ones(n, np.bool_),
            update_before=self.update_before,
            insert=self._insert,
        )
        state.rows.delete(old)
        state.row[choice.slots[fresh]] = state.rows.insert(rows, choice.winners[fresh]) + 1
        return changes

    def _pass_on(self, batch: pa.RecordBatch) -> Rows:
        """Rows as they come, of a bundle each key's last; nothing is remembered."""
        acting = np.arange(batch.num_rows)
        if self._folds:
            arena = Arena()
            table = KeyTable(arena, Pool(arena), self.state.fields)
            # Backwards: the first row of a slot is then its last.
            slots = table.lookup(batch)[::-1]
            acting = np.sort(len(slots) - 1 - np.unique(slots, return_index=True)[1])
        return batch.take(pa.array(acting)), np.full(len(acting), UPDATE_AFTER, np.int8)


def name_choice(keep: Keep, state: DeduplicateState) -> str:
    """Return the name that messages call an operator by."""
    keys = ", ".join(field.name for field in state.fields)
    return f"{keep} row by {keys or '()'}"


def refuse_retractions(kinds: Kinds, name: str) -> None:
    """Raise DataError if a row retracts one."""
    retracts = is_retraction(kinds)
    if retracts.any():
        raise DataError(
            f"row {int(np.argmax(retracts))} retracts a row; {name} is kept of rows that are only added"
        )


def read_row_state(
    state: DeduplicateState, key: pa.RecordBatch, stamped: bool
) -> Iterator[StoredKeyState]:
    """Yield the things that a state holds of a key."""
    slot = int(state.table.find(key)[0])
    if slot < 0:
        return
    row: dict[str, Any] = {}
    if state.row[slot] > 0 and state.holds:
        rows = state.gather(np.array([slot]))
        names = state.schema.names[key.num_columns :]
        row = {name: rows.column(name)[0].as_py() for name in names}
    written = int(state.write_times[slot]) if stamped else 0
    yield StoredKeyState(None, None, records=1, written=written, results=row)


def cast_rows(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in the schema's types and names."""
    return batch if batch.schema == schema else batch.rename_columns(schema.names).cast(schema)
