"""The joined rows that a bundle takes away and brings: pairs that match, and rows that leave alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from aggloom.errors import AggloomError
from aggloom.runtime.operators.join.condition import Condition
from aggloom.runtime.operators.join.match_kernels import (
    MatchedPairs,
    chain_items,
    meet_changed,
    meet_unchanged,
    tally,
)
from aggloom.runtime.operators.join.settings import JoinSettings
from aggloom.runtime.operators.join.side import BundleItems, Items
from aggloom.runtime.operators.join.state import JoinState
from aggloom.runtime.storage.arena import Array, NumberArray, RowIdArray, SelectionArray

_CHUNK = 1 << 17
_NONE = np.zeros(0, np.int64)


class Weighted(NamedTuple):
    """Joined rows by the stored rows that they are made of (-1: padded), and how many of each come (negative: go)."""

    left: Array  # int32[rows] or int64[rows]
    right: Array  # int32[rows] or int64[rows]
    weight: Array  # int64[rows]

    @property
    def ids(self) -> tuple[Array, ...]:
        """The stored rows of each input."""
        return self.left, self.right

    def some(self, which: SelectionArray) -> Weighted:
        """Those that are marked, or have these numbers."""
        return Weighted(*(each[which] for each in self))

    def with_weight(self, weight: NumberArray) -> Weighted:
        """The same rows, so many of each."""
        return self._replace(weight=weight)

    @classmethod
    def of(cls, parts: list[Weighted]) -> Weighted:
        """All parts as one."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls(_NONE.astype(np.int32), _NONE.astype(np.int32), _NONE)
        return cls(*(np.concatenate(each) for each in zip(*parts, strict=True)))


class TooManyMatches(Exception):
    """More joined rows than one bundle may bring; its argument is the slot that most of them come from."""


