"""The part that both operators of AsOfJoin have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from aggloom.runtime.operators.as_of.settings import AsOfSettings
from aggloom.runtime.operators.as_of.state import AsOfState
from aggloom.runtime.operators.base import StoredKeyState
from aggloom.runtime.operators.join.matches import Weighted
from aggloom.runtime.operators.join.output import JoinOutput
from aggloom.runtime.operators.rows_by_key import KeyedRows
from aggloom.runtime.operators.steps import Rows, has_values
from aggloom.runtime.state.order_tree import TIER
from aggloom.runtime.storage.arena import Array, FlagArray, RowIdArray, SlotArray
from aggloom.runtime.values.changelog import INSERT, Kinds


class AsOfOperator(KeyedRows[AsOfState]):
    """One bucket's operator; the first columns of both inputs are the key. See AsOfSettings for its settings."""

    handler_class = None
    keeps_calls = "it has no calls"

    def __init__(self, spec: AsOfSettings, directory: Path | None = None) -> None:
        self.spec, self.schema = spec, spec.result
        self.update_before = spec.update_before
        self.state = AsOfState(spec, directory)
        self.counters = {"rows": 0, "expired": 0, "emitted": 0}
        self.rebuild_derived()

    def rebuild_derived(self) -> None:
        self._output = JoinOutput(self.spec, self.state)

    @property
    def name(self) -> str:
        pairs = zip(self.spec.left.names, self.spec.right.names, self.spec.null_safe, strict=False)
        words = [f"{one} {'<=>' if safe else '='} {other}" for one, other, safe in pairs]
        kind = "temporal" if self.spec.waits else "asof"
        times = f" {self.spec.matches} ".join(self.spec.times)
        return f"{self.spec.how} {kind} join on {' AND '.join([*words, times])}"

    def contents(self) -> Rows:
        """The rows of its result that the state holds, each an insertion."""
        return self._inserts(self._read_joined(self.state.used_slots()))

    def count_key_rows(self) -> Array:
        used = self.state.used_slots()
        sizes = (side.rows.sizes(used)[0] for side in self.state.sides)
        return sum(sizes, np.zeros(len(used), np.int64))

    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        slots = self.state.table.find(key)
        if slots[0] < 0:
            return
        records = sum(int(side.rows.sizes(slots)[0][0]) for side in self.state.sides)
        written = int(self.state.table.stamps("written")[slots[0]])
        rows = self._inserts(self._read_joined(slots))[0].to_pylist()
        for row in rows or self._describe_key(slots):
            yield StoredKeyState(None, None, records=records, written=written, results=row)

    @abstractmethod
    def _read_joined(self, slots: SlotArray) -> Weighted:
        """The joined rows of slots that were emitted and stay."""

    def _describe_key(self, slots: SlotArray) -> list[dict[str, int]]:
        """Return what else is shown of a key that has no joined rows: by side the number of its rows."""
        return [{side.name: int(side.rows.sizes(slots)[0][0]) for side in self.state.sides}]

    def _inserts(self, rows: Weighted) -> Rows:
        return self._output.build_changes(rows, np.full(len(rows.weight), INSERT, np.int8))

    def _is_matchable(self, which: int, batch: pa.RecordBatch) -> Array:
        """Tell whether each row of a side can leave: by their keys some match nothing."""
        # Without a match a row of the left leaves too, beside NULLs.
        if which == 0 and self.spec.how == "left":
            return np.ones(batch.num_rows, np.bool_)
        return has_values(batch, (n for n, safe in enumerate(self.spec.null_safe) if not safe))

    def _nearest(self, ids: RowIdArray) -> Array:
        """The row of the right that each row of the left finds, or -1: of several with one time the last to arrive."""
        left, right = self.state.sides
        slots = left.slots_of(ids)
        arrays = left.rows.arrays
        words, tiers = arrays.word[ids], arrays.arrival[ids] >> TIER
        until = right.rows.before(slots, words, tiers, equals=not self.spec.strict)
        nearest = np.full(len(ids), -1, np.int64)
        there = np.flatnonzero(until > 0)
        nearest[there] = right.rows.collect_between(slots[there], until[there] - 1, until[there])[1]
        return nearest

    def _expire(self, now: int, among: SlotArray | None = None) -> None:
        """Forget the keys among these slots (default: all) that were not written for so long."""
        ttl = self.spec.state_ttl_ms
        if not ttl:
            return
        used = self.state.used_slots() if among is None else among
        old = used[now >= self.state.table.stamps("written")[used] + ttl]
        if len(old):
            self.counters["expired"] += len(old)
            self.state.forget(old)


def filter_rows(
    batch: pa.RecordBatch, kinds: Kinds, keep: FlagArray
) -> tuple[pa.RecordBatch, Kinds]:
    return (batch, kinds) if keep.all() else (batch.filter(pa.array(keep)), kinds[keep])
