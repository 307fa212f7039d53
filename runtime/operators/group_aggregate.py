"""The group-aggregate operator: it turns a bundle of changes into the changes of the aggregated table.

It depends on no engine. Emission follows Flink's GroupAggFunction (per_record) and MiniBatchGroupAggFunction
(mini_batch), except that a key is visible while it has more than 0 rows, and that an orphan retraction is judged row
by row in both modes, so that the table never depends on the mode. A global aggregate of dialect spark always has one
row (`AggSpec.one_row`): the first bundle, with rows or without, inserts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa

from aggloom.codegen import MODES, ORPHAN_POLICIES, AggSpec, Mode, OrphanPolicy, milliseconds
from aggloom.codegen.planner import GroupAggregate, IncrementalAggregate, PlanOptions
from aggloom.errors import AggloomError, DataError
from aggloom.runtime.handlers.handler import ResultPair
from aggloom.runtime.operators.base import (
    ExpiringSpec,
    InputBatch,
    OneInput,
    Partials,
    StoredKeyState,
    check_choice,
)
from aggloom.runtime.operators.bundle import Applier, refuse_orphans
from aggloom.runtime.operators.emitted_rows import fold_changes, fold_each_row
from aggloom.runtime.operators.keyed_state import KeyedState
from aggloom.runtime.operators.settings import Changing
from aggloom.runtime.operators.step import Step
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.storage.arena import Array, FlagArray, SlotArray
from aggloom.runtime.values import columns
from aggloom.runtime.values.changelog import is_retraction, transitions
from aggloom.runtime.values.clock import Clock


class _CheckedRows(NamedTuple):
    """Rows with their slots (int64[n]), accumulators, and whether the only row was there before."""

    batch: pa.RecordBatch
    slots: SlotArray  # int64[rows]
    retracts: FlagArray  # bool[rows]
    partials: Partials
    had_row: bool


class GroupAggOperator(OneInput, Step[_CheckedRows]):
    """The operator of a grouped aggregate over one bucket: the same bundles in the same order give the same changes.

    handler_class: the class that `al.load` returns. mode: "mini_batch" emits the net change of a bundle, "per_record"
    that of each row. update_before: whether updates include the replaced row (-U before +U). on_orphan_retraction:
    "drop", "error" or "keep", for a retraction of a row that was never added. complete: the input retracts nothing
    that was never added, so that a key without rows has no debt. state_ttl: the time without a change after which a key
    is forgotten, without an emission: milliseconds, or text such as "1 d"; 0 means never. emits_changes: an update has
    only those rows of a table aggregate that its class reports as changed. directory: the directory in which its
    state's arrays are mapped; None: in memory.

    After a DataError in the middle of a bundle the operator refuses further work: restore a snapshot.

    Example:
        >>> import aggloom as al, numpy as np, pyarrow as pa
        >>> spec = al.AggSpec.from_sql("SELECT shop, SUM(n) AS s FROM t GROUP BY shop", "shop STRING, n INT")
        >>> operator = al.GroupAggOperator(al.load(al.generate(spec, backend="python")))
        >>> batch = pa.record_batch({"shop": ["a", "a"], "n": pa.array([3, 4], pa.int32())})
        >>> rows, kinds = operator.process(batch, np.zeros(2, np.int8))
        >>> rows.to_pydict()
        {'shop': ['a'], 's': [7]}
    """

    keeps_calls = ""

    def __init__(
        self,
        handler_class: type[Any],
        *,
        mode: Mode = "mini_batch",
        update_before: bool = True,
        on_orphan_retraction: OrphanPolicy = "drop",
        complete: bool = False,
        state_ttl: int | str = 0,
        emits_changes: bool = False,
        directory: Path | None = None,
    ) -> None:
        check_choice("mode", mode, MODES)
        check_choice("on_orphan_retraction", on_orphan_retraction, ORPHAN_POLICIES)
        self.handler_class = handler_class
        self.mode, self.update_before = mode, update_before
        self.on_orphan_retraction = on_orphan_retraction
        self.state_ttl_ms = milliseconds("state_ttl", state_ttl)
        self.complete = complete
        self._emits_changes = emits_changes and bool(handler_class.EMITTED)
        self._keeps_debts = on_orphan_retraction == "keep" and not complete
        self.state = KeyedState(
            handler_class, directory, stamps=("written",) if self.state_ttl_ms else ()
        )
        self.handler, self.spec = self.state.handler, self.state.spec
        self.schema: pa.Schema = self.spec.aggregate_schema
        self._results = list(self.schema)[len(self.spec.group_by) :]
        self._one_row = self.spec.one_row
        self._applier = Applier()
        self.counters = {"rows": 0, "orphans_dropped": 0, "expired": 0, "emitted": 0}

    def check(self, inputs: Sequence[InputBatch], clock: Clock) -> _CheckedRows:
        """Forget expired keys, and return the rows with their slots, in the columns of the spec's handler_schema.

        Partials of the input are accumulators from LocalAggregators of the same handler; they are merged after the
        rows. Raises OrphanRetractionError (policy error; the state is untouched), DataError.
        """
        (bundle,) = inputs
        batch, retracts = bundle.batch, is_retraction(bundle.kinds)
        if not self.handler.RETRACTING and retracts.any():
            row = int(np.argmax(retracts))
            raise DataError(
                f"row {row} retracts, but the spec says input_changes='append'; use input_changes='retract'"
            )
        keeps = self.on_orphan_retraction == "keep" or not self.handler.RETRACTING
        if bundle.partials and (self.mode == "per_record" or not keeps):
            raise AggloomError(
                "accumulators say nothing of single rows; merge them in mini_batch, and keep orphans"
            )
        batch = self._select_columns(batch)
        if self.state_ttl_ms:
            self._expire(clock.processing)
        # Before the look-up, which makes the only row.
        had_row = self._one_row and len(self.state) > 0
        slots = np.zeros(0, np.int64)
        if batch.num_rows or bundle.partials:
            slots = self.state.lookup(batch)
            # Before any row is applied: the error leaves the state unchanged, except for keys that the look-up has
            # added, which are removed again.
            if self.on_orphan_retraction == "error":
                refuse_orphans(self.state, slots, retracts, keeps_empty=had_row)
        return _CheckedRows(batch, slots, retracts, bundle.partials, had_row)

    def change(self, checked: _CheckedRows, clock: Clock) -> Rows:
        """Aggregate the rows of a bundle, and merge its accumulators; raises ArithmeticOverflowError, DataError."""
        if not checked.batch.num_rows and not checked.partials:
            if self._one_row and not checked.had_row:
                return self._insert_row(clock)
            return self._emit(self.handler.no_results(), np.zeros(0, np.int64))
        if self.mode == "per_record":
            return self._apply_rows(checked, clock)
        return self._apply(checked, clock)

    def _select_columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns that the handler reads, in its order; raises DataError if one is missing."""
        names, has = self.spec.handler_schema.names, batch.schema.names
        if not names or not batch.num_rows or has == names:
            return batch
        missing = [name for name in names if name not in has]
        if missing:
            raise DataError(
                f"{self.name}: the rows have no column {missing[0]!r} (they have {', '.join(has)}); give the columns "
                "of spec.handler_schema, among them those that al.Harness computes of expressions"
            )
        return batch.select(names)

    def contents(self) -> Rows:
        """Return the current aggregated table: its rows, each an insertion."""
        slots = self.state.used_slots()
        if not self._one_row:
            slots = slots[self.state.records[slots] > 0]
        values = self.handler.values(slots)
        live = np.ones(len(slots), np.bool_)
        # As if there had been no key before: each key is inserted.
        return self._emit(self.handler.pair_results(values, values, ~live, live), slots)

    @property
    def states(self) -> list[KeyedState]:
        return [self.state]

    @property
    def keys(self) -> int:
        """The number of keys in the state."""
        return len(self.state)

    def _insert_row(self, clock: Clock) -> Rows:
        """Return the insertion of the only row, over no input rows."""
        slots = self.state.lookup_only()
        if self.state_ttl_ms:
            self.state.stamps("written")[slots] = clock.processing
        values, live = self.handler.values(slots), np.ones(1, np.bool_)
        return self._emit(self.handler.pair_results(values, values, ~live, live), slots)

    def _keep_only_row(self, results: ResultPair, had_row: bool) -> ResultPair:
        """Mark the only row as present, even without input rows; had_row: whether it was present before this bundle."""
        if not self._one_row:
            return results
        was = np.ones(len(results.was), np.bool_)
        # Only the first item of a bundle can find the row missing.
        was[0] = had_row
        return results._replace(was=was, now=np.ones(len(was), np.bool_))

    @property
    def name(self) -> str:
        return f"GROUP BY {', '.join(self.spec.group_by) or '()'}"

    def key_columns(self) -> list[pa.Array]:
        return self.state.key_columns(self.state.used_slots())

    def count_key_rows(self) -> Array | None:
        return self.state.count_key_rows()

    def read_key_state(self, key: pa.RecordBatch) -> Iterator[StoredKeyState]:
        slot = self.state.find(key)
        if slot >= 0:
            written = int(self.state.stamps("written")[slot]) if self.state_ttl_ms else 0
            yield StoredKeyState(self.state.handler, slot, written=written)

    def keeps_stamps(self, old: GroupAggOperator) -> bool:
        return self.state.stamp_names == old.state.stamp_names

    def take_over(self, old: Any) -> None:
        """Forget keys with debts of orphan retractions, if these are no longer kept."""
        if self.on_orphan_retraction == "keep" or self._one_row:
            return
        used = self.state.used_slots()
        in_debt = used[self.state.records[used] <= 0]
        if len(in_debt):
            self.state.reset(in_debt)
            self.state.forget(in_debt)

    def _apply_rows(self, checked: _CheckedRows, clock: Clock) -> Rows:
        """Apply rows per record: return the changes of each row."""
        handler, keep = self.handler, self.on_orphan_retraction == "keep"
        batch, slots, retracts = checked.batch, checked.slots, checked.retracts
        touched = self._applier.distinct(self.state, slots)
        items = np.arange(len(slots))
        if self._emits_changes:
            rows = batch, slots, retracts
            dropped, results = fold_each_row(self.state, self._applier, rows, keep=keep)
        else:
            inputs = handler.bind(batch)
            dropped, results = handler.fold(inputs, slots, retracts, items, keep_orphans=keep)
        handler.refuse_overflow(results.after, self.state.place)
        emitted = self._emit(self._keep_only_row(results, checked.had_row), slots)
        self._finish(dropped, touched, clock)
        return emitted

    def _apply(self, checked: _CheckedRows, clock: Clock) -> Rows:
        """Apply rows as a mini-batch: return the net change of each key."""
        keep = self.on_orphan_retraction == "keep"
        opened = [self._open_partial(data) for data in checked.partials]
        # Keys first: a slot that is touched by rows and by accumulators gives one change.
        merged = [(self.state.lookup_keys_of(other), other, None) for other in opened]
        targets = [target for target, _, _ in merged]
        touched = self._applier.distinct(
            self.state, np.concatenate([checked.slots, *targets]) if targets else checked.slots
        )
        rows = checked.batch, checked.slots, checked.retracts
        policy = {"keep": keep, "keeps_debts": self._keeps_debts}
        if self._emits_changes:
            dropped, results = fold_changes(
                self.state, self._applier, touched, rows, merged, **policy
            )
        else:
            dropped, results = self._applier.fold(self.state, touched, rows, merged, **policy)
        self.handler.refuse_overflow(results.after, self.state.place)
        if not len(touched):
            if checked.had_row or not self._one_row:
                return self._emit(results, touched)
            return self._insert_row(clock)
        emitted = self._emit(self._keep_only_row(results, checked.had_row), touched)
        self._finish(dropped, touched, clock)
        return emitted

    def _open_partial(self, partial: bytes | memoryview) -> KeyedState:
        other = KeyedState(self.handler_class)
        other.restore(partial)
        return other

    def _finish(self, dropped: int, touched: Array, clock: Clock) -> None:
        """Count dropped rows, and forget those keys of these slots that have no rows left."""
        self._applier.forget_counts(touched)
        self.counters["orphans_dropped"] += dropped
        if self.state_ttl_ms:
            self.state.stamps("written")[touched] = clock.processing
        records = self.state.records[touched]
        keep = self.on_orphan_retraction == "keep"
        empty = touched[records == 0 if keep else records <= 0]
        if self._keeps_debts and self.handler.RETRACTING:
            # Equally many rows were added and retracted, but perhaps not the same ones.
            empty = empty[self.state.accumulators.as_new(empty)]
            self.state.reset(empty)
        if self._one_row:
            self.state.reset(empty)
        else:
            self.state.forget(empty)

    def _emit(self, results: ResultPair, slots: SlotArray) -> Rows:
        """Return the changes of items at these slots."""
        n = len(slots)
        changed = np.ones(n, np.bool_)
        # With a time to live also an equal result is emitted, as Flink's GroupAggFunction does: states downstream
        # live by what they are written.
        if n and not self.state_ttl_ms:
            changed = self.handler.differ(results.before, results.after, n)
        item, after_it, kinds = transitions(results.was, results.now, changed, self.update_before)
        keys = self.state.key_columns(columns.take(slots, item))
        values: list[pa.Array]
        if n:
            # Results before and after are the rows of one output, those after it n places on.
            values = self.handler.to_arrow(results.both, self._results, item + n * after_it)
        else:
            values = [pa.array([], f.type) for f in self._results]
        if not self.schema.names:
            return pa.RecordBatch.from_arrays([], schema=self.schema), kinds
        return pa.RecordBatch.from_arrays([*keys, *values], schema=self.schema), kinds

    def _expire(self, now: int) -> None:
        used = self.state.used_slots()
        expired = used[now >= self.state.stamps("written")[used] + self.state_ttl_ms]
        if len(expired):
            # Accumulators first, while the slots are still in use: their texts and blocks are freed.
            self.state.reset(expired)
            self.counters["expired"] += len(expired)
            self.state.forget(expired)


