"""Join: pairs of rows of two changing tables that match, and rows that match none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aggloom.runtime.operators.join.keyed_inputs import Joining
from aggloom.runtime.operators.join.matches import Matcher, TooManyMatches, match_limit_error
from aggloom.runtime.operators.join.output import JoinOutput
from aggloom.runtime.operators.join.per_record import EncodedChanges, OneByOne
from aggloom.runtime.operators.join.settings import JoinSettings
from aggloom.runtime.operators.join.side import BundleItems
from aggloom.runtime.operators.steps import Rows
from aggloom.runtime.storage.arena import Array, SlotArray
from aggloom.runtime.values.changelog import INSERT


class JoinOperator(Joining):
    """A join of two inputs. See JoinSettings for its settings."""

    spec: JoinSettings

    def rebuild_derived(self) -> None:
        self._matcher = Matcher(self.spec, self.state)
        self._output = JoinOutput(self.spec, self.state)
        if any(side.learns_degrees for side in self.state.sides):
            # They were not kept before.
            self._matcher.changes(self._all(self.state.used_slots()))

    @property
    def name(self) -> str:
        pairs = zip(self.spec.left.names, self.spec.right.names, self.spec.null_safe, strict=False)
        words = (f"{one} {'<=>' if safe else '='} {other}" for one, other, safe in pairs)
        return f"{self.spec.how} join on {' AND '.join(words) or 'TRUE'}"

    def _apply_each(self, changes_by_side: Sequence[EncodedChanges], now: int) -> Rows:
        ledgers = [self._ledger(which) for which in range(2)]
        each = OneByOne(self.spec, self.state, self._matcher, ledgers, now)
        each.take(changes_by_side)
        rows, kinds = each.collect_changes()
        changes = self._output.build_changes(rows, kinds)
        each.free()
        return changes

    def _apply_bundle(
        self, changes_by_side: Sequence[EncodedChanges], touched: Array, now: int
    ) -> Rows:
        left, right = self.state.sides
        was_empty = left.is_empty(touched), right.is_empty(touched)
        first, second = self._store_changes(changes_by_side, now)
        changes = self._emit_bundle(BundleItems((first, second), touched, was_empty))
        left.free(first)
        right.free(second)
        return changes

    def _emit_bundle(self, bundle: BundleItems) -> Rows:
        try:
            return self._output.net(self._matcher.changes(bundle, self.spec.match_limit))
        except TooManyMatches as many:
            place = self.state.table.place(int(many.args[0]))
            raise match_limit_error(place, self.spec.match_limit) from None

    def _read_joined(self, slots: SlotArray) -> Rows:
        degrees = [side.bag.arrays.degree.copy() for side in self.state.sides]
        rows = self._matcher.changes(self._all(slots))
        # Matching has counted degrees anew; those that were counted over time are put back.
        for side, degree in zip(self.state.sides, degrees, strict=True):
            side.bag.arrays.degree[:] = degree
        return self._output.build_changes(rows, np.full(len(rows.weight), INSERT, np.int8))

    def _all(self, slots: SlotArray) -> BundleItems:
        """All rows of slots, as if they had just come."""
        left, right = (side.all_of(slots) for side in self.state.sides)
        empty = np.ones(len(slots), np.bool_)
        return BundleItems((left, right), slots, (empty, empty))
