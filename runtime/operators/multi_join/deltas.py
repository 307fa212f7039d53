"""The joined rows that a bundle takes away and brings: the sum of what each input's changes do in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from aggloom.runtime.operators.join.condition import Condition
from aggloom.runtime.operators.join.match_kernels import chain_items
from aggloom.runtime.operators.join.matches import TooManyMatches
from aggloom.runtime.operators.join.side import BundleItems, Items
from aggloom.runtime.operators.join.state import JoinState
from aggloom.runtime.operators.multi_join.delta_kernels import AFTER, BEFORE, meet_items, meet_rows
from aggloom.runtime.operators.multi_join.settings import MultiJoinSettings
from aggloom.runtime.storage.arena import Array, NumberArray, SelectionArray, SlotArray

_CHUNK = 1 << 17
_NO_MARKS, _NO_LINKS, _NO_ROWS = np.zeros(0, np.int8), np.zeros(0, np.int32), np.zeros(0, np.int64)


class Combined(NamedTuple):
    """Rows of the first inputs that belong together.

    ids: by input its stored rows, -1: padded. weight: how many of each come (negative: go). places: of their slots.
    """

    ids: tuple[Array, ...]  # int32[rows] of each input
    weight: Array  # int64[rows]
    places: Array  # int64[rows]

    def some(self, which: SelectionArray) -> Combined:
        """Those that are marked, or have these numbers."""
        ids = tuple(each[which] for each in self.ids)
        return Combined(ids, self.weight[which], self.places[which])

    def with_weight(self, weight: NumberArray) -> Combined:
        """The same rows, so many of each."""
        return self._replace(weight=weight)

    def extend(self, at: NumberArray, ids: Array, counts: NumberArray) -> Combined:
        """Put a row of the next input (ids: int32[n] or int64[n]) beside each of those with the numbers `at`."""
        rows = self
        # The usual case is one match for each row: nothing has to be copied then.
        if len(at) != len(self.weight) or not np.array_equal(at, np.arange(len(at))):
            rows = self.some(at)
        return Combined((*rows.ids, ids.astype(np.int32)), rows.weight * counts, rows.places)

    def pad(self, which: NumberArray, signs: NumberArray | int = 1) -> Combined:
        """Those with these numbers, without a row of the next input."""
        none = np.full(len(which), -1, np.int32)
        return self.extend(which, none, np.broadcast_to(np.asarray(signs), len(which)))


class _View(NamedTuple):
    """One input in a bundle: its changes by place (head, chain), and whether a place is empty before and after."""

    items: Items
    places: Array  # int64[items]
    head: Array  # int32[slots]
    chain: Array  # int32[items]
    mark: Array  # int8[ids]
    was_empty: Array  # bool[slots]
    is_empty: Array  # bool[slots]


class Deltas:
    """Finds the joined rows that a bundle changes; it remembers nothing from one to the next but room to work in.

    Of each input in turn, what its changes bring to the rows of the others: of those that had their turn as they are
    now, of the rest as they were. The first input comes last, so that what it brings for the first time is found once.
    """

    def __init__(self, settings: MultiJoinSettings, state: JoinState) -> None:
        self.settings, self.state = settings, state
        self._conditions: list[Condition | None] = [None]
        for number, step in enumerate(settings.steps):
            condition = None
            if step.condition is not None:
                condition = Condition(step.condition, settings.tables[: number + 2], settings.zone)
            self._conditions.append(condition)
        self._room = [np.empty(_CHUNK, np.int64) for _ in range(3)]
        self._when = np.empty(_CHUNK, np.int8)
        self._place = np.zeros(0, np.int32)
        self._marks = [_NO_MARKS for _ in settings.tables]

    def changes(self, changed: BundleItems, limit: int) -> Combined:
        """The joined rows that go and come. The rows of the bundle are stored, and those that are gone not yet freed.

        Raises TooManyMatches beyond a limit.
        """
        self._slots = changed.slots
        self._views = [self._view(changed, n) for n in range(len(changed.items))]
        parts, total = [], 0
        # The first input last: inputs that had their turn are read as they are now, the rest as they were.
        for which in (*range(1, len(self._views)), 0):
            if not len(self._views[which].items):
                continue
            for rows in self._delta(which):
                total += int(np.abs(rows.weight).sum())
                if total > limit:
                    places, counts = np.unique(rows.places, return_counts=True)
                    raise TooManyMatches(int(self._slots[places[np.argmax(counts)]]))
                parts.append(rows)
        # Back to zeros, for the rows that were marked alone.
        for view, mark in zip(self._views, self._marks, strict=True):
            for ids in (view.items.old, view.items.new):
                mark[ids[ids >= 0]] = 0
        return self._whole(parts)

    def all_of(self, slots: SlotArray) -> Combined:
        """All joined rows of slots."""
        self._slots = slots
        rows = self._start(np.arange(len(slots)))
        return self._whole(list(self._extend(rows, 0, len(self._marks), frozenset())))

    def _delta(self, which: int) -> Iterator[Combined]:
        """Yield the joined rows that changes of one input bring, those of the inputs before it in turn being there."""
        last = len(self._views)
        # Those of which the rows before the bundle count.
        early = frozenset((0, *range(which + 1, last)) if which else ())
        view, leads = self._views[which], self._leads(which, early)
        if which == 0:
            yield from self._extend(self._first(view, leads), 1, last, early)
            return
        touched = np.zeros(len(self._slots), np.bool_)
        touched[view.places] = True
        rows = self._start(np.flatnonzero(touched & leads))
        for before in self._extend(rows, 0, which, early):
            for met in self._join_changes(before, which):
                yield from self._extend(met, which + 1, last, early)

    def _leads(self, which: int, early: frozenset[int]) -> Array:
        """Tell whether joined rows of a place can leave: of each other input that has to have a row there is one."""
        leads = np.ones(len(self._slots), np.bool_)
        for n, view in enumerate(self._views):
            if n != which and not (n and self.settings.steps[n - 1].padded):
                leads &= ~(view.was_empty if n in early else view.is_empty)
        return leads

    def _start(self, places: Array) -> Combined:
        return Combined((), np.ones(len(places), np.int64), places)

    def _first(self, view: _View, leads: Array) -> Combined:
        """The changes of the first input where joined rows can leave."""
        items, mine = view.items, leads[view.places]
        same = items.old == items.new
        gone, come = mine & ~same & (items.before > 0), mine & ~same & (items.after > 0)
        same &= mine
        ids = np.concatenate([items.old[gone], items.new[come], items.old[same]])
        more = (items.after - items.before)[same]
        weight = np.concatenate([-items.before[gone], items.after[come], more])
        places = np.concatenate([view.places[each] for each in (gone, come, same)])
        return Combined((ids.astype(np.int32),), weight, places)

    def _extend(
        self, rows: Combined, start: int, end: int, early: frozenset[int]
    ) -> Iterator[Combined]:
        """Joined rows with those of the inputs from `start` to `end` beside them, in chunks."""
        if not len(rows.weight):
            return
        if start == end:
            yield rows
            return
        for more in self._join_next(rows, start, start in early):
            yield from self._extend(more, start + 1, end, early)

    def _join_next(self, rows: Combined, which: int, early: bool) -> Iterator[Combined]:
        """Joined rows with those of the next input, as they were before the bundle or as they are now."""
        padded = which > 0 and self.settings.steps[which - 1].padded
        condition = self._conditions[which]
        view = self._views[which] if early else None
        matched = np.zeros(len(rows.weight) if padded and condition else 0, np.bool_)
        pads = padded and condition is None
        for at, ids, counts in self._match_rows(rows, which, view, pads):
            more = rows.extend(at, ids, counts)
            if condition is not None:
                holds = condition.holds(self.state.sides, *more.ids)
                if padded:
                    matched[at[holds]] = True
                more = more.some(holds) if not holds.all() else more
            yield more
        if len(matched) and not matched.all():
            yield rows.pad(np.flatnonzero(~matched))

    def _match_rows(
        self, rows: Combined, which: int, view: _View | None, pads: bool, unchanged: bool = False
    ) -> Iterator[tuple[Array, Array, Array]]:
        """The rows of an input that joined rows meet: as they are now, with a view as they were, or those in both."""
        bag, at, ids, counts = self.state.sides[which].bag.arrays, *self._room
        head, chain, old, before = _NO_LINKS, _NO_LINKS, _NO_ROWS, _NO_ROWS
        mark = _NO_MARKS
        if view is not None and len(view.items):
            mark = view.mark
            if not unchanged:
                head, chain, old, before = view.head, view.chain, view.items.old, view.items.before
        places = self._mask_padded(rows, which)
        return self._chunks(
            lambda cursor: meet_rows(
                *(bag, mark, self._slots, head, chain, old, before, places, pads),
                *(cursor, at, ids, counts),
            ),
            len(places),
        )

    def _join_changes(self, rows: Combined, which: int) -> Iterator[Combined]:
        """Joined rows of the inputs before one with what has changed of its rows, and padded ones that go or come."""
        view, padded = self._views[which], self.settings.steps[which - 1].padded
        condition, items = self._conditions[which], view.items
        places, when = self._mask_padded(rows, which), self._when
        had, has = (np.zeros(len(rows.weight), np.bool_) for _ in range(2))
        for at, ids, counts in self._chunks(
            lambda cursor: meet_items(
                *(view.head, view.chain, *items[1:], places, cursor, *self._room, when)
            ),
            len(places),
        ):
            more, time = rows.extend(at, ids, counts), when[: len(at)]
            if condition is not None:
                holds = condition.holds(self.state.sides, *more.ids)
                more, at, time = more.some(holds), at[holds], time[holds]
            had[at[time & BEFORE > 0]] = True
            has[at[time & AFTER > 0]] = True
            yield more
        if not padded:
            return
        if condition is None:
            mine = rows.places
            turned = np.flatnonzero((view.was_empty != view.is_empty)[mine] & (places >= 0))
            gone = view.is_empty[mine[turned]]
        else:
            # With a condition, a row whose matches turned may still have one among the rows that did not change.
            turned = np.flatnonzero(had != has)
            doubtful = rows.some(turned)
            matched = np.zeros(len(turned), np.bool_)
            for at, ids, counts in self._match_rows(doubtful, which, view, False, unchanged=True):
                holds = condition.holds(self.state.sides, *doubtful.extend(at, ids, counts).ids)
                matched[at[holds]] = True
            turned = turned[~matched]
            gone = had[turned]
        if len(turned):
            yield rows.pad(turned, np.where(gone, 1, -1))

    def _mask_padded(self, rows: Combined, which: int) -> Array:
        """The places of joined rows, -1 where one of an input by whose key they go on is padded."""
        places = rows.places
        for other in self.settings.steps[which - 1].via if which else ():
            places = np.where(rows.ids[other] < 0, -1, places)
        return places

    def _chunks(
        self, walk: Callable[[Array], int], rows: int
    ) -> Iterator[tuple[Array, Array, Array]]:
        """Yield the finds of a walk, in a room that is used again as soon as anything else is looked for."""
        cursor = np.zeros(4, np.int64)
        while cursor[0] < rows:
            count = walk(cursor)
            if count:
                at, ids, counts = (each[:count] for each in self._room)
                yield at, ids, counts

    def _view(self, changed: BundleItems, which: int) -> _View:
        items, side = changed.items[which], self.state.sides[which]
        head, chain, places = _NO_LINKS, _NO_LINKS, _NO_ROWS
        if len(items):
            if len(self._place) < self.state.table.capacity:
                self._place = np.zeros(self.state.table.capacity, np.int32)
            if len(self._marks[which]) < side.bag.rows.capacity:
                self._marks[which] = np.zeros(side.bag.rows.capacity, np.int8)
            # By slot the place among those of this bundle. Other slots have what an older bundle left, and are never
            # asked.
            self._place[changed.slots] = np.arange(len(changed.slots))
            places = self._place[items.slots].astype(np.int64)
            head, chain = np.zeros(len(changed.slots), np.int32), np.empty(len(items), np.int32)
            chain_items(places, head, chain)
            self._marks[which][items.new[items.new >= 0]] = 1
        return _View(
            items,
            places,
            head,
            chain=chain,
            mark=self._marks[which],
            was_empty=changed.was_empty[which],
            is_empty=side.is_empty(changed.slots),
        )

    def _whole(self, parts: list[Combined]) -> Combined:
        """All parts as one."""
        if not parts:
            none = np.zeros(0, np.int32)
            return Combined(tuple(none for _ in self._marks), _NO_ROWS, _NO_ROWS)
        ids = tuple(np.concatenate(each) for each in zip(*(p.ids for p in parts), strict=True))
        weight, places = (
            np.concatenate([getattr(p, name) for p in parts]) for name in ("weight", "places")
        )
        return Combined(ids, weight, places)
