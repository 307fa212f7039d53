"""Join: pairs of rows of two changing tables that match, and rows that match none (SEMANTICS 5.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from aggloom.errors import OrphanRetractionError
from aggloom.runtime.operators.base import Bundle as Given
from aggloom.runtime.operators.base import Held as HeldOfKey
from aggloom.runtime.operators.base import Operator
from aggloom.runtime.operators.join.matches import Bundle, Matcher, TooManyMatches, refused
from aggloom.runtime.operators.join.output import Output
from aggloom.runtime.operators.join.per_record import OneByOne, Taken
from aggloom.runtime.operators.join.settings import JoinSettings
from aggloom.runtime.operators.join.side import Net
from aggloom.runtime.operators.join.state import NAMES, JoinState
from aggloom.runtime.operators.steps import Rows, no_rows
from aggloom.runtime.state.row_bag import RowBag
from aggloom.runtime.state.row_index import ORPHAN
from aggloom.runtime.state.row_store import Encoded
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.values.changelog import INSERT, is_retraction
from aggloom.runtime.values.clock import Clock


class JoinOperator(Operator):
    """One bucket's operator; the first columns of both inputs are the key. See JoinSettings for its settings.

    A bundle of both inputs brings the net difference of the joined rows, and nothing for what did not change.
    """

    handler_class = None
    keeps_calls = "it has no calls"
    state_class: ClassVar[type[JoinState]] = JoinState

    def __init__(self, spec: JoinSettings, directory: Path | None = None) -> None:
        self.spec, self.schema = spec, spec.result
        self.update_before = spec.update_before
        self.state = self.state_class(spec, directory)
        self.counters = {"rows": 0, "orphans_dropped": 0, "expired": 0, "emitted": 0}
        self.settle()

    def settle(self) -> None:
        self._matcher = Matcher(self.spec, self.state)
        self._output = Output(self.spec, self.state)
        if any(side.learns_degrees for side in self.state.sides):
            # They were not kept before.
            self._matcher.changes(self._all(self.state.used()))

    @property
    def name(self) -> str:
        pairs = zip(self.spec.left.names, self.spec.right.names, self.spec.null_safe, strict=False)
        words = (f"{one} {'<=>' if safe else '='} {other}" for one, other, safe in pairs)
        return f"{self.spec.how} join on {' AND '.join(words) or 'TRUE'}"

    @property
    def states(self) -> list[JoinState]:
        return [self.state]

    @property
    def keys(self) -> int:
        return len(self.state.table)

    def key_columns(self) -> list[pa.Array]:
        return self.state.table.key_columns(self.state.used())

    def run(self, inputs: Sequence[Given], clock: Clock) -> Rows:
        """Take changes of both inputs, and return how the joined rows change.

        Raises OrphanRetractionError (policy error), AggloomError for more joined rows than a bundle may bring.
        """
        self.refuse_after_failure()
        self.expire(clock.processing)
        rows = sum(given.batch.num_rows for given in inputs)
        self.counters["rows"] += rows
        if not rows:
            return no_rows(self.schema)
        self._failed = True
        changes = self._took(inputs, clock.processing)
        self._failed = False
        self.counters["emitted"] += len(changes[1])
        return changes

    def contents(self) -> Rows:
        """The joined rows, each an insertion."""
        return self._joined(self.state.used())

    def held(self, key: pa.RecordBatch) -> Iterator[HeldOfKey]:
        slots = self.state.table.find(key)
        if slots[0] < 0:
            return
        records = sum(
            int(side.bag.arrays.count[ids].sum())
            for side in self.state.sides
            for _, ids in side.bag.walk(slots)
        )
        stamps = [self.state.table.stamps(name) for name in self.state.table.stamp_names]
        written = max((int(each[slots[0]]) for each in stamps), default=0)
        rows = self._joined(slots)[0]
        for row in rows.to_pylist() if rows.num_columns else [{}] * rows.num_rows:
            yield HeldOfKey(None, None, records=records, written=written, results=row)

    def expire(self, now: int) -> None:
        """Forget the sides of keys that were written as long ago as they live."""
        if not any(self.spec.ttls):
            return
        used = self.state.used()
        for which, slots in self._expired(now):
            self.state.sides[which].bag.empty(slots)
        self.state.leave(used)

    def _expired(self, now: int) -> Iterator[tuple[int, Array]]:
        """The slots of each side that were written as long ago as they live."""
        for which, (side, ttl) in enumerate(zip(self.state.sides, self.spec.ttls, strict=True)):
            if not ttl:
                continue
            used = self.state.used()
            stamps = self.state.table.stamps(side.name)
            # A time that was not kept before begins now.
            stamps[used[stamps[used] == 0]] = now
            old = used[now >= stamps[used] + ttl]
            old = old[~side.is_empty(old)]
            if len(old):
                self.counters["expired"] += len(old)
                yield which, old

    def _took(self, inputs: Sequence[Given], now: int) -> Rows:
        """How the joined rows change by changes of both inputs."""
        taken = self._taken(0, inputs[0]), self._taken(1, inputs[1])
        touched = self.state.distinct(*(each.slots for each in taken))
        each = self.spec.per_record
        changes = self._one_by_one(taken, now) if each else self._bundle(taken, touched, now)
        self.state.leave(touched)
        return changes

    def _one_by_one(self, taken: tuple[Taken, Taken], now: int) -> Rows:
        """Each change by itself, those of the left first."""
        each = OneByOne(self.spec, self.state, self._matcher, now)
        each.take(taken)
        for which, row, slot in each.orphans:
            self._refuse_orphan(which, row - which * len(taken[0].slots), slot)
        if self.spec.on_orphan_retraction == "drop":
            self.counters["orphans_dropped"] += len(each.orphans)
        rows, kinds = each.messages()
        changes = self._output.messages(rows, kinds)
        each.free()
        return changes

    def _bundle(self, taken: tuple[Taken, Taken], touched: Array, now: int) -> Rows:
        """Both sides netted by row, stored, and compared with what was there."""
        nets = [self._net(which, rows) for which, rows in enumerate(taken)]
        left, right = self.state.sides
        was_empty = left.is_empty(touched), right.is_empty(touched)
        first, second = left.store(nets[0]), right.store(nets[1])
        for each, ttl, name in zip(taken, self.spec.ttls, NAMES, strict=True):
            if ttl:
                self.state.table.stamps(name)[each.slots] = now
        changes = self._told(Bundle((first, second), touched, was_empty))
        left.free(first)
        right.free(second)
        return changes

    def _told(self, bundle: Bundle) -> Rows:
        try:
            return self._output.net(self._matcher.changes(bundle, self.spec.match_limit))
        except TooManyMatches as many:
            place = self.state.table.place(int(many.args[0]))
            raise refused(place, self.spec.match_limit) from None

    def _taken(self, which: int, given: Given) -> Taken:
        """The changes of a side that can matter."""
        side, batch, kinds = self.state.sides[which], given.batch, given.kinds
        if not side.settings.alone or self.spec.how == "semi":
            keep = np.ones(batch.num_rows, np.bool_)
            for column, safe in enumerate(self.spec.null_safe):
                if not safe and batch.column(column).null_count:
                    keep &= batch.column(column).is_valid().to_numpy(zero_copy_only=False)
            if not keep.all():
                batch, kinds = batch.filter(pa.array(keep)), kinds[keep]
        return Taken(self.state.lookup(batch), side.given(batch), kinds)

    def _refuse_orphan(self, which: int, row: int, slot: int) -> None:
        if self.spec.on_orphan_retraction == "error":
            raise OrphanRetractionError(
                f"row {row} of the {NAMES[which]} retracts from {self.state.table.place(slot)}, "
                "which does not hold it; let on_orphan_retraction be 'drop' or 'keep' "
                "if the input may be out of order"
            )

    def _net(self, which: int, taken: Taken) -> Net:
        """What the changes of a side come to; what they take back that is not there is dealt with."""
        side, owed = self.state.sides[which], self.state.owed[which]
        slots, given, retracts = taken.slots, taken.given, is_retraction(taken.kinds)
        if owed is not None and len(owed):
            slots, given, retracts = _settled(owed, slots, given, retracts)
        net = side.net(slots, given, retracts)
        stray = net.orphans
        if not len(stray):
            return net
        self._refuse_orphan(which, int(stray[0]), int(slots[stray[0]]))
        if owed is None:
            self.counters["orphans_dropped"] += len(stray)
            return net
        # The row may come later in this bundle.
        early = np.zeros(len(slots), np.bool_)
        early[stray] = True
        order = np.concatenate([np.flatnonzero(~early), stray])
        slots, retracts = slots[order], retracts[order]
        given = Encoded(given.words[order], given.flags[order])
        net = side.net(slots, given, retracts)
        never = net.orphans
        if len(never):
            some = Encoded(given.words[never], given.flags[never])
            owed.apply_encoded(slots[never], some, np.zeros(len(never), np.bool_))
        return net

    def _joined(self, slots: Array) -> Rows:
        """All joined rows of slots, each an insertion."""
        degrees = [side.bag.arrays.degree.copy() for side in self.state.sides]
        rows = self._matcher.changes(self._all(slots))
        for side, degree in zip(self.state.sides, degrees, strict=True):
            side.bag.arrays.degree[:] = degree
        return self._output.messages(rows, np.full(len(rows.weight), INSERT, np.int8))

    def _all(self, slots: Array) -> Bundle:
        """All rows of slots, as if they had just come."""
        left, right = (side.all_of(slots) for side in self.state.sides)
        empty = np.ones(len(slots), np.bool_)
        return Bundle((left, right), slots, (empty, empty))


def _settled(
    owed: RowBag, slots: Array, given: Encoded, retracts: Array
) -> tuple[Array, Encoded, Array]:
    """The changes without the rows that were taken back before they came."""
    news = np.flatnonzero(~retracts)
    some = Encoded(given.words[news], given.flags[news])
    found = owed.apply_encoded(slots[news], some, np.ones(len(news), np.bool_))
    owed.free(found.gone[found.gone >= 0])
    keep = np.ones(len(slots), np.bool_)
    keep[news[found.outcomes != ORPHAN]] = False
    return slots[keep], Encoded(given.words[keep], given.flags[keep]), retracts[keep]