@dataclass(frozen=True, kw_only=True)
class GroupAggSpec(ExpiringSpec[GroupAggregate | IncrementalAggregate]):
    """The description that a group aggregate is made from, besides its handler; see GroupAggOperator."""

    kind: ClassVar[str] = "group aggregate"
    spec: AggSpec
    mode: Changing[Mode] = "mini_batch"
    update_before: Changing[bool] = True
    on_orphan_retraction: Changing[OrphanPolicy] = "drop"
    complete: Changing[bool] = False
    state_ttl_ms: Changing[int] = 0
    emits_changes: bool = False

    @classmethod
    def of(
        cls,
        node: GroupAggregate | IncrementalAggregate,
        options: PlanOptions,
        zone: str = "UTC",
    ) -> Self:
        ttl = options.state_ttl if node.state_ttl is None else node.state_ttl
        return cls(
            spec=node.handlers[0],
            mode="mini_batch" if options.mini_batch_enabled else "per_record",
            update_before=getattr(node, "update_before", True),
            # The planner merges accumulators only where there are no orphan retractions, or where they are kept.
            on_orphan_retraction="keep" if node.merges else options.on_orphan_retraction,
            complete=node.input.is_complete,
            state_ttl_ms=ttl,
            emits_changes=getattr(node, "emits_changes", False),
        )

    def make(
        self, handler_class: Any, bucket: int = 0, directory: Path | None = None
    ) -> GroupAggOperator:
        return GroupAggOperator(
            handler_class,
            mode=self.mode,
            update_before=self.update_before,
            on_orphan_retraction=self.on_orphan_retraction,
            complete=self.complete,
            state_ttl=self.state_ttl_ms,
            emits_changes=self.emits_changes,
            directory=directory,
        )

    @property
    def handler_spec(self) -> AggSpec:
        return self.spec

    @property
    def rows(self) -> pa.Schema:
        return self.spec.handler_schema

    @property
    def emits_without_rows(self) -> bool:
        return self.spec.one_row
