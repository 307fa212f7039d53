"""The base of every generated handler class: the life cycle, and the bulk calls that operators make.

The generated class brings kernels and tables of names; a backend (compiled, plain) brings accumulators, the
binding of Arrow columns, and outputs. A single row is a batch of one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partialmethod
from typing import Any, ClassVar, NamedTuple
from weakref import WeakSet

import numpy as np
import pyarrow as pa

from aggloom.errors import AggloomError, DataError, NotMergeableError
from aggloom.runtime.handlers.columns import HandlerColumns
from aggloom.runtime.handlers.debug_text import describe_handler, describe_slots
from aggloom.runtime.handlers.lent_rows import AWAY_FROM_ZERO as AWAY_FROM_ZERO
from aggloom.runtime.storage.arena import Arena, Array, FlagArray, NumberArray, SlotArray

CHUNK = 65536

_BLOCK = 1 << 11
"""Rows that are applied before their results are noted: what they touch is in the cache still."""


class ResultPair(NamedTuple):
    """Results of items before and after a bundle, the rows of both in one, and whether they were and are live."""

    before: Any
    after: Any
    both: Any
    was: Array  # bool[items]
    now: Array  # bool[items]


def _describe_state(state: Any, handler: type[HandlerBase]) -> str:
    """Describe the State that kernels work on, for a debugger."""
    fields = state._asdict()
    is_plain = handler.BACKEND == "python"
    arrays = {n: v for n, v in fields.items() if is_plain or isinstance(v, np.ndarray)}
    return describe_slots(handler, arrays, len(fields["records"]), "State")


class HandlerBase(HandlerColumns):
    """The life cycle over accumulators of the class `accumulators_type`."""

    accumulators_type: ClassVar[type[Any]]
    in_use: ClassVar[WeakSet[Any]]
    """The handlers of a class that are open: users' functions, which they share, are closed with the last of them."""

    def __init__(self) -> None:
        self.accumulators: Any = None
        self._slots: Array = np.zeros(0, np.int64)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.in_use = WeakSet()
        kernels = cls.__dict__.get("KERNELS")
        if kernels is not None:
            kernels.state.__repr__ = partialmethod(_describe_state, cls)

    def __repr__(self) -> str:
        return describe_handler(self)

    # The life cycle, called by the generated methods.

    def create(self, n: int) -> Any:
        return self.accumulators_type(type(self), Arena(), n)

    def open_functions(self) -> None:
        """Call `open` of users' classes before the first handler of this class works."""
        if self.OPENS or self.CLOSES:
            if not self.in_use:
                self._call_each("open", self.OPENS)
            self.in_use.add(self)

    def close_functions(self) -> None:
        """Call `close` of users' classes after the last handler of this class; it may be opened again."""
        if self in self.in_use:
            self.in_use.discard(self)
            if not self.in_use:
                self._call_each("close", self.CLOSES)

    def _call_each(self, method: str, named: tuple[tuple[str, Callable[[], None]], ...]) -> None:
        for name, function in named:
            try:
                function()
            except Exception as error:
                raise DataError(
                    f"{name}: {method} failed: {type(error).__name__}: {error}"
                ) from error

    def set(self, accumulators: Any, slots: Sequence[int] | SlotArray | None) -> None:
        self.open_functions()
        self.accumulators = accumulators
        self._slots = (
            np.arange(accumulators.slots, dtype=np.int64)
            if slots is None
            else np.asarray(slots, np.int64)
        )

    def apply(self, data: Any, retract: bool) -> None:
        if retract and not self.RETRACTING:
            raise DataError(
                "retract: the handler was generated for an append-only input; generate it with input_changes='retract'"
            )
        batch = self.batch_of(data)
        slots = self._row_slots(batch.num_rows)
        retracts = np.full(batch.num_rows, retract, np.bool_)
        self.update(self.bind(batch), slots, retracts, keep_orphans=True)
        if self.RETRACTING:
            touched = np.unique(slots)
            empty = touched[self.accumulators.records[touched] == 0]
            if len(empty):
                # Else it would be compiled for nothing.
                self.KERNELS.reset(self.accumulators.state, empty)

    def merge_with(self, other: Any) -> None:
        if self.UNMERGEABLE:
            names = ", ".join(self.UNMERGEABLE)
            raise NotMergeableError(
                f"merge: {names} has no merge; give its class `def merge(state, other)`"
            )
        accumulators = self._current()
        self.merge_slots(accumulators, self._row_slots(other.slots), other)
        accumulators.sweep()

    def reset(self) -> None:
        self.KERNELS.reset(self._current().state, self._slots)
        self.accumulators.sweep()

    def drop(self) -> None:
        self.accumulators = None

    def value(self) -> Any:
        out = self.values(self._slots)
        self.refuse_overflow(out, lambda slot: f"accumulator {slot}")
        fields = list(self.spec().aggregate_schema)[len(self.spec().group_by) :]
        columns = self.to_arrow(out, fields)
        if len(self._slots) == 1:
            return tuple(column[0].as_py() for column in columns)
        return pa.RecordBatch.from_arrays(columns, names=[f.name for f in fields])

    def emit(self) -> Any:
        """The rows of the table aggregate as tuples: a list, or a list of them for each slot."""
        emitting = [output.name for output in self.OUTPUTS if self._emits_rows(output.name)]
        if len(emitting) > 1:
            raise AggloomError(
                "emitValue: the handler has several table aggregates; read their rows with getValue"
            )
        place = [output.name for output in self.OUTPUTS].index(emitting[0])
        out = self.values(self._slots)
        self.refuse_overflow(out, lambda slot: f"accumulator {slot}")
        fields = list(self.spec().aggregate_schema)[len(self.spec().group_by) :]
        column = self.to_arrow(out, fields)[place]
        listed = [[tuple(row.values()) for row in rows or ()] for rows in column.to_pylist()]
        return listed[0] if len(self._slots) == 1 else listed

    def emit_update(self) -> Any:
        """The rows that differ from those emitted before, behind -D or +I: a list, or a list for each slot."""
        removed, added = self.changes(self._slots)
        self.mark(self._slots)
        fields = list(self.spec().aggregate_schema)[len(self.spec().group_by) :]
        listed: list[list[Any]] = [[] for _ in self._slots]
        for kind, out in (("-D", removed), ("+I", added)):
            self.refuse_overflow(out, lambda slot: f"accumulator {slot}")
            (column,) = self.to_arrow(out, fields)
            for rows, own in zip(column.to_pylist(), listed, strict=True):
                own += [(kind, *row.values()) for row in rows]
        return listed[0] if len(self._slots) == 1 else listed

    def _emits_rows(self, output: str) -> bool:
        return self.RESULTS.get(output, ("",))[0] == "rows"

    # The bulk calls of operators.

    def update(
        self, inputs: Any, slots: SlotArray, retracts: FlagArray, *, keep_orphans: bool
    ) -> int:
        """Apply the bound rows; returns the number of orphan retractions dropped."""
        return self._run(self.KERNELS.update, inputs, retracts, keep_orphans, slots)

    def fold(
        self,
        inputs: Any,
        slots: SlotArray,
        retracts: FlagArray,
        ids: NumberArray,
        *,
        keep_orphans: bool,
        by_slot: bool = False,
    ) -> tuple[int, ResultPair]:
        """Apply changes like `update`, and return the results before and after each item: neighbouring rows of a slot
        that have one id.

        by_slot: no slot has two items.
        """
        if self.KERNELS.fold is None:
            return self._fold_rows(inputs, slots, retracts, keep_orphans)
        n = int(ids[-1]) + 1 if len(ids) else 0
        out, has_rows = self.outputs(2 * n), np.zeros(2 * n, np.bool_)
        # Results are read a block later than their rows only where no slot has two items: those of the first item would
        # show the second.
        chunk = _BLOCK if by_slot else 1
        of_results = ids, out, has_rows, chunk
        dropped = self._run(self.KERNELS.fold, inputs, retracts, keep_orphans, slots, of_results)
        return dropped, ResultPair(*self.halves(out, n), out, has_rows[:n], has_rows[n:])

    def pair_results(self, before: Any, after: Any, was: FlagArray, now: FlagArray) -> ResultPair:
        """Results that were read apart."""
        return ResultPair(before, after, self.concatenate(before, after), was, now)

    def no_results(self) -> ResultPair:
        """The results of no items."""
        none = self.outputs(0)
        return self.pair_results(none, none, np.zeros(0, np.bool_), np.zeros(0, np.bool_))

    def _fold_rows(
        self, inputs: Any, slots: SlotArray, retracts: FlagArray, keep_orphans: bool
    ) -> tuple[int, ResultPair]:
        """Fold with each row as an item: lists of unknown length are written by no kernel that changes state."""
        n, dropped = len(slots), 0
        was, now = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        before, after = [self.outputs(0)], [self.outputs(0)]
        for i in range(n):
            one = slice(i, i + 1)
            was[i] = self.accumulators.records[slots[i]] > 0
            before.append(self.values(slots[one]))
            picked = self.pick(inputs, np.array([i]))
            dropped += self.update(picked, slots[one], retracts[one], keep_orphans=keep_orphans)
            now[i] = self.accumulators.records[slots[i]] > 0
            after.append(self.values(slots[one]))
        return dropped, self.pair_results(
            self.concatenate_all(before), self.concatenate_all(after), was, now
        )

    def concatenate_all(self, outs: list[Any]) -> Any:
        """The rows of several outputs, in order; in pairs, so that none is copied more than log(n) times."""
        while len(outs) > 1:
            halves = zip(outs[::2], outs[1::2], strict=False)
            outs = [self.concatenate(a, b) for a, b in halves] + outs[len(outs) // 2 * 2 :]
        return outs[0]

    def _run(
        self,
        step: Callable[..., tuple[int, int]],
        inputs: Any,
        retracts: FlagArray,
        keep_orphans: bool,
        slots: SlotArray,
        more: tuple[Any, ...] = (),
    ) -> int:
        """Call a kernel until all rows are through, with room made before each call; written: what else it gets."""
        start = dropped = 0
        while start < len(slots):
            # A kernel cannot let arrays grow: views say for how many rows they have room.
            stop = start + self._current().reserve(min(CHUNK, len(slots) - start))
            state = self.accumulators.state
            with self._users_errors():
                start, lost = step(state, inputs, retracts, keep_orphans, slots, start, stop, *more)
            dropped += lost
        return dropped

    def merge_slots(
        self, into: Any, slots: SlotArray, other: Any, others: SlotArray | None = None
    ) -> None:
        """Merge other accumulators, slot by slot or those at the slots `others`, into the given slots."""
        if others is None:
            others = np.arange(len(slots), dtype=np.int64)
        row = 0
        while row < len(slots):
            # Before each call: a kernel that finds too little room returns the row to continue with.
            into.reserve_merge(other)
            with self._users_errors():
                row = self.KERNELS.merge(into.state, slots, other.state, others, row)

    def values(self, slots: SlotArray) -> Any:
        """The results at the given slots."""
        out = self.outputs(len(slots))
        row = 0
        state, n = self._current().state, len(slots)
        while row < n:
            with self._users_errors():
                # A kernel that finds a list full returns the row to continue with.
                row = self.KERNELS.values(state, slots, out, row, n)
            out = self.enlarge_lists(out, row) if row < n else out
        return out

    def changes(self, slots: SlotArray) -> tuple[Any, Any]:
        """The rows at the given slots that are no longer what was emitted, and those that are new."""
        assert self.KERNELS.changes is not None
        removed, added = self.outputs(len(slots)), self.outputs(len(slots))
        row, n, state = 0, len(slots), self._current().state
        while row < n:
            with self._users_errors():
                row = self.KERNELS.changes(state, slots, removed, added, row, n)
            if row < n:
                removed, added = self.enlarge_lists(removed, row), self.enlarge_lists(added, row)
        return removed, added

    def mark(self, slots: SlotArray) -> None:
        """Note that the rows at the given slots have been emitted."""
        assert self.KERNELS.mark is not None
        with self._users_errors():
            self.KERNELS.mark(self._current().state, slots)

    @contextlib.contextmanager
    def _users_errors(self) -> Iterator[None]:
        """Turn an error of a user's function into a DataError that names it."""
        try:
            yield
        except AggloomError:
            raise
        except Exception as error:
            if not self.FUNCTIONS:
                raise
            names = ", ".join(self.FUNCTIONS)
            raise DataError(f"{names} failed: {type(error).__name__}: {error}") from error

    def _current(self) -> Any:
        if self.accumulators is None:
            raise AggloomError("no accumulators are set; call setAccumulators first")
        return self.accumulators

    def _row_slots(self, rows: int) -> Array:
        self._current()
        if len(self._slots) == 1:
            return np.repeat(self._slots, rows)
        if len(self._slots) != rows:
            raise AggloomError(
                f"{rows} rows for {len(self._slots)} slots; give setAccumulators one slot for each row"
            )
        return self._slots