class Matcher:
    """Finds the joined rows that a bundle changes; it remembers nothing from one to the next but room to work in."""

    def __init__(self, settings: JoinSettings, state: JoinState) -> None:
        self.settings, self.state = settings, state
        self.condition = None
        if settings.condition is not None:
            schemas = settings.left, settings.right
            self.condition = Condition(settings.condition, schemas, settings.zone)
        self._room = MatchedPairs.of(_CHUNK)
        self._by_slot = [np.zeros(0, np.int32) for _ in range(2)]
        self._by_id = [[np.zeros(0, np.int64) for _ in range(3)] for _ in range(2)]

    def changes(self, bundle: BundleItems, limit: int | None = None) -> Weighted:
        """The joined rows that go and come. The rows of the bundle are stored, and those that are gone not yet freed.

        Raises TooManyMatches beyond a limit.
        """
        return Weighted.of(list(self._parts(bundle, limit)))

    def _parts(self, bundle: BundleItems, limit: int | None) -> Iterator[Weighted]:
        self._fit()
        counted = [self._counts(n) for n in range(2)]
        touched = [np.empty(0, np.int64) for _ in range(2)]
        for which, items in enumerate(bundle.items):
            mark = self._by_id[which][2]
            # Rows that change in this bundle are left to `meet_changed`, which knows what they were and what they are.
            mark[items.new[items.new >= 0]] = 1
            mark[items.old[items.old >= 0]] = 1
        bring = self.settings.pairs_leave
        total = 0
        if bring or any(counted):
            for pairs in self._pairs(bundle):
                if self.condition is not None:
                    holds = self.condition.holds(self.state.sides, pairs.mine, pairs.other)
                    pairs = pairs.select(holds) if not holds.all() else pairs
                for which, pairs_of_side in enumerate((pairs, pairs.swap())):
                    if counted[which]:
                        touched[which] = self._tally_pairs(which, pairs_of_side, touched[which])
                if bring and len(pairs.mine):
                    weight = pairs.mine_count * pairs.other_count
                    total += int(weight.sum())
                    if limit is not None and total > limit:
                        raise TooManyMatches(self._widest(pairs))
                    # Pairs from before the bundle go, those from after it come.
                    np.negative(weight, out=weight, where=~pairs.after)
                    yield Weighted(
                        pairs.mine.astype(np.int32), pairs.other.astype(np.int32), weight
                    )
        for which, side in enumerate(self.state.sides):
            if side.settings.alone:
                alone = self._by_degree if counted[which] else self._by_emptiness
                for ids, weights in alone(which, bundle, touched[which]):
                    if self.settings.waits and self.settings.how != "semi":
                        continue
                    none = np.full(len(ids), -1, np.int32)
                    mine = ids.astype(np.int32)
                    left, right = (mine, none) if which == 0 else (none, mine)
                    yield Weighted(left, right, weights)
            self._clear(which, bundle.items[which], touched[which])

    def _pairs(self, bundle: BundleItems) -> Iterator[MatchedPairs]:
        """All pairs of which a row has changed, the left's row first, in chunks."""
        left, right = bundle.items
        for which, items in enumerate(bundle.items):
            for pairs in self.match_unchanged(which, items):
                yield pairs if which == 0 else pairs.swap()
        if len(left) and len(right):
            head, chain = self._by_slot[0], np.empty(len(right), np.int64)
            slots = self.state.mask_unmatchable(right.slots)
            chain_items(slots, head, chain)
            mine = self.state.mask_unmatchable(left.slots)
            yield from self._chunks(
                lambda cursor: meet_changed(
                    mine, *left[1:], head, chain, *right[1:], cursor, self._room
                ),
                len(left),
            )
            # Zeros again for the slots that were used: there are as many as the state has keys.
            head[right.slots] = 0

    def match_unchanged(self, which: int, items: Items) -> Iterator[MatchedPairs]:
        """The pairs of a side's items with rows of the other side that have not changed, in chunks."""
        self._fit()
        other, mark = self.state.sides[1 - which].bag.arrays, self._by_id[1 - which][2]
        slots = self.state.mask_unmatchable(items.slots)
        return self._chunks(
            lambda cursor: meet_unchanged(other, mark, slots, *items[1:], cursor, self._room),
            len(items),
        )

    def _chunks(self, walk: Callable[[Array], int], items: int) -> Iterator[MatchedPairs]:
        cursor = np.zeros(2, np.int64)
        while cursor[0] < items:
            count = walk(cursor)
            if count:
                yield self._room.first(count)

    def _tally_pairs(self, which: int, pairs: MatchedPairs, touched: RowIdArray) -> Array:
        """Add up what the rows of a side met; the rows that have not changed and met something."""
        was, now, mark = self._by_id[which]
        more = np.empty(len(pairs.mine), np.int64)
        count = tally(
            pairs.mine,
            pairs.other_count,
            pairs.after,
            was=was,
            now=now,
            mark=mark,
            touched=more,
            count=0,
        )
        return np.concatenate([touched, more[:count]])

    def _by_degree(
        self, which: int, bundle: BundleItems, touched: Array
    ) -> Iterator[tuple[Array, Array]]:
        """The rows of a side that leave alone, by how many rows each meets: which, and how many come or go."""
        side, items = self.state.sides[which], bundle.items[which]
        was, now, _ = self._by_id[which]
        keeps_degrees = side.settings.keeps_degrees
        degree = side.bag.arrays.degree
        there, comes = items.before > 0, items.after > 0
        # Where there is none, any row will do: absent items are not emitted.
        old, new = np.where(there, items.old, 0), np.where(comes, items.new, 0)
        met_before = degree[old].astype(np.int64) if keeps_degrees else was[old]
        met_after = now[new]
        same = there & comes & (old == new)
        # For the same row, matches with rows that did not change are in its degree already.
        if keeps_degrees:
            met_after = np.where(same, met_before + now[new] - was[old], met_after)
            degree[new[comes]] = np.maximum(met_after[comes], 0)
        semi = self.settings.how == "semi"
        yield from self._of_items(items, (met_before > 0) == semi, (met_after > 0) == semi)
        if not len(touched):
            return
        before = degree[touched].astype(np.int64) if keeps_degrees else was[touched]
        after = (
            np.maximum(before + now[touched] - was[touched], 0) if keeps_degrees else now[touched]
        )
        if keeps_degrees:
            degree[touched] = after
        # Only its first match, or the loss of its last, decides whether a row leaves alone.
        turned = (before > 0) != (after > 0)
        ids, leaves = touched[turned], (after[turned] > 0) == semi
        counts = side.bag.arrays.count[ids].astype(np.int64)
        yield ids, np.where(leaves, counts, -counts)

    def _by_emptiness(
        self, which: int, bundle: BundleItems, touched: Array
    ) -> Iterator[tuple[Array, Array]]:
        """Find pairs like `_by_degree`, where a row meets all rows of its key: by whether there are any."""
        side, other = self.state.sides[which], self.state.sides[1 - which]
        items, mark = bundle.items[which], self._by_id[which][2]
        semi = self.settings.how == "semi"
        slots = self.state.mask_unmatchable(bundle.slots)
        # A key with a NULL in it meets nothing, as if the other side were empty.
        was, now = bundle.was_empty[1 - which] | (slots < 0), other.is_empty(slots)
        place = self._by_slot[1]
        place[bundle.slots] = np.arange(len(slots))
        mine = place[items.slots]
        yield from self._of_items(items, was[mine] != semi, now[mine] != semi)
        turned = was != now
        if not turned.any():
            return
        sign = np.where(now[turned] != semi, 1, -1)
        for positions, ids in side.bag.walk(slots[turned], _CHUNK):
            # Those that have changed were emitted with the items.
            unchanged = mark[ids] <= 0
            ids, signs = ids[unchanged], sign[positions[unchanged]]
            yield ids, side.bag.arrays.count[ids] * signs

    def _of_items(
        self, items: Items, was_alone: Array, is_alone: Array
    ) -> Iterator[tuple[Array, Array]]:
        gone, come = was_alone & (items.before > 0), is_alone & (items.after > 0)
        yield items.old[gone], -items.before[gone]
        yield items.new[come], items.after[come]

    def _counts(self, which: int) -> bool:
        """Tell whether what each row of a side meets is added up."""
        side = self.state.sides[which].settings
        return side.alone and (side.keeps_degrees or self.condition is not None)

    def _widest(self, pairs: MatchedPairs) -> int:
        slots, counts = np.unique(
            self.state.sides[0].bag.index.arrays.slot[pairs.mine], return_counts=True
        )
        return int(slots[np.argmax(counts)])

    def _fit(self) -> None:
        slots = self.state.table.capacity
        if len(self._by_slot[0]) < slots:
            # Zeros between bundles (`_clear`): made anew only where the state has grown.
            self._by_slot = [np.zeros(slots, np.int32) for _ in range(2)]
        for which, side in enumerate(self.state.sides):
            rows = side.bag.rows.capacity
            if len(self._by_id[which][2]) < rows:
                sums = rows if self._counts(which) else 0
                self._by_id[which] = [
                    np.zeros(sums, np.int64),
                    np.zeros(sums, np.int64),
                    np.zeros(rows, np.int8),
                ]

    def _clear(self, which: int, items: Items, touched: Array) -> None:
        for ids in (items.old[items.old >= 0], items.new[items.new >= 0], touched):
            for each in self._by_id[which]:
                if len(each):
                    each[ids] = 0


def match_limit_error(slot_name: str, limit: int) -> AggloomError:
    """Return the error that is raised for more joined rows than a bundle may bring."""
    return AggloomError(
        f"one bundle joins more than {limit:,} rows, most of them of {slot_name}; "
        "take smaller bundles, join on more columns, or raise join_match_limit"
    )
