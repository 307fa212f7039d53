"""A Join per record: it emits the changes of Flink's operators. Rows of different keys are processed together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from aggloom.runtime.operators.join.matches import Matcher, Weighted
from aggloom.runtime.operators.join.settings import JoinSettings
from aggloom.runtime.operators.join.side import Items, JoinSide
from aggloom.runtime.operators.join.state import JoinState
from aggloom.runtime.operators.orphans import OrphanLedger
from aggloom.runtime.state.row_index import ORPHAN
from aggloom.runtime.state.row_kernels import Encoded
from aggloom.runtime.storage.arena import Array, NumberArray, SelectionArray, SlotArray
from aggloom.runtime.values.changelog import DELETE, INSERT, UPDATE_BEFORE, Kinds, is_retraction

_PADDING, _JOINED, _PADDED = range(3)
"""The phases of the changes of one row: padded rows of the other side are removed, joined rows, padded rows added."""


class EncodedChanges(NamedTuple):
    """Changes of one side: the slots of their keys, their stored columns, their kinds, their numbers in the bundle."""

    slots: SlotArray  # int64[changes]
    rows: Encoded
    kinds: Kinds
    numbers: Array  # int64[changes]

    def some(self, which: SelectionArray) -> EncodedChanges:
        """Return the changes with these places (int64[m])."""
        return EncodedChanges(
            self.slots[which], self.rows.take(which), self.kinds[which], self.numbers[which]
        )


class _Emitted(NamedTuple):
    """Emitted changes: the change of the input, the phase within it, the rows of both sides, the kind, how often."""

    change: Array  # int64[emitted]
    phase: Array  # int8[emitted]
    left: Array  # int64[emitted]
    right: Array  # int64[emitted]
    kind: Array  # int8[emitted]
    times: Array  # int64[emitted]


class _Step(NamedTuple):
    """Changes of one side that are processed together: their kinds, whether they retract, their numbers, their rows."""

    which: int
    kinds: Kinds
    back: Array  # bool[changes]
    changes: Array  # int64[changes]
    rows: Array  # int64[changes]


class _Matches(NamedTuple):
    """Matches: the place of the change, the row of the other side, its count, and whether the pair existed before."""

    here: Array  # int64[matches]
    there: Array  # int64[matches]
    times: Array  # int64[matches]
    known: Array  # bool[matches]

    def some(self, which: SelectionArray) -> _Matches:
        """Those that are marked."""
        return _Matches(*(each[which] for each in self))


class OneByOne:
    """Applies changes one after the other, those of the left first, and keeps what they emit for `collect_changes`."""

    def __init__(
        self,
        settings: JoinSettings,
        state: JoinState,
        matcher: Matcher,
        ledgers: Sequence[OrphanLedger],
        now: int,
    ) -> None:
        self.settings, self.state, self._matcher, self._now = settings, state, matcher, now
        self._ledgers = ledgers
        self._emitted: list[_Emitted] = []
        self._gone: tuple[list[Array], list[Array]] = ([], [])

    def take(self, changes_by_side: Sequence[EncodedChanges]) -> None:
        """Apply changes of both sides; those of the right are numbered after those of the left."""
        slots = np.concatenate([each.slots for each in changes_by_side])
        # Rows that never match need no order among themselves.
        rank = ranks(slots, (self.state.mask_unmatchable(slots) < 0) & (not self.state.keeps_debts))
        order = np.argsort(rank, kind="stable")
        cuts = np.flatnonzero(np.diff(rank[order])) + 1
        # One numbering over both sides, in which those of the left come first.
        lefts = len(changes_by_side[0].slots)
        for round_places in np.split(order, cuts):
            for which, rows in enumerate(
                (round_places[round_places < lefts], round_places[round_places >= lefts] - lefts)
            ):
                if len(rows):
                    self._step(which, changes_by_side[which].some(rows), rows + which * lefts)

    def collect_changes(self) -> tuple[Weighted, Kinds]:
        """Return the emitted changes in their order; the rows can be read until `free`."""
        if not self._emitted:
            return Weighted.of([]), np.zeros(0, np.int8)
        emitted = _Emitted(*(np.concatenate(each) for each in zip(*self._emitted, strict=True)))
        if not self.settings.update_before:
            # Whether the new half of the update follows is not known yet.
            emitted.kind[emitted.kind == UPDATE_BEFORE] = DELETE
        order = np.lexsort((emitted.phase, emitted.change))
        emitted = _Emitted(*(each[order] for each in emitted))
        return Weighted(emitted.left, emitted.right, emitted.times), emitted.kind.astype(np.int8)

    def free(self) -> None:
        """Forget the rows that are gone."""
        for side, gone in zip(self.state.sides, self._gone, strict=True):
            ids = np.concatenate([np.zeros(0, np.int64), *gone])
            if len(ids):
                side.bag.free(ids)

    def _step(self, which: int, changes_of_side: EncodedChanges, changes: NumberArray) -> None:
        """Apply changes of one side, no two of which have the same key."""
        side = self.state.sides[which]
        changes_of_side, changes = self._cancel_debts(which, changes_of_side, changes)
        # The row that arrived is emitted, whatever is stored.
        stored_rows = side.bag.rows.insert(changes_of_side.rows)
        side.bag.fit()
        self._gone[which].append(stored_rows)
        met = self._find_matches(which, changes_of_side.slots, stored_rows)
        sums = np.bincount(met.here, weights=met.times, minlength=len(changes)).astype(np.int64)
        back = is_retraction(changes_of_side.kinds)
        step = _Step(which, changes_of_side.kinds, back, changes, stored_rows)
        if self.settings.pairs_leave:
            self._emit_alone(step, np.where(back, DELETE, INSERT), sums == 0)
        elif which == 0:
            self._emit_alone(
                step, changes_of_side.kinds, (sums > 0) == (self.settings.how == "semi")
            )
        self._apply_pairs(
            step, self._replace(step, changes_of_side, met, sums), changes_of_side.slots
        )
        self._store(which, changes_of_side, sums)

    def _replace(
        self, step: _Step, changes_of_side: EncodedChanges, met: _Matches, sums: Array
    ) -> _Matches:
        """Retract rows that are replaced by rows of the same key, with the pairs that the new ones do not have.

        Returns the pairs, of which those that both rows make are known to the other side.
        """
        side = self.state.sides[step.which]
        if not side.bag.replaces or step.back.all():
            return met
        old = side.bag.find_encoded(changes_of_side.slots, changes_of_side.rows)
        rows = np.flatnonzero((old >= 0) & ~step.back)
        if not len(rows):
            return met
        before = self._find_matches(step.which, changes_of_side.slots[rows], old[rows])
        before = _Matches(rows[before.here], before.there, before.times, before.known)
        # Both rows of a pair as one number, so that pairs can be searched for among others.
        one, other = (each.here << 32 | each.there for each in (met, before))
        kinds = np.full(len(old), DELETE, np.int8)
        gone = _Step(step.which, kinds, np.ones(len(old), np.bool_), step.changes, old)
        if side.settings.keeps_degrees:
            was = np.where(old >= 0, side.bag.arrays.degree[np.maximum(old, 0)] > 0, False)
            alone = was if self.settings.how == "semi" else ~was
            still = (sums > 0) == (self.settings.how == "semi")
            self._emit_alone(gone, kinds, (old >= 0) & ~step.back & alone & ~still, _PADDING)
        self._apply_pairs(gone, before.some(~np.isin(other, one)), changes_of_side.slots)
        return met._replace(known=np.isin(one, other))

    def _apply_pairs(self, step: _Step, met: _Matches, slots: SlotArray) -> None:
        """Emit the changes of pairs, and update the number of matches of the rows of the other side."""
        other = self.state.sides[1 - step.which]
        if self.settings.pairs_leave:
            self._emit_pairs(step, met)
        elif step.which == 1:
            self._emit_semi_rows(step, met)
        if other.settings.keeps_degrees:
            degree, there = other.bag.arrays.degree, met.there
            # A pair that the old row had as well is counted already.
            more = np.where(step.back[met.here], -1, ~met.known)
            degree[there] = np.maximum(degree[there] + more, 0)
            self._stamp(other, slots[met.here])

    def _emit_pairs(self, step: _Step, met: _Matches) -> None:
        side, other = self.state.sides[step.which].settings, self.state.sides[1 - step.which]
        back = step.back[met.here]
        if other.settings.alone:
            degree = other.bag.arrays.degree[met.there]
            for phase, padded, turns in (
                (_PADDING, DELETE, ~back & ~met.known & (degree == 0)),
                (_PADDED, INSERT, back & (degree == 1)),
            ):
                pad = np.full(int(turns.sum()), -1, np.int64)
                some = met.some(turns)
                emitted = step.changes[some.here]
                self._emit(
                    step.which,
                    emitted,
                    phase,
                    mine=pad,
                    others=some.there,
                    kinds=padded,
                    times=some.times,
                )
        kind = step.kinds[met.here]
        if side.alone:
            kind = np.where(back, DELETE, INSERT)
        elif other.settings.alone:
            kind = np.where(back, kind, INSERT)
        emitted, stored = step.changes[met.here], step.rows[met.here]
        self._emit(
            step.which, emitted, _JOINED, mine=stored, others=met.there, kinds=kind, times=met.times
        )

    def _emit_alone(self, step: _Step, kinds: Array, leaves: Array, phase: int = _JOINED) -> None:
        if self.state.sides[step.which].settings.alone:
            pad = np.full(int(leaves.sum()), -1, np.int64)
            emitted, stored = step.changes[leaves], step.rows[leaves]
            # `pad` is -1 everywhere, and so `-pad` once for each row.
            self._emit(
                step.which, emitted, phase, mine=stored, others=pad, kinds=kinds[leaves], times=-pad
            )

    def _emit_semi_rows(self, step: _Step, met: _Matches) -> None:
        """Emit the rows of the left that rows of the right make visible or invisible, in a semi or anti join."""
        degree = self.state.sides[0].bag.arrays.degree[met.there]
        met = met.some((degree == step.back[met.here]) & ~met.known)
        kind = step.kinds[met.here]
        if self.settings.how == "anti":
            kind = np.where(step.back[met.here], INSERT, DELETE)
        pad = np.full(len(met.here), -1, np.int64)
        self._emit(
            1,
            step.changes[met.here],
            _JOINED,
            mine=pad,
            others=met.there,
            kinds=kind,
            times=met.times,
        )

    def _find_matches(self, which: int, slots: SlotArray, stored: Array) -> _Matches:
        """The pairs of rows with those of the other side that they match."""
        none, one = np.zeros(len(slots), np.int64), np.ones(len(slots), np.int64)
        items = Items(slots, none - 1, np.arange(len(slots)), none, one)
        parts = [(none[:0], none[:0], none[:0])]
        for pairs in self._matcher.match_unchanged(which, items):
            if self._matcher.condition is not None:
                mine = stored[pairs.mine]
                ids = (mine, pairs.other) if which == 0 else (pairs.other, mine)
                pairs = pairs.select(self._matcher.condition.holds(self.state.sides, *ids))
            parts.append((pairs.mine.copy(), pairs.other.copy(), pairs.other_count.copy()))
        here, there, times = (np.concatenate(each) for each in zip(*parts, strict=True))
        return _Matches(here, there, times, np.zeros(len(here), np.bool_))

    def _cancel_debts(
        self, which: int, changes_of_side: EncodedChanges, changes: Array
    ) -> tuple[EncodedChanges, Array]:
        """Return the changes that count, where orphan retractions are kept."""
        side, ledger = self.state.sides[which], self._ledgers[which]
        if not ledger.keeps:
            return changes_of_side, changes
        back = is_retraction(changes_of_side.kinds)
        counts = np.zeros(len(back), np.bool_)
        counts[ledger.cancel(changes_of_side.slots, back, changes_of_side.rows.take)] = True
        # They are debts, which later rows pay.
        early = np.flatnonzero(
            back & (side.bag.find_encoded(changes_of_side.slots, changes_of_side.rows) < 0)
        )
        ledger.add(changes_of_side.slots[early], changes_of_side.rows.take(early))
        counts[early] = False
        left = np.flatnonzero(counts)
        return changes_of_side.some(left), changes[left]

    def _store(self, which: int, changes_of_side: EncodedChanges, met: Array) -> None:
        side = self.state.sides[which]
        back = is_retraction(changes_of_side.kinds)
        applied = side.bag.apply_encoded(changes_of_side.slots, changes_of_side.rows, back)
        self._gone[which].append(applied.gone[applied.gone >= 0])
        if side.settings.keeps_degrees:
            side.bag.arrays.degree[applied.ids[~back]] = met[~back]
        orphans = np.flatnonzero(applied.outcomes == ORPHAN)
        self._ledgers[which].report(
            changes_of_side.numbers[orphans], changes_of_side.slots[orphans]
        )
        self._stamp(side, changes_of_side.slots)

    def _stamp(self, side: JoinSide, slots: SlotArray) -> None:
        if side.settings.ttl_ms:
            self.state.table.stamps(side.name)[slots] = self._now

    def _emit(
        self,
        which: int,
        changes: Array,
        phase: int,
        mine: Array,
        others: Array,
        kinds: Array | int,
        times: Array,
    ) -> None:
        if len(changes):
            left, right = (mine, others) if which == 0 else (others, mine)
            phases = np.full(len(changes), phase, np.int8)
            kinds = np.broadcast_to(np.asarray(kinds, np.int8), len(changes))
            self._emitted.append(_Emitted(changes, phases, left, right, kinds, times))


def ranks(slots: SlotArray, first: SelectionArray) -> Array:
    """Return for each change how many before it have its slot; 0 for those that are marked."""
    order = np.argsort(slots, kind="stable")
    opens = np.flatnonzero(np.r_[True, slots[order][1:] != slots[order][:-1]])
    lengths = np.diff(np.r_[opens, len(order)])
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order)) - np.repeat(opens, lengths)
    ranks[first] = 0
    return ranks
