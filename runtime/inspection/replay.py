"""The history of a key: the log of its bucket replayed, and the key's own changes one by one beside it.

What left for the key comes from the bundles as they were; what each change did, from a second operator that is given
the key's changes alone, each as a bundle of its own. That both end in the same state is checked after every bundle.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from aggloom.errors import AggloomError
from aggloom.runtime.inspection.facts import Effect, KeyBundle, KeyChange, PartContents, Row
from aggloom.runtime.inspection.parts import counts_rows, parts_of
from aggloom.runtime.operators.keyed_state import AWAY_FROM_ZERO, KeyedState
from aggloom.runtime.operators.steps import no_rows
from aggloom.runtime.storage.arena import Array
from aggloom.runtime.values.changelog import KIND_NAMES, same_value
from aggloom.runtime.values.clock import BEFORE_ALL, NO_TIME, Clock, instant
from aggloom.runtime.values.key_match import match_key

_DROPPED = {
    "orphans_dropped": "dropped: it retracts a row that is not there",
    "late_dropped": "dropped: too late for its windows",
}


class ReplayedEntry(NamedTuple):
    """A bundle of the log."""

    batch: pa.RecordBatch
    kinds: Array  # int8[rows]
    partials: Sequence[bytes | memoryview]
    clock: Clock


class Replay(NamedTuple):
    """The state of a key at first, the effect of each bundle, and the state at last."""

    first: list[PartContents]
    bundles: list[KeyBundle]
    last: list[PartContents]


def replay(
    make: Callable[[], Any],
    entries: Iterable[ReplayedEntry],
    key: pa.RecordBatch,
    *,
    snapshot: bytes = b"",
    moves_clock_last: bool = False,
) -> Replay:
    """Replay a log for one key; make: an operator without state; moves_clock_last: the clock moves after the rows."""
    whole, alone = make(), _Alone(make(), key, moves_clock_last)
    if snapshot:
        whole.restore(snapshot)
        alone.operator.restore(snapshot)
    first, bundles = parts_of(whole, key), []
    alone.parts = first
    # The whole bundle goes first: it decides what is true, the single changes only explain it.
    for number, entry in enumerate(entries):
        emitted = _find_emitted(whole, entry, key)
        now = parts_of(whole, key)
        try:
            # A list, as a generator would raise only below, outside of the `try`.
            changes = list(alone.apply(entry, whole))
            note, agrees = "", _same(alone.parts, now)
        except AggloomError as error:
            # A failed replay is no disagreement. Its reason is in the note.
            changes, agrees = [], True
            note = f"its changes cannot be applied one by one: {error}"
        if note or not agrees:
            # From here on the key's own operator would be wrong, so it takes over the state of the whole one.
            before, alone.parts = alone.parts, now
            changes = changes or [KeyChange("bundle", {}, tuple(_effects(before, now)))]
            alone.operator.restore(whole.snapshot())
        if changes or emitted:
            processing, watermark = times(entry.clock)
            rows = entry.batch.num_rows
            bundles.append(
                KeyBundle(
                    number,
                    rows,
                    processing,
                    watermark,
                    changes=tuple(changes),
                    emitted=emitted,
                    agrees=agrees,
                    note=note,
                )
            )
    return Replay(first, bundles, parts_of(whole, key))


def times(clock: Clock) -> tuple[dt.datetime | None, dt.datetime | None]:
    """The clock's time and the watermark, None where they are not known."""
    processing = instant(clock.processing) if clock.processing > 0 else None
    return processing, instant(clock.watermark) if clock.watermark > BEFORE_ALL else None


