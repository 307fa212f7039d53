"""The changes that firings of windows emit: insertions only, or updates of what was emitted before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.windows.elements import empty, from_bytes, to_bytes
from aggloom.runtime.operators.windows.general_ledger import WindowState
from aggloom.runtime.operators.windows.general_registry import LiveWindow
from aggloom.runtime.operators.windows.output import WindowOutput
from aggloom.runtime.storage.arena import Array, NumberArray
from aggloom.runtime.values import scalars
from aggloom.runtime.values.changelog import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Kinds,
    same_value,
)
from aggloom.type_layout import is_pooled

_ROOMY = 1024


class FiringChange(NamedTuple):
    """A row to emit: its kind, its number, its key's slot, and the row that it must differ from, or -1."""

    kind: int
    row: int
    slot: int
    unless: int = -1


class FiringChanges:
    """The results that windows have emitted and may still change (`updates`), by row number.

    LiveWindow.emitted has these numbers. Rows of the bundle's firings are numbered after those.
    """

    def __init__(
        self, output: WindowOutput, state: WindowState, *, updates: bool, update_before: bool
    ) -> None:
        self.output, self.updates = output, updates
        self._state, self._update_before = state, update_before
        bounds = [pa.field("", pa.int64())] * 2
        self._schema = pa.schema([*bounds, *output.results])
        self._rows = empty(self._schema)
        self._firings: list[tuple[LiveWindow, tuple[int, ...]]] = []
        self._renewed: list[LiveWindow] = []
        self._gone: list[tuple[int, int, int]] = []
        self._tidy_count = 0

    def fire(self, live: LiveWindow) -> int:
        """Note a firing of a window, and return its number."""
        firing = len(self._firings)
        self._firings.append((live, live.emitted))
        if self.updates:
            live.emitted = (self._rows.num_rows + firing,)
            self._renewed.append(live)
        return firing

    def retract_emitted(self, live: LiveWindow) -> None:
        """Retract the emitted results of a window that has become part of another one."""
        gone = [(len(self._firings), row, live.key.slot) for row in live.emitted]
        self._gone.extend(gone)
        live.emitted = ()

    def take(
        self, records: NumberArray, results: list[pa.Array], windows: Iterable[LiveWindow]
    ) -> tuple[pa.RecordBatch, Kinds]:
        """The changes of all firings, from the rows of their windows and their results."""
        base = self._rows.num_rows
        self._rows = _concat_batches(self._rows, self._result_rows(results))
        alive = records > 0
        if self.updates:
            changes = self._distinct(self._corrections(base, alive))
        else:
            changes = [
                FiringChange(INSERT, number, self._firings[number][0].key.slot)
                for number in np.flatnonzero(alive).tolist()
            ]
        whole = self._batch(changes)
        for live in self._renewed:
            live.emitted = tuple(row for row in live.emitted if row < base or alive[row - base])
        self._firings, self._renewed, self._gone = [], [], []
        self.tidy(windows, wholly=not self.updates)
        return whole

    def contents(self, windows: Iterable[LiveWindow]) -> tuple[pa.RecordBatch, Kinds]:
        """The emitted results that may still change, as insertions."""
        return self._batch(
            [FiringChange(INSERT, row, live.key.slot) for live in windows for row in live.emitted]
        )

    def tidy(self, windows: Iterable[LiveWindow], *, wholly: bool = False) -> None:
        """Forget results of windows that are over, once they are many or `wholly`."""
        if not wholly and self._rows.num_rows <= 2 * self._tidy_count + _ROOMY:
            return
        named = [live for live in windows if live.emitted] if self.updates else []
        rows = [row for live in named for row in live.emitted]
        self._rows = self._rows.take(pa.array(rows, pa.int64())) if rows else empty(self._schema)
        self._tidy_count, at = len(rows), 0
        for live in named:
            live.emitted = tuple(range(at, at + len(live.emitted)))
            at += len(live.emitted)

    def dump(self) -> bytes:
        """The results as an Arrow stream."""
        return to_bytes(pa.Table.from_batches([self._rows]))

    def load(self, data: bytes) -> None:
        """Load what `dump` wrote."""
        batches = from_bytes(data, self._schema).combine_chunks().to_batches()
        self._rows = batches[0] if batches else empty(self._schema)
        self._tidy_count = self._rows.num_rows

    def check_numbers(self, windows: Iterable[LiveWindow]) -> None:
        """Raise ValueError unless the results that windows name are there."""
        there = range(self._rows.num_rows)
        if any(row not in there for live in windows for row in live.emitted):
            raise ValueError("a window names a result that is not there")

    def _result_rows(self, results: list[pa.Array]) -> pa.RecordBatch:
        bounds = [
            pa.array([live.local[at] for live, _ in self._firings], pa.int64()) for at in (0, 1)
        ]
        return pa.RecordBatch.from_arrays([*bounds, *results], schema=self._schema)

    def _corrections(self, base: int, alive: Array) -> list[FiringChange]:
        """The changes that replace what was emitted before each firing by its result."""
        starts, ends = (self._rows.column(at).to_numpy() for at in (0, 1))
        changes: list[FiringChange] = []
        gone = [each for each in self._gone if each[1] < base or alive[each[1] - base]]
        for number, (live, before) in enumerate(self._firings):
            # Retractions by a merge before this firing are emitted before it.
            while gone and gone[0][0] <= number:
                changes.append(FiringChange(DELETE, *gone.pop(0)[1:]))
            now, slot, was = base + number, live.key.slot, -1
            for row in before:
                # A firing without rows has emitted nothing.
                if row >= base and not alive[row - base]:
                    continue
                if alive[number] and (starts[row], ends[row]) == live.local:
                    was = row
                else:
                    changes.append(FiringChange(DELETE, row, slot))
            if was >= 0:
                if self._update_before:
                    changes.append(FiringChange(UPDATE_BEFORE, was, slot, now))
                changes.append(FiringChange(UPDATE_AFTER, now, slot, was))
            elif alive[number]:
                changes.append(FiringChange(INSERT, now, slot))
        return changes + [FiringChange(DELETE, row, slot) for _, row, slot in gone]

    def _distinct(self, changes: list[FiringChange]) -> list[FiringChange]:
        """The changes without those that change nothing."""
        pairs = [number for number, change in enumerate(changes) if change.unless >= 0]
        if not pairs:
            return changes
        before = self._rows.take(pa.array([changes[number].row for number in pairs]))
        after = self._rows.take(pa.array([changes[number].unless for number in pairs]))
        same = np.ones(len(pairs), np.bool_)
        for a, b in zip(before.columns[2:], after.columns[2:], strict=True):
            same &= _same(a, b)
        idle = {number for number, equal in zip(pairs, same.tolist(), strict=True) if equal}
        return [change for number, change in enumerate(changes) if number not in idle]

    def _batch(self, changes: list[FiringChange]) -> tuple[pa.RecordBatch, Kinds]:
        kinds, rows, slots, _ = (
            np.array([change[at] for change in changes], np.int64) for at in range(4)
        )
        results = self._rows.take(pa.array(rows))
        starts, ends, *values = results.columns
        keys = self._state.key_columns(slots)[:-1]
        batch = self.output.batch(keys, starts.to_numpy(), ends.to_numpy(), values)
        return batch, kinds.astype(np.int8)


def _same(a: pa.Array, b: pa.Array) -> Array:
    """Tell where two columns have the same value; NULL is the same as NULL, NaN as NaN."""
    if is_pooled(a.type) or pa.types.is_map(a.type):
        pairs = zip(a.to_pylist(), b.to_pylist(), strict=True)
        return np.array([same_value(x) == same_value(y) for x, y in pairs], np.bool_)
    words = scalars.scalar_words(a) == scalars.scalar_words(b)
    return np.asarray(words & (scalars.validity(a) == scalars.validity(b)))


def _concat_batches(first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
    if not first.num_rows or not second.num_rows:
        return second if second.num_rows else first
    columns = [pa.concat_arrays(pair) for pair in zip(first.columns, second.columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=first.schema)