class _Alone:
    """An operator that is given the changes of one key, one by one."""

    def __init__(self, operator: Any, key: pa.RecordBatch, moves_clock_last: bool) -> None:
        self.operator, self.key, self.moves_clock_last = operator, key, moves_clock_last
        self.parts: list[PartContents] = []

    def apply(self, entry: ReplayedEntry, whole: Any) -> Iterator[KeyChange]:
        """The key's changes in a bundle; whole: the operator that has applied all of it."""
        batch, kinds = entry.batch, entry.kinds
        nothing = no_rows(batch.schema)
        # Things that all keys of a bucket share, such as a number for the next row, are set as the bundle found them.
        self.operator.start_with(whole)
        # Where the clock moves after the rows, they must not see the new time.
        clock = NO_TIME if self.moves_clock_last else entry.clock
        if not self.moves_clock_last:
            # Where the clock moves first, what it does is shown as a change of its own, before the rows.
            yield from self._clock(nothing, clock)
        columns = batch.columns[: self.key.num_columns]
        for row in np.flatnonzero(match_key(columns, self.key, batch.num_rows)).tolist():
            row_text = self.operator.format_row(_row(batch, row, self.key.num_columns))
            one = batch.slice(row, 1), kinds[row : row + 1]
            yield self._change(KIND_NAMES[kinds[row]], row_text, one, clock)
        for data in entry.partials:
            cut = self._own_part(data)
            if cut is not None:
                yield self._change("merged", cut[1], nothing, clock, (cut[0],))
        if self.moves_clock_last:
            yield from self._clock(nothing, entry.clock)

    def _clock(self, nothing: Any, clock: Clock) -> Iterator[KeyChange]:
        """Yield the change that the passing of time makes: windows end, keys expire."""
        change = self._change("clock", {}, nothing, clock)
        if change.effects:
            yield change

    def _change(
        self, kind: str, row: Row, rows: Any, clock: Clock, partials: Sequence[bytes] = ()
    ) -> KeyChange:
        operator, before = self.operator, self.parts
        # Counters only grow, so what this one change dropped is the difference.
        counted = {name: operator.counters.get(name, 0) for name in _DROPPED}
        operator.process(*rows, clock, partials)
        # Late rows pile up until they are fetched; here nobody reads them.
        operator.take_late()
        self.parts = parts_of(operator, self.key)
        notes = [
            text
            for name, text in _DROPPED.items()
            if operator.counters.get(name, 0) > counted[name]
        ]
        return KeyChange(kind, row, tuple(_effects(before, self.parts)), "; ".join(notes))

    def _own_part(self, data: bytes | memoryview) -> tuple[bytes, Row] | None:
        """Return the key's own among accumulators that were merged, and what they come to."""
        handler_class = self.operator.handler_class
        other = KeyedState(handler_class)
        other.restore(data)
        slots = other.index.used_slots()
        columns = other.key_columns(slots)[: self.key.num_columns]
        slots = slots[match_key(columns, self.key, len(slots))]
        if not len(slots):
            # Accumulators travel in blobs of many keys, and this one need not be among them.
            return None
        own = KeyedState(handler_class)
        targets = own.lookup_keys_of(other, slots)
        # What stands for -1 +1 holds no row either, and would be forgotten as it is merged.
        away = AWAY_FROM_ZERO if handler_class.RETRACTING else 0
        own.accumulators.shift_records(targets, away)
        own.merge(targets, other, slots)
        own.accumulators.shift_records(targets, -away)
        counts = {"records": int(other.records[slots].sum())} if counts_rows(handler_class) else {}
        return own.snapshot(), counts


def _find_emitted(
    operator: Any, entry: ReplayedEntry, key: pa.RecordBatch
) -> tuple[tuple[str, Row], ...]:
    """Return the rows that a bundle makes leave for the key."""
    changes, kinds = operator.process(entry.batch, entry.kinds, entry.clock, entry.partials)
    operator.take_late()
    columns = changes.columns[: key.num_columns]
    row_numbers = np.flatnonzero(match_key(columns, key, len(kinds))).tolist()
    return tuple(
        (KIND_NAMES[kinds[row]], _row(changes, row, key.num_columns)) for row in row_numbers
    )


def _row(batch: pa.RecordBatch, row: int, skip: int) -> Row:
    """A row's columns after the first `skip`."""
    names = batch.schema.names[skip:]
    return {name: batch.column(skip + place)[row].as_py() for place, name in enumerate(names)}


def _effects(before: list[PartContents], after: list[PartContents]) -> Iterator[Effect]:
    old, new = ({part.window: part for part in parts} for parts in (before, after))
    # Windows are pairs of times or of other values, or None; texts compare in any case.
    for window in sorted({*old, *new}, key=repr):
        was, now = old.get(window), new.get(window)
        if was is None or now is None or not _same([was], [now]):
            yield Effect(
                window,
                was.results if was else None,
                now.results if now else None,
                (was.records if was else 0, now.records if now else 0),
            )


def _same(some: list[PartContents], others: list[PartContents]) -> bool:
    return _comparable(some) == _comparable(others)


def _comparable(parts: list[PartContents]) -> list[Any]:
    return [
        (part.window, part.records, same_value(list((part.results or {}).values())))
        for part in parts
    ]
